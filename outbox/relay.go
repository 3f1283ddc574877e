// Package outbox carries events from the database that stored them to a queue
// (mission E1): a relay claims stored rows, publishes them with their stored ids
// and deletes each one after the queue's positive answer.
//
// Promises:
//   - every committed row is published at least once, whenever its transaction
//     committed, even after a dump and restore: no position is kept that could
//     pass it by;
//   - every send of a row carries the stored event id;
//   - rows of one group are published in the order in which they were stored,
//     with any number of relays; a row that fails holds back its own group only;
//   - a row is deleted only after a positive answer, by the relay that holds its
//     lease. The rows of a batch are deleted together, after its last send.
//
// A queue that says "not now" (CodeUnavailable) parks nothing, however often and
// for however long: it is full or away, and says nothing about the event.
//
// Does not promise: one send. A relay that dies between the answer and the delete
// sends again, after the queue's dedup window too; the consumer's inbox catches
// that. A row holds back its group only while it may still be sent: at the latest
// after Config.ParkAfter of failures it is parked, whatever else is sent. A parked
// row no longer holds back its group: later events overtake it, which
// Config.Observe hears of as SawParked. Until then Stats.OldestAt grows old.
//
// Crash points: after the claim, the lease ends and another relay sends; after
// the send, what the batch has sent so far is sent again; after the delete, done.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/internal/backoff"
	"github.com/retryproof/retryproof/internal/clip"
	"github.com/retryproof/retryproof/queue"
)

// Publisher is the queue, as a relay needs it.
type Publisher interface {
	// Send returns nil only when the queue has the message for good.
	Send(ctx context.Context, m queue.Message) error
}

// Config sets a relay. The zero value works.
type Config struct {
	// Batch is how many rows are claimed at a time. Defaults to 64.
	Batch int
	// Lease is how long a claimed batch belongs to the relay. Defaults to 15 s.
	Lease time.Duration
	// SendTimeout bounds one send. Defaults to 5 s.
	SendTimeout time.Duration
	// MinBackoff is the wait after a row's first failed send; it doubles.
	// Defaults to 200 ms.
	MinBackoff time.Duration
	// MaxBackoff is the longest wait. Defaults to 30 s.
	MaxBackoff time.Duration
	// MaxAttempts parks a row that failed so often while other rows were sent. A
	// refusal with CodePermanent parks at once; one with CodeUnavailable does not
	// count, for a queue that is full takes nobody's message but a lucky one's.
	// Defaults to 20.
	MaxAttempts int
	// ParkAfter parks a row that failed MaxAttempts times, and for so long, whether
	// or not anything else is sent: a merchant that is alone with a bad row waits no
	// longer. An outage of the queue that is shorter parks nothing.
	//
	// How long a row has failed is told by its stored attempts: the shortest time
	// that they can have taken. So neither a row that waited for a relay, nor one
	// that was redriven, is parked for its age, and no clock is compared. Since the
	// waits are between half and all of the backoff, it is parked within about two
	// ParkAfter. Defaults to 24 h.
	ParkAfter time.Duration
	// Check refuses a row that must not be sent; it is parked with the error as
	// the reason. Defaults to accepting every row.
	Check func(retryproof.Event) error
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Rand makes the relay's token and jitter. Defaults to entropy.System().
	Rand entropy.Source
	// Observe is told one of the Saw… constants, with the event. Defaults to nothing.
	Observe func(what string, e retryproof.Event)
}

// What a relay reports to Config.Observe.
const (
	SawSent   = "sent"   // the queue has the event
	SawFailed = "failed" // the queue did not take it, or nobody knows
	SawParked = "parked" // its row waits for a person
	SawFenced = "fenced" // it was sent, and its row is another relay's by now
)

