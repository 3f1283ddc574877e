package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/queue"
	queuememory "github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/store/memory"
)

var (
	start     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	errLater  = errors.New("later")
	errBroken = errors.New("the write failed")
)

// bench is a queue and an inbox in virtual time.
type bench struct {
	*queuememory.Queue
	t      *testing.T
	clock  *clocktest.Clock
	memory *memory.Store
	store  *failing
	// finishErrs are the results of the next deletes.
	finishErrs []error
	retries    []time.Duration
	retryErr   error
	log        bytes.Buffer
	seen       map[string]int
}

func newBench(t *testing.T) *bench {
	t.Parallel()
	b := &bench{t: t, clock: clocktest.New(start), memory: memory.New(), seen: map[string]int{}}
	q, err := queuememory.New(b.clock, queuememory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b.Queue, b.store = q, &failing{Store: b.memory.Inbox()}
	return b
}

func (b *bench) Finish(ctx context.Context, d queue.Delivery) (bool, error) {
	if len(b.finishErrs) > 0 {
		err := b.finishErrs[0]
		b.finishErrs = b.finishErrs[1:]
		if err != nil {
			return false, err
		}
	}
	return b.Queue.Finish(ctx, d)
}

func (b *bench) Retry(ctx context.Context, d queue.Delivery, delay time.Duration) error {
	b.retries = append(b.retries, delay)
	if b.retryErr != nil {
		return b.retryErr
	}
	return b.Queue.Retry(ctx, d, delay)
}

func (b *bench) send(ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		if err := b.Send(context.Background(), queue.Message{ID: id, Group: id, Body: []byte("{}")}); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) consumer(handle inbox.Handler, c inbox.Config) *inbox.Consumer {
	b.t.Helper()
	c.Clock, c.Log = b.clock, slog.New(slog.NewTextHandler(&b.log, nil))
	c.Observe = func(what string, _ queue.Delivery) { b.seen[what]++ }
	out, err := inbox.NewConsumer(b, b.store, handle, c)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// credit is the handler of the story: 3,000 to m1, with three follow-ups.
func (b *bench) credit(_ context.Context, d queue.Delivery) (inbox.Apply, error) {
	a := inbox.Apply{
		Key: retryproof.InboxKey{Consumer: "worker", Source: "outbox", EventID: d.ID}, Now: b.clock.Now(),
		Postings: []ledger.Posting{{Account: "merchant:m1", Currency: "USD", Amount: 3000, Ref: d.ID}, {Account: "clearing", Currency: "USD", Amount: -3000, Ref: d.ID}},
		Intents:  []notify.Intent{{Key: notify.Key{EventID: d.ID, Channel: "push"}, ReplaceID: "pay_7"}},
	}
	for n := range 3 {
		a.Events = append(a.Events, retryproof.Event{ID: fmt.Sprint(d.ID, ":", n), Group: "m1", At: b.clock.Now()})
	}
	return a, nil
}

// want checks what was applied so far, in all and once each.
func (b *bench) want(effects int) {
	b.t.Helper()
	balance, err := b.memory.Payments().Ledger.Balance(context.Background(), "merchant:m1", "USD")
	if err != nil || balance != int64(3000*effects) {
		b.t.Errorf("balance: got %d, %v, want %d", balance, err, 3000*effects)
	}
	stats, err := b.memory.Outbox().Stats(context.Background())
	if err != nil || stats.Waiting != int64(3*effects) {
		b.t.Errorf("follow-ups: got %d, %v, want %d", stats.Waiting, err, 3*effects)
	}
	audit, err := b.memory.Payments().Ledger.Audit(context.Background())
	if err != nil || audit.IntentsPending != int64(effects) {
		b.t.Errorf("intents: got %d, %v, want %d", audit.IntentsPending, err, effects)
	}
	if b.seen["applied"] != effects {
		b.t.Errorf("observed: got %v, want %d applied", b.seen, effects)
	}
}

func (b *bench) wantEmpty() {
	b.t.Helper()
	if got := b.Stats().Depth; got != 0 {
		b.t.Errorf("got %d messages in the queue, want 0", got)
	}
}

// failing fails the next calls of Apply, before or after they happen.
type failing struct {
	inbox.Store
	before, after []error
	refuse        map[string]error // by event id, always
	apply         func(eventID string)
	last          inbox.Apply
}

func (f *failing) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	f.last = a
	if f.apply != nil {
		f.apply(a.Key.EventID)
	}
	if err := f.refuse[a.Key.EventID]; err != nil {
		return false, err
	}
	if len(f.before) > 0 {
		err := f.before[0]
		if f.before = f.before[1:]; err != nil {
			return false, err
		}
	}
	first, err := f.Store.Apply(ctx, a)
	if len(f.after) > 0 {
		err, f.after = f.after[0], f.after[1:]
	}
	return first, err
}

// case 35
func TestAMessageIsNotedOnlyWithItsEffect(t *testing.T) {
	b := newBench(t)
	b.send("ev_7")
	deliveries := 0
	c := b.consumer(func(ctx context.Context, d queue.Delivery) (inbox.Apply, error) {
		if deliveries++; d.Attempt != deliveries {
			t.Errorf("got delivery %d, want %d", d.Attempt, deliveries)
		}
		if deliveries == 1 {
			return inbox.Apply{}, errLater
		}
		return b.credit(ctx, d)
	}, inbox.Config{})
	b.store.before = []error{errBroken}
	for i, want := range []error{errLater, errBroken} {
		if n, err := c.RunOnce(context.Background()); n != 1 || !errors.Is(err, want) {
			t.Errorf("delivery %d: got %d, %v, want %v", i+1, n, err, want)
		}
		b.want(0)
		if n, err := c.RunOnce(context.Background()); n != 0 || err != nil { // not due yet
			t.Errorf("got %d, %v, want nothing", n, err)
		}
		b.clock.Advance(time.Minute)
	}
	if n, err := c.RunOnce(context.Background()); n != 1 || err != nil {
		t.Errorf("delivery 3: got %d, %v, want 1", n, err)
	}
	b.want(1)
	b.wantEmpty()
	if first, err := b.memory.Inbox().Apply(context.Background(), inbox.Apply{Now: b.clock.Now(), Key: retryproof.InboxKey{Consumer: "worker", Source: "outbox", EventID: "ev_7"}}); first || err != nil {
		t.Errorf("the inbox row: got first %v, %v, want it there", first, err)
	}
}

// case 36
func TestARepeatIsFinishedAndItsEffectIsNotWrittenAgain(t *testing.T) {
	b := newBench(t)
	after := 0
	c := b.consumer(b.credit, inbox.Config{After: func(context.Context, queue.Delivery) error {
		after++
		return nil
	}})
	b.finishErrs = []error{nil, nil, errBroken}
	for copies := range 5 { // each past the dedup window of the one before
		b.send("ev_7")
		n, err := c.RunOnce(context.Background())
		if copies == 2 {
			if n != 0 || !errors.Is(err, errBroken) {
				t.Errorf("got %d, %v, want the failed delete", n, err)
			}
			b.clock.Advance(30 * time.Second) // the visibility timeout
			n, err = c.RunOnce(context.Background())
		}
		if n != 1 || err != nil {
			t.Errorf("copy %d: got %d, %v, want it finished", copies+1, n, err)
		}
		b.clock.Advance(5*time.Minute + time.Second)
	}
	b.want(1)
	b.wantEmpty()
	if after != 6 || b.seen["repeat"] != 5 {
		t.Errorf("got %d follow-up steps and %v, want one per delivery: 6", after, b.seen)
	}
}

func TestALostCommitIsARepeatThatIsFinished(t *testing.T) {
	b := newBench(t)
	b.send("ev_7")
	after := 0
	c := b.consumer(b.credit, inbox.Config{After: func(context.Context, queue.Delivery) error {
		after++
		return nil
	}})
	b.store.after = []error{errBroken}
	if n, err := c.RunOnce(context.Background()); n != 1 || !errors.Is(err, errBroken) || after != 0 {
		t.Errorf("got %d, %v and %d follow-up steps, want a failure before them", n, err, after)
	}
	b.clock.Advance(time.Minute)
	if n, err := c.RunOnce(context.Background()); n != 1 || err != nil || after != 1 {
		t.Errorf("got %d, %v and %d follow-up steps, want it finished", n, err, after)
	}
	b.seen["applied"]++ // nobody heard of it
	b.want(1)
	b.wantEmpty()
}

func TestAMessageStaysUntilItsFollowUpSucceeds(t *testing.T) { // branch R
	b := newBench(t)
	b.send("ev_7")
	fail := true
	c := b.consumer(b.credit, inbox.Config{After: func(context.Context, queue.Delivery) error {
		if fail {
			return errLater
		}
		return nil
	}})
	for range 3 {
		if n, err := c.RunOnce(context.Background()); n != 1 || !errors.Is(err, errLater) {
			t.Errorf("got %d, %v, want the failed follow-up", n, err)
		}
		b.clock.Advance(time.Minute)
	}
	b.want(1)
	if b.Stats().Depth != 1 {
		t.Error("the message is gone before its follow-up")
	}
	fail = false
	if n, err := c.RunOnce(context.Background()); n != 1 || err != nil {
		t.Errorf("got %d, %v, want it finished", n, err)
	}
	b.wantEmpty()
}

func TestTwoConsumersEachApplyAMessageOnce(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"worker", "archive", "worker"} {
		handle := func(_ context.Context, d queue.Delivery) (inbox.Apply, error) {
			return inbox.Apply{Key: retryproof.InboxKey{Consumer: name, Source: "outbox", EventID: d.ID}}, nil
		}
		b.send("ev_7")
		if n, err := b.consumer(handle, inbox.Config{}).RunOnce(context.Background()); n != 1 || err != nil {
			t.Errorf("%s: got %d, %v, want 1", name, n, err)
		}
		b.clock.Advance(6 * time.Minute)
	}
	if b.seen["applied"] != 2 || b.seen["repeat"] != 1 {
		t.Errorf("got %v, want 2 applied and 1 repeat", b.seen)
	}
}

