package node

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/sluicenet/sluice/internal/authz"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// Rule allows some identities to do something with some outlets, or to administer the
// node. Identities and outlets are globs: * stands for any number of any characters.
//
//	node.Rule{Identities: []string{"spiffe://example.org/*"}, May: []node.Verb{"subscribe"}, Outlets: []string{"orders.*"}}
type Rule = authz.Rule

// Verb is what a rule allows: subscribe, publish, tap or administer. A node checks who
// subscribes to its outlets, who taps them and who administers it; and, of a node that
// it subscribes to, whether that may publish the outlet.
type Verb = authz.Verb

func (c *Config) checkRules() error {
	switch {
	case len(c.Authorize) > 0 && c.TLS == (TLS{}):
		return fmt.Errorf("%w: Authorize has rules and there is no TLS: without certificates nobody has an identity", ErrConfig)
	case c.AdminAnywhere && c.TLS != (TLS{}):
		return fmt.Errorf("%w: AdminAnywhere is for nodes without TLS: with it, allow identities to administer in Authorize", ErrConfig)
	}
	for i, r := range c.Authorize {
		if err := r.Check(); err != nil {
			return fmt.Errorf("%w: Authorize[%d]: %w", ErrConfig, i, err)
		}
	}
	return nil
}

func (n *Node) allows(identity string, v authz.Verb, outlet string) bool {
	return authz.Rules(n.config.Authorize).Allow(identity, v, outlet)
}

// forbidden is what no rule allows, as it is said on the wire and in the log. at is the
// node whose rules they are.
func forbidden(at, identity string, v authz.Verb, outlet string) *wire.Error {
	what := string(v)
	if outlet != "" {
		what += fmt.Sprintf(" %q", outlet)
	}
	return &wire.Error{Rule: wire.RuleForbidden, What: fmt.Sprintf("no rule of node %q allows %q to %s", at, identity, what),
		Hint: fmt.Sprintf("allow it in authorize, on node %q, and start it again", at)}
}

// deny returns err, counted and said.
func (n *Node) deny(who string, v authz.Verb, outlet string, err *wire.Error) error {
	n.denials.add(denial{rule: string(err.Rule), who: who, what: strings.TrimSpace(string(v) + " " + outlet), why: err.What, hint: err.Hint})
	err.Epoch = n.incarnation
	return err
}

// mayOperate says whether the caller may administer the node, or tap an outlet. Without
// TLS nobody has an identity: who is on this machine may, and others where that is
// configured.
func (n *Node) mayOperate(ctx context.Context, v authz.Verb, outlet string) error {
	p, ok := peer.FromContext(ctx)
	if !ok {
		p = &peer.Peer{}
	}
	if n.tls != nil {
		if id := identityOf(p); !n.allows(id, v, outlet) {
			return n.deny(id, v, outlet, forbidden(n.config.Name, id, v, outlet))
		}
		return nil
	}
	if n.config.AdminAnywhere || local(p) {
		return nil
	}
	from := "somebody"
	if p.Addr != nil {
		from = host(p.Addr)
	}
	return n.deny(from, v, outlet, &wire.Error{Rule: wire.RuleForbidden,
		What: fmt.Sprintf("node %q answers operators on its own machine only, and %s is another one", n.config.Name, from),
		Hint: "ask on that machine, or give the nodes TLS, or set admin: anywhere (AdminAnywhere)"})
}

// guardUnary and guardStream look at who calls. What is not for everybody who gets a
// connection is for operators, also what is added to the server later. Subscribe and
// Tap look for themselves: it is in their first message which outlet is meant.
func (n *Node) guardUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := n.guard(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

func (n *Node) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := n.guard(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return handle(srv, stream)
}

func (n *Node) guard(ctx context.Context, method string) error {
	switch method {
	case sluicev1.CatalogService_GetCatalog_FullMethodName,
		sluicev1.SubscriptionService_Subscribe_FullMethodName,
		sluicev1.AdminService_Tap_FullMethodName:
		return nil
	}
	return n.mayOperate(ctx, authz.Administer, "")
}

// checkPublish says whether who answers a call may publish an outlet.
func (n *Node) checkPublish(p *peer.Peer, outlet string) error {
	if id := identityOf(p); !n.allows(id, authz.Publish, outlet) {
		return n.deny(id, authz.Publish, outlet, forbidden(n.config.Name, id, authz.Publish, outlet))
	}
	return nil
}

// checkOwn says what the node offers although its own rules, which are those of the
// others more often than not, do not allow it.
func (n *Node) checkOwn() {
	for _, p := range n.publications() {
		if o := p.offer(); n.tls != nil && !n.allows(n.identity(), authz.Publish, o.Name) {
			n.log.Warn("the node offers an outlet that its own rules do not allow it to publish", "outlet", o.Name, "identity", n.identity())
		}
	}
}
