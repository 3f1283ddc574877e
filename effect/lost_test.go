package effect_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
)

var errLocked = retryproof.Refused(retryproof.CodeConflict, "a lock is held", nil)

func TestOwnClaimIsRecognisedAfterALostCommit(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	l.store.failAfter("Begin", errLost, errLost, errLocked)
	_, a := l.begin(e, request(), effect.Run)
	if a.TookOver() || a.Begun() {
		t.Error("got a takeover, want the first run")
	}
	if l.store.calls["Begin"] != 4 || l.saw(effect.SawLostCommit) != 2 {
		t.Errorf("got %v calls and %d lost commits, want 4 and 2", l.store.calls, l.saw(effect.SawLostCommit))
	}
	l.finish(a, "paid", effect.Replay)
}

// case 28
func TestABeginThatGivesUpBlocksNobody(t *testing.T) {
	for name, script := range map[string]func(*shaky){
		"every answer lost":  func(s *shaky) { s.failAfter("Begin", slices.Repeat([]error{errLost}, 5)...) },
		"never got there":    func(s *shaky) { s.failBefore("Begin", slices.Repeat([]error{errLost}, 5)...) },
		"away":               func(s *shaky) { s.failBefore("Begin", errAway) },
		"read-only":          func(s *shaky) { s.failBefore("Begin", retryproof.Refused(retryproof.CodeReadOnly, "read-only", nil)) },
		"locked all the way": func(s *shaky) { s.failBefore("Begin", slices.Repeat([]error{errLocked}, 5)...) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			e := l.engine(effect.RerunNever)
			script(l.store)
			_, err := e.Do(context.Background(), request(), func(context.Context, *effect.Attempt) (effect.Finish, error) {
				t.Error("it ran")
				return effect.Finish{}, nil
			})
			var refusal *retryproof.Error
			outcome := retryproof.Unknown // an earlier request may have run: nobody has seen the record
			if name == "every answer lost" || name == "never got there" {
				outcome = retryproof.NotDone // the record was seen to be gone
			}
			if !errors.As(err, &refusal) || refusal.Outcome != outcome || refusal.Code != retryproof.CodeUnavailable || refusal.RetryAfter <= 0 {
				t.Errorf("got %v, want unavailable, %v and when to come again", err, outcome)
			}
			l.wantGuard("")
			l.wantClaim("none")
			if got, want := l.store.calls["Begin"], map[bool]int{true: 1, false: 5}[name == "away" || name == "read-only"]; got != want {
				t.Errorf("got %d tries, want %d", got, want)
			}
			l.begin(e, request(), effect.Run)
		})
	}
}

func TestASettlementWhoseAnswerIsLostIsReadBack(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	_, a := l.begin(e, request(), effect.Run)
	l.store.failAfter("Settle", errLost, errLocked)
	finish := succeeded("paid")
	finish.Events = []retryproof.Event{{ID: pay.Sub("SUCCEEDED"), Group: "m1", At: now}}
	finish.Postings = []ledger.Posting{{Account: "a", Currency: "USD", Amount: 1, Ref: "r"}, {Account: "b", Currency: "USD", Amount: -1, Ref: "r"}}
	d, err := a.Finish(context.Background(), finish)
	if err != nil || d.Verdict != effect.Replay || string(d.Answer.Body) != "paid" {
		t.Errorf("got %v, %v, want the answer", d, err)
	}
	if how, ended := a.Ended(); !ended || how.Verdict != effect.Replay {
		t.Errorf("Ended: got %v, %v", how.Verdict, ended)
	}
	if stats, err := l.memory.Outbox().Stats(context.Background()); stats.Waiting != 1 || err != nil {
		t.Errorf("got %+v, %v, want one event", stats, err)
	}
	if l.saw(effect.SawSettled) != 1 || l.saw(effect.SawFenced) != 0 {
		t.Errorf("got %v, want settled once and nobody fenced", l.seen)
	}
}

func TestASettlementThatNobodyConfirmsIsUnknown(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	l.store.failAfter("Settle", slices.Repeat([]error{errLost}, 5)...)
	_, err := a.Finish(context.Background(), succeeded("paid"))
	if retryproof.OutcomeOf(err) != retryproof.Unknown || retryproof.CodeOf(err) != retryproof.CodeUnknown || !errors.Is(err, errLost) {
		t.Errorf("got %v, want unknown", err)
	}
	if _, ended := a.Ended(); ended {
		t.Error("the attempt says that it ended")
	}
	if d, _ := l.begin(e, request(), effect.Replay); string(d.Answer.Body) != "paid" { // it had landed
		t.Errorf("got %v, want paid", d.Answer)
	}
}

