package stage

import "context"

// An Emitter is a stage that can emit events: a [Source] or a [Gate].
type Emitter[T any] interface {
	Outlet[T]
	emitter() (post func(call) error, emit func([]T) error)
}

// Handle gives a source or a gate a handler for messages of type M, beside its events,
// and returns the function that sends one. What the handler returns is emitted; an
// error of it counts like one of the stage's own handler ([Stop], or io.EOF for a
// source, end it well). A stage may have handlers for several types of messages.
//
// Messages are handled on the stage's own goroutine, in the order in which they are
// sent and, at a gate, in order with the events that arrive: never while another
// handler runs. send does not wait. It returns ErrEnded when the stage has ended, and
// ErrBusy when 10,000 messages wait.
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

// HandleSink gives a sink a handler for messages of type M. See [Handle].
func HandleSink[M, T any](s *Sink[T], handle func(ctx context.Context, message M) error) (send func(M) error) {
	return func(message M) error {
		return s.in.post(func(ctx context.Context) error { return handle(ctx, message) })
	}
}

func (s *Source[T]) emitter() (func(call) error, func([]T) error) { return s.out.post, s.out.emit }

func (g *Gate[In, Out]) emitter() (func(call) error, func([]Out) error) {
	return g.in.post, g.out.emit
}
