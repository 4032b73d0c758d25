package node

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/sluicenet/sluice/pkg/wire"
)

// ruleTLS is that who connects shows a certificate of the CA.
const ruleTLS = "tls"

// A denial is something that the node did not let somebody do.
type denial struct {
	rule string // by which rule
	who  string // an identity, a subscriber, or an address
	what string // they wanted to do
	why  string
	hint string // what to do about it
}

const (
	// sayAgain is how often the same denial is said, if it goes on.
	sayAgain = time.Minute
	// maxSaid is how many denials are told apart: strangers may have any number of
	// names. What is beyond is counted only.
	maxSaid = 1024
)

// denials counts what was refused, by rule, and says it: each once, and again when it
// goes on.
type denials struct {
	log *slog.Logger

	mu     sync.Mutex
	counts map[string]int64
	said   map[saidKey]*saidTimes
}

type saidKey struct{ rule, who, what string }

type saidTimes struct {
	at    time.Time
	since int64 // how many of them have come since then
}

func (r *denials) add(x denial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts, r.said = map[string]int64{}, map[saidKey]*saidTimes{}
	}
	r.counts[x.rule]++
	key := saidKey{x.rule, clip(x.who), clip(x.what)}
	now := time.Now()
	last := r.said[key]
	if last == nil {
		if len(r.said) >= maxSaid {
			maps.DeleteFunc(r.said, func(_ saidKey, s *saidTimes) bool { return now.Sub(s.at) >= sayAgain })
		}
		if len(r.said) >= maxSaid {
			return
		}
		last = &saidTimes{}
		r.said[key] = last
	}
	last.since++
	if now.Sub(last.at) < sayAgain {
		return
	}
	level := slog.LevelInfo
	if x.rule == ruleTLS || x.rule == ruleGossip || x.rule == string(wire.RuleForbidden) || x.rule == string(wire.RuleOtherIdentity) {
		level = slog.LevelWarn
	}
	r.log.Log(context.Background(), level, "refused", "rule", x.rule, "who", key.who, "what", key.what, "why", clip(x.why), "hint", x.hint, "times", last.since)
	*last = saidTimes{at: now}
}

// all returns how many denials there were, by rule.
func (r *denials) all() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}
