package inbox_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/queue"
)

// sendTo sends messages of one group.
func (b *bench) sendTo(group string, ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		if err := b.Send(context.Background(), queue.Message{ID: id, Group: group, Body: []byte("{}")}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// slow takes its time over one message, and heeds its context or does not.
func (f *fragile) slow(id string, takes time.Duration, heeds bool) inbox.Handler {
	return func(ctx context.Context, d queue.Delivery) (inbox.Apply, error) {
		if d.ID != id {
			return f.credit(ctx, d)
		}
		for range int(takes / time.Second) {
			f.clock.Advance(time.Second)
			if err := context.Cause(ctx); heeds && err != nil {
				return inbox.Apply{}, retryproof.Refused(retryproof.CodeUnavailable, "the lookup was cut off", err)
			}
		}
		return f.credit(ctx, d)
	}
}

func (f *fragile) slowConsumer(handle inbox.Handler, c inbox.Config) *inbox.Consumer {
	c.Consumer, c.Parked = "worker", f.memory.ParkedMessages()
	return f.consumer(handle, c)
}

func TestAHandlerThatIsSlowerThanItsBudgetFailsAndItsMessageWaits(t *testing.T) {
	f := newFragile(t)
	f.send("ev_1")
	c := f.slowConsumer(f.slow("ev_1", 40*time.Second, true), inbox.Config{})
	n, err := c.RunOnce(context.Background())
	if n != 1 || err == nil || !strings.Contains(err.Error(), "longer than its budget of 24s") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %d, %v, want it put back and the budget named", n, err)
	}
	if got := f.clock.Now().Sub(start); got != 24*time.Second {
		t.Errorf("got up to %v, want it cut off at 24 s, before the delivery ends", got)
	}
	if s := f.Stats(); s.Delayed != 1 || f.seen["failed"] != 1 || f.seen["late"] != 0 {
		t.Errorf("got %+v and %v, want it to wait", s, f.seen)
	}
}

func TestAMessageThatIsAlwaysTooSlowIsSetAsideAndItsGroupGoesOn(t *testing.T) {
	for name, heeds := range map[string]bool{"heeding its context": true, "heedless": false} { // order: each has a queue of its own
		t.Run(name, func(t *testing.T) {
			f := newFragile(t)
			c := f.slowConsumer(f.slow("ev_1", 40*time.Second, heeds), inbox.Config{MaxAttempts: 3})
			f.sendTo("m1", "ev_1", "ev_2")
			for _, other := range []string{"o1", "o2", "o3", "o4", "o5"} {
				f.send(other)
				f.runFor(c, time.Minute)
			}
			if got := f.parked(); len(got) != 1 || got[0].ID != "ev_1" || got[0].Attempts != 3 || !strings.Contains(got[0].Reason, "longer than its budget") {
				t.Errorf("got %+v, want ev_1 set aside after 3 deliveries", got)
			}
			f.want(6) // the five others and ev_2
			f.wantEmpty()
		})
	}
}

func TestADeliveryThatEndedBeforeTheDeleteIsToldAndNotCountedAsDone(t *testing.T) {
	f := newFragile(t)
	f.send("ev_1")
	late := true
	c := f.slowConsumer(f.credit, inbox.Config{MaxAttempts: 3, After: func(_ context.Context, d queue.Delivery) error {
		if late && d.ID == "ev_1" {
			f.clock.Advance(30 * time.Second)
		}
		return nil
	}})
	n, err := c.RunOnce(context.Background())
	if n != 0 || err == nil || !strings.Contains(err.Error(), "ev_1: its delivery ended before it could be deleted") {
		t.Errorf("got %d, %v, want nothing done, and why", n, err)
	}
	if f.seen["late"] != 1 || f.seen["applied"] != 1 || f.seen["failed"] != 0 || len(f.retries) != 0 {
		t.Errorf("observed: got %v and %d retries, want it applied and late", f.seen, len(f.retries))
	}
	late = false
	if n, err := c.RunOnce(context.Background()); n != 1 || err != nil {
		t.Errorf("the next delivery: got %d, %v, want it finished", n, err)
	}
	f.want(1)
	f.wantEmpty()
}

func TestAMessageWhoseDeliveryAlwaysEndsTooEarlyIsSetAside(t *testing.T) {
	f := newFragile(t)
	c := f.slowConsumer(f.credit, inbox.Config{MaxAttempts: 3, After: func(_ context.Context, d queue.Delivery) error {
		if d.ID == "ev_1" {
			f.clock.Advance(30 * time.Second)
		}
		return nil
	}})
	f.sendTo("m1", "ev_1", "ev_2")
	for _, other := range []string{"o1", "o2", "o3", "o4", "o5"} {
		f.send(other)
		f.runFor(c, time.Minute)
	}
	if got := f.parked(); len(got) != 1 || !strings.Contains(got[0].Reason, "ended before it could be deleted") {
		t.Errorf("got %+v, want ev_1 set aside", got)
	}
	f.want(7) // its effect too, once
	f.wantEmpty()
}

func TestAMessageThatCannotBePutBackIsNotCountedAsDone(t *testing.T) {
	f := newFragile(t)
	f.broken["ev_1"] = errBroken
	f.send("ev_1")
	f.retryErr = errLater
	if n, err := f.parking(inbox.Config{}).RunOnce(context.Background()); n != 0 || !errors.Is(err, errBroken) || !errors.Is(err, errLater) {
		t.Errorf("got %d, %v, want nothing done and both errors", n, err)
	}
}

func TestWhatIsAwayForOneMessageAndNotForOthersSetsNothingAside(t *testing.T) {
	for _, code := range []retryproof.Code{retryproof.CodeUnavailable, retryproof.CodeReadOnly, retryproof.CodeConflict, retryproof.CodeTooMany} {
		for _, where := range []string{"handler", "store", "follow-up"} {
			t.Run(string(code)+" "+where, func(t *testing.T) {
				f := newFragile(t)
				away := retryproof.Refused(code, "not now", nil)
				config := inbox.Config{MaxAttempts: 5, ParkAfter: time.Hour}
				switch where {
				case "handler":
					f.broken["ev_1"] = away
				case "store":
					f.store.refuse = map[string]error{"ev_1": away}
				default:
					config.After = func(_ context.Context, d queue.Delivery) error {
						if d.ID == "ev_1" {
							return away
						}
						return nil
					}
				}
				c := f.parking(config)
				f.send("ev_1")
				for range 30 { // others are applied all the time
					f.send(f.clock.Now().String())
					f.runFor(c, time.Minute)
				}
				if got := f.parked(); len(got) != 0 {
					t.Errorf("after half an hour: got %+v, want nothing set aside", got)
				}
				f.runFor(c, 2*time.Hour)
				if got := f.parked(); len(got) != 1 {
					t.Errorf("after two ParkAfter: got %d set aside, want 1", len(got))
				}
			})
		}
	}
}

func TestAPanicIsAFailureThatWaitsAndIsSetAside(t *testing.T) {
	for _, where := range []string{"handler", "store", "follow-up"} {
		t.Run(where, func(t *testing.T) {
			f := newFragile(t)
			explodes := func(at string, d queue.Delivery) {
				if at == where && d.ID == "ev_1" {
					var none map[string]int
					none[d.ID]++ // a bug
				}
			}
			f.store.apply = func(id string) { explodes("store", queue.Delivery{Message: queue.Message{ID: id}}) }
			c := f.slowConsumer(func(ctx context.Context, d queue.Delivery) (inbox.Apply, error) {
				explodes("handler", d)
				return f.credit(ctx, d)
			}, inbox.Config{MaxAttempts: 3, After: func(_ context.Context, d queue.Delivery) error {
				explodes("follow-up", d)
				return nil
			}})
			f.sendTo("m1", "ev_1", "ev_2")
			n, err := c.RunOnce(context.Background())
			if n != 1 || err == nil || retryproof.OutcomeOf(err) != retryproof.Unknown || !strings.Contains(err.Error(), "assignment to entry in nil map") {
				t.Errorf("got %d, %v, want it put back and the panic", n, err)
			}
			f.send("other")
			f.runFor(c, time.Minute)
			got := f.parked()
			if len(got) != 1 || !strings.Contains(got[0].Reason, "it panicked: assignment to entry in nil map, at inbox_test.") || !strings.Contains(got[0].Reason, "budget_test.go:") {
				t.Errorf("got %+v, want it set aside, with the panic and its place", got)
			}
			if log := f.log.String(); strings.Count(log, "level=ERROR") != 3 || strings.Count(log, "budget_test.go") < 3 {
				t.Errorf("got the log %.500q, want each panic with its stack", log)
			}
			f.wantEmpty()
		})
	}
}

func TestARedriveThatPanicsLeavesTheRecord(t *testing.T) {
	f := newFragile(t)
	c := f.slowConsumer(func(_ context.Context, d queue.Delivery) (inbox.Apply, error) {
		if d.Attempt > 1 {
			panic(errBroken)
		}
		return inbox.Apply{}, errNever
	}, inbox.Config{})
	f.send("ev_1")
	_, _ = c.RunOnce(context.Background())
	if err := c.Redrive(context.Background(), "ev_1"); err == nil || !strings.Contains(err.Error(), "it panicked") {
		t.Errorf("got %v, want the panic", err)
	}
	if got := f.parked(); len(got) != 1 {
		t.Errorf("got %d records, want it still there", len(got))
	}
}

func TestAGoexitCountsAsAFailure(t *testing.T) {
	f := newFragile(t)
	c := f.slowConsumer(func(context.Context, queue.Delivery) (inbox.Apply, error) {
		runtime.Goexit()
		return inbox.Apply{}, nil
	}, inbox.Config{MaxAttempts: 1, ParkAfter: time.Nanosecond})
	run := func() {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = c.RunOnce(context.Background())
			t.Error("RunOnce returned, want its goroutine ended")
		}()
		<-ended
	}
	f.send("ev_1")
	run()
	if f.seen["failed"] != 1 || len(f.retries) != 1 || f.retries[0] != time.Second {
		t.Errorf("got %v and retries %v, want one failure that waits", f.seen, f.retries)
	}
	f.clock.Advance(time.Second)
	run()
	if got := f.parked(); len(got) != 1 || !strings.Contains(got[0].Reason, "runtime.Goexit") {
		t.Errorf("got %+v, want it set aside", got)
	}
	f.wantEmpty()
}

