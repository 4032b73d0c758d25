package stage

import (
	"context"
	"reflect"
	"sync"
)

// family are the stages that end together, in several calls of Run: those of the
// children of a supervisor, when it is stopped. Then a subscription from one to another
// runs out, while one to a child that is restarted does not.
type family struct {
	ctx    context.Context
	parent *family // of the supervisor that this one is a child of, or nil
	mu     sync.Mutex
	parts  map[any]struct{}
	held   map[any]func() // what is released when the outermost of them ends
}

type familyKey struct{}

// newFamily returns a context for what belongs together until ctx ends.
func newFamily(ctx context.Context) context.Context {
	f := &family{ctx: ctx, parent: familyOf(ctx), parts: map[any]struct{}{}}
	return context.WithValue(ctx, familyKey{}, f)
}

func familyOf(ctx context.Context) *family {
	f, _ := ctx.Value(familyKey{}).(*family)
	return f
}

// join adds stages, until leave is called.
func (f *family) join(parts []part) (leave func()) {
	for g := f; g != nil; g = g.parent {
		g.mu.Lock()
		for _, p := range parts {
			g.parts[p] = struct{}{}
		}
		g.mu.Unlock()
	}
	return func() {
		for g := f; g != nil; g = g.parent {
			g.mu.Lock()
			for _, p := range parts {
				delete(g.parts, p)
			}
			g.mu.Unlock()
		}
	}
}

// ends reports whether outlet is one of a stage that is stopped, and comes to its end.
func (f *family) ends(outlet any) bool {
	if f == nil || !reflect.TypeOf(outlet).Comparable() {
		return false
	}
	for g := f; g != nil; g = g.parent {
		if g.ctx.Err() == nil {
			continue
		}
		g.mu.Lock()
		_, here := g.parts[outlet]
		g.mu.Unlock()
		if here {
			return true
		}
	}
	return false
}

// hold keeps what a stage has of an outlet until the outermost supervisor ends: a restart
// is no end. It reports false where that is held already.
func (f *family) hold(outlet any, release func()) bool {
	for f.parent != nil {
		f = f.parent
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.held[outlet]; ok {
		return false
	}
	if f.held == nil {
		f.held = map[any]func(){}
	}
	f.held[outlet] = release
	return true
}

// letGo releases what is held.
func (f *family) letGo() {
	f.mu.Lock()
	held := f.held
	f.held = nil
	f.mu.Unlock()
	for _, release := range held {
		release()
	}
}