func (c Config) withDefaults() Config {
	if c.Batch == 0 {
		c.Batch = 64
	}
	if c.Lease == 0 {
		c.Lease = 15 * time.Second
	}
	if c.SendTimeout == 0 {
		c.SendTimeout = 5 * time.Second
	}
	if c.MinBackoff == 0 {
		c.MinBackoff = 200 * time.Millisecond
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = 30 * time.Second
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 20
	}
	if c.ParkAfter == 0 {
		c.ParkAfter = 24 * time.Hour
	}
	if c.Check == nil {
		c.Check = func(retryproof.Event) error { return nil }
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Rand == nil {
		c.Rand = entropy.System()
	}
	if c.Observe == nil {
		c.Observe = func(string, retryproof.Event) {}
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Batch < 0 || c.MaxAttempts < 0 {
		errs = append(errs, fmt.Errorf("outbox: Batch %d and MaxAttempts %d must not be negative", c.Batch, c.MaxAttempts))
	}
	if c.SendTimeout < 0 || c.ParkAfter < 0 {
		errs = append(errs, fmt.Errorf("outbox: SendTimeout is %v and ParkAfter %v, must not be negative", c.SendTimeout, c.ParkAfter))
	}
	if c.Lease <= c.SendTimeout {
		errs = append(errs, fmt.Errorf("outbox: Lease > SendTimeout fails: %v ≤ %v: a lease would end during a send", c.Lease, c.SendTimeout))
	}
	if c.MinBackoff < 0 || c.MaxBackoff < c.MinBackoff {
		errs = append(errs, fmt.Errorf("outbox: 0 ≤ MinBackoff ≤ MaxBackoff fails: %v, %v", c.MinBackoff, c.MaxBackoff))
	}
	return errors.Join(errs...)
}

// Relay publishes the outbox. RunOnce of one relay must not run twice at a time;
// several relays may.
type Relay struct {
	store  Store
	queue  Publisher
	config Config
	token  string
	// lastSent tells an outage of the queue from a row that cannot be sent.
	lastSent time.Time
	// turnedAway counts how often in a row the queue took nothing of a row, so that
	// its wait grows although its attempts do not. Lost with the relay: the wait
	// grows again from MinBackoff.
	turnedAway map[string]int
}

// maxTurnedAway bounds that memory; rows that other relays sent stay in it.
const maxTurnedAway = 10_000

// NewRelay returns a relay with a token of its own.
func NewRelay(store Store, publisher Publisher, config Config) (*Relay, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Relay{store: store, queue: publisher, config: config, token: "relay-" + entropy.Token(config.Rand), turnedAway: map[string]int{}}, nil
}

// RunOnce claims one batch and publishes it. It returns how many rows it sent and
// deleted, or parked.
func (r *Relay) RunOnce(ctx context.Context) (int, error) {
	now := r.config.Clock.Now()
	until := now.Add(r.config.Lease)
	rows, err := r.claim(ctx, now, until)
	if err != nil {
		return 0, err
	}
	parked := 0
	var sent []Row
	var held []string // groups whose head failed in this batch
	var failures []error
	for _, row := range rows {
		now := r.config.Clock.Now()
		late := ctx.Err() != nil || now.Add(r.config.SendTimeout).After(until)
		if late || slices.Contains(held, row.Group) {
			// Give it back: the lease could end during the send, or an earlier
			// event of its group failed and order comes before speed.
			failures = append(failures, r.giveBack(ctx, Defer{EventID: row.ID, NextAt: now, Untried: true}))
			continue
		}
		became, err := r.publish(ctx, row)
		switch became {
		case rowSent:
			sent = append(sent, row)
		case rowParked:
			parked++
		default:
			held = append(held, row.Group)
		}
		failures = append(failures, err)
	}
	deleted, err := r.deleteSent(ctx, sent)
	return deleted + parked, errors.Join(append(failures, err)...)
}

// claim asks for a batch, for no longer than a send may take: rows that come later
// could not be sent before their lease ends.
func (r *Relay) claim(ctx context.Context, now, until time.Time) ([]Row, error) {
	ctx, cancel := r.config.Clock.WithTimeout(ctx, r.config.SendTimeout)
	defer cancel()
	return r.store.Claim(ctx, Claim{Relay: r.token, Now: now, Until: until, Limit: r.config.Batch})
}

// fate is what became of a row; its group goes on unless it is held.
type fate int

const (
	rowHeld fate = iota
	rowSent
	rowParked
)

// publish sends one row.
func (r *Relay) publish(ctx context.Context, row Row) (fate, error) {
	if err := r.config.Check(row.Event); err != nil {
		return r.park(ctx, row, err)
	}
	sendCtx, cancel := r.config.Clock.WithTimeout(ctx, r.config.SendTimeout)
	err := r.queue.Send(sendCtx, queue.Message{ID: row.ID, Group: row.Group, Type: row.Type, Body: row.Body})
	cancel()
	if err == nil {
		delete(r.turnedAway, row.ID)
		r.lastSent = r.config.Clock.Now()
		r.config.Observe(SawSent, row.Event)
		return rowSent, nil
	}
	r.config.Observe(SawFailed, row.Event)
	if retryproof.CodeOf(err) == retryproof.CodeUnavailable {
		return rowHeld, r.tryLater(ctx, row, err, row.Attempts+r.turnAway(row.ID), true)
	}
	delete(r.turnedAway, row.ID)
	permanent := retryproof.OutcomeOf(err) == retryproof.NotDone && retryproof.CodeOf(err) == retryproof.CodePermanent
	alive := !r.lastSent.IsZero() && r.config.Clock.Now().Sub(r.lastSent) < 2*r.config.MaxBackoff
	if permanent || row.Attempts >= r.config.MaxAttempts && (alive || r.failedFor(row.Attempts) >= r.config.ParkAfter) {
		return r.park(ctx, row, err)
	}
	return rowHeld, r.tryLater(ctx, row, err, row.Attempts, false)
}

// turnAway notes that the queue took nothing of a row, and returns how often it had
// done so before.
func (r *Relay) turnAway(id string) int {
	before := r.turnedAway[id]
	if len(r.turnedAway) >= maxTurnedAway {
		clear(r.turnedAway)
	}
	r.turnedAway[id] = before + 1
	return before
}

// tryLater gives a row back that was not sent, to be tried after the wait of so many
// failures. Untried leaves its attempts as they were before.
func (r *Relay) tryLater(ctx context.Context, row Row, cause error, failures int, untried bool) error {
	wait := r.waits().After(failures)
	wait = wait/2 + time.Duration(entropy.Fraction(r.config.Rand)*float64(wait/2))
	err := r.giveBack(ctx, Defer{EventID: row.ID, NextAt: r.config.Clock.Now().Add(wait), Reason: clip.Text(cause.Error(), clip.Reason), Untried: untried})
	return errors.Join(fmt.Errorf("outbox: send %s: %w", row.ID, cause), err)
}

// failedFor is the shortest time from a row's first try to the last of so many.
// Between two tries lies half of a wait at least, or the lease of a relay that died
// with the row.
func (r *Relay) failedFor(attempts int) time.Duration {
	return r.waits().AtLeast(attempts, r.config.Lease)
}

func (r *Relay) waits() backoff.Doubling {
	return backoff.Doubling{Min: r.config.MinBackoff, Max: r.config.MaxBackoff}
}

// writeContext lets the bookkeeping of a row outlive a relay that is told to stop:
// otherwise what it sent is sent again, and what it holds waits for the lease's end.
func (r *Relay) writeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return r.config.Clock.WithTimeout(context.WithoutCancel(ctx), r.config.SendTimeout)
}

func (r *Relay) giveBack(ctx context.Context, d Defer) error {
	ctx, cancel := r.writeContext(ctx)
	defer cancel()
	d.Relay = r.token
	_, err := r.store.Defer(ctx, d)
	return err
}

// deleteSent removes the rows of a batch that the queue has, and returns how many.
// Together, since a commit for each would take most of a relay's time. When that fails
// they are sent again later, under the same ids and in the same order. What is no longer
// leased to this relay is another's now.
func (r *Relay) deleteSent(ctx context.Context, rows []Row) (int, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	ctx, cancel := r.writeContext(ctx)
	defer cancel()
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	deleted, err := r.store.Delete(ctx, r.token, ids)
	if err != nil {
		return 0, fmt.Errorf("outbox: delete what was sent: %w", err)
	}
	for _, row := range rows {
		if !slices.Contains(deleted, row.ID) {
			r.config.Observe(SawFenced, row.Event)
		}
	}
	return len(deleted), nil
}

func (r *Relay) park(ctx context.Context, row Row, cause error) (fate, error) {
	ctx, cancel := r.writeContext(ctx)
	defer cancel()
	parked, err := r.store.Park(ctx, Park{Relay: r.token, EventID: row.ID, Now: r.config.Clock.Now(), Reason: clip.Text(cause.Error(), clip.Reason)})
	if !parked {
		return rowHeld, err
	}
	delete(r.turnedAway, row.ID)
	r.config.Observe(SawParked, row.Event)
	return rowParked, err
}
