package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retryproof/retryproof/clock"
)

func TestNowIsInUTCAndRounded(t *testing.T) {
	t.Parallel()
	for range 100 {
		now := clock.System().Now()
		if now.Location() != time.UTC || now != now.Truncate(clock.Precision) || now.Nanosecond()%1000 != 0 {
			t.Fatalf("got %v, want UTC in whole microseconds", now)
		}
	}
}

func TestSleepWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.System()
		before := c.Now()
		if err := c.Sleep(context.Background(), 3*time.Second); err != nil {
			t.Fatal(err)
		}
		if got, want := c.Now().Sub(before), 3*time.Second; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if err := c.Sleep(context.Background(), -time.Second); err != nil || c.Now().Sub(before) != 3*time.Second {
			t.Errorf("a negative sleep: got %v after %v, want nil at once", err, c.Now().Sub(before))
		}
	})
}

func TestSleepEndsWithItsContextAndSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.System()
		cause := errors.New("the operator pressed stop")
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() {
			_ = c.Sleep(context.Background(), time.Second)
			cancel(cause)
		}()
		before := c.Now()
		if got := c.Sleep(ctx, time.Hour); !errors.Is(got, cause) {
			t.Errorf("got %v, want %v", got, cause)
		}
		if got, want := c.Now().Sub(before), time.Second; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := c.Sleep(ctx, 0); !errors.Is(got, cause) {
			t.Errorf("an ended context: got %v, want %v", got, cause)
		}
	})
}

func TestWithTimeoutEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.System()
		ctx, cancel := c.WithTimeout(context.Background(), time.Second)
		defer cancel()
		before := c.Now()
		err := c.Sleep(ctx, time.Hour)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if got, want := c.Now().Sub(before), time.Second; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
