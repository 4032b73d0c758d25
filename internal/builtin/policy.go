package builtin

import (
	"context"

	"github.com/sluicenet/sluice/internal/config"
	"github.com/sluicenet/sluice/pkg/stage"
)

// policy is what the file says about events that fail.
type policy struct {
	onError     stage.ErrorPolicy
	maxAttempts int
	letters     stage.Letterbox[string] // nil for none
}

var actions = map[config.Action]stage.ErrorAction{
	config.Fail: stage.Fail, config.Skip: stage.Skip, config.ToDeadLetter: stage.ToDeadLetters,
}

func policyOf(s config.Stage, letters map[string]stage.Letterbox[string]) policy {
	e := s.OnError
	return policy{
		onError:     stage.ErrorPolicy{Retries: e.Retries, Delay: e.Delay, MaxDelay: e.MaxDelay, Then: actions[e.Then]},
		maxAttempts: s.MaxAttempts,
		letters:     letters[s.DeadLetter],
	}
}

// Accepts reports whether the file says that the stage may give up events for that
// reason: they are no loss then.
func (s *Stage) Accepts(reason string) bool {
	switch reason {
	case stage.DiscardHandler:
		return s.policy.onError.Then == stage.Skip
	case stage.DiscardExhausted:
		return s.policy.letters != nil
	}
	return false
}

// failed says what a handler has returned, where the stage may live on: nobody else
// would say why.
func (s *Stage) failed(ctx context.Context, env Env, err error) {
	if err != nil && ctx.Err() == nil && env.OnError != nil && s.policy.onError != (stage.ErrorPolicy{}) {
		env.OnError(s.Name, err)
	}
}
