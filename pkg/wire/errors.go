package wire

import (
	"errors"
	"fmt"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error says which rule was not met, where, and what to do about it. It ends one
// subscription and nothing else.
//
// It crosses the wire as the status of the call: [Error.Status] and [FromStatus].
// Rule, Epoch, What and Hint come out at the other end as they went in; Outlet and
// Node are filled in by each end for itself.
type Error struct {
	// Rule is the rule that was not met.
	Rule Rule
	// Outlet and Node say whose subscription it is, where that is known.
	Outlet, Node string
	// Epoch is the epoch of the producer that refuses.
	Epoch uint64
	// What says in a few words what happened, Hint what to do. Both may be empty.
	What, Hint string
}

// broken returns the error of a rule, with what happened.
func broken(rule Rule, format string, args ...any) *Error {
	return &Error{Rule: rule, What: fmt.Sprintf(format, args...)}
}

// hint adds what to do.
func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Error is one line: "rule: what (hint)", with the outlet and the node in front
// when they are known.
func (e *Error) Error() string {
	line := string(e.Rule)
	if e.What != "" {
		line += ": " + e.What
	}
	if e.Hint != "" {
		line += " (" + e.Hint + ")"
	}
	switch {
	case e.Outlet != "" && e.Node != "":
		return e.Outlet + " at " + e.Node + ": " + line
	case e.Outlet != "":
		return e.Outlet + ": " + line
	case e.Node != "":
		return e.Node + ": " + line
	}
	return line
}

// Is reports whether target is the rule of the error.
func (e *Error) Is(target error) bool {
	rule, ok := target.(Rule)
	return ok && rule == e.Rule
}

// Retryable reports whether it may go well later although nobody changes
// anything.
func (e *Error) Retryable() bool { return e.Rule.Retryable() }

// Status is the status that refuses or breaks a call by this error: a fitting
// code, and a Refusal in the details.
func (e *Error) Status() *status.Status {
	code, ok := codeOf[e.Rule]
	if !ok {
		code = codes.Unknown
	}
	// It would fail for OK only, which is not the code of any rule.
	s, _ := status.New(code, e.Error()).WithDetails(&sluicev1.Refusal{
		Rule:  string(e.Rule),
		Epoch: e.Epoch,
		What:  e.What,
		Hint:  e.Hint,
	})
	return s
}

// GRPCStatus is Status, under the name that gRPC looks for: a service can return
// an Error as it is.
func (e *Error) GRPCStatus() *status.Status { return e.Status() }

// FromStatus returns the Error that err is, wraps or carries as a status. It
// reports false for every other error: a stream that broke, a peer that is not
// sluice. A rule that this version does not know comes out by its name.
func FromStatus(err error) (*Error, bool) {
	var e *Error
	if errors.As(err, &e) {
		return e, true
	}
	s, ok := status.FromError(err)
	if !ok {
		return nil, false
	}
	for _, detail := range s.Details() {
		if r, ok := detail.(*sluicev1.Refusal); ok && r.GetRule() != "" {
			return &Error{Rule: Rule(r.GetRule()), Epoch: r.GetEpoch(), What: r.GetWhat(), Hint: r.GetHint()}, true
		}
	}
	return nil, false
}