func TestOneBadMessageDoesNotHoldBackTheBatch(t *testing.T) {
	b := newBench(t)
	b.send("bad", "e1", "e2")
	c := b.consumer(func(ctx context.Context, d queue.Delivery) (inbox.Apply, error) {
		if d.ID == "bad" {
			return inbox.Apply{}, errBroken
		}
		return b.credit(ctx, d)
	}, inbox.Config{Batch: 10})
	if n, err := c.RunOnce(context.Background()); n != 3 || !errors.Is(err, errBroken) {
		t.Errorf("got %d, %v, want 2 finished, 1 put back and the failure", n, err)
	}
	b.want(2)
	if b.seen["failed"] != 1 {
		t.Errorf("got %v, want 1 failed", b.seen)
	}
}

func TestOneMessageAtATimeUnlessAskedForMore(t *testing.T) {
	b := newBench(t)
	b.send("e1", "e2")
	c := b.consumer(b.credit, inbox.Config{})
	for range 2 {
		if n, err := c.RunOnce(context.Background()); n != 1 || err != nil {
			t.Errorf("got %d, %v, want 1", n, err)
		}
	}
}

func TestBackoffDoublesToItsBound(t *testing.T) {
	for _, test := range []struct {
		config inbox.Config
		want   []time.Duration
	}{
		{inbox.Config{}, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}},
		{inbox.Config{MinBackoff: 3 * time.Second, MaxBackoff: 5 * time.Second}, []time.Duration{3, 5, 5}},
		{inbox.Config{MinBackoff: 2 * time.Minute}, []time.Duration{120, 120}},
		{inbox.Config{MinBackoff: time.Second, MaxBackoff: 4 * time.Second}, []time.Duration{1, 2, 4, 4}},
	} {
		t.Run(test.config.MinBackoff.String(), func(t *testing.T) {
			b := newBench(t)
			b.send("ev_7")
			c := b.consumer(func(context.Context, queue.Delivery) (inbox.Apply, error) { return inbox.Apply{}, errLater }, test.config)
			for range test.want {
				_, _ = c.RunOnce(context.Background())
				b.clock.Advance(2 * time.Minute)
			}
			for i := range test.want {
				test.want[i] *= time.Second
			}
			if !slices.Equal(b.retries, test.want) {
				t.Errorf("got %v, want %v", b.retries, test.want)
			}
		})
	}
}

