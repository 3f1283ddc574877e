package effect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// case 5
func TestAFailureAfterTheEffectNeverFreesTheKey(t *testing.T) {
	broken := errors.New("the receipt could not be printed")
	for name, end := range map[string]func() error{
		"error":        func() error { return broken },
		"panic":        func() error { panic(broken) },
		"abort":        func() error { panic(http.ErrAbortHandler) },
		"Goexit":       func() error { runtime.Goexit(); return nil },
		"unclassified": func() error { return fmt.Errorf("a: %w", &retryproof.Error{}) },
		"says done":    func() error { return &retryproof.Error{Outcome: retryproof.Done} },
	} {
		for _, rerun := range []effect.Rerun{effect.RerunNever, effect.RerunPending} {
			t.Run(fmt.Sprint(name, rerun), func(t *testing.T) {
				l := newLab(t)
				e := l.engine(rerun)
				var psp processor
				attempt := func() (d effect.Decision, err error, panicked any) {
					var wait sync.WaitGroup
					wait.Go(func() { // Goexit ends a goroutine
						defer func() { panicked = recover() }()
						d, err = e.Do(context.Background(), request(), func(_ context.Context, a *effect.Attempt) (effect.Finish, error) {
							psp.charge(a.Key("charge"))
							return effect.Finish{}, end()
						})
					})
					wait.Wait()
					return d, err, panicked
				}
				d, err, panicked := attempt()
				switch name {
				case "panic", "abort":
					if panicked != broken && panicked != http.ErrAbortHandler {
						t.Errorf("got %v, want the panic to go on", panicked)
					}
				case "error":
					if !errors.Is(err, broken) || d.Verdict != effect.Pointer {
						t.Errorf("got %v, %v, want a pointer and run's error", d.Verdict, err)
					}
				}
				l.wantGuard(effect.Unknown)
				l.wantClaim("pointer")
				for _, at := range []float64{1, 7, 20} {
					l.at(at)
					if d, err, _ := attempt(); err != nil || d.Verdict != effect.Pointer {
						t.Errorf("at %v: got %v, %v, want a pointer", at, d.Verdict, err)
					}
				}
				if got := psp.charges[string(pay)+":charge"]; got != 1 || len(psp.charges) != 1 {
					t.Errorf("got charges %v, want 1", psp.charges)
				}
				if l.saw(effect.SawReleased) != 0 {
					t.Error("the key was released")
				}
			})
		}
	}
}

func TestWhatWasNotDoneMayBeSentAgainWithTheSameKey(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	refusal := retryproof.Refused(retryproof.CodeTooMany, "too many requests", nil)
	runs := 0
	run := func(context.Context, *effect.Attempt) (effect.Finish, error) {
		if runs++; runs <= 2 {
			return effect.Finish{}, refusal
		}
		return succeeded("paid"), nil
	}
	for range 2 {
		if d, err := e.Do(context.Background(), request(), run); !errors.Is(err, refusal) || d.Verdict != 0 || retryproof.OutcomeOf(err) != retryproof.NotDone {
			t.Errorf("got %v, %v, want the refusal", d.Verdict, err)
		}
		l.wantGuard("")
		l.wantClaim("none")
	}
	for range 2 {
		if d, err := e.Do(context.Background(), request(), run); err != nil || d.Verdict != effect.Replay || string(d.Answer.Body) != "paid" {
			t.Errorf("got %v, %v, want the answer", d.Verdict, err)
		}
	}
	if runs != 3 {
		t.Errorf("got %d runs, want 3", runs)
	}
}

func TestNotDoneAfterATakeoverSaysNothingOfTheFirstOwner(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	l.begin(e, request(), effect.Run) // and crashes
	l.at(6.03)
	refusal := retryproof.Refused(retryproof.CodeTooMany, "too many requests", nil)
	d, err := e.Do(context.Background(), request(), func(context.Context, *effect.Attempt) (effect.Finish, error) { return effect.Finish{}, refusal })
	if retryproof.OutcomeOf(err) != retryproof.Unknown || !errors.Is(err, refusal) || d.Verdict != effect.Pointer {
		t.Errorf("got %v, %v, want a pointer and unknown", d.Verdict, err)
	}
	l.wantGuard(effect.Unknown)
}

// case 18
func TestNotDoneOfAZombieSaysNothingOfItsSuccessor(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	refusal := retryproof.Refused(retryproof.CodeTooMany, "too many requests", nil)
	d, err := e.Do(context.Background(), request(), func(context.Context, *effect.Attempt) (effect.Finish, error) {
		l.at(6.03)
		_, a2 := l.begin(e, request(), effect.Run)
		l.finish(a2, "paid", effect.Replay)
		return effect.Finish{}, refusal
	})
	if retryproof.OutcomeOf(err) != retryproof.Unknown || !errors.Is(err, refusal) || d.Verdict != effect.Replay || string(d.Answer.Body) != "paid" {
		t.Errorf("got %v, %v, want the successor's answer and unknown", d.Verdict, err)
	}
	l.wantClaim("paid")
}

func TestAReleaseThatFailsLeavesThePointer(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	l.store.failBefore("Release", errAway)
	refusal := retryproof.Refused(retryproof.CodeTooMany, "too many requests", nil)
	d, err := e.Do(context.Background(), request(), func(context.Context, *effect.Attempt) (effect.Finish, error) { return effect.Finish{}, refusal })
	if retryproof.OutcomeOf(err) != retryproof.Unknown || !errors.Is(err, refusal) || d.Verdict != effect.Pointer {
		t.Errorf("got %v, %v, want a pointer and unknown", d.Verdict, err)
	}
	l.wantGuard(effect.Unknown)
}

