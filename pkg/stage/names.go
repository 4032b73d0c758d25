package stage

import (
	"errors"
	"fmt"
	"sync"
)

// Names is a directory of outlets by name, for connections that outlive the stages
// at their ends: a stage that is restarted takes its name again, and who subscribes
// by name finds it. The zero value is empty and ready to use, by any goroutine.
type Names struct {
	mu      sync.Mutex
	holders map[string]any
}

// Errors of Names.
var (
	// ErrNameTaken: a stage that has not ended holds the name.
	ErrNameTaken = errors.New("the name is taken")
	// ErrNoSuchName: nobody holds the name, or holds it for other events.
	ErrNoSuchName = errors.New("no stage has that name")
)

// Register gives outlet its name, the stage's. It returns ErrNameTaken while another
// outlet holds it whose stage has not ended; one that is never run does not end. An
// outlet of another process never ends, and keeps its name.
func Register[T any](names *Names, outlet Outlet[T]) error {
	names.mu.Lock()
	defer names.mu.Unlock()
	name := outlet.OutletName()
	if holder, ok := names.holders[name].(interface{ Done() <-chan struct{} }); ok && !same(holder, outlet) && !isClosed(holder.Done()) {
		return fmt.Errorf("%w: %q", ErrNameTaken, name)
	}
	if names.holders == nil {
		names.holders = map[string]any{}
	}
	names.holders[name] = outlet
	return nil
}

// Named is whatever outlet holds the name when it is subscribed to. A subscription
// returns ErrNoSuchName when none does.
func Named[T any](names *Names, name string) Outlet[T] { return &named[T]{names, name} }

type named[T any] struct {
	names *Names
	name  string
}

func (n *named[T]) find() (Outlet[T], error) {
	n.names.mu.Lock()
	defer n.names.mu.Unlock()
	holder, ok := n.names.holders[n.name].(Outlet[T])
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrNoSuchName, n.name)
	}
	return holder, nil
}

func (n *named[T]) OutletName() string { return n.name }

func (n *named[T]) Attach(terms Terms, r Receiver[T]) (Upstream[T], error) {
	holder, err := n.find()
	if err != nil {
		return nil, err
	}
	return holder.Attach(terms, r)
}

// Done is never closed: another stage may take the name.
func (n *named[T]) Done() <-chan struct{} { return nil }
