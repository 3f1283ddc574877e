package notify_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/notify"
)

var (
	gone     = retryproof.Refused(retryproof.CodePermanent, "the person is gone", nil)
	tooLong  = retryproof.Refused(retryproof.CodeInvalid, "the text is too long", nil)
	slowDown = retryproof.Refused(retryproof.CodeTooMany, "slow down", nil)
)

func (b *bench) intent(t *testing.T, event string) notify.Intent {
	t.Helper()
	got, err := b.store.Store.Intent(context.Background(), notify.Key{EventID: event, Channel: "push"})
	if err != nil || got == nil {
		t.Fatalf("got %v, %v", got, err)
	}
	return *got
}

func TestAFailedTryIsRecordedAndFinishesTheMessage(t *testing.T) {
	for _, cause := range []error{errCut, slowDown} {
		t.Run(cause.Error(), func(t *testing.T) {
			b := newBench(t)
			b.provider.err = cause
			b.finish(t, "ev_7")
			b.want(t, notify.Pending, 1)
			got := b.intent(t, "ev_7")
			if want := b.clock.Now().Add(1500 * time.Millisecond); !got.NextAt.Equal(want) || got.Reason != cause.Error() {
				t.Errorf("got next %v, reason %q, want %v and %q", got.NextAt, got.Reason, want, cause)
			}
			b.finish(t, "ev_7") // a redelivery leaves it to its time
			b.provider.err = nil
			b.finish(t, "ev_7")
			if b.provider.asked != 1 {
				t.Errorf("got %d tries, want 1", b.provider.asked)
			}
			if want := []string{"failed", "skipped", "skipped"}; !slices.Equal(b.seen, want) {
				t.Errorf("got %v, want %v", b.seen, want)
			}
			b.clock.Advance(1500*time.Millisecond - time.Microsecond)
			b.runs(t, b.notifier, 0)
			b.clock.Advance(time.Microsecond)
			b.runs(t, b.notifier, 1)
			b.want(t, notify.Sent, 2)
			b.runs(t, b.notifier, 0)
		})
	}
}

func TestAFailureThatNobodyCouldWriteDownLeavesTheMessage(t *testing.T) {
	b := newBench(t)
	b.provider.err, b.store.failErr = slowDown, errors.New("the store is away")
	if err := b.notifier.Finish(context.Background(), "ev_7"); !errors.Is(err, b.store.failErr) || !errors.Is(err, slowDown) {
		t.Errorf("got %v, want both %v and %v", err, b.store.failErr, slowDown)
	}
	b.want(t, notify.Pending, 0)
	b.provider.err = nil
	b.finish(t, "ev_7")
	b.want(t, notify.Sent, 1)
}

func TestAPersonWhoIsGoneIsToldOnceAndNotTriedAgain(t *testing.T) {
	for _, cause := range []error{gone, tooLong} {
		t.Run(cause.Error(), func(t *testing.T) {
			b := newBench(t)
			b.provider.err = cause
			for range 3 {
				b.finish(t, "ev_7")
			}
			b.clock.Advance(48 * time.Hour)
			b.runs(t, b.notifier, 0)
			b.want(t, notify.Refused, 1)
			if got := b.intent(t, "ev_7").Reason; got != cause.Error() {
				t.Errorf("got %q, want %q", got, cause)
			}
			if want := []string{"failed", "refused", "skipped", "skipped"}; !slices.Equal(b.seen, want) || b.provider.asked != 1 {
				t.Errorf("got %v and %d tries, want %v and 1", b.seen, b.provider.asked, want)
			}
		})
	}
}

// An error that says permanent and not that nothing was done may have been shown.
func TestOnlyWhatWasCertainlyNotDoneIsRefused(t *testing.T) {
	b := newBench(t)
	b.provider.err = &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodePermanent, Message: "cut"}
	b.finish(t, "ev_7")
	b.want(t, notify.Pending, 1)
}