func TestAnUnknownThatCannotBeRecordedIsStillUnknown(t *testing.T) {
	l := newLab(t)
	l.store.failBefore("Settle", errAway)
	broken := errors.New("no answer")
	d, err := l.engine(effect.RerunNever).Do(context.Background(), request(), func(context.Context, *effect.Attempt) (effect.Finish, error) {
		return effect.Finish{}, broken
	})
	if retryproof.OutcomeOf(err) != retryproof.Unknown || !errors.Is(err, broken) || !errors.Is(err, errAway) || d.Verdict != 0 {
		t.Errorf("got %v, %v, want unknown with both causes", d.Verdict, err)
	}
	l.wantGuard(effect.Pending)
}

func TestAFailureIsFinalAndReplayed(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunAlways)
	declined := effect.Finish{State: effect.Failed, Answer: effect.Answer{Status: 402, Body: []byte("declined")}, Result: []byte("r")}
	runs := 0
	run := func(context.Context, *effect.Attempt) (effect.Finish, error) {
		runs++
		return declined, nil
	}
	for _, at := range []float64{1, 20, 7200} { // case 7
		l.at(at)
		d, err := e.Do(context.Background(), rendered(), run)
		if err != nil || d.Verdict != effect.Replay || d.Guard != nil && d.Guard.State != effect.Failed {
			t.Errorf("at %v: got %v, %v, want the failure again", at, d.Verdict, err)
		}
	}
	if runs != 1 || string(l.look().Guard.Result) != "r" {
		t.Errorf("got %d runs and result %q, want 1 and r", runs, l.look().Guard.Result)
	}
}

func TestOfFiftyAtOnceOneRuns(t *testing.T) { // case 16
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	const callers = 50
	var others, all sync.WaitGroup
	others.Add(callers - 1)
	var mu sync.Mutex
	verdicts := map[effect.Verdict]int{}
	runs := 0
	for range callers {
		all.Go(func() {
			d, err := e.Do(context.Background(), request(), func(context.Context, *effect.Attempt) (effect.Finish, error) {
				others.Wait() // while it runs all the others are answered
				mu.Lock()
				defer mu.Unlock()
				runs++
				return succeeded("paid"), nil
			})
			if err != nil {
				t.Errorf("got %v, want nil", err)
			}
			mu.Lock()
			verdicts[d.Verdict]++
			mu.Unlock()
			if d.Verdict != effect.Replay {
				others.Done()
			}
		})
	}
	all.Wait()
	if runs != 1 || verdicts[effect.Replay] != 1 || verdicts[effect.Busy] != callers-1 {
		t.Errorf("got %d runs and verdicts %v, want 1 run and %d busy", runs, verdicts, callers-1)
	}
}

// case 15
func TestOfTwoMeaningsRacedOneRunsAndTheOtherIsRefused(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	var mu sync.Mutex
	runs, mismatches := map[retryproof.ID]int{}, 0
	var all sync.WaitGroup
	for key := range 50 {
		for _, fp := range []retryproof.Fingerprint{h1, h2} {
			all.Go(func() {
				s := scope
				s.Key = retryproof.Key(fmt.Sprint("K", key))
				d, err := e.Do(context.Background(), effect.Request{Scope: s, Fingerprint: fp}, func(_ context.Context, a *effect.Attempt) (effect.Finish, error) {
					mu.Lock()
					defer mu.Unlock()
					runs[a.ID()]++
					return succeeded("paid"), nil
				})
				mu.Lock()
				defer mu.Unlock()
				if d.Verdict == effect.Mismatch {
					mismatches++
				} else if d.Verdict != effect.Replay || err != nil {
					t.Errorf("got %v, %v, want an answer or a mismatch", d.Verdict, err)
				}
			})
		}
	}
	all.Wait()
	if len(runs) != 50 || mismatches != 50 {
		t.Errorf("got %d effects and %d mismatches, want 50 and 50", len(runs), mismatches)
	}
	for id, n := range runs {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
}

func TestWhoeverRunsBelowFindsTheAttempt(t *testing.T) {
	l := newLab(t)
	if got := effect.FromContext(context.Background()); got != nil {
		t.Errorf("outside: got %v, want nil", got)
	}
	_, err := l.engine(effect.RerunNever).Do(context.Background(), request(), func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
		below := effect.FromContext(ctx)
		if below != a || below.Begun() {
			t.Errorf("got %v, want the attempt, not begun", below)
		}
		if got, want := below.Key("attempt-2", "psp_b"), string(pay)+":attempt-2:psp_b"; got != want || !a.Begun() {
			t.Errorf("got %q, begun %v, want %q and true", got, a.Begun(), want)
		}
		if _, ended := a.Ended(); ended {
			t.Error("ended while it runs")
		}
		return succeeded("paid"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := request()
	r.Scope.Key, r.GuardID = "K2", "pay_2"
	_, a := l.begin(l.engine(effect.RerunNever), r, effect.Run)
	if a.Begin(); !a.Begun() || a.ID() != "pay_2" {
		t.Errorf("got begun %v and %s, want true and pay_2", a.Begun(), a.ID())
	}
	if got, want := a.Until().Sub(l.clock.Now()), 5*time.Second; got != want {
		t.Errorf("got a lease of %v, want %v", got, want)
	}
}
