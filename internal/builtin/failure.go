package builtin

import "context"

// Failure is a failure of a stage at work, together with what to do about it.
type Failure struct {
	Err error
	Try string
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns what happened.
func (f *Failure) Unwrap() error { return f.Err }

// under calls f, which may block for ever, and stops waiting for it when ctx ends.
// What f uses is f's alone from then on.
func under(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
