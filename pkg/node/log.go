package node

import (
	"log"
	"log/slog"
	"net"
	"slices"
	"strings"
)

// gossipLogger gives memberlist, which knows the standard logger only, a way into
// ours: its levels are words in brackets.
func gossipLogger(n *Node) *log.Logger {
	return log.New(gossipLog{n.log, &n.denials}, "", 0)
}

type gossipLog struct {
	to      *slog.Logger
	denials *denials
}

// ruleGossip is that gossip has the label and a key of the cluster.
const ruleGossip = "gossip"

// foreign reports whether memberlist says that gossip is not of this cluster: it has
// another label, or other keys.
func foreign(said string) bool {
	said = strings.ToLower(said)
	return slices.ContainsFunc([]string{"no installed keys", "is not encrypted", "encryption is not configured", "unacceptable label"},
		func(words string) bool { return strings.Contains(said, words) })
}

func (g gossipLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	say := g.to.Debug
	for prefix, f := range map[string]func(string, ...any){
		"[DEBUG]": g.to.Debug, "[WARN]": g.to.Debug, "[ERR]": g.to.Warn, "[ERROR]": g.to.Warn,
	} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			text, say = strings.TrimSpace(rest), f
		}
	}
	text = strings.TrimPrefix(text, "memberlist: ")
	switch {
	case strings.Contains(text, "Failed to send"), strings.HasPrefix(text, "failed to join"):
		// The first is what gossip is made to bear, of the second whoever has called hears.
		say = g.to.Debug
	case foreign(text):
		what, from, _ := strings.Cut(text, "from=")
		if h, _, err := net.SplitHostPort(from); err == nil {
			from = h
		}
		g.denials.add(denial{rule: ruleGossip, who: from, what: "gossip", why: "gossip came that is not of this cluster: " + strings.TrimSpace(what),
			hint: "give all nodes of a cluster the same cluster name, and the keys of one keyring"})
		return len(line), nil
	}
	say("gossip", "said", text)
	return len(line), nil
}
