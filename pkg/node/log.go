package node

import (
	"log"
	"log/slog"
	"net"
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

// foreign are the words of memberlist for gossip that it does not take.
var foreign = []string{"No installed keys", "is not encrypted", "encryption is not configured", "unacceptable label"}

func (g gossipLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	say := g.to.Debug
	for prefix, f := range map[string]func(string, ...any){
		"[WARN]": g.to.Debug, "[ERR]": g.to.Warn, "[ERROR]": g.to.Warn,
	} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			text, say = strings.TrimSpace(rest), f
		}
	}
	// A message to one member that could not be sent is what gossip is made to bear.
	if strings.Contains(text, "Failed to send") {
		say = g.to.Debug
	}
	for _, words := range foreign {
		if strings.Contains(text, words) {
			what, from, _ := strings.Cut(strings.TrimPrefix(text, "memberlist: "), "from=")
			if h, _, err := net.SplitHostPort(from); err == nil {
				from = h
			}
			g.denials.add(denial{rule: ruleGossip, who: from, what: "gossip", why: "gossip came that is not of this cluster: " + strings.TrimSpace(what),
				hint: "give all nodes of a cluster the same cluster name, and the keys of one keyring"})
			return len(line), nil
		}
	}
	say("gossip", "said", strings.TrimPrefix(text, "memberlist: "))
	return len(line), nil
}
