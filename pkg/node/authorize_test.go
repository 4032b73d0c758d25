package node

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicenet/sluice/internal/testca"
	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

func rule(identity, may, outlet string) Rule {
	r := Rule{Identities: []string{identity}}
	for v := range strings.SplitSeq(may, ",") {
		r.May = append(r.May, Verb(v))
	}
	if outlet != "" {
		r.Outlets = []string{outlet}
	}
	return r
}

func TestRulesConfig(t *testing.T) {
	t.Parallel()
	ca := testca.New(t)
	for says, c := range map[string]Config{
		"there is no TLS":        {Authorize: []Rule{rule("*", "tap", "*")}},
		"is for nodes without":   {TLS: tlsOf(t, ca, "a"), AdminAnywhere: true},
		"Authorize[1]: it needs": {TLS: tlsOf(t, ca, "a"), Authorize: []Rule{rule("*", "tap", "*"), rule("*", "subscribe", "")}},
	} {
		err := testNode("a", c).Start(t.Context(), nil)
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, says)
	}
}

// Each verb is allowed to whom a rule allows it, and to nobody else.
func TestRules(t *testing.T) {
	t.Parallel()
	ca := testca.New(t)
	rules := []Rule{
		rule("a", "publish", "numbers"),
		rule("reader", "subscribe", "numbers"),
		rule("tapper", "tap", "numbers"),
		rule("ops", "administer", ""),
	}
	var log logged
	a := testNode("a", Config{TLS: tlsOf(t, ca, "a"), Authorize: rules, Logger: log.logger()})
	source, _ := pushed()
	Publish(a, ints, source)
	start(t, a, source)

	for _, who := range []string{"reader", "tapper", "ops"} {
		conn := dialAs(t, a, as(t, tlsOf(t, ca, who)))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		check := func(may string, err error) {
			t.Helper()
			if who == may {
				require.NoError(t, err, who)
				return
			}
			require.Equal(t, codes.PermissionDenied, status.Code(err), "%s: %v", who, err)
			e, ok := wire.FromStatus(err)
			require.True(t, ok)
			require.Equal(t, wire.RuleForbidden, e.Rule)
			require.Contains(t, e.What, `no rule of node "a" allows "`+who+`" to `)
			require.NotEmpty(t, e.Hint)
			require.Equal(t, a.incarnation, e.Epoch)
		}
		// Everybody who has a certificate may know what there is.
		_, err := sluicev1.NewCatalogServiceClient(conn).GetCatalog(ctx, &sluicev1.GetCatalogRequest{})
		require.NoError(t, err)

		admin := sluicev1.NewAdminServiceClient(conn)
		_, err = admin.ListNodes(ctx, &sluicev1.ListNodesRequest{})
		check("ops", err)
		_, err = admin.ListOutlets(ctx, &sluicev1.ListOutletsRequest{})
		check("ops", err)
		_, err = admin.ListStages(ctx, &sluicev1.ListStagesRequest{})
		check("ops", err)
		_, err = admin.ListSubscriptions(ctx, &sluicev1.ListSubscriptionsRequest{})
		check("ops", err)

		tap, err := admin.Tap(ctx, &sluicev1.TapRequest{Outlet: "numbers", Scope: sluicev1.Scope_SCOPE_NODE})
		require.NoError(t, err)
		if _, err = tap.Header(); err == nil && who != "tapper" {
			_, err = tap.Recv()
		}
		check("tapper", err)

		_, err = subscribeAs(ctx, conn, who, 1)
		check("reader", err)
	}
	require.EqualValues(t, 2*4+2+2, a.denials.all()["forbidden"])
	require.Contains(t, log.String(), `msg=refused node=a rule=forbidden who=tapper what=administer`)
	// The same one again is counted, and said no more.
	require.Equal(t, 1, strings.Count(log.String(), "who=tapper what=administer"))
	require.EqualValues(t, 12, (&admin{n: a}).self().GetRefused()["forbidden"])
}

