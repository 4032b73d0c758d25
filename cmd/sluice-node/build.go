package main

import (
	"log/slog"

	"github.com/sluicenet/sluice/internal/builtin"
	"github.com/sluicenet/sluice/internal/config"
	"github.com/sluicenet/sluice/pkg/node"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
)

// network is what a file describes: a node and its stages. Nothing of it is
// started, and nothing is opened.
type network struct {
	node   *node.Node
	stages []*part
}

// part is one stage of the file, with its subscriptions, or an outlet of dead letters.
type part struct {
	*builtin.Stage
	subs []*subscription
}

// subscription is what a stage reads.
type subscription struct {
	*stage.Subscription
	outlet string
}

// settings are those that are not in the file.
type settings struct {
	env        builtin.Env
	log        *slog.Logger
	reflection bool
}

// build makes the network of a file. What is wrong is a configError.
func build(f *config.File, s settings) (*network, error) {
	version, _ := thisBuild()
	c := node.Config{
		Name: f.Node.Name, Cluster: f.Cluster.Name, Version: version,
		Listen: f.Listen.GRPC.Address, Advertise: f.Listen.GRPC.Advertise,
		Gossip: f.Cluster.Bind, Join: f.Cluster.Join,
		TLS: node.TLS(f.TLS), Authorize: f.Authorize, AdminAnywhere: f.AdminAnywhere, Keyring: f.Cluster.Keyring,
		Reflection: s.reflection, Logger: s.log,
	}
	if f.Node.MaxBytes != nil {
		c.MaxBytes = *f.Node.MaxBytes
	}
	if c.Cluster == "" {
		c.Join = nil // it names this node, and nobody else
	}
	if s.log != nil {
		s.env.OnDiscard = func(stage, reason string, count int) {
			s.log.Warn("events discarded", "stage", stage, "reason", reason, "count", count)
		}
		s.env.OnError = func(stage string, err error) {
			s.log.Warn("events not handled", "stage", stage, "why", err)
		}
	}
	built, err := builtin.Build(f, s.env)
	if err := config.Join(append(secrets(f), err)...); err != nil {
		return nil, &configError{err}
	}
	n := &network{node: node.New(c)}
	local := map[string]stage.Outlet[string]{}
	for _, b := range built {
		n.stages = append(n.stages, &part{Stage: b})
		if b.Outlet != nil {
			local[b.Name] = b.Outlet
			node.Publish(n.node, wire.Text(b.Name), b.Outlet)
		}
	}
	for i, one := range f.Stages {
		n.connect(n.stages[i], one.From, local)
	}
	return n, nil
}

// connect declares the subscriptions of a stage. An outlet of this file is meant
// before one of the same name elsewhere.
func (n *network) connect(p *part, from []config.From, local map[string]stage.Outlet[string]) {
	for _, f := range from {
		sub := &subscription{outlet: f.Outlet}
		outlet, ok := local[f.Outlet]
		if !ok {
			outlet = node.Outlet(n.node, wire.Text(f.Outlet), follow(f)...)
		}
		// A stage that reads several outlets goes on until the last of them is over.
		sub.Subscription = stage.Connect(outlet, p.Inlet, append(terms(f), stage.Joint)...)
		p.subs = append(p.subs, sub)
	}
}

// follow says which of the nodes that offer an outlet are followed.
func follow(f config.From) []node.OutletOption {
	var opts []node.OutletOption
	if f.One {
		opts = append(opts, node.One())
	}
	if f.Expect > 0 {
		opts = append(opts, node.Expect(f.Expect))
	}
	return opts
}

func terms(f config.From) []stage.Option {
	var opts []stage.Option
	if f.MaxDemand != nil {
		opts = append(opts, stage.MaxDemand(*f.MaxDemand))
	}
	if f.MinDemand != nil {
		opts = append(opts, stage.MinDemand(*f.MinDemand))
	}
	if a := f.Auto; a != nil {
		opts = append(opts, stage.AutoDemand(stage.Auto{Min: a.Min, Max: a.Max, MaxBytes: a.MaxBytes}))
	}
	if f.ResumeWindow != nil {
		opts = append(opts, stage.ResumeWindow(*f.ResumeWindow))
	}
	return opts
}

// runners are what stage.Run is given.
func (n *network) runners() []stage.Runner {
	all := []stage.Runner{n.node}
	for _, p := range n.stages {
		all = append(all, p.Runner)
	}
	return all
}

// notes are what is not wrong, but probably not meant either: an outlet that no
// stage of the file has, with almost the name of one that it has.
func notes(f *config.File) []error {
	var outlets []string
	named := map[string]bool{}
	for _, s := range f.Stages {
		named[s.Name] = true
		if s.Kind != config.Sink {
			outlets = append(outlets, s.Name)
		}
	}
	for _, name := range f.DeadLetters() {
		named[name] = true
		outlets = append(outlets, name)
	}
	var all []error
	if err := expiring(f); err != nil {
		all = append(all, err)
	}
	for _, s := range f.Stages {
		for _, from := range s.From {
			hint := config.Suggest(from.Outlet, outlets)
			if named[from.Outlet] || hint == "" || hint == s.Name || hint == s.DeadLetter {
				continue
			}
			all = append(all, &config.Error{
				File: f.Path, Line: from.Pos.Line, Col: from.Pos.Col, Hint: hint,
				What: "note: no stage of this file is called \"" + from.Outlet + "\", so it waits for another node to offer it",
			})
		}
	}
	return all
}
