package effect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/memory"
)

// letters counts the letters that a caller's transactions have written.
func (l *lab) letters() int64 {
	l.t.Helper()
	s, err := l.memory.Outbox().Stats(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	return s.Waiting
}

// write is a transaction of the caller's: a letter and the attempt's outcome.
func (l *lab) write(ctx context.Context, a *effect.Attempt, body string) error {
	return l.memory.Within(func(tx *memory.Tx) error {
		letter := retryproof.Event{ID: body, Group: "letters", At: l.clock.Now()}
		return errors.Join(tx.Publish(ctx, letter), tx.Finish(ctx, a, succeeded(body)))
	})
}

func TestATransactionOfTheCallersEndsTheAttempt(t *testing.T) {
	for name, apart := range map[string]bool{"one store": false, "key store apart": true} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			var store effect.Store = l.store
			if apart {
				_, store = split(l)
			}
			e := l.engineOn(store, effect.RerunAlways)
			for range 2 {
				d, err := e.Do(context.Background(), request(), func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
					return effect.Finish{}, l.write(ctx, a, "letter 1")
				})
				if err != nil || d.Verdict != effect.Replay || d.State != effect.Succeeded || string(d.Answer.Body) != "letter 1" {
					t.Errorf("got %v, %v, want the answer", d.Verdict, err)
				}
			}
			l.wantClaim("letter 1")
			if l.letters() != 1 || l.saw(effect.SawSettled) != 1 || l.saw(effect.SawFenced)+l.saw(effect.SawUnknown) != 0 {
				t.Errorf("got %d letters and %v, want one of each and nobody fenced", l.letters(), l.seen)
			}
		})
	}
}

// An error after the caller's COMMIT undoes nothing, and the effect counts as settled.
func TestAnEffectThatIsDoneIsCountedThoughRunFailsAfterwards(t *testing.T) {
	l := newLab(t)
	d, err := l.engineOn(l.store, effect.RerunAlways).Do(context.Background(), request(), func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
		if err := l.write(ctx, a, "letter 1"); err != nil {
			return effect.Finish{}, err
		}
		return effect.Finish{}, retryproof.Refused(retryproof.CodeInvalid, "afterwards", nil)
	})
	if d.Verdict != effect.Replay || retryproof.OutcomeOf(err) != retryproof.Done {
		t.Errorf("got %v, %v, want the record and that it is done", d.Verdict, err)
	}
	if l.letters() != 1 || l.saw(effect.SawSettled) != 1 || l.saw(effect.SawReleased)+l.saw(effect.SawFenced)+l.saw(effect.SawUnknown) != 0 {
		t.Errorf("got %d letters and %v, want it settled, once", l.letters(), l.seen)
	}
}

// case 18: a pause that is longer than the lease, inside the run.
func TestALateOwnersTransactionWritesNothing(t *testing.T) {
	for name, before := range map[string]bool{"before the successor's commit": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			e := l.engine(effect.RerunAlways)
			var second *effect.Attempt
			d, err := e.Do(context.Background(), request(), func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
				l.at(6.03)
				_, second = l.begin(e, request(), effect.Run)
				if !before {
					if err := l.write(context.Background(), second, "the successor's"); err != nil {
						t.Error(err)
					}
				}
				return effect.Finish{}, l.write(context.WithoutCancel(ctx), a, "the late owner's")
			})
			want := map[bool]effect.Verdict{true: effect.Busy, false: effect.Replay}[before]
			if err != nil || d.Verdict != want || !before && string(d.Answer.Body) != "the successor's" {
				t.Errorf("the late owner: got %v, %v, want %v and what the record says", d.Verdict, err, want)
			}
			if before {
				if err := l.write(context.Background(), second, "the successor's"); err != nil {
					t.Error(err)
				}
			}
			l.finish(second, "ignored", effect.Replay)
			l.wantClaim("the successor's")
			if l.letters() != 1 {
				t.Errorf("got %d letters, want 1", l.letters())
			}
		})
	}
}