// subscribeAs opens a subscription of stage "s" of node "x" and waits for the answer.
func subscribeAs(ctx context.Context, conn *grpc.ClientConn, _ string, session uint64) (sluicev1.SubscriptionService_SubscribeClient, error) {
	call, err := sluicev1.NewSubscriptionServiceClient(conn).Subscribe(ctx)
	if err != nil {
		return nil, err
	}
	_ = call.Send(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: &sluicev1.Open{
		Protocol: 1, Outlet: "numbers", Subscriber: &sluicev1.Subscriber{Node: "x", Stage: "s"},
		Incarnation: 1, Session: session, Attempt: 1, EventType: "int", Codec: "json", Granted: 10,
		MaxFrameBytes: maxFrame, ResumeWindow: durationpb.New(time.Minute),
	}}})
	f, err := call.Recv()
	if err == nil && f.GetOpened() == nil {
		return nil, context.Canceled
	}
	return call, err
}

// A subscriber is continued, and replaced, by the identity that it was begun with.
func TestOtherIdentityDoesNotTakeOver(t *testing.T) {
	t.Parallel()
	ca := testca.New(t)
	a := testNode("a", Config{TLS: tlsOf(t, ca, "a")})
	source, push := pushed()
	Publish(a, ints, source)
	start(t, a, source)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	x, y := dialAs(t, a, as(t, tlsOf(t, ca, "x"))), dialAs(t, a, as(t, tlsOf(t, ca, "y")))
	call, err := subscribeAs(ctx, x, "x", 1)
	require.NoError(t, err)

	for _, session := range []uint64{1, 2} {
		_, err = subscribeAs(ctx, y, "y", session)
		e, ok := wire.FromStatus(err)
		require.True(t, ok, err)
		require.Equal(t, wire.RuleOtherIdentity, e.Rule)
		require.Contains(t, e.What, `has subscribed as "x", and now "y" comes in its name`)
	}
	push(7)
	f, err := call.Recv()
	require.NoError(t, err, "the one who began it does not notice")
	require.NotNil(t, f.GetBatch())
	_, err = subscribeAs(ctx, x, "x", 2)
	require.NoError(t, err)
}

// What a node may not publish is not there for those who do not allow it, and is said;
// and one who answers at the address of another is not believed either.
func TestPublishIsCheckedByTheConsumer(t *testing.T) {
	t.Parallel()
	ca := testca.New(t)
	honest := testNode("a", Config{TLS: tlsOf(t, ca, "a")})
	source, push := pushed()
	Publish(honest, ints, source)
	start(t, honest, source)
	rogue := testNode("r", Config{TLS: tlsOf(t, ca, "r"), Join: join(honest)})
	bad, _ := pushed()
	Publish(rogue, ints, bad)
	start(t, rogue, bad)

	var log logged
	rules := []Rule{rule("a", "publish", "numbers")}
	b := testNode("b", Config{TLS: tlsOf(t, ca, "b"), Join: join(honest), Authorize: rules, Logger: log.logger()})
	var got record
	sink := got.sink("out")
	stage.Connect(Outlet(b, ints), sink)
	start(t, b, sink)
	eventually(t, "it is said", func() bool {
		return strings.Contains(log.String(), `msg=refused node=b rule=forbidden who=r what="publish numbers"`)
	})
	push(1, 2, 3)
	eventually(t, "events flow", func() bool { return got.len() == 3 })
	found, _ := b.cluster.find("numbers", "")
	require.Len(t, found, 1)
	require.Equal(t, "a", found[0].node)

	// Whatever has led there: the stream itself is verified.
	terms := stage.Terms{Node: "b", Stage: "other", MaxDemand: 10, Partition: dispatch.NoPartition}
	i := newInflow(&following[int]{n: b, port: ints, terms: terms, about: (&remote[int]{n: b, port: ints}).about(terms)},
		publisher{node: "a", address: rogue.address})
	i.to = nobodyListens{}
	opened, outcome, err := i.stream(t.Context(), time.Time{})
	require.ErrorIs(t, err, wire.RuleForbidden)
	require.False(t, opened)
	require.Equal(t, wire.Going, outcome)
}

type nobodyListens struct{}

