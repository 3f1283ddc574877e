package clocktest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retryproof/retryproof/clock/clocktest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestSleepMovesTheTime(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	if err := c.Sleep(context.Background(), 3*time.Second); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Now(), start.Add(3*time.Second); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSleepEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	ctx, cancel := c.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	child, stop := context.WithCancel(ctx)
	defer stop()
	err := c.Sleep(child, time.Minute)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	if got, want := c.Now(), start.Add(2*time.Second); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := ctx.Err(), context.DeadlineExceeded; !errors.Is(got, want) {
		t.Errorf("Err: got %v, want %v", got, want)
	}
}

func TestAdvanceEndsDeadlinesOnTheWay(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	early, cancelEarly := c.WithTimeout(context.Background(), time.Second)
	defer cancelEarly()
	late, cancelLate := c.WithTimeout(context.Background(), time.Hour)
	defer cancelLate()
	c.Advance(time.Second)
	if early.Err() == nil {
		t.Error("the deadline at exactly now has not ended")
	}
	if late.Err() != nil {
		t.Errorf("a later deadline ended: %v", late.Err())
	}
}

func TestCancelledContextDoesNotMoveTheTime(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := c.Now(); !got.Equal(start) {
		t.Errorf("got %v, want %v", got, start)
	}
}
