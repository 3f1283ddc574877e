package memory

import (
	"container/heap"
	"time"

	"github.com/retryproof/retryproof/queue"
)

// message is one stored message.
type message struct {
	queue.Message
	attempt int
	sentAt  time.Time
}

// group is the line of one group. It exists while it holds messages. It is in
// the ready ring when its head is due, in the timers when its head is in flight
// or delayed, and never in both.
type group struct {
	name    string
	waiting ring[*message] // the head included while it is in flight
	receipt uint64         // of the head's current delivery, 0 when there is none
	until   time.Time      // when the head is due again
	turn    uint64         // breaks ties of until
	at      int            // place in the timers, -1 when not in them
}

// dedupKey names a message in the window. The group is empty unless the scope is
// PerGroup.
type dedupKey struct{ group, id string }

// window remembers ids. Since every id is remembered equally long, they end in
// the order in which they were noted, and forgetting costs no search.
type window struct {
	until map[dedupKey]struct{}
	order ring[noted]
}

type noted struct {
	key   dedupKey
	until time.Time
}

func (w *window) has(k dedupKey) bool {
	_, ok := w.until[k]
	return ok
}

func (w *window) note(k dedupKey, until time.Time) {
	w.until[k] = struct{}{}
	w.order.push(noted{k, until})
}

func (w *window) forget(now time.Time) {
	for w.order.len() > 0 && !w.order.front().until.After(now) {
		delete(w.until, w.order.pop().key)
	}
}

// timers holds the groups that are blocked, the soonest due first.
type timers struct {
	heap groupHeap
	last uint64
}

func (t *timers) add(g *group) { heap.Push(&t.heap, g) }

func (t *timers) remove(g *group) {
	if g.at >= 0 {
		heap.Remove(&t.heap, g.at)
	}
}

type groupHeap []*group

func (h groupHeap) Len() int { return len(h) }

func (h groupHeap) Less(i, j int) bool {
	if h[i].until.Equal(h[j].until) {
		return h[i].turn < h[j].turn
	}
	return h[i].until.Before(h[j].until)
}

func (h groupHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *groupHeap) Push(x any) {
	g := x.(*group)
	g.at = len(*h)
	*h = append(*h, g)
}

func (h *groupHeap) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	g.at = -1
	return g
}

// ring is a first-in-first-out line that reuses its space.
type ring[T any] struct {
	items []T
	head  int
	n     int
}

func (r *ring[T]) len() int { return r.n }

func (r *ring[T]) front() T { return r.items[r.head] }

func (r *ring[T]) push(v T) {
	if r.n == len(r.items) {
		grown := make([]T, max(1, 2*r.n))
		k := copy(grown, r.items[r.head:])
		copy(grown[k:], r.items[:r.head])
		r.items, r.head = grown, 0
	}
	r.items[(r.head+r.n)%len(r.items)] = v
	r.n++
}

func (r *ring[T]) pop() T {
	var zero T
	v := r.items[r.head]
	r.items[r.head] = zero
	r.head = (r.head + 1) % len(r.items)
	r.n--
	return v
}