func (nobodyListens) Opened()                  {}
func (nobodyListens) Deliver(stage.Batch[int]) {}
func (nobodyListens) Ended(stage.Ending)       {}

// Without TLS, operators are answered on the machine of the node only. A node that
// refuses is named in the answers of others, with the reason.
func TestAdminAnswersItsOwnMachine(t *testing.T) {
	t.Parallel()
	tcp := func(ip string) *net.TCPAddr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, test := range []struct {
		from, to string
		local    bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.8.0.1", "127.0.0.1", true},
		{"::1", "::1", true},
		{"::ffff:127.0.0.1", "127.0.0.1", true},
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.2", "10.0.0.1", false},
		{"2001:db8::1", "2001:db8::2", false},
	} {
		require.Equal(t, test.local, local(&peer.Peer{Addr: tcp(test.from), LocalAddr: tcp(test.to)}), "%+v", test)
	}
	require.False(t, local(&peer.Peer{}))
	require.False(t, local(&peer.Peer{Addr: &net.UnixAddr{}}))

	a := testNode("a", Config{})
	start(t, a)
	b := testNode("b", Config{Join: join(a)})
	start(t, b)
	elsewhere := peer.NewContext(t.Context(), &peer.Peer{Addr: tcp("10.0.0.2"), LocalAddr: tcp("10.0.0.1")})
	// Whatever is on the server, now or later: what is not for members is for operators.
	for service, info := range a.server.GetServiceInfo() {
		for _, m := range info.Methods {
			method := "/" + service + "/" + m.Name
			err := a.guard(elsewhere, method)
			switch m.Name {
			case "GetCatalog", "Subscribe":
				require.NoError(t, err)
			case "Tap":
				require.NoError(t, err)
				require.ErrorIs(t, (&admin{n: a}).Tap(&sluicev1.TapRequest{Outlet: "x"}, tapCall{ctx: elsewhere}), wire.RuleForbidden)
			default:
				require.ErrorIs(t, err, wire.RuleForbidden, method)
				require.ErrorContains(t, err, "10.0.0.2 is another one (ask on that machine")
			}
		}
	}
	require.EqualValues(t, 5, a.denials.all()["forbidden"])
	a.config.AdminAnywhere = true
	require.NoError(t, a.guard(elsewhere, sluicev1.AdminService_ListNodes_FullMethodName))
}

type tapCall struct {
	grpc.ServerStreamingServer[sluicev1.TapResponse]
	ctx context.Context
}

func (c tapCall) Context() context.Context { return c.ctx }

func TestWhoRefusesIsNamed(t *testing.T) {
	t.Parallel()
	ca := testca.New(t)
	a := testNode("a", Config{TLS: tlsOf(t, ca, "a"), Authorize: []Rule{rule("ops", "administer,tap", "*")}})
	start(t, a)
	b := testNode("b", Config{TLS: tlsOf(t, ca, "b"), Join: join(a), Authorize: []Rule{rule("ops", "administer,tap", "*"), rule("b", "publish", "numbers")}})
	source, _ := pushed()
	Publish(b, ints, source)
	start(t, b, source)
	eventually(t, "they know each other", func() bool { m, _ := a.cluster.view(); return len(m) == 1 })
	var creds credentials.TransportCredentials = as(t, tlsOf(t, ca, "ops"))
	admin := sluicev1.NewAdminServiceClient(dialAs(t, a, creds))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const why = `forbidden: no rule of node "b" allows "a" to administer (allow it in authorize, on node "b", and start it again)`
	nodes, err := admin.ListNodes(ctx, &sluicev1.ListNodesRequest{})
	require.NoError(t, err)
	require.Len(t, nodes.GetNodes(), 2)
	require.Equal(t, sluicev1.NodeState_NODE_STATE_ALIVE, nodes.GetNodes()[1].GetState())
	require.Equal(t, why, nodes.GetNodes()[1].GetError())
	require.Equal(t, why, nodes.GetUnreachable()[0].GetError())
	outlets, err := admin.ListOutlets(ctx, &sluicev1.ListOutletsRequest{})
	require.NoError(t, err)
	require.Equal(t, why, outlets.GetUnreachable()[0].GetError())
}
