package config

import (
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/sluicenet/sluice/internal/authz"
)

// File is what a file says, with defaults where it says nothing.
type File struct {
	// Path is the file as it was named, for messages.
	Path    string
	Version int
	Node    Node
	Listen  Listen
	Cluster Cluster
	TLS     TLS
	// Authorize are rules that make sense, and are empty where there is no TLS.
	Authorize []authz.Rule
	// AdminAnywhere lets operators on other machines in, without TLS.
	AdminAnywhere bool
	// Stages are in the order of the file.
	Stages []Stage

	root *value
}

// Node is the node itself.
type Node struct {
	// Name is unique in a cluster, and always given.
	Name string `yaml:"name"`
	// MaxBytes is what subscribers may have un-acknowledged, all together and in
	// encoded bytes; 1 GiB where the file does not say.
	MaxBytes *int64 `yaml:"max_bytes"`
}

// Listen is where the node is reached.
type Listen struct {
	GRPC GRPC `yaml:"grpc"`
}

// GRPC is where other nodes reach the outlets of this one.
type GRPC struct {
	// Address is 127.0.0.1:7301 by default. Port 0 is one that is free.
	Address string `yaml:"address"`
	// Advertise is what other nodes dial, where that is not the address.
	Advertise string `yaml:"advertise"`
}

// Cluster is the cluster that the node belongs to.
type Cluster struct {
	// Name may be empty where nobody else is joined.
	Name string `yaml:"name"`
	// Bind is where gossip listens, 127.0.0.1:7401 by default: an IP address and a
	// port. Port 0 is one that is free.
	Bind string `yaml:"bind"`
	// Keyring is a file with the keys of gossip, or empty.
	Keyring string `yaml:"keyring"`
	// Join names some nodes of the cluster, by the addresses of their gossip.
	Join []string `yaml:"join"`
}

// TLS names the files of mutual TLS: all three, or none.
type TLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	CA   string `yaml:"ca"`
}

// The defaults of a file.
const (
	DefaultGRPCAddress = "127.0.0.1:7301"
	DefaultClusterBind = "127.0.0.1:7401"
	// DefaultMaxDemand is what a stage asks for where the file does not say.
	DefaultMaxDemand = 1000
)

// version is the one version of the file that there is.
const version = 1

// Load reads a file. What is wrong with its content is [Errors].
func Load(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads the content of a file. The name is for messages.
func Parse(filename string, data []byte) (*File, error) {
	p := &problems{file: filename}
	root := read(p, data)
	if root == nil {
		return nil, p.err()
	}
	shape := struct {
		Version   int          `yaml:"version"`
		Node      Node         `yaml:"node"`
		Listen    Listen       `yaml:"listen"`
		Cluster   Cluster      `yaml:"cluster"`
		TLS       TLS          `yaml:"tls"`
		Authorize []authz.Rule `yaml:"authorize"`
		Admin     string       `yaml:"admin"`
		Stages    *value       `yaml:"stages"`
	}{
		Version: version,
		Listen:  Listen{GRPC{Address: DefaultGRPCAddress}},
		Cluster: Cluster{Bind: DefaultClusterBind},
	}
	decoder{p}.decode(root, "", reflect.ValueOf(&shape).Elem())
	f := &File{
		Path:          filename,
		Version:       shape.Version,
		Node:          shape.Node,
		Listen:        shape.Listen,
		Cluster:       shape.Cluster,
		TLS:           shape.TLS,
		Authorize:     shape.Authorize,
		AdminAnywhere: shape.Admin == anywhere,
		root:          root,
	}
	if root.kind == mapping {
		checker{p, root}.check(f)
		checker{p, root}.security(f, shape.Admin)
		f.Stages = stages(p, shape.Stages)
		checkGraph(p, f.Stages)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// Pos returns the position of the value that the keys lead to, such as "listen",
// "grpc", "address", or of as much of the way as there is.
func (f *File) Pos(keys ...string) Pos { return f.root.locate(Pos{1, 1}, keys...) }

// Errorf returns a problem at a position in the file: what the kind of a stage has
// to say about it.
func (f *File) Errorf(at Pos, format string, args ...any) *Error {
	p := &problems{file: f.Path}
	return p.add(codeSettings, at, "%s", fmt.Sprintf(format, args...))
}
