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
//     step has succeeded, on the first delivery or a repeat.
//
// Does not promise: order. The queue orders a group; use versions where the order
// of effects matters.
//
// Crash points: before the commit, nothing happened and the message comes again;
// after the commit, the repeat skips the effect, runs the follow-up and deletes;
// after the delete, done.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/queue"
)

// Source is the queue, as a consumer needs it.
type Source interface {
	// Receive returns up to limit due messages, none when nothing is due.
	Receive(ctx context.Context, limit int) ([]queue.Delivery, error)
	// Finish deletes the message.
	Finish(ctx context.Context, d queue.Delivery) error
	// Retry makes it due again after delay.
	Retry(ctx context.Context, d queue.Delivery, delay time.Duration) error
}

// Handler turns a message into what to write. It reads and decides; it must not
// act outside. An error makes the message come again later.
type Handler func(ctx context.Context, d queue.Delivery) (Apply, error)

// Config sets a consumer. The zero value works.
type Config struct {
	// Batch is how many messages are received at a time. Defaults to 1: what is
	// received waits invisibly while the ones before it are handled.
	Batch int
	// MinBackoff is the wait after a message's first failure; it doubles.
	// Defaults to 1 s.
	MinBackoff time.Duration
	// MaxBackoff is the longest wait. Defaults to 1 min.
	MaxBackoff time.Duration
	// After finishes what follows the effect, such as a notification. It runs on
	// the first delivery and on every repeat. Defaults to nothing.
	After func(ctx context.Context, d queue.Delivery) error
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Observe is told "applied", "repeat" and "failed", with the delivery.
	// Defaults to nothing.
	Observe func(what string, d queue.Delivery)
}

// Consumer applies the messages of a source. Safe for concurrent use when the
// source is.
type Consumer struct {
	source Source
	store  Store
	handle Handler
	config Config
}

// NewConsumer returns a consumer.
func NewConsumer(source Source, store Store, handle Handler, config Config) (*Consumer, error) {
	if config.Batch < 0 || config.MinBackoff < 0 || config.MaxBackoff < 0 {
		return nil, fmt.Errorf("inbox: Batch, MinBackoff and MaxBackoff must not be negative")
	}
	if config.Batch == 0 {
		config.Batch = 1
	}
	if config.MinBackoff == 0 {
		config.MinBackoff = time.Second
	}
	if config.MaxBackoff == 0 {
		config.MaxBackoff = time.Minute
	}
	if config.After == nil {
		config.After = func(context.Context, queue.Delivery) error { return nil }
	}
	if config.Clock == nil {
		config.Clock = clock.System()
	}
	if config.Observe == nil {
		config.Observe = func(string, queue.Delivery) {}
	}
	return &Consumer{source: source, store: store, handle: handle, config: config}, nil
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
		if err := c.apply(ctx, d); err != nil {
			c.config.Observe("failed", d)
			retryErr := c.source.Retry(ctx, d, c.backoff(d.Attempt))
			if retryErr == nil {
				done++
			}
			failures = append(failures, fmt.Errorf("inbox: %s: %w", d.ID, err), retryErr)
			continue
		}
		if err := c.source.Finish(ctx, d); err != nil {
			failures = append(failures, err) // it comes again and is a repeat
			continue
		}
		done++
	}
	return done, errors.Join(failures...)
}

func (c *Consumer) apply(ctx context.Context, d queue.Delivery) error {
	a, err := c.handle(ctx, d)
	if err != nil {
		return err
	}
	first, err := c.store.Apply(ctx, a)
	if err != nil {
		return err
	}
	if first {
		c.config.Observe("applied", d)
	} else {
		c.config.Observe("repeat", d)
	}
	return c.config.After(ctx, d)
}

func (c *Consumer) backoff(attempt int) time.Duration {
	wait := c.config.MinBackoff
	for range attempt - 1 {
		if wait >= c.config.MaxBackoff/2 {
			return c.config.MaxBackoff
		}
		wait *= 2
	}
	return min(wait, c.config.MaxBackoff)
}