func TestWhatNobodyTriedIsDueWhenItIsOverdue(t *testing.T) {
	b := newBench(t)
	b.clock.Advance(4*time.Minute - time.Microsecond)
	b.runs(t, b.notifier, 0)
	b.clock.Advance(time.Microsecond)
	b.runs(t, b.notifier, 1)
	b.want(t, notify.Sent, 1)
	if want := []string{"sent"}; !slices.Equal(b.seen, want) {
		t.Errorf("got %v, want %v", b.seen, want)
	}
}

func TestAnIntentIsGivenUpAfterADayOfFailing(t *testing.T) {
	b := newBench(t)
	b.provider.err = errCut
	begin := b.clock.Now()
	for b.intent(t, "ev_7").State == notify.Pending && b.clock.Now().Sub(begin) < 72*time.Hour {
		_, _ = b.notifier.RunOnce(context.Background())
		b.clock.Advance(10 * time.Second)
	}
	i := b.intent(t, "ev_7")
	if took := b.clock.Now().Sub(begin); i.State != notify.Refused || took < 24*time.Hour || took > 48*time.Hour {
		t.Errorf("got %s after %v and %d tries, want REFUSED after one to two days", i.State, took, i.Sends)
	}
	if last := b.seen[len(b.seen)-1]; last != "refused" || slices.Index(b.seen, "refused") != len(b.seen)-1 || i.Sends != len(b.seen)-1 {
		t.Errorf("got %d tries, the last seen as %q, want it refused once, at the end", i.Sends, last)
	}
}

// What waited while nothing ran, through a weekend's stop for example, has not failed
// for so long.
func TestAnIntentIsNotGivenUpForTheTimeInWhichNothingRan(t *testing.T) {
	b := newBench(t)
	b.provider.err = errCut
	b.finish(t, "ev_7")
	for tries := 2; tries <= 4; tries++ {
		b.clock.Advance(72 * time.Hour)
		if _, err := b.notifier.RunOnce(context.Background()); !errors.Is(err, errCut) {
			t.Errorf("got %v, want %v", err, errCut)
		}
		b.want(t, notify.Pending, tries)
	}
	b.provider.err = nil
	b.clock.Advance(time.Hour)
	b.runs(t, b.notifier, 1)
	b.want(t, notify.Sent, 5)
}

func TestWaitsGrowToFiveMinutes(t *testing.T) {
	b := newBench(t)
	b.provider.err = errCut
	b.finish(t, "ev_7")
	for tries := 1; tries <= 12; tries++ {
		got := b.intent(t, "ev_7")
		want := min(2*time.Second<<(tries-1), 5*time.Minute) / 4 * 3
		if wait := got.NextAt.Sub(b.clock.Now()); got.Sends != tries || wait != want {
			t.Errorf("after %d tries: got %d and a wait of %v, want %v", tries, got.Sends, wait, want)
		}
		b.clock.Advance(want)
		_, _ = b.notifier.RunOnce(context.Background())
	}
}

// Of one that fails and one that does not, the second is not held up, and the step says
// what failed.
func TestOneThatFailsHoldsUpNoOther(t *testing.T) {
	b := newBench(t)
	for i := range 30 {
		b.intend(t, fmt.Sprintf("ev_8%02d", i), "u2")
	}
	b.provider.of = map[string]error{"u1": errCut}
	b.clock.Advance(time.Hour)
	got, err := b.notifier.RunOnce(context.Background())
	if got != 9 || !errors.Is(err, errCut) {
		t.Errorf("got %d, %v, want 9 of a batch and %v", got, err, errCut)
	}
	for _, want := range []int{10, 10, 1, 0} {
		b.runs(t, b.notifier, want)
	}
	if len(b.provider.took) != 30 {
		t.Errorf("got %d sends, want 30", len(b.provider.took))
	}
}

func TestWhatOneProcessHasClaimedNoOtherSends(t *testing.T) {
	b := newBench(t)
	b.clock.Advance(time.Hour)
	other := b.process()
	b.provider.during = func() {
		b.provider.during = nil
		b.runs(t, other, 0)
	}
	b.runs(t, b.notifier, 1)
	if len(b.provider.took) != 1 {
		t.Errorf("got %v, want one send", b.provider.took)
	}
}