func TestAnEffectWithoutATimeGetsTheConsumers(t *testing.T) {
	f := newFragile(t)
	f.clock.Advance(time.Hour)
	c := f.consumer(func(_ context.Context, d queue.Delivery) (inbox.Apply, error) {
		return inbox.Apply{Key: retryproof.InboxKey{Consumer: "worker", Source: "outbox", EventID: d.ID}}, nil
	}, inbox.Config{})
	f.send("ev_1")
	if n, err := c.RunOnce(context.Background()); n != 1 || err != nil {
		t.Fatalf("got %d, %v, want it applied", n, err)
	}
	if got := f.store.last.Now; !got.Equal(f.clock.Now()) {
		t.Errorf("got the time %v, want %v", got, f.clock.Now())
	}
}

func TestTheReasonOfALongPanicStillSaysWhere(t *testing.T) {
	f := newFragile(t)
	c := f.slowConsumer(func(context.Context, queue.Delivery) (inbox.Apply, error) { panic(strings.Repeat("x", 10_000)) },
		inbox.Config{MaxAttempts: 1, ParkAfter: time.Nanosecond})
	f.send("ev_1")
	f.runFor(c, time.Minute)
	if got := f.parked(); len(got) != 1 || !strings.Contains(got[0].Reason, "xxx, at inbox_test.") || !strings.Contains(got[0].Reason, "budget_test.go:") {
		t.Errorf("got %+v, want one that says where it panicked", got)
	}
}
