package effect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// processor is the outside world: it charges once per key.
type processor struct{ charges map[string]int }

func (p *processor) charge(key string) {
	if p.charges == nil {
		p.charges = map[string]int{}
	}
	p.charges[key]++
}

func TestATakeoverWaitsForLeaseAndMargin(t *testing.T) { // 3b, case 19
	for _, rerun := range []effect.Rerun{effect.RerunPending, effect.RerunAlways} {
		t.Run(map[effect.Rerun]string{effect.RerunPending: "pending", effect.RerunAlways: "always"}[rerun], func(t *testing.T) {
			l := newLab(t)
			e := l.engine(rerun)
			_, a1 := l.begin(e, request(), effect.Run) // and crashes
			l.at(6.02)
			if d, _ := l.begin(e, request(), effect.Busy); d.RetryAfter != time.Millisecond {
				t.Errorf("at until + margin: got RetryAfter %v, want 1ms", d.RetryAfter)
			}
			l.clock.Advance(tick)
			d, a2 := l.begin(e, request(), effect.Run)
			if !a2.TookOver() || !a2.Begun() || a2.Owner() == a1.Owner() || a2.ID() != pay || a2.Guard().Tries != 1 {
				t.Errorf("got %+v, want a takeover by a new owner", d)
			}
			if a1.Key("charge") != a2.Key("charge") {
				t.Error("the second owner calls outside by another name")
			}
			l.finish(a2, "paid", effect.Replay)
			if l.saw(effect.SawTakeover) != 1 || l.saw(effect.SawFirst) != 1 {
				t.Errorf("got %v, want 1 first and 1 takeover", l.seen)
			}
		})
	}
}

func TestACrashBeforeTheGuardIsTakenOver(t *testing.T) { // 3a
	l := newLab(t)
	store := effect.Split(l.memory.Keys(), l.memory.Guards())
	e := l.engineOn(store, effect.RerunNever)
	crashed := effect.Begin{Scope: scope, GuardID: pay, Fingerprint: h1, Owner: "A1", Now: l.clock.Now(), Until: l.clock.Now().Add(5 * time.Second)}
	if _, err := l.memory.Keys().ClaimKey(context.Background(), crashed); err != nil {
		t.Fatal(err)
	}
	l.at(6.02)
	l.begin(e, request(), effect.Busy)
	l.clock.Advance(tick)
	_, a2 := l.begin(e, request(), effect.Run)
	if a2.TookOver() || a2.Begun() {
		t.Error("nothing can have run without a guard, and yet it may have")
	}
	zombie, err := store.Begin(context.Background(), crashed) // A1 wakes and asks again
	if err != nil || zombie.Guard.Owner != a2.Owner() || zombie.Claim.Owner != a2.Owner() {
		t.Fatalf("got %+v, %v, want the second owner's records", zombie, err)
	}
	l.begin(e, request(), effect.Busy)
	l.finish(a2, "paid", effect.Replay)
	l.begin(e, request(), effect.Replay)
	if l.saw(effect.SawTakeover) != 1 || l.saw(effect.SawFirst) != 0 {
		t.Errorf("got %v, want a takeover", l.seen)
	}
}

