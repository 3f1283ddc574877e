package saga_test

import (
	"context"
	"errors"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/saga"
)

func TestParticipantRepeatsTheFirstResult(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := saga.NewParticipant(l.memory.Marks(), l.clock)
	runs := 0
	run := func(context.Context) ([]byte, error) { runs++; return []byte{byte('0' + runs)}, nil }
	for range 3 {
		got, err := p.Do(t.Context(), saga.Call{OriginalKey: "k"}, run)
		if string(got) != "1" || err != nil {
			t.Errorf("got %q, %v, want the first result", got, err)
		}
	}
	check(t, "runs", runs, 1)
}

func TestCancellationThatComesFirstRefusesTheOriginal(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := saga.NewParticipant(l.memory.Marks(), l.clock)
	never := func(context.Context) ([]byte, error) { t.Error("it ran"); return nil, nil }
	c := saga.Call{OriginalKey: "k"}
	for range 2 {
		if err := p.Cancel(t.Context(), c, never, never); err != nil {
			t.Errorf("got %v, want nothing to undo", err)
		}
	}
	_, err := p.Do(t.Context(), c, never)
	check(t, "the original", retryproof.CodeOf(err), retryproof.CodeVoid)
	check(t, "it makes the saga turn", saga.Permanent(err), true)
}

func TestCancellationIsDoneOnEvidenceOnly(t *testing.T) {
	t.Parallel()
	fails := func(context.Context) ([]byte, error) { return nil, errors.New("timeout") }
	busy := func(context.Context) ([]byte, error) {
		return nil, retryproof.Refused(retryproof.CodeUnavailable, "not now", nil)
	}
	never := func(context.Context) ([]byte, error) {
		return nil, retryproof.Refused("never-charged", "there is no such charge, and the key is void", nil)
	}
	fine := func(context.Context) ([]byte, error) { return []byte("r"), nil }
	tests := map[string]struct {
		original, settle, undo func(context.Context) ([]byte, error)
		done                   bool
	}{
		"the original is DONE and the undoing is not": {fine, nil, fails, false},
		"the original is DONE and is undone":          {fine, nil, fine, true},
		"the undoing is refused":                      {fine, nil, never, false},
		"the outcome stays unknown":                   {fails, fails, nil, false},
		"the question is not answered now":            {fails, busy, nil, false},
		"it happened after all, and is undone":        {fails, fine, fine, true},
		"it happened after all, and is not undone":    {fails, fine, fails, false},
		"it never happened":                           {fails, never, nil, true},
	}
	for name, test := range tests { // order: parallel
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			p := saga.NewParticipant(l.memory.Marks(), l.clock)
			c := saga.Call{OriginalKey: "k"}
			_, _ = p.Do(t.Context(), c, test.original)
			err := p.Cancel(t.Context(), c, test.settle, test.undo)
			check(t, "done", err == nil, test.done)
			_, err = p.Do(t.Context(), c, fine)
			check(t, "the original is refused", retryproof.CodeOf(err) == retryproof.CodeVoid, test.done)
			if err := p.Cancel(t.Context(), c, fine, fine); err != nil {
				t.Errorf("when all answers: got %v, want it undone", err)
			}
		})
	}
}
