package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/store/memory"
)

var (
	start    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	errCut   = errors.New("the connection is gone")
	tooLarge = retryproof.Refused(retryproof.CodePermanent, "the message is too large", nil)
)

// zero makes no jitter: every wait is half of its backoff.
type zero struct{ n uint64 }

func (z *zero) Uint64() uint64 { return 0 }

// bench is an outbox, a queue that does as it is told, and what was seen.
type bench struct {
	t     *testing.T
	clock *clocktest.Clock
	store *recording
	queue publisher
	// sent are the ids of accepted sends, tried of all.
	sent, tried []string
	seen        map[string]int
}

// publisher decides about a send; nil accepts.
type publisher func(ctx context.Context, m queue.Message) error

func newBench(t *testing.T) *bench {
	t.Parallel()
	b := &bench{t: t, clock: clocktest.New(start), seen: map[string]int{}}
	m := memory.New()
	b.store = &recording{Store: m.Outbox(), memory: m}
	return b
}

func (b *bench) Send(ctx context.Context, m queue.Message) error {
	b.tried = append(b.tried, m.ID)
	if b.queue != nil {
		if err := b.queue(ctx, m); err != nil {
			return err
		}
	}
	b.sent = append(b.sent, m.ID)
	return nil
}

func (b *bench) relay(c outbox.Config) *outbox.Relay {
	b.t.Helper()
	c.Clock = b.clock
	if c.Rand == nil {
		c.Rand = &counter{n: uint64(len(b.seen))}
	}
	c.Observe = func(what string, _ retryproof.Event) { b.seen[what]++ }
	b.seen["relays"]++
	r, err := outbox.NewRelay(b.store, b, c)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// counter gives every relay a token of its own and hardly any jitter.
type counter struct{ n uint64 }

func (c *counter) Uint64() uint64 {
	c.n++
	return c.n
}

func (b *bench) insert(group string, ids ...string) {
	b.t.Helper()
	err := b.store.memory.Within(func(tx *memory.Tx) error {
		for _, id := range ids {
			if err := tx.Publish(context.Background(), retryproof.Event{ID: id, Type: "payment.succeeded", Group: group, Body: []byte("{}"), At: b.clock.Now()}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) run(r *outbox.Relay, want int) {
	b.t.Helper()
	if got, err := r.RunOnce(context.Background()); got != want || err != nil {
		b.t.Errorf("RunOnce: got %d, %v, want %d", got, err, want)
	}
}

func (b *bench) wantStats(waiting, parked int64) {
	b.t.Helper()
	got, err := b.store.Stats(context.Background())
	if err != nil || got.Waiting != waiting || got.Parked != parked {
		b.t.Errorf("got %d waiting, %d parked, %v, want %d and %d", got.Waiting, got.Parked, err, waiting, parked)
	}
}

func (b *bench) wantSent(want ...string) {
	b.t.Helper()
	if !slices.Equal(b.sent, want) {
		b.t.Errorf("got sent %v, want %v", b.sent, want)
	}
}

// recording notes what relays ask of the store.
type recording struct {
	outbox.Store
	memory    *memory.Store
	defers    []outbox.Defer
	parks     []outbox.Park
	deletes   [][]string
	deleteErr error
	fence     bool // Delete and Park find the lease lost
	claim     func(ctx context.Context) error
}

func (r *recording) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
	if r.claim != nil {
		if err := r.claim(ctx); err != nil {
			return nil, err
		}
	}
	return r.Store.Claim(ctx, c)
}

func (r *recording) Defer(ctx context.Context, d outbox.Defer) (bool, error) {
	r.defers = append(r.defers, d)
	return r.Store.Defer(ctx, d)
}

func (r *recording) Park(ctx context.Context, p outbox.Park) (bool, error) {
	if r.fence {
		return false, nil
	}
	r.parks = append(r.parks, p)
	return r.Store.Park(ctx, p)
}

func (r *recording) Delete(ctx context.Context, relay string, ids []string) ([]string, error) {
	r.deletes = append(r.deletes, ids)
	if r.deleteErr != nil || r.fence {
		return nil, r.deleteErr
	}
	return r.Store.Delete(ctx, relay, ids)
}

func ids(from, to int) []string {
	var out []string
	for n := from; n <= to; n++ {
		out = append(out, fmt.Sprint("e", n))
	}
	return out
}

func group(m queue.Message) string { return m.Group }

// case 31
func TestAGroupKeepsItsOrderWithTwoRelaysAndAFailingHead(t *testing.T) {
	b := newBench(t)
	b.insert("m1", ids(1, 100)...)
	b.insert("m2", "f1")
	one, two := b.relay(outbox.Config{Batch: 7}), b.relay(outbox.Config{Batch: 200})
	failures := 0
	var m1 []string
	nested := false
	b.queue = func(_ context.Context, m queue.Message) error {
		if !nested { // the other relay runs while this one sends
			nested = true
			_, _ = two.RunOnce(context.Background())
			nested = false
		}
		if m.ID == "e1" {
			if failures++; failures <= 3 {
				return errCut
			}
		}
		if group(m) == "m1" {
			m1 = append(m1, m.ID)
		}
		return nil
	}
	_, _ = one.RunOnce(context.Background())
	_, _ = two.RunOnce(context.Background())
	b.wantSent("f1") // m2 at once
	for range 100 {
		_, _ = one.RunOnce(context.Background())
		b.clock.Advance(50 * time.Millisecond)
		_, _ = two.RunOnce(context.Background())
	}
	if !slices.Equal(m1, ids(1, 100)) {
		t.Errorf("got %v, want e1 to e100 in order and once", m1)
	}
	if b.seen["failed"] != 3 {
		t.Errorf("got %d failures, want 3", b.seen["failed"])
	}
	b.wantStats(0, 0)
}

func TestAFailingRowHoldsBackItsGroupInsideABatch(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1", "e2", "e3")
	b.insert("m2", "f1")
	r := b.relay(outbox.Config{})
	b.queue = func(_ context.Context, m queue.Message) error {
		if m.ID == "e2" {
			return errCut
		}
		return nil
	}
	if n, err := r.RunOnce(context.Background()); n != 2 || !errors.Is(err, errCut) {
		t.Errorf("got %d, %v, want 2 and the failure", n, err)
	}
	b.wantSent("e1", "f1")
	if got := b.store.defers; len(got) != 2 || got[0].EventID != "e2" || got[0].Untried || got[1].EventID != "e3" || !got[1].Untried {
		t.Errorf("got %+v, want e2 deferred and e3 given back untried", got)
	}
}

// case 32
func TestPoisonRowsAreParkedAndHoldNobodyBack(t *testing.T) {
	b := newBench(t)
	b.insert("m1", ids(1, 10)...) // unsendable
	b.insert("m1", "e11", "e12")
	b.insert("m2", "e13", "e14", "e15")
	broken := map[string]bool{}
	for i, id := range ids(1, 10) {
		broken[id] = i%2 == 0
	}
	b.queue = func(_ context.Context, m queue.Message) error {
		if _, bad := broken[m.ID]; bad && string(m.Body) != "repaired" {
			return fmt.Errorf("publish: %w", tooLarge)
		}
		return nil
	}
	r := b.relay(outbox.Config{Batch: 10, Check: func(e retryproof.Event) error {
		if broken[e.ID] && string(e.Body) != "repaired" {
			return errors.New("the body is no JSON")
		}
		return nil
	}})
	b.run(r, 10)
	b.run(r, 5)
	b.wantSent("e11", "e12", "e13", "e14", "e15")
	b.wantStats(0, 10)
	if len(b.tried) != 5+5 {
		t.Errorf("got %d sends, want the rows that Check refuses not to be sent", len(b.tried))
	}
	if b.seen["parked"] != 10 || b.seen["failed"] != 5 {
		t.Errorf("got %v, want 10 parked, 5 of them by the queue", b.seen)
	}
	for i, p := range b.store.parks {
		want := []string{"the body is no JSON", "publish: the message is too large"}[i%2]
		if p.Reason != want || p.EventID != ids(1, 10)[i] || !p.Now.Equal(start) {
			t.Errorf("got %+v, want reason %q", p, want)
		}
	}
	b.insert("m1", "e16")
	if ok, err := b.store.Redrive(context.Background(), outbox.Redrive{EventID: "e1", Now: b.clock.Now(), Body: []byte("repaired")}); !ok || err != nil {
		t.Fatalf("Redrive: got %v, %v", ok, err)
	}
	b.run(r, 2)
	b.wantSent("e11", "e12", "e13", "e14", "e15", "e1", "e16")
	b.run(r, 0)
	b.wantStats(0, 9)
}

// case 33
func TestARowStaysUntilAPositiveAck(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1")
	r := b.relay(outbox.Config{})
	b.queue = func(context.Context, queue.Message) error { // the broker takes it and fails by callback
		b.clock.Advance(time.Second)
		return errCut
	}
	for range 3 {
		if n, err := r.RunOnce(context.Background()); n != 0 || !errors.Is(err, errCut) {
			t.Errorf("got %d, %v, want the failure", n, err)
		}
		b.wantStats(1, 0)
		b.clock.Advance(time.Minute)
	}
	b.queue = nil
	b.run(r, 1)
	b.wantSent("e1")
	b.wantStats(0, 0)
}

// case 33
func TestARelayThatOutlivesItsLeaseChangesNothing(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1", "e2")
	late, successor := b.relay(outbox.Config{}), b.relay(outbox.Config{})
	b.queue = func(context.Context, queue.Message) error {
		b.queue = nil
		b.clock.Advance(16 * time.Second) // pauses past the lease
		b.run(successor, 2)
		b.insert("m1", "e3")
		return nil
	}
	if n, err := late.RunOnce(context.Background()); n != 0 || err != nil {
		t.Errorf("got %d, %v, want nothing done", n, err)
	}
	b.wantSent("e1", "e2", "e1") // the late copy carries the stored id
	if b.seen["fenced"] != 1 {
		t.Errorf("got %v, want fenced once", b.seen)
	}
	b.wantStats(1, 0) // e3, and e1 did not come back
}

func TestAFencedRelayLeavesTheRestOfTheGroup(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1", "e2")
	b.queue = func(context.Context, queue.Message) error { return tooLarge }
	b.store.fence = true
	b.run(b.relay(outbox.Config{}), 0)
	if !slices.Equal(b.tried, []string{"e1"}) || b.seen["parked"] != 0 {
		t.Errorf("got sends of %v and %v, want e1 only", b.tried, b.seen)
	}
}

// cases 31 and 33
func TestABatchIsDeletedTogetherAfterItsAnswers(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1", "e2")
	b.insert("m2", "f1", "f2")
	b.insert("m3", "g1", "g2")
	b.insert("m1", "e3")
	b.queue = func(_ context.Context, m queue.Message) error {
		if len(b.store.deletes) > 0 {
			t.Errorf("%s is sent after a delete", m.ID)
		}
		switch m.ID {
		case "f1":
			return errCut
		case "g1":
			return tooLarge
		}
		return nil
	}
	if n, err := b.relay(outbox.Config{}).RunOnce(context.Background()); n != 5 || !errors.Is(err, errCut) {
		t.Errorf("got %d, %v, want 4 sent and deleted, 1 parked, and the failure", n, err)
	}
	b.wantSent("e1", "e2", "g2", "e3")
	if got := b.store.deletes; len(got) != 1 || !slices.Equal(got[0], []string{"e1", "e2", "g2", "e3"}) {
		t.Errorf("got deletes of %q, want what had a positive answer, at once", got)
	}
	b.wantStats(2, 1)
}

func TestRowsThatCannotBeDeletedAreSentAgainUnderTheirIDs(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1", "e2")
	r := b.relay(outbox.Config{})
	b.store.deleteErr = errCut
	if n, err := r.RunOnce(context.Background()); n != 0 || !errors.Is(err, errCut) {
		t.Errorf("got %d, %v, want the failure", n, err)
	}
	b.wantSent("e1", "e2")
	b.store.deleteErr = nil
	b.insert("m1", "e3")
	b.run(r, 0) // until the lease is over
	b.clock.Advance(15*time.Second + time.Microsecond)
	b.run(r, 3)
	b.wantSent("e1", "e2", "e1", "e2", "e3")
}

// A database that does not answer holds up one relay for as long as a send, not forever.
func TestAClaimIsBounded(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1")
	b.store.claim = func(ctx context.Context) error { return b.clock.Sleep(ctx, time.Hour) }
	_, err := b.relay(outbox.Config{SendTimeout: 2 * time.Second}).RunOnce(context.Background())
	if !errors.Is(err, context.DeadlineExceeded) || !b.clock.Now().Equal(start.Add(2*time.Second)) {
		t.Errorf("got %v at %v, want the timeout after 2 s", err, b.clock.Now())
	}
}

func TestAnOutageParksNothing(t *testing.T) {
	b := newBench(t)
	r := b.relay(outbox.Config{MaxAttempts: 3})
	b.insert("m0", "e0")
	b.run(r, 1)
	b.clock.Advance(time.Minute) // twice MaxBackoff
	b.insert("m1", "e1", "e2")
	b.insert("m2", "f1")
	b.insert("m3", "g1")
	b.queue = func(context.Context, queue.Message) error { return errCut }
	for range 500 {
		_, _ = r.RunOnce(context.Background())
		b.clock.Advance(10 * time.Second)
	}
	b.wantStats(4, 0)
	b.queue = nil
	b.clock.Advance(30 * time.Second)
	b.run(r, 4)
	b.wantStats(0, 0)
}

func TestARowIsParkedOnlyWhenOthersGetThrough(t *testing.T) {
	b := newBench(t)
	b.insert("bad", "e1")
	r := b.relay(outbox.Config{MaxAttempts: 5})
	b.queue = func(_ context.Context, m queue.Message) error {
		if m.ID == "e1" {
			return errCut
		}
		return nil
	}
	for n := range 8 {
		b.insert("good", fmt.Sprint("f", n))
		_, _ = r.RunOnce(context.Background())
		if n < 4 {
			b.wantStats(1, 0)
		}
		b.clock.Advance(20 * time.Second)
	}
	b.wantStats(0, 1)
	if got := len(b.tried) - len(b.sent); got != 5 {
		t.Errorf("got %d tries, want 5", got)
	}
}

func TestOnlyADefiniteRefusalParksAtOnce(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1")
	r := b.relay(outbox.Config{})
	b.queue = func(context.Context, queue.Message) error {
		return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodePermanent}
	}
	_, _ = r.RunOnce(context.Background())
	b.wantStats(1, 0)
}

func TestTheEndOfTheLeaseStopsSending(t *testing.T) {
	b := newBench(t)
	for _, id := range ids(1, 6) {
		b.insert(id, id)
	}
	r := b.relay(outbox.Config{Lease: 15 * time.Second, SendTimeout: 5 * time.Second})
	b.queue = func(context.Context, queue.Message) error {
		b.clock.Advance(5 * time.Second)
		return nil
	}
	b.run(r, 3) // at 0, 5 and 10; at 15 a send could outlive the lease
	b.wantSent("e1", "e2", "e3")
	rows, err := b.store.Claim(context.Background(), outbox.Claim{Relay: "another", Now: b.clock.Now(), Until: b.clock.Now().Add(time.Minute), Limit: 9})
	if err != nil || len(rows) != 3 {
		t.Fatalf("got %v, %v, want the other 3 free at once", rows, err)
	}
	for _, row := range rows {
		if row.Attempts != 1 {
			t.Errorf("%s: got %d attempts, want 1: it was not tried before", row.ID, row.Attempts)
		}
	}
}

func TestARelayThatIsToldToStopKeepsItsBooks(t *testing.T) {
	b := newBench(t)
	b.insert("m1", "e1", "e2")
	b.insert("m2", "f1")
	r := b.relay(outbox.Config{})
	ctx, stop := context.WithCancel(context.Background())
	b.queue = func(context.Context, queue.Message) error {
		stop()
		return nil
	}
	if n, err := r.RunOnce(ctx); n != 1 || err != nil {
		t.Errorf("got %d, %v, want e1 sent and deleted", n, err)
	}
	b.queue = nil
	b.run(b.relay(outbox.Config{}), 2) // the rest was given back
	b.wantSent("e1", "e2", "f1")
}
