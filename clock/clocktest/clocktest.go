// Package clocktest has a clock for tests: time moves only when somebody sleeps
// on it or moves it, and then at once.
package clocktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/retryproof/retryproof/clock"
)

// Clock is a clock.Clock in virtual time, safe for concurrent use. Sleep moves
// the time itself and returns at once, so that a test of one goroutine never
// waits. Deadlines made by WithTimeout end when the time reaches them.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*timer // in the order in which they were made
}

var _ clock.Clock = (*Clock)(nil)

type timer struct {
	at   time.Time
	stop context.CancelCauseFunc
}

// New returns a clock that stands at start.
func New(start time.Time) *Clock {
	return &Clock{now: start.UTC().Truncate(clock.Precision)}
}

// Now is the virtual time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the time by d, ending every deadline on the way, earliest first.
func (c *Clock) Advance(d time.Duration) {
	_ = c.advance(context.Background(), d)
}

// Sleep moves the time by d, or up to the moment at which ctx ends; then it
// returns context.Cause(ctx).
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.advance(ctx, d)
}

func (c *Clock) advance(ctx context.Context, d time.Duration) error {
	target := c.Now().Add(d)
	for ctx.Err() == nil {
		t := c.step(target)
		if t == nil {
			return nil
		}
		t.stop(context.DeadlineExceeded)
	}
	return context.Cause(ctx)
}

// step takes the earliest deadline up to target off the list and moves the time
// to it; without one it moves the time to target.
func (c *Clock) step(target time.Time) *timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := -1
	for i, t := range c.timers {
		if !t.at.After(target) && (first < 0 || t.at.Before(c.timers[first].at)) {
			first = i
		}
	}
	if first < 0 {
		if target.After(c.now) {
			c.now = target
		}
		return nil
	}
	t := c.timers[first]
	c.drop(t)
	if t.at.After(c.now) {
		c.now = t.at
	}
	return t
}

func (c *Clock) drop(t *timer) {
	for i, have := range c.timers {
		if have == t {
			c.timers = append(c.timers[:i], c.timers[i+1:]...)
			return
		}
	}
}

// WithTimeout ends the context when the virtual time has moved by d.
func (c *Clock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	inner, stop := context.WithCancelCause(ctx)
	t := &timer{stop: stop}
	c.mu.Lock()
	t.at = c.now.Add(d)
	c.timers = append(c.timers, t)
	c.mu.Unlock()
	if d <= 0 {
		stop(context.DeadlineExceeded)
	}
	out := &deadline{Context: inner, at: t.at}
	if outer, ok := ctx.Deadline(); ok && outer.Before(out.at) {
		out.at = outer
	}
	return out, func() {
		c.mu.Lock()
		c.drop(t)
		c.mu.Unlock()
		stop(context.Canceled)
	}
}

// deadline makes Deadline and Err of the inner context tell the virtual truth.
type deadline struct {
	context.Context
	at time.Time
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadline) Err() error {
	err := d.Context.Err()
	if err != nil && errors.Is(context.Cause(d.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}
