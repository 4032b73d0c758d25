package node

import (
	"log"
	"log/slog"
	"strings"
)

// gossipLogger gives memberlist, which knows the standard logger only, a way into
// ours: its levels are words in brackets.
func gossipLogger(to *slog.Logger) *log.Logger {
	return log.New(gossipLog{to}, "", 0)
}

type gossipLog struct{ to *slog.Logger }

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
	say("gossip", "said", strings.TrimPrefix(text, "memberlist: "))
	return len(line), nil
}