func TestASettlementThatNeverLandedIsRepeatedByTheNextOwner(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	l.store.failBefore("Settle", slices.Repeat([]error{errLost}, 5)...)
	if _, err := a.Finish(context.Background(), succeeded("paid")); retryproof.OutcomeOf(err) != retryproof.Unknown {
		t.Errorf("got %v, want unknown", err)
	}
	l.at(6.03)
	_, b := l.begin(e, request(), effect.Run)
	l.finish(b, "paid", effect.Replay)
}

func TestAnotherSettlersMoveIsNotTakenForOnesOwn(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	l.store.failBefore("Settle", errLost)
	l.store.onCall("Settle", 2, func() { // between the lost try and the next one
		out, err := l.memory.Effects().Settle(context.Background(), effect.Settle{ID: pay, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "webhook", Now: l.clock.Now()})
		if err != nil || !out.Moved {
			t.Errorf("webhook: got %v, %v", out, err)
		}
	})
	d, err := a.Finish(context.Background(), succeeded("mine"))
	if err != nil || d.Verdict != effect.Replay || d.Answer != nil || d.Guard.SettledBy != "webhook" {
		t.Errorf("got %+v, %v, want the webhook's record", d, err)
	}
	if l.saw(effect.SawFenced) != 1 {
		t.Error("nobody was fenced")
	}
	l.wantClaim("pointer") // completed by the one it belongs to: the webhook does not know of it
}

func TestAReleaseWhoseAnswerIsLostIsReadBack(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	_, a := l.begin(e, request(), effect.Run)
	l.store.failAfter("Release", errLost)
	if gone, err := a.Release(context.Background()); !gone || err != nil {
		t.Errorf("got %v, %v, want released", gone, err)
	}
	if _, ended := a.Ended(); !ended || l.saw(effect.SawReleased) != 1 {
		t.Error("the attempt did not end as released")
	}
	l.begin(e, request(), effect.Run)
}

func TestAReleaseThatCannotBeConfirmedIsAnError(t *testing.T) {
	l := newLab(t)
	_, a := l.begin(l.engine(effect.RerunNever), request(), effect.Run)
	l.store.failBefore("Release", errAway)
	if gone, err := a.Release(context.Background()); gone || !errors.Is(err, errAway) {
		t.Errorf("got %v, %v, want an error", gone, err)
	}
	if _, ended := a.Ended(); ended {
		t.Error("the attempt says that it ended")
	}
}

func TestAFencedOwnerThatCannotReadTheRecordSaysSo(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	l.at(6.03)
	l.begin(e, request(), effect.Run)
	l.store.failBefore("Look", errAway)
	if _, err := a.Finish(context.Background(), succeeded("x")); !errors.Is(err, errAway) {
		t.Errorf("got %v, want %v", err, errAway)
	}
}

func TestOnlyAFinalOutcomeFinishes(t *testing.T) {
	l := newLab(t)
	_, a := l.begin(l.engine(effect.RerunNever), request(), effect.Run)
	for _, state := range []effect.State{"", effect.Pending, effect.Unknown, effect.Void} {
		_, err := a.Finish(context.Background(), effect.Finish{State: state})
		if retryproof.CodeOf(errors.Unwrap(err)) != retryproof.CodeInvalid || retryproof.OutcomeOf(err) != retryproof.Unknown {
			t.Errorf("%q: got %v, want unknown since it may have run, because it is invalid", state, err)
		}
	}
	l.wantGuard(effect.Pending)
}

func TestPostingsThatDoNotBalanceLeaveTheOutcomeUnknown(t *testing.T) {
	l := newLab(t)
	_, a := l.begin(l.engine(effect.RerunNever), request(), effect.Run)
	f := succeeded("paid")
	f.Postings = []ledger.Posting{{Account: "a", Currency: "USD", Amount: 1, Ref: "r"}}
	if _, err := a.Finish(context.Background(), f); retryproof.OutcomeOf(err) != retryproof.Unknown {
		t.Errorf("got %v, want unknown: the effect stands", err)
	}
	l.wantGuard(effect.Pending)
}
