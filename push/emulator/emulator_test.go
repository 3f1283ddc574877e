package emulator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/push"
	"github.com/retryproof/retryproof/push/emulator"
)

// fakeClock stands still until someone sleeps.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	sleeps []time.Duration
}

func newClock() *fakeClock { return &fakeClock{now: time.Unix(1_700_000_000, 0).UTC()} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.sleeps = append(c.sleeps, d)
	return nil
}

func (c *fakeClock) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// memoryJournal outlives an emulator; fail makes Append fail, before or after it
// has kept the record.
type memoryJournal struct {
	mu         sync.Mutex
	records    [][]byte
	failBefore bool
	failAfter  bool
}

var errDisk = errors.New("disk")

func (j *memoryJournal) Append(_ context.Context, record []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failBefore {
		return errDisk
	}
	j.records = append(j.records, slices.Clone(record))
	if j.failAfter {
		return errDisk
	}
	return nil
}

func (j *memoryJournal) Replay(_ context.Context, apply func([]byte) error) error {
	for _, r := range j.records {
		if err := apply(r); err != nil {
			return err
		}
	}
	return nil
}

func open(t *testing.T, config emulator.Config) *emulator.Emulator {
	t.Helper()
	if config.Clock == nil {
		config.Clock = newClock()
	}
	e, err := emulator.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func send(t *testing.T, e *emulator.Emulator, n push.Notification) {
	t.Helper()
	if err := e.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func note(replaceID, body string) push.Notification {
	return push.Notification{To: "u1", ReplaceID: replaceID, Title: "Paid", Body: body}
}

func TestSameReplaceIDTakesThePlaceAndAlertsAgain(t *testing.T) {
	t.Parallel()
	e := open(t, emulator.Config{})
	send(t, e, note("pay_7", "first"))
	send(t, e, note("pay_8", "other"))
	send(t, e, note("pay_7", "second"))
	got := e.Screen("u1")
	if len(got) != 2 || got[0].Body != "second" || got[0].Alerts != 2 || got[1].ReplaceID != "pay_8" {
		t.Errorf("screen = %+v, want pay_7 with its second text and two alerts, then pay_8", got)
	}
	if got, want := e.Totals(), (emulator.Totals{Shown: 2, Alerts: 3}); got != want {
		t.Errorf("totals = %+v, want %+v", got, want)
	}
	if got := e.Screen("u2"); len(got) != 0 {
		t.Errorf("another phone shows %+v", got)
	}
}

func TestWithoutReplaceIDNotificationsStack(t *testing.T) {
	t.Parallel()
	e := open(t, emulator.Config{})
	for range 3 {
		send(t, e, note("", "paid"))
	}
	if got, want := e.Totals(), (emulator.Totals{Shown: 3, Alerts: 3}); got != want {
		t.Errorf("totals = %+v, want %+v", got, want)
	}
}

func TestARestartForgetsNothing(t *testing.T) {
	t.Parallel()
	j := &memoryJournal{}
	clock := newClock()
	e := open(t, emulator.Config{Clock: clock, Journal: j})
	send(t, e, note("pay_7", "first"))
	send(t, e, note("", "stacked"))
	if err := clock.Sleep(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	send(t, e, note("pay_7", "second"))

	again := open(t, emulator.Config{Clock: clock, Journal: j})
	if got, want := again.Screen("u1"), e.Screen("u1"); !slices.Equal(got, want) {
		t.Errorf("screen after the restart = %+v, want %+v", got, want)
	}
	send(t, again, note("", "third"))
	if got := again.Screen("u1"); len(got) != 3 || got[0].Body != "third" {
		t.Errorf("screen = %+v, want the newest first", got)
	}
	if got, want := again.Totals(), (emulator.Totals{Shown: 3, Alerts: 4}); got != want {
		t.Errorf("totals = %+v, want %+v", got, want)
	}
}

func TestTheOrderOfTheJournalDoesNotChangeTheScreen(t *testing.T) {
	t.Parallel()
	j := &memoryJournal{}
	e := open(t, emulator.Config{Journal: j})
	for _, n := range []push.Notification{note("a", "1"), note("b", "2"), note("a", "3"), note("", "4")} {
		send(t, e, n)
	}
	slices.Reverse(j.records)
	got := open(t, emulator.Config{Journal: j})
	if !slices.Equal(got.Screen("u1"), e.Screen("u1")) || got.Totals() != e.Totals() {
		t.Errorf("reversed journal: %+v, want %+v", got.Screen("u1"), e.Screen("u1"))
	}
}

func TestManySendersAtOnceAreAllCounted(t *testing.T) {
	t.Parallel()
	j := &memoryJournal{}
	e := open(t, emulator.Config{Journal: j})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := e.Send(t.Context(), note("pay_7", "x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	want := emulator.Totals{Shown: 1, Alerts: 50}
	if got := e.Totals(); got != want {
		t.Errorf("totals = %+v, want %+v", got, want)
	}
	if got := open(t, emulator.Config{Journal: j}); !slices.Equal(got.Screen("u1"), e.Screen("u1")) {
		t.Errorf("after the restart %+v, want %+v", got.Screen("u1"), e.Screen("u1"))
	}
}

func TestAJournalErrorIsUnknown(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]int{"before": 0, "after": 1} {
		j := &memoryJournal{failBefore: kept == 0, failAfter: kept == 1}
		e := open(t, emulator.Config{Journal: j})
		err := e.Send(t.Context(), note("pay_7", "x"))
		if retryproof.OutcomeOf(err) != retryproof.Unknown || !errors.Is(err, errDisk) {
			t.Errorf("%s: %v, want Unknown with the cause", name, err)
		}
		j.failBefore, j.failAfter = false, false
		if got := len(open(t, emulator.Config{Journal: j}).Screen("u1")); got != kept {
			t.Errorf("%s: %d shown after the restart, want %d", name, got, kept)
		}
	}
}

func TestABrokenRecordStopsTheStart(t *testing.T) {
	t.Parallel()
	for _, record := range []string{``, `{}`, `{"v":2,"seq":1,"to":"u1","title":"x"}`, `{"v":1,"seq":0,"to":"u1","title":"x"}`, `{"v":1,"seq":1}`} {
		_, err := emulator.New(t.Context(), emulator.Config{Journal: &memoryJournal{records: [][]byte{[]byte(record)}}})
		if err == nil || retryproof.OutcomeOf(err) != retryproof.Unknown {
			t.Errorf("record %q: %v, want an error", record, err)
		}
	}
}

func TestFaultsAreUsedUpInOrder(t *testing.T) {
	t.Parallel()
	clock := newClock()
	e := open(t, emulator.Config{Clock: clock})
	for _, f := range []emulator.Fault{
		{Kind: emulator.FaultRefuse, To: "u2"},
		{Kind: emulator.FaultRefuse, Next: 2},
		{Kind: emulator.FaultLoseReply, Delay: time.Second},
		{Kind: emulator.FaultDelay, Delay: time.Minute},
	} {
		if err := e.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	want := []retryproof.Outcome{retryproof.NotDone, retryproof.NotDone, retryproof.Unknown, retryproof.Done, retryproof.Done}
	shown := []int64{0, 0, 1, 1, 1}
	for i := range want {
		err := e.Send(t.Context(), note("pay_7", "x"))
		if got := retryproof.OutcomeOf(err); got != want[i] || e.Totals().Shown != shown[i] {
			t.Errorf("send %d: %v (%v), %d shown; want %v and %d", i, got, err, e.Totals().Shown, want[i], shown[i])
		}
	}
	if want := []time.Duration{time.Second, time.Minute}; !slices.Equal(clock.sleeps, want) {
		t.Errorf("sleeps = %v, want %v", clock.sleeps, want)
	}
	if got := e.Faults(); len(got) != 1 || got[0].To != "u2" {
		t.Errorf("faults left = %+v, want the one for u2", got)
	}
	e.ClearFaults()
	if got := e.Faults(); len(got) != 0 {
		t.Errorf("faults left = %+v, want none", got)
	}
}

func TestASenderThatLeavesDuringADelayIsNotDone(t *testing.T) {
	t.Parallel()
	e := open(t, emulator.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := e.Send(ctx, note("pay_7", "x"))
	if retryproof.OutcomeOf(err) != retryproof.NotDone || e.Totals().Alerts != 0 {
		t.Errorf("%v with %d alerts, want NotDone and none", err, e.Totals().Alerts)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	e := open(t, emulator.Config{})
	long := string(make([]byte, 4096))
	for _, n := range []push.Notification{{}, {To: "u1"}, {To: long, Title: "x"}, {To: "u1", Title: "\xff"}, {To: "u1", Title: "x", Body: long}, {To: "u1", Title: "x", ReplaceID: long}} {
		if err := e.Send(t.Context(), n); retryproof.CodeOf(err) != retryproof.CodeInvalid || retryproof.OutcomeOf(err) != retryproof.NotDone {
			t.Errorf("%.40v: %v, want NotDone and invalid", n, err)
		}
	}
	for _, f := range []emulator.Fault{{}, {Kind: "x"}, {Kind: emulator.FaultDelay}, {Kind: emulator.FaultRefuse, Next: -1}, {Kind: emulator.FaultDelay, Delay: time.Hour}} {
		if err := e.AddFault(f); retryproof.CodeOf(err) != retryproof.CodeInvalid {
			t.Errorf("%+v: %v, want invalid", f, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"v":1,"seq":1,"at":"2026-01-01T00:00:00Z","to":"u1","replace_id":"pay_7","title":"Paid","body":"$30.00"}`))
	f.Add([]byte(`{"v":1,"seq":9223372036854775807,"to":"u1","title":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := emulator.New(t.Context(), emulator.Config{Journal: &memoryJournal{records: [][]byte{data}}})
		if err != nil {
			return
		}
		if got := e.Totals(); got.Shown != 1 || got.Alerts != 1 {
			t.Errorf("one record gave %+v", got)
		}
	})
}
