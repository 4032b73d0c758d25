package stage

import "context"

// An Emitter is a stage that can emit events: a [Source] or a [Gate].
type Emitter[T any] interface {
	Outlet[T]
	emitter() (post func(call) error, emit func([]T) error)
}

// Handle gives a source or a gate a handler for messages of type M, beside its events,
// and returns the function that sends one. What the handler returns is emitted, also
// together with an error, and the slice passes to sluice. An error counts like one of
// the stage's own handler: io.EOF ends a source well, [Stop] a gate, any other error and
// a panic fail the stage. A stage may have handlers for several types of messages, also
// when it runs already.
//
// Messages are handled on the stage's own goroutine, in the order in which they are
// sent and, at a gate, in order with the events that arrive: never while another
// handler runs, so a source that waits for events in its handler keeps them waiting.
// What is sent before the run is handled when it begins, and what still waits when the
// stage ends is not handled; only Finish lets it be.
//
// send may be called from any goroutine, also from a handler, and does not wait. It
// returns ErrEnded when the stage has ended or is about to, and ErrBusy when 10,000
// messages wait.
func Handle[M, T any](s Emitter[T], handle func(ctx context.Context, message M) ([]T, error)) (send func(M) error) {
	post, emit := s.emitter()
	return func(message M) error {
		return post(func(ctx context.Context) error {
			events, err := handle(ctx, message)
			if emitErr := emit(events); emitErr != nil {
				return emitErr
			}
			return err
		})
	}
}

// HandleSink gives a sink a handler for messages of type M, in order with the events that
// arrive, and returns the function that sends one. [Stop] ends the sink well. The rest is
// as with [Handle].
func HandleSink[M, T any](s *Sink[T], handle func(ctx context.Context, message M) error) (send func(M) error) {
	return func(message M) error {
		return s.in.post(func(ctx context.Context) error { return handle(ctx, message) })
	}
}

func (s *Source[T]) emitter() (func(call) error, func([]T) error) { return s.out.post, s.out.emit }

func (g *Gate[In, Out]) emitter() (func(call) error, func([]Out) error) {
	return g.in.post, g.out.emit
}
