package outbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/queue"
)

// fails runs the relay for so long against a queue that refuses one row.
func (b *bench) fails(r *outbox.Relay, id string, long time.Duration) {
	b.t.Helper()
	b.queue = func(_ context.Context, m queue.Message) error {
		if m.ID == id || id == "" {
			return errCut
		}
		return nil
	}
	for end := b.clock.Now().Add(long); b.clock.Now().Before(end); b.clock.Advance(15 * time.Second) {
		_, _ = r.RunOnce(context.Background())
	}
}

// case 31: with one busy merchant nothing else is sent, and a bad head is parked all
// the same.
func TestAFailingHeadHoldsBackALoneGroupForABoundedTime(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1", "e2")
	r := b.relay(outbox.Config{ParkAfter: time.Hour})
	b.fails(r, "e1", time.Hour)
	b.wantStats(2, 0)
	b.fails(r, "e1", time.Hour+10*time.Minute)
	b.wantStats(0, 1)
	b.wantSent("e2")
}

// A relay that just started has no memory: the stored attempts tell how long.
func TestTheTimeOfFailureSurvivesRelays(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1", "e2")
	for range 14 {
		b.fails(b.relay(outbox.Config{ParkAfter: time.Hour}), "e1", 10*time.Minute)
	}
	b.wantStats(0, 1)
}

func TestAnOutageShorterThanParkAfterParksNothing(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "old")
	r := b.relay(outbox.Config{ParkAfter: time.Hour, Rand: &zero{}}) // the shortest waits
	b.clock.Advance(48 * time.Hour)                                  // it waited for a relay
	b.insert("m2", "new")
	b.fails(r, "", time.Hour)
	b.wantStats(2, 0)
	b.queue = nil
	b.clock.Advance(time.Minute)
	b.run(r, 2)
}

// A redriven row has all its tries again.
func TestARedrivenRowIsNotParkedByItsNextFailure(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1")
	r := b.relay(outbox.Config{ParkAfter: time.Hour})
	b.fails(r, "e1", 3*time.Hour)
	b.wantStats(0, 1)
	for range 2 {
		if ok, err := b.store.Redrive(context.Background(), outbox.Redrive{EventID: "e1", Now: b.clock.Now()}); !ok || err != nil {
			t.Fatalf("Redrive: got %v, %v", ok, err)
		}
		b.fails(r, "e1", 50*time.Minute)
		b.wantStats(1, 0)
		b.fails(r, "e1", 2*time.Hour)
		b.wantStats(0, 1)
	}
}

// cases 31 and 32: a full queue takes a message now and then. That says nothing about
// those that it does not take.
func TestAQueueThatIsFullParksNothing(t *testing.T) {
	b := newBench(t)
	for _, id := range ids(1, 5) {
		b.insert(id, id)
	}
	full := retryproof.Refused(retryproof.CodeUnavailable, "the stream is full", nil)
	b.queue = func(_ context.Context, m queue.Message) error {
		if m.Group != "small" {
			return full
		}
		return nil
	}
	r := b.relay(outbox.Config{MaxAttempts: 3, ParkAfter: time.Hour})
	for n := range 500 { // four hours
		b.insert("small", fmt.Sprint("f", n))
		_, _ = r.RunOnce(context.Background())
		b.clock.Advance(30 * time.Second)
	}
	b.wantStats(5, 0)
	// One failure of another kind is then one, not the last of many.
	b.queue = func(_ context.Context, m queue.Message) error {
		if m.Group != "small" {
			return errCut
		}
		return nil
	}
	b.insert("small", "g1")
	b.fails(r, "e1", 20*time.Second)
	b.wantStats(1, 0)
	b.queue = nil
	b.clock.Advance(30 * time.Second)
	b.run(r, 1)
	b.wantStats(0, 0)
}

// Its attempts do not grow, so that the wait has to be remembered elsewhere.
func TestTheWaitForAFullQueueDoublesToItsBound(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1")
	r := b.relay(outbox.Config{Rand: &zero{}})
	b.queue = func(context.Context, queue.Message) error {
		return retryproof.Refused(retryproof.CodeUnavailable, "the stream is full", nil)
	}
	for range 10 {
		_, _ = r.RunOnce(context.Background())
		b.clock.Advance(time.Minute)
	}
	for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 15000, 15000} { // half of the backoff, in ms
		at := start.Add(time.Duration(i) * time.Minute)
		if got := b.store.defers[i]; got.NextAt.Sub(at) != want*time.Millisecond || !got.Untried {
			t.Errorf("refusal %d: got %v, untried %v, want %v, untried", i+1, got.NextAt.Sub(at), got.Untried, want*time.Millisecond)
		}
	}
}

// A row that fails forever is parked as long as others were sent in the last two
// MaxBackoff, and no longer: between two sends there may be one wait of that.
func TestOthersCountAsSentForTwoMaxBackoff(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{{time.Minute - time.Microsecond, 1}, {time.Minute, 0}} {
		t.Run(c.after.String(), func(t *testing.T) {
			b := newBench(t)
			b.insert("good", "f1")
			r := b.relay(outbox.Config{MaxAttempts: 1})
			b.run(r, 1)
			b.insert("bad", "e1")
			b.clock.Advance(c.after)
			b.queue = func(context.Context, queue.Message) error { return errCut }
			_, _ = r.RunOnce(context.Background())
			b.wantStats(1-c.want, c.want)
		})
	}
}
