package outbox_test

import (
	"context"
	"testing"
	"time"

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
