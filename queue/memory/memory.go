// Package memory is a first-in-first-out queue in memory that behaves as SQS
// FIFO does: a dedup window, groups, a visibility timeout. It is the queue of
// the simulator and the model that queue/queuetest was written against.
//
// It promises what package queue asks, in the time of the clock that it is
// given: nothing here waits, and Receive returns what is due at the clock's now.
// The order of everything depends on the order of the calls and on the clock
// only, never on a map.
//
// An id is noted in the same step that stores the message, so a Send that was
// refused notes nothing and can be tried again. The window starts at the first
// accepted Send; a repeat does not extend it, and finishing the message does not
// end it.
//
// It does not promise to outlive the process. A crash leaves nothing behind.
package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/queue"
)

var _ queue.Queue = (*Queue)(nil)

// DedupScope says where a dedup id is unique.
type DedupScope int

const (
	// PerQueue makes an id unique in the whole queue: a repeat is recognised even
	// when it names another group.
	PerQueue DedupScope = iota
	// PerGroup makes an id unique in its group, as SQS high-throughput mode does:
	// a repeat that names another group is a new message.
	PerGroup
)

// Config of a [Queue]. The zero value works.
type Config struct {
	// DedupWindow is how long an id is remembered, from the first accepted Send.
	// At exactly its end the id is forgotten. Defaults to 5 minutes.
	DedupWindow time.Duration
	// DedupScope says where an id is unique. Defaults to PerQueue.
	DedupScope DedupScope
	// ContentBasedDedup compares messages by the SHA-256 of their bodies instead
	// of their ids, as SQS does for a sender that gives no dedup id. A body that
	// carries an attempt count or a time of sending then makes every repeat look
	// new. Defaults to false.
	ContentBasedDedup bool
	// Visibility is how long a delivery is its receiver's alone. At exactly its
	// end the message is due again. Defaults to 30 seconds.
	Visibility time.Duration
	// MaxMessageBytes is the largest body that is taken. Defaults to 1 MiB.
	MaxMessageBytes int
}

func (c Config) withDefaults() Config {
	if c.DedupWindow == 0 {
		c.DedupWindow = 5 * time.Minute
	}
	if c.Visibility == 0 {
		c.Visibility = 30 * time.Second
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = 1 << 20
	}
	return c
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.DedupWindow < 0 {
		errs = append(errs, fmt.Errorf("DedupWindow must be >= 0, is %v", c.DedupWindow))
	}
	if c.DedupScope != PerQueue && c.DedupScope != PerGroup {
		errs = append(errs, fmt.Errorf("DedupScope must be PerQueue or PerGroup, is %d", c.DedupScope))
	}
	if c.Visibility < 0 {
		errs = append(errs, fmt.Errorf("Visibility must be >= 0, is %v", c.Visibility))
	}
	if c.MaxMessageBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxMessageBytes must be >= 0, is %d", c.MaxMessageBytes))
	}
	return errors.Join(errs...)
}

// Stats is what a queue holds and has seen.
type Stats struct {
	// Depth counts the messages that are stored and not finished, those in flight
	// and those delayed included.
	Depth int
	// InFlight counts the deliveries whose visibility timeout runs.
	InFlight int
	// Delayed counts the messages that wait for the delay of a Retry to pass.
	Delayed int
	// Remembered counts the dedup ids that are inside their window.
	Remembered int
	// Sent counts the messages that were stored, ever.
	Sent int64
	// Dropped counts the Sends that were recognised as repeats, ever.
	Dropped int64
	// Delivered counts the deliveries, repeats included, ever.
	Delivered int64
	// Finished counts the messages that were finished, ever.
	Finished int64
}

// Queue is a queue in memory. Its methods may be called at the same time. Use
// [New] to make one.
type Queue struct {
	clk clock.Clock
	cfg Config

	mu       sync.Mutex
	now      time.Time // the latest time seen: a clock that steps back does not undo an expiry
	ids      window
	groups   map[string]*group
	ready    ring[*group]      // groups whose head is due, in the order in which they became so
	blocked  timers            // groups whose head is in flight or delayed, soonest first
	receipts map[uint64]*group // the current deliveries
	stats    Stats
}

// New returns an empty queue on the given clock. The error names all that is
// wrong with the configuration.
func New(clk clock.Clock, cfg Config) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("queue/memory: %w", err)
	}
	return &Queue{
		clk:      clk,
		cfg:      cfg.withDefaults(),
		ids:      window{until: map[dedupKey]struct{}{}},
		groups:   map[string]*group{},
		receipts: map[uint64]*group{},
	}, nil
}

// Send implements [queue.Queue]. It copies the body.
func (q *Queue) Send(ctx context.Context, m queue.Message) error {
	if ctx.Err() != nil {
		return retryproof.Refused(retryproof.CodeUnavailable, "the message was not sent: its context had ended", context.Cause(ctx))
	}
	if err := q.acceptable(m); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance()
	key := q.dedupKey(m)
	if q.ids.has(key) {
		q.stats.Dropped++
		return nil
	}
	m.Body = bytes.Clone(m.Body)
	g := q.groups[m.Group]
	if g == nil {
		g = &group{name: m.Group, at: -1}
		q.groups[m.Group] = g
	}
	g.waiting.push(&message{Message: m, sentAt: q.now})
	if g.waiting.len() == 1 {
		q.ready.push(g)
	}
	q.ids.note(key, q.now.Add(q.cfg.DedupWindow))
	q.stats.Sent++
	return nil
}

