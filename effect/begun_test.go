package effect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/store/memory"
)

// case 5: an error that says NotDone is about its own write. The outside call before it
// stands.
func TestNotDoneAfterACallBeganFreesNoKey(t *testing.T) {
	lock := retryproof.Refused(retryproof.CodeConflict, "another connection holds the lock", nil)
	for name, c := range map[string]struct {
		call func(*effect.Attempt)
		end  error
		want effect.State
	}{
		"begun":                 {(*effect.Attempt).Begin, lock, effect.Unknown},
		"keyed":                 {func(a *effect.Attempt) { a.Key("send") }, lock, effect.Unknown},
		"not begun":             {func(*effect.Attempt) {}, lock, ""},
		"not taken":             {func(a *effect.Attempt) { a.Key("send"); a.NothingDone() }, lock, ""},
		"not taken, then begun": {func(a *effect.Attempt) { a.Key("send"); a.NothingDone(); a.Begin() }, lock, effect.Unknown},
		"not taken, no word":    {func(a *effect.Attempt) { a.NothingDone() }, errors.New("connection reset"), effect.Unknown},
		"a call without an answer and a refused note": {func(*effect.Attempt) {}, errors.Join(errors.New("connection reset"), lock), effect.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			e := l.engine(effect.RerunNever)
			sent := 0
			run := func(_ context.Context, a *effect.Attempt) (effect.Finish, error) {
				sent++
				c.call(a)
				return effect.Finish{}, c.end
			}
			_, err := e.Do(context.Background(), request(), run)
			if want := map[bool]retryproof.Outcome{true: retryproof.NotDone}[c.want == ""]; retryproof.OutcomeOf(err) != want || !errors.Is(err, c.end) {
				t.Errorf("got %v, want %v and run's error", err, want)
			}
			l.wantGuard(c.want)
			for range 2 {
				_, _ = e.Do(context.Background(), request(), run)
			}
			if want := map[bool]int{true: 3, false: 1}[c.want == ""]; sent != want {
				t.Errorf("sent %d times, want %d", sent, want)
			}
		})
	}
}

// case 5
func TestANoteThatTheStoreRefusesFreesNoKey(t *testing.T) {
	l := newLab(t)
	sent := 0
	for range 3 {
		_, _ = l.engine(effect.RerunNever).Do(context.Background(), request(), func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
			a.Begin()
			sent++
			err := l.memory.Within(func(tx *memory.Tx) error { return tx.Publish(ctx, retryproof.Event{ID: "no group"}) })
			return succeeded("sent"), err
		})
	}
	if sent != 1 {
		t.Errorf("sent %d times, want 1", sent)
	}
}

// A Finish that can never be stored ends the attempt: no repeat runs it again.
func TestAFinishThatCanNeverBeStoredIsUnknownAtOnce(t *testing.T) {
	for name, f := range map[string]effect.Finish{
		"result too large": {State: effect.Succeeded, Result: []byte(strings.Repeat("x", effect.MaxResultBytes+1))},
		"no state":         {},
		"no balance":       {State: effect.Succeeded, Postings: []ledger.Posting{{Account: "a", Currency: "USD", Amount: 1, Ref: "r"}}},
		"event, no group":  {State: effect.Succeeded, Events: []retryproof.Event{{ID: "e"}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			e := l.engine(effect.RerunPending)
			runs := 0
			for i := range 5 {
				d, err := e.Do(context.Background(), request(), func(context.Context, *effect.Attempt) (effect.Finish, error) {
					runs++
					return f, nil
				})
				if d.Verdict != effect.Pointer || (err != nil) != (i == 0) || retryproof.OutcomeOf(err) == retryproof.NotDone {
					t.Errorf("got %v, %v, want a pointer", d.Verdict, err)
				}
				if i == 0 && (strings.Contains(err.Error(), "send it again") || retryproof.OutcomeOf(err) != retryproof.Unknown) {
					t.Errorf("got %v, want unknown, and no advice that cannot help", err)
				}
				l.clock.Advance(7 * time.Second)
			}
			if runs != 1 {
				t.Errorf("got %d runs, want 1", runs)
			}
			l.wantGuard(effect.Unknown)
		})
	}
}

