package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/retryproof/retryproof/internal/backoff"
)

func TestAWaitDoublesUpToTheLongest(t *testing.T) {
	t.Parallel()
	d := backoff.Doubling{Min: 200 * time.Millisecond, Max: 30 * time.Second}
	for failures, want := range map[int]time.Duration{
		-1: 200 * time.Millisecond, 0: 200 * time.Millisecond, 1: 200 * time.Millisecond, 2: 400 * time.Millisecond,
		7: 12800 * time.Millisecond, 8: 25600 * time.Millisecond, 9: 30 * time.Second, 10: 30 * time.Second, math.MaxInt32: 30 * time.Second,
	} {
		if got := d.After(failures); got != want {
			t.Errorf("after %d failures: got %v, want %v", failures, got, want)
		}
	}
}

func TestAWaitDoesNotOverflow(t *testing.T) {
	t.Parallel()
	d := backoff.Doubling{Min: time.Second, Max: math.MaxInt64}
	for failures := 1; failures < 100; failures++ {
		if got := d.After(failures); got < time.Second {
			t.Errorf("after %d failures: got %v, want no less than the shortest", failures, got)
		}
	}
}

func TestTheShortestTimeOfTriesIsHalfOfTheirWaits(t *testing.T) {
	t.Parallel()
	d := backoff.Doubling{Min: time.Second, Max: 8 * time.Second}
	for _, c := range []struct {
		tries      int
		most, want time.Duration
	}{
		{0, time.Hour, 0},
		{1, time.Hour, 0},
		{2, time.Hour, 500 * time.Millisecond},
		{4, time.Hour, 3500 * time.Millisecond},                  // 0.5 + 1 + 2
		{6, time.Hour, 11500 * time.Millisecond},                 // and 4 + 4
		{6, time.Second, 4500 * time.Millisecond},                // 0.5, and 1 four times
		{1_000_001, time.Hour, 3_999_991_500 * time.Millisecond}, // at once, not in a loop
		{math.MaxInt, time.Hour, math.MaxInt64},
	} {
		if got := d.AtLeast(c.tries, c.most); got != c.want {
			t.Errorf("%d tries, none longer than %v: got %v, want %v", c.tries, c.most, got, c.want)
		}
	}
}
