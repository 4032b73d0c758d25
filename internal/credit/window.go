package credit

// Window is the consumer's half of a subscription: it knows what was asked for,
// what arrived and what is processed, and says when to ask again.
//
// The rule: ask for max at the start; after each batch, when what is open (asked
// for and not processed) is at most min, ask for max minus open. Asks that are
// due while the window is held (a gate whose outlet nobody wants more of) add up
// and leave as one. A manual window asks for what it is told to, and for nothing
// by itself.
//
// A window may be resized while it is used. One that has become smaller asks for nothing
// until what is open has come down to the new min. Batches never become larger than they
// were at the start.
type Window struct {
	max, min int64
	batch    int64
	manual   bool
	granted  int64 // asked for, held asks included
	received int64
	acked    int64
	held     int64 // the part of granted that was not sent yet
}

// NewWindow returns a window with nothing asked for. It wants 0 <= min < max.
func NewWindow(max, min int64, manual bool) Window {
	return Window{max: max, min: min, batch: max - min, manual: manual}
}

// Resize changes max and min. It wants 0 <= min < max, and what is asked for from now on
// goes by them, also what was held back until now.
func (w *Window) Resize(max, min int64) {
	w.max, w.min = max, min
	if over := w.Open() - max; over > 0 {
		unsent := w.held
		if over < unsent {
			unsent = over
		}
		w.held -= unsent
		w.granted -= unsent
	}
}

// Start returns the first ask: max, or 0 for a manual window.
func (w *Window) Start() int64 {
	if w.manual {
		return 0
	}
	w.granted = w.max
	return w.max
}

// Ask books n more, n at least 1, on behalf of the user.
func (w *Window) Ask(n int64) { w.granted = Add(w.granted, n) }

// Receive books n events that arrived. It reports false, and books nothing, when
// they are more than was asked for.
func (w *Window) Receive(n int64) bool {
	if w.received+n > w.Sent() {
		return false
	}
	w.received += n
	return true
}

// Processed books n events as processed and returns the ask that is now due, or
// 0. The ask is booked as sent: whoever cannot send it yet calls Hold with it.
func (w *Window) Processed(n int64) int64 {
	w.acked += n
	if w.manual || w.granted == Unbounded || w.Open() > w.min {
		return 0
	}
	ask := w.max - w.Open()
	w.granted = Add(w.granted, ask)
	return ask
}

// Hold keeps back an ask that is booked. Held asks add up.
func (w *Window) Hold(n int64) { w.held += n }

// Release returns all that was held back, as one ask, or 0.
func (w *Window) Release() int64 {
	n := w.held
	w.held = 0
	return n
}

// Open is what was asked for and is not processed, held asks included.
func (w *Window) Open() int64 { return Sub(w.granted, w.acked) }

// unboundedBatch is the batch of a window without bounds: that of the default terms.
const unboundedBatch = 250

// Batch is the largest number of events that a handler gets at once; 0 stands for
// a whole delivery (manual windows).
func (w *Window) Batch() int64 {
	switch {
	case w.manual:
		return 0
	case w.max == Unbounded:
		return unboundedBatch
	}
	return max(min(w.batch, w.max-w.min), 1)
}

// Sent is what was asked for and has left, held asks excluded.
func (w *Window) Sent() int64 { return Sub(w.granted, w.held) }

// Received is the position of the last event that arrived.
func (w *Window) Received() int64 { return w.received }

// Acked is the position up to which everything is processed.
func (w *Window) Acked() int64 { return w.acked }

// Held is the sum of the asks that are held back.
func (w *Window) Held() int64 { return w.held }

// Max is the demand that the window asks for at the start and comes back to.
func (w *Window) Max() int64 { return w.max }

// Min is the open demand at or below which the window asks again.
func (w *Window) Min() int64 { return w.min }
