package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/queue"
)

// fragile applies every message but the ones that it is told to refuse.
type fragile struct {
	*bench
	broken map[string]error
}

func (f *fragile) handle(ctx context.Context, d queue.Delivery) (inbox.Apply, error) {
	if err := f.broken[d.ID]; err != nil {
		return inbox.Apply{}, err
	}
	return f.credit(ctx, d)
}

func newFragile(t *testing.T) *fragile {
	return &fragile{bench: newBench(t), broken: map[string]error{}}
}

func (f *fragile) parking(c inbox.Config) *inbox.Consumer {
	c.Consumer, c.Parked = "worker", f.memory.ParkedMessages()
	return f.consumer(f.handle, c)
}

func (f *fragile) parked() []inbox.Parked {
	f.t.Helper()
	got, err := f.memory.ParkedMessages().ListParked(context.Background(), inbox.ListParked{Limit: 100})
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// runFor lets the consumer work for a while in virtual time.
func (f *fragile) runFor(c *inbox.Consumer, d time.Duration) {
	for end := f.clock.Now().Add(d); f.clock.Now().Before(end); f.clock.Advance(time.Second) {
		for {
			if n, _ := c.RunOnce(context.Background()); n == 0 {
				break
			}
		}
	}
}

var errNever = retryproof.Refused(retryproof.CodePermanent, "no try can help", nil)

func TestAMessageThatNoTryCanHelpIsSetAsideAtOnce(t *testing.T) {
	f := newFragile(t)
	f.broken["ev_1"] = fmt.Errorf("the handler: %w", errNever)
	f.send("ev_1")
	n, err := f.parking(inbox.Config{}).RunOnce(context.Background())
	if n != 1 || !errors.Is(err, errNever) {
		t.Errorf("got %d, %v, want it left and the error", n, err)
	}
	f.wantEmpty()
	got := f.parked()
	if len(got) != 1 || got[0].ID != "ev_1" || got[0].Consumer != "worker" || string(got[0].Body) != "{}" || got[0].Attempts != 1 ||
		!got[0].SentAt.Equal(start) || !got[0].ParkedAt.Equal(start) || !strings.Contains(got[0].Reason, "no try can help") {
		t.Errorf("got %+v, want the message, whole, and why", got)
	}
	if f.seen["parked"] != 1 || f.seen["failed"] != 1 {
		t.Errorf("observed: got %v, want it failed and parked", f.seen)
	}
	f.want(0)
}

func TestAFollowUpThatNoTryCanHelpIsTriedLikeAnyOther(t *testing.T) {
	f := newFragile(t)
	f.send("ev_1")
	c := f.parking(inbox.Config{After: func(context.Context, queue.Delivery) error { return errNever }})
	if n, err := c.RunOnce(context.Background()); n != 1 || !errors.Is(err, errNever) {
		t.Errorf("got %d, %v, want it put back", n, err)
	}
	if len(f.parked()) != 0 || f.Stats().Depth != 1 {
		t.Errorf("got %d set aside and %d in the queue, want 0 and 1", len(f.parked()), f.Stats().Depth)
	}
}

func TestAMessageThatFailsAloneAmongOthersIsSetAsideAndItsGroupGoesOn(t *testing.T) {
	f := newFragile(t)
	c := f.parking(inbox.Config{MaxAttempts: 5})
	f.broken["ev_1"] = errBroken
	for _, id := range []string{"ev_1", "ev_2"} {
		if err := f.Send(context.Background(), queue.Message{ID: id, Group: "m1", Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	f.runFor(c, 10*time.Second) // tries at 0, 1, 3 and 7 s
	if got := f.parked(); len(got) != 0 {
		t.Fatalf("after four tries: got %+v, want nothing set aside", got)
	}
	f.want(0) // ev_2 waits behind it
	f.send("other")
	f.runFor(c, 10*time.Second) // the fifth at 15 s
	if got := f.parked(); len(got) != 1 || got[0].Attempts != 5 || got[0].Reason != errBroken.Error() {
		t.Fatalf("after the fifth: got %+v, want it set aside", got)
	}
	f.want(2) // other, and ev_2 in its turn
	f.wantEmpty()
}

func TestAnOutageSetsNothingAside(t *testing.T) {
	f := newFragile(t)
	c := f.parking(inbox.Config{MaxAttempts: 5, ParkAfter: 24 * time.Hour})
	f.send("before")
	f.runFor(c, time.Second)
	ids := []string{"ev_1", "ev_2", "ev_3"}
	for _, id := range ids {
		f.broken[id] = errBroken
	}
	f.clock.Advance(5 * time.Minute) // since the last success
	f.send(ids...)
	f.runFor(c, 12*time.Hour)
	if got := f.parked(); len(got) != 0 {
		t.Errorf("got %d set aside, want none while nothing works", len(got))
	}
	clear(f.broken)
	f.runFor(c, 2*time.Minute)
	f.want(4)
	f.wantEmpty()
}

func TestAMessageThatFailsForLongIsSetAsideThoughNothingElseWorks(t *testing.T) {
	f := newFragile(t)
	f.broken["ev_1"] = errBroken
	f.send("ev_1")
	c := f.parking(inbox.Config{ParkAfter: time.Hour})
	f.runFor(c, time.Hour-time.Minute)
	if got := f.parked(); len(got) != 0 {
		t.Errorf("before ParkAfter: got %+v, want nothing set aside", got)
	}
	f.runFor(c, time.Hour+5*time.Minute)
	if got := f.parked(); len(got) != 1 {
		t.Errorf("after two ParkAfter: got %d set aside, want 1", len(got))
	}
	f.wantEmpty()
}

func TestAMessageThatWaitedForAConsumerIsNotSetAsideForItsAge(t *testing.T) {
	f := newFragile(t)
	f.broken["ev_1"] = errBroken
	f.send("ev_1")
	f.clock.Advance(72 * time.Hour)
	f.runFor(f.parking(inbox.Config{}), 20*time.Minute) // more than MaxAttempts tries
	if got := f.parked(); len(got) != 0 {
		t.Errorf("got %+v, want nothing set aside", got)
	}
}

func TestAMessageStaysInTheQueueWhenItCannotBeSetAside(t *testing.T) {
	f := newFragile(t)
	f.broken["ev_1"] = errNever
	f.send("ev_1")
	store := &deafParking{ParkedStore: f.memory.ParkedMessages(), err: errBroken}
	c := f.consumer(f.handle, inbox.Config{Consumer: "worker", Parked: store})
	if n, err := c.RunOnce(context.Background()); n != 1 || !errors.Is(err, errNever) || !errors.Is(err, errBroken) {
		t.Errorf("got %d, %v, want it put back and both errors", n, err)
	}
	if f.Stats().Depth != 1 || f.seen["parked"] != 0 {
		t.Errorf("got %d messages and %v, want it in the queue", f.Stats().Depth, f.seen)
	}
	store.err = nil
	f.clock.Advance(time.Minute)
	if n, _ := c.RunOnce(context.Background()); n != 1 {
		t.Errorf("got %d, want it set aside", n)
	}
	f.wantEmpty()
}

// deafParking fails to park.
type deafParking struct {
	inbox.ParkedStore
	err error
}

func (d *deafParking) Park(ctx context.Context, p inbox.Parked) (bool, error) {
	if d.err != nil {
		return false, d.err
	}
	return d.ParkedStore.Park(ctx, p)
}

func TestASetAsideMessageThatComesAgainIsDeletedAgain(t *testing.T) {
	f := newFragile(t)
	f.broken["ev_1"] = errNever
	f.send("ev_1")
	c := f.parking(inbox.Config{})
	f.finishErrs = []error{errBroken} // set aside, and its delete fails
	if n, err := c.RunOnce(context.Background()); n != 0 || !errors.Is(err, errBroken) {
		t.Errorf("got %d, %v, want the failed delete", n, err)
	}
	f.clock.Advance(30 * time.Second) // the visibility timeout
	if n, _ := c.RunOnce(context.Background()); n != 1 {
		t.Errorf("got %d, want it deleted", n)
	}
	f.wantEmpty()
	if got := f.parked(); len(got) != 1 || got[0].Attempts != 1 {
		t.Errorf("got %+v, want the first record", got)
	}
}

func TestAnotherMessageUnderASetAsideIDIsNotTakenForIt(t *testing.T) {
	for name, attempts := range map[string]int{"at once": 0, "after many deliveries": 1} {
		t.Run(name, func(t *testing.T) {
			f := newFragile(t)
			f.broken["ev_1"] = errNever
			c := f.parking(inbox.Config{MaxAttempts: attempts})
			f.send("ev_1")
			_, _ = c.RunOnce(context.Background())
			f.clock.Advance(10 * time.Minute) // past the queue's window
			if err := f.Send(context.Background(), queue.Message{ID: "ev_1", Group: "ev_1", Body: []byte(`{"other":1}`)}); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if n, err := c.RunOnce(context.Background()); n != 1 || !errors.Is(err, errNever) {
					t.Errorf("got %d, %v, want it put back", n, err)
				}
				f.clock.Advance(time.Minute)
			}
			if got := f.parked(); len(got) != 1 || string(got[0].Body) != "{}" || f.Stats().Depth != 1 {
				t.Fatalf("got %+v and %d in the queue, want the first set aside and the other still there", got, f.Stats().Depth)
			}
			if _, err := f.memory.ParkedMessages().Unpark(context.Background(), inbox.ParkedKey{Consumer: "worker", ID: "ev_1"}); err != nil {
				t.Fatal(err)
			}
			_, _ = c.RunOnce(context.Background())
			if got := f.parked(); len(got) != 1 || string(got[0].Body) != `{"other":1}` || f.Stats().Depth != 0 {
				t.Errorf("got %+v and %d in the queue, want the other set aside", got, f.Stats().Depth)
			}
		})
	}
}

func TestARedrivenMessageIsAppliedOnceAndItsRecordGoes(t *testing.T) {
	f := newFragile(t)
	after := 0
	c := f.parking(inbox.Config{After: func(context.Context, queue.Delivery) error { after++; return nil }})
	f.broken["ev_1"] = errNever
	f.send("ev_1")
	_, _ = c.RunOnce(context.Background())
	if err := c.Redrive(context.Background(), "ev_1"); !errors.Is(err, errNever) || len(f.parked()) != 1 {
		t.Errorf("before the repair: got %v and %d records, want the same error and the record", err, len(f.parked()))
	}
	clear(f.broken)
	if err := c.Redrive(context.Background(), "ev_1"); err != nil {
		t.Errorf("after the repair: got %v", err)
	}
	f.want(1)
	if after != 1 || len(f.parked()) != 0 {
		t.Errorf("got %d follow-up steps and %d records, want 1 and 0", after, len(f.parked()))
	}
	if err := c.Redrive(context.Background(), "ev_1"); retryproof.CodeOf(err) != retryproof.CodeNotFound {
		t.Errorf("again: got %v, want not found", err)
	}
	f.clock.Advance(10 * time.Minute)
	f.send("ev_1") // a copy past the queue's window
	_, _ = c.RunOnce(context.Background())
	f.want(1)
	f.wantEmpty()
}

func TestARedriveOfWhatWasAppliedMeanwhileChangesNothing(t *testing.T) {
	f := newFragile(t)
	c := f.parking(inbox.Config{})
	f.broken["ev_1"] = errNever
	f.send("ev_1")
	_, _ = c.RunOnce(context.Background())
	clear(f.broken)
	f.clock.Advance(10 * time.Minute)
	f.send("ev_1")
	_, _ = c.RunOnce(context.Background())
	f.want(1)
	if err := c.Redrive(context.Background(), "ev_1"); err != nil || len(f.parked()) != 0 {
		t.Errorf("got %v and %d records, want it gone", err, len(f.parked()))
	}
	f.want(1)
	if f.seen["repeat"] != 1 {
		t.Errorf("observed: got %v, want a repeat", f.seen)
	}
}

func TestRedriveNeedsAPlaceForWhatIsSetAside(t *testing.T) {
	b := newBench(t)
	c := b.consumer(b.credit, inbox.Config{})
	if err := c.Redrive(context.Background(), "ev_1"); err == nil {
		t.Error("got nil, want an error")
	}
}