// NotDone lets a caller use another key: it is said only when nothing ran and nothing
// that was recorded will.
func TestBeginSaysNotDoneOnlyWhenNobodyRan(t *testing.T) {
	slow := func(l *lab) func() { return func() { l.clock.Advance(6 * time.Second) } }
	for name, c := range map[string]struct {
		prepare func(l *lab, e *effect.Engine)
		code    retryproof.Code
		outcome retryproof.Outcome
		guard   effect.State
	}{
		"a repeat of what is done, the store away": {func(l *lab, e *effect.Engine) {
			_, a := l.begin(e, request(), effect.Run)
			l.finish(a, "paid", effect.Replay)
			l.store.failBefore("Begin", errAway)
		}, retryproof.CodeUnavailable, retryproof.Unknown, effect.Succeeded},
		"a takeover that fails": {func(l *lab, e *effect.Engine) {
			l.begin(e, request(), effect.Run) // and crashes
			l.at(6.03)
			l.store.failBefore("Adopt", errAway)
		}, retryproof.CodeUnavailable, retryproof.Unknown, effect.Pending},
		"late, and taken back": {func(l *lab, _ *effect.Engine) {
			l.store.slowAfter("Begin", slow(l))
		}, retryproof.CodeTooLate, retryproof.NotDone, ""},
		"late, and not taken back": {func(l *lab, _ *effect.Engine) {
			l.store.slowAfter("Begin", slow(l))
			l.store.failBefore("Release", errAway)
		}, retryproof.CodeUnknown, retryproof.Unknown, effect.Pending},
		"late before anybody looked": {func(l *lab, e *effect.Engine) {
			_, a := l.begin(e, request(), effect.Run)
			l.finish(a, "paid", effect.Replay)
			l.store.onCall("Begin", 2, slow(l))
			l.store.failBefore("Begin", errLocked)
		}, retryproof.CodeTooLate, retryproof.Unknown, effect.Succeeded},
		"a lost answer, then a refusal, and not taken back": {func(l *lab, _ *effect.Engine) {
			l.store.before = map[string][]error{"Begin": {nil, errAway}, "Release": {errAway}}
			l.store.failAfter("Begin", errLost)
		}, retryproof.CodeUnknown, retryproof.Unknown, effect.Pending},
		"a lost answer, then a refusal, and taken back": {func(l *lab, _ *effect.Engine) {
			l.store.before = map[string][]error{"Begin": {nil, errAway}}
			l.store.failAfter("Begin", errLost)
		}, retryproof.CodeUnavailable, retryproof.NotDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			e := l.engine(effect.RerunPending)
			c.prepare(l, e)
			_, a, err := e.Begin(context.Background(), request())
			if a != nil || retryproof.CodeOf(err) != c.code || retryproof.OutcomeOf(err) != c.outcome {
				t.Errorf("got %q, %v (%v), want %q, %v", retryproof.CodeOf(err), retryproof.OutcomeOf(err), err, c.code, c.outcome)
			}
			l.wantGuard(c.guard)
		})
	}
}

func TestAnUnknownIsCountedOnceItIsRecorded(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	l.store.failBefore("Settle", errAway)
	if _, err := a.Unknown(context.Background()); err == nil || l.saw(effect.SawUnknown) != 0 {
		t.Errorf("not recorded: got %v and %v", err, l.seen)
	}
	l.at(6.03)
	_, a2 := l.begin(e, request(), effect.Run)
	l.finish(a2, "paid", effect.Replay)
	if d, err := a.Unknown(context.Background()); err != nil || d.Verdict != effect.Replay || l.saw(effect.SawUnknown) != 0 || l.saw(effect.SawFenced) != 1 {
		t.Errorf("taken over: got %v, %v and %v", d.Verdict, err, l.seen)
	}
}

func TestALostCommitIsReportedWithItsEffect(t *testing.T) {
	l := newLab(t)
	var got []effect.Observation
	e, err := effect.New(l.store, effect.Config{Clock: l.clock, Rand: l.rand, Observe: func(o effect.Observation) { got = append(got, o) }})
	if err != nil {
		t.Fatal(err)
	}
	l.store.failAfter("Begin", errLost)
	l.begin(e, request(), effect.Run)
	if want := (effect.Observation{What: effect.SawLostCommit, GuardID: string(pay), Endpoint: scope.Endpoint}); len(got) == 0 || got[0] != want {
		t.Errorf("got %+v, want %+v first", got, want)
	}
}

func TestEveryVerdictSaysWhatItMeans(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for v := effect.Verdict(0); v <= effect.Broken; v++ {
		names[v.String()] = true
		d := effect.Decision{Verdict: v, RetryAfter: 3 * time.Second}
		want := map[effect.Verdict]string{0: "unknown unknown 1s", effect.Pointer: "unknown unknown 1s", effect.Busy: "in-progress unknown 3s",
			effect.Mismatch: "key-reused not done 0s", effect.Voided: "void not done 0s"}[v]
		if v >= effect.Takeover {
			want = "unknown unknown 1s"
		}
		got := ""
		var e *retryproof.Error
		if errors.As(d.Err(), &e) {
			got = fmt.Sprint(e.Code, " ", e.Outcome, " ", e.RetryAfter)
		}
		if got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
	if len(names) != int(effect.Broken)+1 {
		t.Errorf("got names %v, want one for each", names)
	}
}

// A settlement to another state by the same token is not this one.
func TestALostSettlementIsReadBackByItsStateToo(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	_, a := l.begin(e, request(), effect.Run)
	set := effect.Settle{ID: pay, From: []effect.State{effect.Pending, effect.Unknown}, To: effect.Unknown, By: a.Owner(), Now: l.clock.Now()}
	if out, err := e.Settle(context.Background(), set); err != nil || !out.Moved {
		t.Fatalf("got %v, %v", out, err)
	}
	l.store.failBefore("Settle", errLost)
	set.To, set.Fenced = effect.Succeeded, true // the guard is nobody's by now
	if out, err := e.Settle(context.Background(), set); err != nil || out.Moved || out.Guard.State != effect.Unknown {
		t.Errorf("got %+v, %v, want no move", out, err)
	}
}

// case 18
func TestALateOwnerWhoseRecordIsGoneIsToldToComeAgain(t *testing.T) {
	l := newLab(t)
	_, a := l.begin(l.engine(effect.RerunNever), request(), effect.Run)
	if gone, err := l.memory.Effects().Release(context.Background(), effect.Release{Scope: scope, GuardID: pay, Owner: a.Owner()}); !gone || err != nil {
		t.Fatalf("got %v, %v, want it gone", gone, err)
	}
	if d := l.finish(a, "paid", effect.Busy); d.RetryAfter <= 0 {
		t.Errorf("got RetryAfter %v, want when to come again", d.RetryAfter)
	}
}
