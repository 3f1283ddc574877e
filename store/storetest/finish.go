package storetest

import (
	"context"
	"errors"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
)

// owner is an engine on the generic guards, and its clock.
func (w *world) owner() (*effect.Engine, *clocktest.Clock) {
	w.Helper()
	now := clocktest.New(at(0.02))
	e, err := effect.New(w.Effects, effect.Config{Rerun: effect.RerunAlways, Retries: max(w.traits.Tries, 4), Clock: now})
	if err != nil {
		w.Fatal(err)
	}
	return e, now
}

func (w *world) runs(e *effect.Engine, key string) *effect.Attempt {
	w.Helper()
	d, a, err := e.Begin(w.Context(), effect.Request{Scope: retryproof.Scope{Endpoint: "letters", Caller: "u1", Key: retryproof.Key(key)},
		Fingerprint: retryproof.FingerprintOf(retryproof.Text("to", "bob"))})
	if err != nil || d.Verdict != effect.Run {
		w.Fatalf("Begin: got %v, error %v, want to run", d.Verdict, err)
	}
	return a
}

// writes ends an attempt in a transaction that stores an event too, and ends with end.
func (w *world) writes(a *effect.Attempt, id string, end error) error {
	return w.within(func(ctx context.Context, tx Tx) error {
		if err := tx.Publish(ctx, event(id, "g")); err != nil {
			return err
		}
		f := effect.Finish{State: effect.Succeeded, Answer: effect.Answer{Body: []byte(id)}}
		if err := tx.Finish(ctx, a, f); err != nil {
			return err
		}
		return end
	})
}

// wantReplay ends an attempt and wants the answer that its transaction recorded, or
// another's.
func (w *world) wantReplay(a *effect.Attempt, body string) {
	w.Helper()
	d, err := a.Finish(w.Context(), effect.Finish{})
	if err != nil || d.Verdict != effect.Replay || d.State != effect.Succeeded || d.Answer == nil || string(d.Answer.Body) != body {
		w.Fatalf("Finish: got %v, %+v, error %v, want the answer %q", d.Verdict, d.Answer, err, body)
	}
}

// The outcome and the caller's rows commit together, once. What counts is whether the
// transaction did, not what it was given.
func withinFinish(w *world) {
	e, _ := w.owner()
	a := w.runs(e, "K1")
	rollback := errors.New("the program changed its mind")
	if err := w.writes(a, "rolled-back", rollback); !errors.Is(err, rollback) {
		w.Fatalf("got error %v, want %v", err, rollback)
	}
	if err := w.writes(a, "committed", nil); err != nil {
		w.Fatalf("got error %v, want a commit", err)
	}
	// As if the answer to that COMMIT had been lost and the program ran it again.
	err := w.writes(a, "again", nil)
	check(w, "the code of the second transaction", retryproof.CodeOf(err), retryproof.CodeMoved)
	w.wantReplay(a, "committed")
	w.wantClaimed("r", 10, 20, 9, "committed")

	lost := w.runs(e, "K2")
	if err := w.writes(lost, "never-committed", rollback); !errors.Is(err, rollback) {
		w.Fatalf("got error %v, want %v", err, rollback)
	}
	d, err := lost.Finish(w.Context(), effect.Finish{State: effect.Succeeded})
	if err != nil || d.Verdict != effect.Pointer {
		w.Errorf("a transaction that was rolled back: got %v, error %v, want a pointer", d.Verdict, err)
	}
}

// case 18: an owner that was taken over cannot commit its own rows.
func withinLate(w *world) {
	e, now := w.owner()
	late := w.runs(e, "K1")
	now.Advance(at(lease + 2).Sub(at(0)))
	second := w.runs(e, "K1")
	err := w.writes(late, "late-1", nil)
	check(w, "the code before the successor's commit", retryproof.CodeOf(err), retryproof.CodeMoved)
	if err := w.writes(second, "second", nil); err != nil {
		w.Fatalf("got error %v, want a commit", err)
	}
	err = w.writes(late, "late-2", nil)
	check(w, "the code after it", retryproof.CodeOf(err), retryproof.CodeMoved)
	check(w, "what it says", retryproof.OutcomeOf(err), retryproof.Unknown)
	w.wantReplay(second, "second")
	w.wantReplay(late, "second")
	w.wantClaimed("r", 20, 30, 19, "second")
}
