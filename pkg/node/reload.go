package node

// reload calls refresh now and then, until the node stops: it looks at what stands in
// files, and says whether that has changed. What cannot be used is said once. A file
// is not written in an instant, so it has to be wrong twice in the same way.
func (n *Node) reload(what string, refresh func() (changed bool, err error)) {
	n.background.Go(func() {
		seen, said := "", ""
		for pause(n.ctx, n.tuning.reload) {
			changed, err := refresh()
			switch {
			case err == nil:
				seen, said = "", ""
				if changed {
					n.log.Info("files were read again: they hold for what comes now", "of", what)
				}
			case err.Error() != seen:
				seen = err.Error()
			case seen != said:
				said = seen
				n.log.Error("files cannot be used: what they held before stays in use", "of", what, "why", err)
			}
		}
	})
}