// case 18, and 3c
func TestAZombieChangesNothingAndAnswersFromTheRecord(t *testing.T) {
	for name, end := range map[string]func(l *lab, a1 *effect.Attempt, want effect.Verdict){
		"completes": func(l *lab, a1 *effect.Attempt, want effect.Verdict) { l.finish(a1, "from the zombie", want) },
		"does not know": func(l *lab, a1 *effect.Attempt, want effect.Verdict) {
			if d, err := a1.Unknown(context.Background()); err != nil || d.Verdict != want {
				l.t.Errorf("Unknown: got %v, %v, want %v", d.Verdict, err, want)
			}
		},
		"releases": func(l *lab, a1 *effect.Attempt, _ effect.Verdict) {
			if gone, err := a1.Release(context.Background()); gone || err != nil {
				l.t.Errorf("Release: got %v, %v, want false", gone, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			e := l.engine(effect.RerunPending)
			_, a1 := l.begin(e, request(), effect.Run)
			l.at(6.03)
			_, a2 := l.begin(e, request(), effect.Run)
			end(l, a1, effect.Busy)
			l.wantGuard(effect.Pending)
			l.wantClaim("in progress")
			if got := l.look(); got.Claim.Owner != a2.Owner() || got.Guard.Owner != a2.Owner() {
				t.Errorf("got owners %s and %s, want %s", got.Claim.Owner, got.Guard.Owner, a2.Owner())
			}
			l.begin(e, request(), effect.Busy) // C
			l.finish(a2, "paid", effect.Replay)
			end(l, a1, effect.Replay)
			if got := l.saw(effect.SawFenced); got != 2 {
				t.Errorf("fenced: got %d, want 2", got)
			}
			l.wantGuard(effect.Succeeded)
			l.wantClaim("paid")
		})
	}
}

func TestAZombieCallsByTheSameNameAndAnswersFromTheRecord(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	var psp processor
	d, err := e.Do(context.Background(), request(), func(_ context.Context, a1 *effect.Attempt) (effect.Finish, error) {
		l.at(6.03) // pauses, past its lease
		_, err := e.Do(context.Background(), request(), func(_ context.Context, a2 *effect.Attempt) (effect.Finish, error) {
			psp.charge(a2.Key("charge"))
			return succeeded("paid"), nil
		})
		psp.charge(a1.Key("charge"))
		return succeeded("from the zombie"), err
	})
	if err != nil || d.Verdict != effect.Replay || string(d.Answer.Body) != "paid" {
		t.Errorf("got %v, %v, want the record's answer", d, err)
	}
	if len(psp.charges) != 1 {
		t.Errorf("got %v, want one name at the processor", psp.charges)
	}
}

func TestWhatAVanishedOwnerLeftIsUnknownUnlessItMayRunAgain(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	l.begin(e, request(), effect.Run) // and crashes
	l.at(6.02)
	l.begin(e, request(), effect.Busy)
	l.clock.Advance(tick)
	d, _ := l.begin(e, request(), effect.Pointer)
	if d.Guard.State != effect.Unknown || d.Guard.Owner != "" || !d.Guard.NextAt.Equal(l.clock.Now()) {
		t.Errorf("got %+v, want UNKNOWN, free and due", d.Guard)
	}
	l.wantClaim("pointer")
	l.at(100)
	l.begin(e, request(), effect.Pointer)
	if got := l.saw(effect.SawAbandon); got != 1 {
		t.Errorf("abandoned: got %d, want 1", got)
	}
}

func TestUnknownRunsAgainOnlyWhereThatIsAllowed(t *testing.T) {
	for rerun, want := range map[effect.Rerun]effect.Verdict{effect.RerunNever: effect.Pointer, effect.RerunPending: effect.Pointer, effect.RerunAlways: effect.Run} {
		t.Run([]string{"never", "pending", "always"}[rerun], func(t *testing.T) {
			l := newLab(t)
			e := l.engine(rerun)
			_, a := l.begin(e, request(), effect.Run)
			if _, err := a.Unknown(context.Background()); err != nil {
				t.Fatal(err)
			}
			_, again := l.begin(e, request(), want)
			if again == nil {
				return
			}
			if g := again.Guard(); g.State != effect.Unknown || !again.TookOver() {
				t.Errorf("got %+v, want UNKNOWN taken over", g)
			}
			l.begin(e, request(), effect.Pointer) // one at a time
			l.finish(again, "paid", effect.Replay)
			l.wantClaim("paid")
		})
	}
}

func TestARequestPastItsOwnDeadlineTakesNothingOver(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	l.begin(e, request(), effect.Run) // and crashes
	l.at(0.5)
	r := request()
	r.Wait = 10 * time.Second // its own deadline is 5.5, the lease is stale after 6.02
	l.begin(e, r, effect.Busy)
	if g := l.look().Guard; g.Tries != 0 {
		t.Errorf("got %d takeovers, want 0", g.Tries)
	}
	l.begin(e, request(), effect.Run) // a younger one does
}

func TestAStoreThatIsSlowerThanTheDeadlineRunsNothing(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	l.store.onCall("Begin", 1, func() { l.at(5.03) })
	_, err := e.Do(context.Background(), request(), func(context.Context, *effect.Attempt) (effect.Finish, error) {
		t.Error("it ran past its deadline")
		return effect.Finish{}, nil
	})
	if retryproof.CodeOf(err) != retryproof.CodeTooLate || retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("got %v, want too late and not done", err)
	}
	l.wantGuard("")
	l.wantClaim("none")
	l.begin(e, request(), effect.Run)
}

