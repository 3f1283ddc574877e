package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/retryproof/retryproof/clock"
)

// simContext is a context whose deadline is virtual. It is found again through
// Value, below any number of standard contexts, so that a parked task can be woken
// in the scheduler's order and without a goroutine.
type simContext struct {
	// Context is the parent. A standard one may end by itself.
	context.Context
	above    *simContext
	deadline time.Time
	// at is the deadline in true time. A timer is set only when somebody may wait
	// beyond it: most contexts are over long before.
	at      time.Duration
	timer   *timer
	s       *Scheduler
	waiting []waiter
	room    [2]waiter // for waiting
	over    bool
	why     error
	// standard is what standard children attach to, made when the first one asks.
	standard context.Context
	stop     context.CancelCauseFunc
}

// waiter is who is told of the end of a context: a child, or a parked task.
type waiter struct {
	child *simContext
	task  *task
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
	if c.isOver() { // context.Cause asks this way, and must not find a parent's
		return c.std().Value(key)
	}
	if c.standard != nil {
		return c.standard.Value(key)
	}
	return c.Context.Value(key)
}

// Deadline is in the clock of the process that set it.
func (c *simContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done is for standard children; whoever waits in the simulator is a waiter.
func (c *simContext) Done() <-chan struct{} { return c.std().Done() }

func (c *simContext) std() context.Context {
	if c.standard == nil {
		c.standard, c.stop = context.WithCancelCause(c.Context)
		if c.isOver() {
			c.stop(c.why)
		} else {
			c.arm()
		}
	}
	return c.standard
}

// Err is the cause: a virtual deadline is DeadlineExceeded.
func (c *simContext) Err() error {
	switch {
	case !c.isOver():
		return c.Context.Err()
	case errors.Is(c.why, context.DeadlineExceeded):
		return context.DeadlineExceeded
	}
	return context.Canceled
}

func (c *simContext) cause() error {
	if c.isOver() {
		return c.why
	}
	return context.Cause(c.Context)
}

// isOver reports whether the context has ended, which it may find out now.
func (c *simContext) isOver() bool {
	if !c.over && c.s.now >= c.at {
		c.end(context.DeadlineExceeded)
	}
	return c.over
}

// arm lets the context end by itself at its deadline.
func (c *simContext) arm() {
	if c.timer == nil && !c.over {
		c.timer = c.s.at(c.at, nil, nil)
		c.timer.context = c
	}
}

// armUntil arms what ends within a wait.
func (c *simContext) armUntil(wake time.Duration) {
	for ; c != nil; c = c.above {
		if c.at <= wake {
			c.arm()
		}
	}
}

// leave cancels a waiter's notification.
func (c *simContext) leave(w waiter) {
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
}

func (c *simContext) end(cause error) {
	if c.over {
		return
	}
	if c.Context.Err() != nil { // the parent was faster
		cause = context.Cause(c.Context)
	}
	c.over, c.why = true, cause
	c.s.drop(c.timer)
	c.timer = nil
	if c.above != nil {
		c.above.leave(waiter{child: c})
	}
	if c.stop != nil {
		c.stop(cause)
	}
	told := c.waiting
	c.waiting = nil
	for _, w := range told {
		if w.child != nil {
			w.child.end(cause)
		} else {
			c.s.wakeEarly(w.task, cause)
		}
	}
}

// endable reports whether the context may end: none does behind
// context.WithoutCancel, which hides deadlines, and every one of ours has one.
func endable(ctx context.Context) bool {
	_, bounded := ctx.Deadline()
	return bounded
}

// newContext returns a child that ends after d of virtual time.
func (s *Scheduler) newContext(parent context.Context, d time.Duration, deadline time.Time) (*simContext, context.CancelFunc) {
	c := &simContext{Context: parent, s: s, deadline: deadline, at: s.now + d}
	c.waiting = c.room[:0]
	if endable(parent) && parent.Err() == nil {
		if above := simOf(parent); above != nil {
			c.above = above
			above.waiting = append(above.waiting, waiter{child: c})
		}
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

// waitable is the context to wait on: none when the given one cannot end.
func waitable(ctx context.Context) *simContext {
	if !endable(ctx) {
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