func TestWhatADeadProcessHasClaimedIsSentAfterAMinute(t *testing.T) {
	b := newBench(t)
	b.clock.Advance(time.Hour)
	b.provider.during = func() { panic("power") }
	func() {
		defer func() { _ = recover() }()
		_, _ = b.notifier.RunOnce(context.Background())
	}()
	b.provider.during = nil
	other := b.process()
	b.clock.Advance(time.Minute - time.Microsecond)
	b.runs(t, other, 0)
	b.clock.Advance(time.Microsecond)
	b.runs(t, other, 1)
	b.want(t, notify.Sent, 1)
}

func TestAStepSendsNothingOnALeaseThatMayHaveEnded(t *testing.T) {
	b := newBench(t)
	for i := range 5 {
		b.intend(t, fmt.Sprintf("ev_8%d", i), "u2")
	}
	b.clock.Advance(time.Hour)
	b.provider.during = func() { b.clock.Advance(30 * time.Second) } // standing still
	if _, err := b.notifier.RunOnce(context.Background()); err == nil {
		t.Error("got no error, want those that took too long")
	}
	if b.provider.asked != 2 {
		t.Errorf("got %d sends, want 2 within the minute", b.provider.asked)
	}
}

func TestASlowProviderLeavesTimeToWriteThatDown(t *testing.T) {
	b := newBench(t)
	b.provider.during = func() { b.clock.Advance(5 * time.Second) }
	b.finish(t, "ev_7")
	b.want(t, notify.Pending, 1)
}

func TestAProviderInTroubleIsNotAskedForEveryMessage(t *testing.T) {
	b := newBench(t)
	b.provider.err = errCut
	for i := range 20 {
		b.intend(t, fmt.Sprintf("ev_8%02d", i), "u2")
		b.finish(t, fmt.Sprintf("ev_8%02d", i))
	}
	if b.provider.asked != 3 {
		t.Errorf("got %d tries, want 3", b.provider.asked)
	}
	b.clock.Advance(time.Second)
	b.finish(t, "ev_803")
	if b.provider.asked != 4 {
		t.Errorf("after a second: got %d tries, want 4", b.provider.asked)
	}
	b.provider.err = nil
	b.clock.Advance(2*time.Second - time.Microsecond)
	b.finish(t, "ev_804")
	if b.provider.asked != 4 {
		t.Errorf("before two seconds: got %d tries, want 4", b.provider.asked)
	}
	b.clock.Advance(time.Microsecond)
	b.finish(t, "ev_804")
	b.finish(t, "ev_805")
	if len(b.provider.took) != 2 {
		t.Errorf("got %d sends, want 2: it works again", len(b.provider.took))
	}
}

// People who are gone say nothing about the provider.
func TestAProviderThatRefusesPersonsIsInNoTrouble(t *testing.T) {
	b := newBench(t)
	b.provider.err = gone
	for i := range 20 {
		b.intend(t, fmt.Sprintf("ev_8%02d", i), "u2")
		b.finish(t, fmt.Sprintf("ev_8%02d", i))
	}
	if b.provider.asked != 20 {
		t.Errorf("got %d tries, want 20", b.provider.asked)
	}
}

func TestAStepThatCannotClaimSaysSo(t *testing.T) {
	b := newBench(t)
	b.clock.Advance(time.Hour)
	b.store.claimErr = errCut
	if n, err := b.notifier.RunOnce(context.Background()); n != 0 || !errors.Is(err, errCut) || b.provider.asked != 0 {
		t.Errorf("got %d, %v and %d sends, want %v and none", n, err, b.provider.asked, errCut)
	}
}

func TestAStepThatIsToldToStopSendsNothingMore(t *testing.T) {
	b := newBench(t)
	b.intend(t, "ev_8", "u2")
	b.clock.Advance(time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	b.provider.during = cancel
	_, _ = b.notifier.RunOnce(ctx)
	if b.provider.asked != 1 {
		t.Errorf("got %d sends, want 1", b.provider.asked)
	}
}
