package stage

// queue is a first-in first-out queue that keeps its items in one piece, so that
// a run of them can be handed out without a copy. What was taken stays readable
// until the next push or sweep.
type queue[T any] struct {
	buf  []T
	head int
	// swept is the index up to which taken items have been cleared.
	swept int
}

func (q *queue[T]) len() int { return len(q.buf) - q.head }

// items returns everything that is queued. The slice is the queue's own.
func (q *queue[T]) items() []T { return q.buf[q.head:] }

func (q *queue[T]) push(items ...T) {
	q.sweep()
	// Moving the rest to the front is paid for by the items taken since the last
	// move: no item moves more than twice.
	if q.head > q.len() && len(q.buf)+len(items) > cap(q.buf) {
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf, q.head, q.swept = q.buf[:n], 0, 0
	}
	q.buf = append(q.buf, items...)
}

// take removes the first n items and returns them.
func (q *queue[T]) take(n int) []T {
	s := q.buf[q.head : q.head+n : q.head+n]
	q.head += n
	return s
}

// cut removes the last n items.
func (q *queue[T]) cut(n int) {
	clear(q.buf[len(q.buf)-n:])
	q.buf = q.buf[:len(q.buf)-n]
}

// sweep lets go of what was taken.
func (q *queue[T]) sweep() {
	clear(q.buf[q.swept:q.head])
	q.swept = q.head
	if q.head == len(q.buf) {
		q.buf, q.head, q.swept = q.buf[:0], 0, 0
	}
}
