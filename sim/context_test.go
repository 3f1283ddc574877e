package sim

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAVirtualDeadlineEndsStandardChildrenAtItsTime(t *testing.T) {
	t.Parallel()
	s := NewScheduler(1)
	p := NewProcess(s, "p", 0, 0)
	type name struct{}
	var woken time.Duration
	s.Go(p, 0, func() {
		ctx, cancel := p.Clock().WithTimeout(context.WithValue(background, name{}, "v"), time.Hour)
		defer cancel()
		child, stop := context.WithCancel(context.WithValue(ctx, name{}, "w"))
		defer stop()
		if child.Err() != nil || context.Cause(child) != nil || context.Cause(ctx) != nil {
			t.Errorf("got %v %v before the end", child.Err(), context.Cause(child))
		}
		err := p.Clock().Sleep(child, 2*time.Hour)
		woken = s.Now()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(context.Cause(child), context.DeadlineExceeded) || child.Err() == nil {
			t.Errorf("got %v, the child's cause %v, want the deadline", err, context.Cause(child))
		}
		if ctx.Err() != context.DeadlineExceeded || context.Cause(ctx) != context.DeadlineExceeded { //nolint:errorlint // exactly
			t.Errorf("got %v, cause %v, want the deadline", ctx.Err(), context.Cause(ctx))
		}
	})
	s.Run(3 * time.Hour)
	s.Close([]*Process{p})
	if woken != time.Hour {
		t.Errorf("woken at %v, want 1h", woken)
	}
}

func TestAContextEndsWithItsParentUnlessItIsCutOff(t *testing.T) {
	t.Parallel()
	s := NewScheduler(1)
	p := NewProcess(s, "p", 0, 0)
	standard, stopStandard := context.WithCancelCause(background)
	reason := errors.New("reason")
	type name struct{}
	s.Go(p, 0, func() {
		clock := p.Clock()
		parent, cancel := clock.WithTimeout(standard, time.Minute)
		child, cancelChild := clock.WithTimeout(context.WithValue(parent, name{}, "v"), time.Hour)
		cut, cancelCut := clock.WithTimeout(context.WithoutCancel(parent), time.Hour)
		defer cancelChild()
		defer cancelCut()
		if at, ok := child.Deadline(); !ok || !at.Equal(Epoch.Add(time.Minute)) {
			t.Errorf("the child's deadline is %v %v, want the parent's", at, ok)
		}
		cancel()
		if child.Err() != context.Canceled || context.Cause(child) != context.Canceled { //nolint:errorlint // exactly
			t.Errorf("the child: got %v, want the parent's end", child.Err())
		}
		if parent.Err() != context.Canceled || cut.Err() != nil || context.Cause(cut) != nil { //nolint:errorlint // exactly
			t.Errorf("got %v and %v behind WithoutCancel", parent.Err(), cut.Err())
		}
		if err := clock.Sleep(cut, time.Minute); err != nil {
			t.Errorf("got %v behind WithoutCancel", err)
		}
		other, cancelOther := clock.WithTimeout(standard, time.Hour)
		defer cancelOther()
		stopStandard(reason)
		if other.Err() != context.Canceled || context.Cause(other) != reason || clock.Sleep(other, time.Second) != reason { //nolint:errorlint // exactly
			t.Errorf("got %v, cause %v, want the standard parent's", other.Err(), context.Cause(other))
		}
	})
	s.Run(time.Hour)
	s.Close([]*Process{p})
}
