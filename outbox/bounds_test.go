package outbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/queue"
)

func TestBackoffDoublesToItsBound(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1")
	r := b.relay(outbox.Config{Rand: &zero{}})
	b.queue = func(context.Context, queue.Message) error { return errCut }
	for range 10 {
		_, _ = r.RunOnce(context.Background())
		b.clock.Advance(time.Minute)
	}
	for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 15000, 15000} { // half of the backoff, in ms
		at := start.Add(time.Duration(i) * time.Minute)
		if got := b.store.defers[i].NextAt.Sub(at); got != want*time.Millisecond || b.store.defers[i].Reason != errCut.Error() {
			t.Errorf("try %d: got %v, want %v", i+1, got, want*time.Millisecond)
		}
	}
}

func TestASendIsBoundedAndRepeatsWhatWasStored(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1")
	r := b.relay(outbox.Config{SendTimeout: 2 * time.Second})
	b.queue = func(ctx context.Context, m queue.Message) error {
		if m.Type != "payment.succeeded" || string(m.Body) != "{}" || m.Group != "m1" {
			t.Errorf("got %+v, want the stored event", m)
		}
		return b.clock.Sleep(ctx, time.Hour)
	}
	_, err := r.RunOnce(context.Background())
	if !errors.Is(err, context.DeadlineExceeded) || !b.clock.Now().Equal(start.Add(2*time.Second)) {
		t.Errorf("got %v at %v, want the timeout after 2 s", err, b.clock.Now())
	}
}

func TestALongReasonIsCut(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1")
	b.queue = func(context.Context, queue.Message) error { return errors.New("x" + strings.Repeat("é", 400)) }
	_, _ = b.relay(outbox.Config{}).RunOnce(context.Background())
	if got := b.store.defers[0].Reason; len(got) != 499 || !strings.HasSuffix(got, "é") {
		t.Errorf("got %d bytes ending in %q, want 499: whole characters", len(got), got[len(got)-3:])
	}
}

func TestAClaimThatFailsIsAnError(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if n, err := b.relay(outbox.Config{}).RunOnce(ctx); n != 0 || retryproof.CodeOf(err) != retryproof.CodeUnavailable {
		t.Errorf("got %d, %v, want unavailable", n, err)
	}
}

func TestConfigIsCheckedWithItsFormulas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config outbox.Config
		want   []string
	}{
		{outbox.Config{}, nil},
		{outbox.Config{Lease: 5*time.Second + 1}, nil},
		{outbox.Config{MinBackoff: time.Second, MaxBackoff: time.Second}, nil},
		{outbox.Config{Lease: 5 * time.Second}, []string{"Lease > SendTimeout fails: 5s ≤ 5s"}},
		{outbox.Config{SendTimeout: 15 * time.Second}, []string{"Lease > SendTimeout fails: 15s ≤ 15s"}},
		{outbox.Config{SendTimeout: -1}, []string{"SendTimeout is -1ns"}},
		{outbox.Config{MinBackoff: time.Minute}, []string{"0 ≤ MinBackoff ≤ MaxBackoff fails: 1m0s, 30s"}},
		{outbox.Config{Batch: -1, MinBackoff: -1, Lease: -1}, []string{"Batch -1", "MinBackoff", "Lease > SendTimeout"}},
		{outbox.Config{MaxAttempts: -1}, []string{"MaxAttempts -1"}},
		{outbox.Config{ParkAfter: -1}, []string{"ParkAfter -1ns"}},
	} {
		err := c.config.Validate()
		if (err == nil) != (len(c.want) == 0) {
			t.Errorf("%+v: got %v, want %q", c.config, err, c.want)
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v, want %q in it", c.config, err, want)
			}
		}
		if _, got := outbox.NewRelay(nil, nil, c.config); (got == nil) != (err == nil) {
			t.Errorf("NewRelay: got %v, want %v", got, err)
		}
	}
}

func TestNothingSentIsNothingToDelete(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1")
	b.queue = func(context.Context, queue.Message) error { return errCut }
	_, _ = b.relay(outbox.Config{}).RunOnce(context.Background())
	if len(b.store.deletes) != 0 {
		t.Errorf("got deletes of %q, want none", b.store.deletes)
	}
}