// acceptable refuses what can never be taken.
func (q *Queue) acceptable(m queue.Message) error {
	switch {
	case m.ID == "":
		return retryproof.Refused(retryproof.CodePermanent, "the message has no id", nil)
	case m.Group == "":
		return retryproof.Refused(retryproof.CodePermanent, "the message has no group", nil)
	case len(m.Body) > q.cfg.MaxMessageBytes:
		return retryproof.Refused(retryproof.CodePermanent,
			fmt.Sprintf("the body has %d bytes, the queue takes %d", len(m.Body), q.cfg.MaxMessageBytes), nil)
	}
	return nil
}

func (q *Queue) dedupKey(m queue.Message) dedupKey {
	k := dedupKey{id: m.ID}
	if q.cfg.ContentBasedDedup {
		sum := sha256.Sum256(m.Body)
		k.id = string(sum[:])
	}
	if q.cfg.DedupScope == PerGroup {
		k.group = m.Group
	}
	return k
}

// Receive implements [queue.Queue]. It never waits, and returns at most one
// message of a group. Groups take turns in the order in which they became due.
func (q *Queue) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	if ctx.Err() != nil {
		return nil, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance()
	n := min(limit, q.ready.len())
	if n <= 0 {
		return nil, nil
	}
	out := make([]queue.Delivery, 0, n)
	for range n {
		out = append(out, q.deliver(q.ready.pop()))
	}
	return out, nil
}

func (q *Queue) deliver(g *group) queue.Delivery {
	m := g.waiting.front()
	m.attempt++
	q.stats.Delivered++
	g.receipt = uint64(q.stats.Delivered)
	q.receipts[g.receipt] = g
	q.block(g, q.now.Add(q.cfg.Visibility))
	d := queue.Delivery{Message: m.Message, Receipt: strconv.FormatUint(g.receipt, 10), Attempt: m.attempt, SentAt: m.sentAt}
	d.Body = bytes.Clone(m.Body)
	return d
}

// Finish implements [queue.Queue]. As with SQS FIFO a receipt is current until
// its visibility timeout ends, whether or not the message was delivered again.
func (q *Queue) Finish(_ context.Context, d queue.Delivery) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance()
	g := q.current(d.Receipt)
	if g == nil {
		return false, nil
	}
	q.release(g)
	g.waiting.pop()
	q.stats.Finished++
	if g.waiting.len() > 0 {
		q.ready.push(g)
	} else {
		delete(q.groups, g.name)
	}
	return true, nil
}

// Retry implements [queue.Queue]. A receipt that is no longer current is not an
// error and changes nothing; a delay below 0 counts as 0.
func (q *Queue) Retry(_ context.Context, d queue.Delivery, delay time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance()
	g := q.current(d.Receipt)
	if g == nil {
		return nil
	}
	q.release(g)
	if delay <= 0 {
		q.ready.push(g)
		return nil
	}
	q.block(g, q.now.Add(delay))
	return nil
}

// Stats returns what the queue holds and has seen, as of the clock's now.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance()
	s := q.stats
	s.Depth = int(s.Sent - s.Finished)
	s.InFlight = len(q.receipts)
	s.Delayed = len(q.blocked.heap) - s.InFlight
	s.Remembered = q.ids.order.len()
	return s
}

// NextDue is when a Receive finds a message, given no other call before; false when
// there is none to wait for. It lets whoever runs a queue in virtual time skip what
// would find nothing.
func (q *Queue) NextDue() (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance()
	switch {
	case q.ready.len() > 0:
		return q.now, true
	case len(q.blocked.heap) > 0:
		return q.blocked.heap[0].until, true
	}
	return time.Time{}, false
}

// advance moves the queue to the clock's now: it forgets ids whose window has
// passed and makes groups due whose timeout or delay has.
func (q *Queue) advance() {
	if now := q.clk.Now(); now.After(q.now) {
		q.now = now
	}
	q.ids.forget(q.now)
	for len(q.blocked.heap) > 0 && !q.blocked.heap[0].until.After(q.now) {
		g := q.blocked.heap[0]
		q.release(g)
		q.ready.push(g)
	}
}

// current returns the group whose delivery the receipt names, nil when the
// receipt is stale.
func (q *Queue) current(receipt string) *group {
	n, err := strconv.ParseUint(receipt, 10, 64)
	if err != nil {
		return nil
	}
	return q.receipts[n]
}

func (q *Queue) block(g *group, until time.Time) {
	q.stamp(g, until)
	q.blocked.add(g)
}

// stamp orders groups with one deadline by the order in which they were blocked.
func (q *Queue) stamp(g *group, until time.Time) {
	q.blocked.last++
	g.until, g.turn = until, q.blocked.last
}

func (q *Queue) release(g *group) {
	q.blocked.remove(g)
	delete(q.receipts, g.receipt)
	g.receipt = 0
}
