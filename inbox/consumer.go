// Package inbox applies each message once (mission E3): the message's id is
// recorded in the transaction of its effect, so that a repeat finds it there and
// changes nothing, and a repeat still finishes what the first delivery may have
// left unfinished (mission B8).
//
// Promises:
//   - the effect of a message is written once per consumer, however often, by
//     whichever worker and after whatever time it is delivered;
//   - the id is recorded only together with the effect, so that a handler that
//     fails or says "later" loses nothing;
//   - a message is deleted only after its effect is committed and the follow-up
//     step has succeeded, on the first delivery or a repeat, or after it was set
//     aside with a reason (Config.Parked), whole, for a person;
//   - what takes longer than Config.Budget, and what panics, is a failure like any
//     other: the message waits, can be set aside, and other messages go on.
//
// Does not promise: order. The queue orders a group; use versions where the order
// of effects matters. A message that fails holds back its group until it is applied
// or set aside; later ones of its group overtake it then. Without Config.Parked it is
// tried forever. Nor one handler at a time: one that does not heed its context may
// still run when its message is delivered again. Nor a life after runtime.Goexit: it
// counts as a failure, and ends the goroutine.
//
// Crash points: before the commit, nothing happened and the message comes again;
// after the commit, the repeat skips the effect, runs the follow-up and deletes;
// after it was set aside, the message comes again, is applied or found set aside, and
// is deleted; after the delete, done. A delivery that ended before its message could
// be deleted is reported ("late"), and the message comes again.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/internal/backoff"
	"github.com/retryproof/retryproof/queue"
)

// Source is the queue, as a consumer needs it.
type Source interface {
	// Receive returns up to limit due messages, none when nothing is due.
	Receive(ctx context.Context, limit int) ([]queue.Delivery, error)
	// Finish deletes the message; false when the delivery had ended before: nothing
	// changed, and the message may come again.
	Finish(ctx context.Context, d queue.Delivery) (bool, error)
	// Retry makes it due again after delay.
	Retry(ctx context.Context, d queue.Delivery, delay time.Duration) error
}

// Handler turns a message into what to write. It reads and decides; it must not
// act outside. An error makes the message come again later, and so does a panic. Its
// context ends when Config.Budget is used up.
type Handler func(ctx context.Context, d queue.Delivery) (Apply, error)

// Config sets a consumer. The zero value works.
type Config struct {
	// Batch is how many messages are received at a time. Defaults to 1: what is
	// received waits invisibly while the ones before it are handled.
	Batch int
	// Visibility is the queue's visibility timeout: how long a delivery is this
	// consumer's alone. Defaults to 30 s, as the queue drivers' does.
	Visibility time.Duration
	// Budget is how long the handler, the write and the follow-up of one message may
	// take together: then their context ends, and the message has failed. Without it a
	// message that always takes longer than Visibility would be handled by one worker
	// after the other and never finished. Batch × Budget must be less than Visibility;
	// what is left is for the delete. Defaults to four fifths of Visibility / Batch,
	// 24 s.
	Budget time.Duration
	// MinBackoff is the wait after a message's first failure; it doubles.
	// Defaults to 1 s.
	MinBackoff time.Duration
	// MaxBackoff is the longest wait. Defaults to 1 min.
	MaxBackoff time.Duration
	// After finishes what follows the effect, such as a notification. It runs on
	// the first delivery and on every repeat. Defaults to nothing.
	After func(ctx context.Context, d queue.Delivery) error
	// Parked keeps messages that are set aside. Defaults to none: a message that
	// fails is tried forever and holds back its group.
	Parked ParkedStore
	// Consumer names this consumer in those records; needed with Parked, and better
	// the InboxKey.Consumer of what Handler returns. Defaults to "".
	Consumer string
	// MaxAttempts sets a message aside that was delivered so often while others were
	// finished. An error of Handler that is NotDone with CodePermanent does it at once;
	// one of After does not, for it may be the fault of every message, such as a wrong
	// address. An error that speaks of others than the message (CodeUnavailable,
	// CodeReadOnly, CodeConflict, CodeTooMany) sets it aside only by ParkAfter.
	// Defaults to 20: about a quarter of an hour.
	MaxAttempts int
	// ParkAfter sets a message aside that was delivered MaxAttempts times and has
	// failed for so long, whether or not any other is finished; an outage that is
	// shorter sets nothing aside. The time is told by the number of deliveries, as the
	// shortest that they can have taken, so that none is set aside for having waited
	// while no consumer ran: it is set aside within two ParkAfter. Defaults to 24 h.
	ParkAfter time.Duration
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Observe is told one of the Saw… constants, with the delivery. Defaults to nothing.
	Observe func(what string, d queue.Delivery)
	// Log gets one line, with the stack, when a handler or a follow-up panics.
	// Defaults to slog.Default().
	Log *slog.Logger
}

