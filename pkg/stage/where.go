package stage

import (
	"fmt"

	"github.com/sluicenet/sluice/pkg/dispatch"
)

// Where is the part of an outlet's events that keep keeps: subscribe to it instead. It is
// the same outlet all the same: an inlet subscribes to one part of it at a time.
//
// At an outlet of this process keep runs at the producer, whose dispatcher has to
// know selectors (dispatch.Broadcast does; others refuse the subscription): what it
// drops costs the subscriber no demand. At an outlet elsewhere it runs here, and
// what it drops has been sent, and counts as processed. keep may not wait, and may be
// called from any goroutine, one call at a time for each subscription. A panic of it
// fails the stage that it runs in.
func Where[T any](outlet Outlet[T], keep func(event T) bool) Outlet[T] {
	return &view[T]{outlet, keep}
}

// view is a part of an outlet.
type view[T any] struct {
	Outlet[T]
	keep func(T) bool
}

// selective is an outlet that can leave out events itself.
type selective[T any] interface {
	attachWhere(terms Terms, keep func(T) bool, r Receiver[T]) (Upstream[T], error)
}

func (s *Source[T]) attachWhere(terms Terms, keep func(T) bool, r Receiver[T]) (Upstream[T], error) {
	return s.out.attach(terms, keep, r)
}

func (g *Gate[In, Out]) attachWhere(terms Terms, keep func(Out) bool, r Receiver[Out]) (Upstream[Out], error) {
	return g.out.attach(terms, keep, r)
}

// resolve returns the outlet that a name stands for or a view shows a part of, and
// which part.
func resolve[T any](outlet Outlet[T]) (inner Outlet[T], keep func(T) bool, err error) {
	switch o := outlet.(type) {
	case *named[T]:
		if inner, err = o.find(); err != nil {
			return nil, nil, err
		}
		return resolve(inner)
	case *view[T]:
		if inner, keep, err = resolve(o.Outlet); keep == nil {
			return inner, o.keep, err
		}
		inside := keep
		return inner, func(e T) bool { return inside(e) && o.keep(e) }, err
	}
	return outlet, nil, nil
}

// Attach implements [Outlet] for those who do not know of views, such as a node that
// publishes one: then the selection has to be made at the producer.
func (v *view[T]) Attach(terms Terms, r Receiver[T]) (Upstream[T], error) {
	outlet, keep, err := resolve[T](v)
	if err != nil {
		return nil, err
	}
	s, ok := outlet.(selective[T])
	if !ok {
		return nil, fmt.Errorf("%w: %q has no selectors", dispatch.ErrUnsupported, outlet.OutletName())
	}
	return s.attachWhere(terms, keep, r)
}

// attach makes the subscription, and has what is not kept left out on one side or the
// other.
func (in *inflow[T]) attach(keep func(T) bool, r *receiver[T]) (Upstream[T], error) {
	if p, ok := in.outlet.(Plural[T]); ok {
		in.keep = keep
		return p.AttachAll(in.terms, &gathering[T]{r.l, r.in})
	}
	if keep == nil {
		return in.outlet.Attach(in.terms, r)
	}
	if s, ok := in.outlet.(selective[T]); ok {
		return s.attachWhere(in.terms, keep, r)
	}
	in.keep = keep
	return in.outlet.Attach(in.terms, r)
}