func TestATakeoverThatIsSlowerThanTheDeadlineRunsNothing(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	l.begin(e, request(), effect.Run) // and crashes
	l.at(6.03)
	l.store.onCall("Adopt", 1, func() { l.at(11.04) })
	l.begin(e, request(), effect.Busy)
	l.wantGuard(effect.Pending) // an earlier owner may have run: not released
	l.at(12.04)
	l.begin(e, request(), effect.Run)
}

func TestAnOwnerThatReleasesDuringATakeoverLeavesAFirstRun(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a1 := l.begin(e, request(), effect.Run)
	l.at(6.03)
	l.store.onCall("Adopt", 1, func() { _, _ = a1.Release(context.Background()) })
	if _, a2 := l.begin(e, request(), effect.Run); a2.TookOver() {
		t.Error("got a takeover, want a first run")
	}
}

func TestAWaitPastTheDeadlineIsTooLateForAReleasedKey(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	_, a1 := l.begin(e, request(), effect.Run)
	r := request()
	r.Arrived = l.clock.Now().Add(-4 * time.Second)
	r.Wait = 3 * time.Second
	l.store.onCall("Look", 40, func() { _, _ = a1.Release(context.Background()) }) // at 2.02
	_, _, err := e.Begin(context.Background(), r)
	if retryproof.CodeOf(err) != retryproof.CodeTooLate {
		t.Errorf("got %v, want too late", err)
	}
	if got := l.store.calls["Begin"]; got != 2 {
		t.Errorf("got %d claims, want none for a request that is too late", got)
	}
	l.wantClaim("none")
}

func TestAZombieWhoseSuccessorVanishedTooIsToldToComeAgain(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a1 := l.begin(e, request(), effect.Run)
	l.at(6.03)
	l.begin(e, request(), effect.Run) // and crashes
	l.at(13)
	if d := l.finish(a1, "from the zombie", effect.Busy); d.RetryAfter <= 0 {
		t.Errorf("got RetryAfter %v, want when to come again", d.RetryAfter)
	}
}

func TestASecondFinishIsAnsweredFromTheRecord(t *testing.T) {
	l := newLab(t)
	_, a := l.begin(l.engine(effect.RerunNever), request(), effect.Run)
	l.finish(a, "paid", effect.Replay)
	if d := l.finish(a, "another", effect.Replay); string(d.Answer.Body) != "paid" {
		t.Errorf("got %q, want the stored answer", d.Answer.Body)
	}
	if got := l.saw(effect.SawSettled); got != 1 {
		t.Errorf("got %d settlements, want 1", got)
	}
}

func TestACrashWhileAbandoningLeavesUnknown(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	l.begin(e, request(), effect.Run) // and crashes
	l.at(6.03)
	l.store.failBefore("Settle", errAway)
	if _, _, err := e.Begin(context.Background(), request()); retryproof.CodeOf(err) != retryproof.CodeUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
	l.wantGuard(effect.Unknown)
	l.begin(e, request(), effect.Pointer)
}

func TestOfTwoTakeoversOneRuns(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	l.begin(e, request(), effect.Run) // and crashes
	l.at(6.03)
	var faster *effect.Attempt
	l.store.onCall("Adopt", 1, func() { _, faster = l.begin(e, request(), effect.Run) })
	l.begin(e, request(), effect.Busy)
	l.finish(faster, "paid", effect.Replay)
}

func TestALostAdoptionIsRecognised(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	l.begin(e, request(), effect.Run) // and crashes
	l.at(6.03)
	l.store.failAfter("Adopt", errLost)
	_, a := l.begin(e, request(), effect.Run)
	if !a.TookOver() || a.Guard().Tries != 1 {
		t.Errorf("got %+v, want one takeover", a.Guard())
	}
	l.at(13)
	l.store.failBefore("Adopt", errAway)
	_, _, err := e.Begin(context.Background(), request())
	if !errors.Is(err, errAway) || retryproof.CodeOf(err) != retryproof.CodeUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}
