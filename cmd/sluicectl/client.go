package main

import (
	"fmt"
	"net"
	"strconv"

	"google.golang.org/grpc"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// maxAnswer bounds what a node may answer with: a hundred thousand subscriptions
// fit, a mistake does not.
const maxAnswer = 64 << 20

// connect returns a client of the node that --server names, and how to close it.
// It sends nothing yet. A node is addressed directly, whatever proxy the
// environment knows.
func (a *app) connect() (sluicev1.AdminServiceClient, func(), error) {
	if err := checkAddress(a.server); err != nil {
		return nil, nil, err
	}
	if a.timeout <= 0 {
		return nil, nil, &usageError{"--timeout must be more than 0"}
	}
	creds, err := a.credentials()
	if err != nil {
		return nil, nil, err
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithNoProxy(),
		grpc.WithUserAgent("sluicectl/" + a.client.Version),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	}
	if a.dial != nil {
		opts = append(opts, grpc.WithContextDialer(a.dial))
	}
	conn, err := grpc.NewClient("passthrough:///"+a.server, opts...)
	if err != nil {
		return nil, nil, &usageError{fmt.Sprintf("the server address %q cannot be used: %v", a.server, err)}
	}
	return sluicev1.NewAdminServiceClient(conn), func() { _ = conn.Close() }, nil
}

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return &usageError{fmt.Sprintf("the server address %q is not HOST:PORT", address)}
	}
	return nil
}