// deaf is a queue that cannot be asked.
type deaf struct{ *bench }

func (deaf) Receive(context.Context, int) ([]queue.Delivery, error) { return nil, errBroken }

func TestAQueueThatCannotBeAskedIsAnError(t *testing.T) {
	b := newBench(t)
	c, err := inbox.NewConsumer(deaf{b}, b.store, b.credit, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.RunOnce(context.Background()); n != 0 || !errors.Is(err, errBroken) {
		t.Errorf("got %d, %v, want the error", n, err)
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []inbox.Config{
		{Batch: -1}, {MinBackoff: -1}, {MaxBackoff: -1}, {MaxAttempts: -1}, {ParkAfter: -1},
		{MinBackoff: 9 * time.Second, MaxBackoff: 5 * time.Second}, {Consumer: "mailer"}, {Parked: memory.New().ParkedMessages()},
		{Visibility: -1}, {Budget: -1}, {Budget: 30 * time.Second}, {Visibility: time.Second, Budget: time.Second}, {Batch: 10, Budget: 3 * time.Second}, {Visibility: 4},
	} {
		if _, err := inbox.NewConsumer(nil, nil, nil, bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	for _, good := range []inbox.Config{{}, {Batch: 10, Budget: 3*time.Second - 1}, {Budget: 30*time.Second - 1}, {Visibility: time.Minute, Budget: 59 * time.Second}, {Batch: 64}} {
		if _, err := inbox.NewConsumer(nil, nil, nil, good); err != nil {
			t.Errorf("%+v: got %v, want nil", good, err)
		}
	}
}
