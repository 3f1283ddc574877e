package sim

import (
	"context"
	"errors"
	"time"

	"github.com/retryproof/retryproof/clock"
)

// simContext is a context whose deadline is virtual. It is found again through
// Value, below any number of standard contexts, so that a parked task can be woken
// in the scheduler's order and without a goroutine.
type simContext struct {
	context.Context
	cancel   context.CancelCauseFunc
	parent   *simContext
	deadline time.Time
	timer    *timer
	s        *Scheduler
	hooks    []*hook
	off      func()
	over     bool
}

type hook struct {
	run  func()
	dead bool
}

type contextKey struct{}

// simOf returns the nearest simulator context, nil when there is none.
func simOf(ctx context.Context) *simContext {
	c, _ := ctx.Value(contextKey{}).(*simContext)
	return c
}

// Value finds the context itself.
func (c *simContext) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Deadline is in the clock of the process that set it.
func (c *simContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Err is the cause: a virtual deadline is DeadlineExceeded.
func (c *simContext) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	if errors.Is(context.Cause(c.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

func (c *simContext) ended() bool { return c.Context.Err() != nil }

func (c *simContext) cause() error { return context.Cause(c.Context) }

// onEnd registers what to do when the context ends; the returned function takes
// it back.
func (c *simContext) onEnd(run func()) func() {
	h := &hook{run: run}
	c.hooks = append(c.hooks, h)
	return func() { h.dead = true }
}

func (c *simContext) end(cause error) {
	if c.over {
		return
	}
	c.over = true
	c.s.drop(c.timer)
	c.timer = nil
	if c.off != nil {
		c.off()
	}
	c.cancel(cause)
	for i := 0; i < len(c.hooks); i++ {
		if !c.hooks[i].dead {
			c.hooks[i].run()
		}
	}
	c.hooks = nil
}

// newContext returns a child that ends after d of virtual time; d < 0 is never.
func (s *Scheduler) newContext(parent context.Context, d time.Duration, deadline time.Time) (*simContext, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(parent)
	c := &simContext{Context: inner, cancel: cancel, s: s, deadline: deadline}
	if parent.Err() == nil { // context.WithoutCancel hides an ended parent, rightly
		if above := simOf(parent); above != nil && above.Context.Err() == nil && parent.Done() != nil {
			c.parent = above
			c.off = above.onEnd(func() { c.end(above.cause()) })
		}
	}
	if d >= 0 {
		c.timer = s.at(s.now+d, nil, func() { c.timer = nil; c.end(context.DeadlineExceeded) })
	}
	return c, func() { c.end(context.Canceled) }
}

// processClock is the clock.Clock that a process is handed.
type processClock struct{ p *Process }

var _ clock.Clock = processClock{}

// Clock is the process's clock.
func (p *Process) Clock() clock.Clock { return processClock{p} }

func (c processClock) Now() time.Time { return c.p.clockNow() }

// real is how much true time passes while the process's clock counts d.
func (c processClock) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / (1 + c.p.drift))
}

func (c processClock) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := c.p.scheduler.wait(waitable(ctx), c.real(d))
	c.p.resumeAfterPause()
	return err
}

// waitable is the context to wait on: none when the standard context cannot end.
func waitable(ctx context.Context) *simContext {
	if ctx.Done() == nil {
		return nil
	}
	return simOf(ctx)
}

func (c processClock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	deadline := c.p.clockNow().Add(d)
	if above, ok := ctx.Deadline(); ok && above.Before(deadline) {
		deadline = above
	}
	sc, cancel := c.p.scheduler.newContext(ctx, max(c.real(d), 0), deadline)
	return sc, cancel
}