// What a consumer reports to Config.Observe.
const (
	SawApplied = "applied" // a message had its effect
	SawRepeat  = "repeat"  // a message had had it before, and nothing was written
	SawFailed  = "failed"  // a message had no effect, or what follows it failed
	SawParked  = "parked"  // a message was set aside for a person
	SawLate    = "late"    // a delivery ended before its message could be deleted
)

// Consumer applies the messages of a source. Safe for concurrent use when the
// source is.
type Consumer struct {
	source Source
	store  Store
	handle Handler
	config Config
	// lastDone is when a message was finished last, in nanoseconds since 1970; 0 for
	// never. It tells an outage from a message that cannot be applied.
	lastDone atomic.Int64
}

// Validate returns everything that is wrong with the configuration at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Batch < 0 || c.MaxAttempts < 0 || c.ParkAfter < 0 {
		errs = append(errs, fmt.Errorf("inbox: Batch %d, MaxAttempts %d and ParkAfter %v must not be negative", c.Batch, c.MaxAttempts, c.ParkAfter))
	}
	if c.Visibility <= 0 || c.Budget <= 0 || c.Batch > 0 && c.Budget > (c.Visibility-1)/time.Duration(c.Batch) {
		errs = append(errs, fmt.Errorf("inbox: 0 < Batch × Budget < Visibility fails: %d × %v, %v: a message would be delivered again while it is handled", c.Batch, c.Budget, c.Visibility))
	}
	if c.MinBackoff < 0 || c.MaxBackoff < c.MinBackoff {
		errs = append(errs, fmt.Errorf("inbox: 0 ≤ MinBackoff ≤ MaxBackoff fails: %v, %v", c.MinBackoff, c.MaxBackoff))
	}
	if (c.Parked == nil) != (c.Consumer == "") {
		errs = append(errs, errors.New("inbox: Parked needs Consumer, the name of the records' owner, and the other way round"))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Batch == 0 {
		c.Batch = 1
	}
	if c.Visibility == 0 {
		c.Visibility = 30 * time.Second
	}
	if c.Budget == 0 {
		c.Budget = c.Visibility / 5 * 4 / time.Duration(c.Batch)
	}
	if c.MinBackoff == 0 {
		c.MinBackoff = time.Second
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = max(time.Minute, c.MinBackoff)
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 20
	}
	if c.ParkAfter == 0 {
		c.ParkAfter = 24 * time.Hour
	}
	if c.After == nil {
		c.After = func(context.Context, queue.Delivery) error { return nil }
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Observe == nil {
		c.Observe = func(string, queue.Delivery) {}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// NewConsumer returns a consumer.
func NewConsumer(source Source, store Store, handle Handler, config Config) (*Consumer, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Consumer{source: source, store: store, handle: handle, config: config.withDefaults()}, nil
}

// RunOnce receives and applies one batch. It returns how many messages it
// finished or put back: a message that fails waits for its own time, and must not
// slow down the next one. The error tells of all that failed.
func (c *Consumer) RunOnce(ctx context.Context) (int, error) {
	deliveries, err := c.source.Receive(ctx, c.config.Batch)
	if err != nil {
		return 0, err
	}
	done := 0
	var failures []error
	for _, d := range deliveries {
		left, err := c.deliver(ctx, d)
		if left {
			done++
		}
		failures = append(failures, err)
	}
	return done, errors.Join(failures...)
}

// deliver applies one message and ends its delivery, and reports whether it could: a
// message is deleted when it was applied or set aside, and put back when it failed.
// One that could not be left comes again.
func (c *Consumer) deliver(ctx context.Context, d queue.Delivery) (left bool, err error) {
	if c.isParked(ctx, d) {
		return c.finish(ctx, d)
	}
	returned := false
	defer func() {
		if !returned { // no panic comes this far
			_, _ = c.fail(ctx, d, errGoexit)
		}
	}()
	cause := c.applyInTime(ctx, d)
	returned = true
	if cause != nil {
		return c.fail(ctx, d, cause)
	}
	if left, err = c.finish(ctx, d); left {
		c.lastDone.Store(c.config.Clock.Now().UnixNano())
	} else if errors.Is(err, errLate) {
		_, err = c.fail(ctx, d, err)
	}
	return left, err
}

var (
	// errLate: the queue knew the delivery no longer, and deleted nothing.
	errLate   = errors.New("its delivery ended before it could be deleted: it comes again")
	errGoexit = errors.New("its handler or follow-up called runtime.Goexit")
)

// finish deletes a message.
func (c *Consumer) finish(ctx context.Context, d queue.Delivery) (bool, error) {
	deleted, err := c.source.Finish(ctx, d)
	if err == nil && !deleted {
		c.config.Observe(SawLate, d)
		err = errLate
	}
	return deleted && err == nil, err
}

// fail leaves a message that failed: it is set aside, or put back to wait. The error
// tells of the failure, and of what could not be done about it.
func (c *Consumer) fail(ctx context.Context, d queue.Delivery, cause error) (left bool, err error) {
	late := errors.Is(cause, errLate)
	if !late { // else it was told
		c.config.Observe(SawFailed, d)
	}
	parked := false
	if c.mustPark(d, cause) {
		err = c.park(ctx, d, cause)
		parked = err == nil
	}
	var leaveErr error
	switch {
	case late: // the delivery is not ours to end; the next one finds it set aside
	case parked:
		left, leaveErr = c.finish(ctx, d)
	default:
		leaveErr = c.source.Retry(ctx, d, c.waits().After(d.Attempt))
		left = leaveErr == nil
	}
	return left, errors.Join(fmt.Errorf("inbox: %s: %w", d.ID, cause), err, leaveErr)
}

// unhandled is an error of the handler, before anything was written.
type unhandled struct{ error }

func (u *unhandled) Unwrap() error { return u.error }

// applyInTime applies a message within the budget. A failure after its end is the
// message's own, whatever the error says of others: they were cut off.
func (c *Consumer) applyInTime(ctx context.Context, d queue.Delivery) error {
	timed, cancel := c.config.Clock.WithTimeout(ctx, c.config.Budget)
	defer cancel()
	err := c.apply(timed, d)
	if err != nil && context.Cause(timed) != nil && context.Cause(ctx) == nil {
		return &retryproof.Error{Code: retryproof.CodeUnknown, Message: fmt.Sprintf("it took longer than its budget of %v", c.config.Budget), Err: err}
	}
	return err
}

func (c *Consumer) apply(ctx context.Context, d queue.Delivery) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = c.panicked(d, value)
		}
	}()
	a, err := c.handle(ctx, d)
	if err != nil {
		return &unhandled{err}
	}
	if a.Now.IsZero() {
		a.Now = c.config.Clock.Now()
	}
	first, err := c.store.Apply(ctx, a)
	if err != nil {
		return err
	}
	if first {
		c.config.Observe(SawApplied, d)
	} else {
		c.config.Observe(SawRepeat, d)
	}
	return c.config.After(ctx, d)
}

func (c *Consumer) waits() backoff.Doubling {
	return backoff.Doubling{Min: c.config.MinBackoff, Max: c.config.MaxBackoff}
}