// What the record says counts, not what run returns about its transaction.
func TestWhetherTheCallersTransactionCommittedIsReadBack(t *testing.T) {
	broken := errors.New("the answer to COMMIT was lost")
	refused := retryproof.Refused(retryproof.CodeConflict, "run the transaction again", nil)
	for name, c := range map[string]struct {
		commits bool
		begun   bool
		err     error
		verdict effect.Verdict
		outcome retryproof.Outcome
		guard   effect.State
	}{
		"committed, the answer lost":        {true, false, broken, effect.Replay, retryproof.Done, effect.Succeeded},
		"committed, then a refusal":         {true, false, refused, effect.Replay, retryproof.Done, effect.Succeeded},
		"rolled back, and run says so":      {false, false, refused, 0, retryproof.NotDone, ""},
		"rolled back after a call":          {false, true, refused, effect.Pointer, retryproof.Unknown, effect.Unknown},
		"rolled back, nobody knows":         {false, false, broken, effect.Pointer, retryproof.Unknown, effect.Unknown},
		"rolled back, and run says nothing": {false, false, nil, effect.Pointer, retryproof.Done, effect.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			d, err := l.engine(effect.RerunNever).Do(context.Background(), request(), func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
				if c.begun {
					a.Begin()
				}
				rollback := errors.New("rolled back")
				end := map[bool]error{false: rollback}[c.commits]
				err := l.memory.Within(func(tx *memory.Tx) error {
					return errors.Join(tx.Finish(ctx, a, succeeded("letter 1")), end)
				})
				if c.commits != (err == nil) {
					t.Errorf("got %v, want committed %v", err, c.commits)
				}
				return succeeded("letter 1"), c.err
			})
			if d.Verdict != c.verdict || retryproof.OutcomeOf(err) != c.outcome || !errors.Is(err, c.err) {
				t.Errorf("got %v, %v, want %v and an error that says %v", d.Verdict, err, c.verdict, c.outcome)
			}
			l.wantGuard(c.guard)
			if l.saw(effect.SawFenced) != 0 {
				t.Errorf("got %v, want nobody fenced", l.seen)
			}
		})
	}
}

func TestAStoreThatIsAwayAfterTheCallersCommitIsUnknown(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunAlways)
	run := func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
		return effect.Finish{}, l.write(ctx, a, "letter 1")
	}
	l.store.failBefore("Settle", errAway)
	if d, err := e.Do(context.Background(), request(), run); d.Verdict != 0 || retryproof.OutcomeOf(err) != retryproof.Unknown || !errors.Is(err, errAway) {
		t.Errorf("got %v, %v, want unknown", d.Verdict, err)
	}
	if d, err := e.Do(context.Background(), request(), run); err != nil || d.Verdict != effect.Replay || l.letters() != 1 {
		t.Errorf("the repeat: got %v, %v and %d letters, want the answer of the one", d.Verdict, err, l.letters())
	}
}

// A panic after the commit goes on, and the record stands.
func TestAPanicAfterTheCallersCommitLeavesTheRecord(t *testing.T) {
	l := newLab(t)
	func() {
		defer func() { _ = recover() }()
		_, _ = l.engine(effect.RerunNever).Do(context.Background(), request(), func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
			if err := l.write(ctx, a, "letter 1"); err != nil {
				t.Error(err)
			}
			panic("afterwards")
		})
	}()
	l.wantClaim("letter 1")
	l.wantGuard(effect.Succeeded)
}

func TestAnAttemptThatEndedTakesNoTransaction(t *testing.T) {
	l := newLab(t)
	_, a := l.begin(l.engine(effect.RerunNever), request(), effect.Run)
	if err := l.memory.Within(func(tx *memory.Tx) error { return tx.Finish(context.Background(), a, effect.Finish{}) }); retryproof.CodeOf(err) != retryproof.CodeInvalid {
		t.Errorf("without a state: got %v, want invalid", err)
	}
	l.finish(a, "paid", effect.Replay)
	if err := l.write(context.Background(), a, "letter 1"); retryproof.CodeOf(err) != retryproof.CodeInvalid || l.letters() != 0 {
		t.Errorf("got %v and %d letters, want invalid and none", err, l.letters())
	}
}

// A program that settles by hand in its transaction is not taken for a late owner.
func TestASettlementByHandIsReadBackToo(t *testing.T) {
	l := newLab(t)
	d, err := l.engine(effect.RerunNever).Do(context.Background(), request(), func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
		f := succeeded("letter 1")
		done := effect.Settle{ID: a.ID(), From: []effect.State{effect.Pending}, To: effect.Succeeded, By: a.Owner(), Fenced: true, Now: l.clock.Now(),
			Claim: &effect.Completion{Scope: scope, Owner: a.Owner(), Answer: &f.Answer, ExpiresAt: l.clock.Now().Add(time.Hour)}}
		return f, l.memory.Within(func(tx *memory.Tx) error {
			out, err := tx.Settle(ctx, done)
			if err == nil && !out.Moved {
				err = errors.New("taken over")
			}
			return err
		})
	})
	if err != nil || d.Verdict != effect.Replay || string(d.Answer.Body) != "letter 1" || l.saw(effect.SawFenced) != 0 || l.saw(effect.SawSettled) != 1 {
		t.Errorf("got %v, %v and %v, want settled", d.Verdict, err, l.seen)
	}
}
