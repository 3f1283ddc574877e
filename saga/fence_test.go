package saga_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/retryproof/retryproof/saga"
)

// hookedStore calls before in front of every Save; an error is its answer. It calls
// leased, when set, behind every Lease.
type hookedStore struct {
	saga.Store
	before func(s saga.Save) error
	leased func()
}

func (h hookedStore) Lease(ctx context.Context, a saga.Lease) (*saga.Record, error) {
	rec, err := h.Store.Lease(ctx, a)
	if h.leased != nil {
		h.leased()
	}
	return rec, err
}

func (h hookedStore) Save(ctx context.Context, s saga.Save) (bool, error) {
	if err := h.before(s); err != nil {
		return false, err
	}
	return h.Store.Save(ctx, s)
}

// The owner is slower than its lease between the lease and its first record, and
// the answer to that record may be lost too: it must not make the call.
func TestOwnerThatWasOvertakenBeforeItsRecordMakesNoCall(t *testing.T) {
	t.Parallel()
	lost := errors.New("no answer")
	tests := map[string]struct {
		answer error
		// meanwhile is what another process does.
		meanwhile func(l *lab, other *saga.Runner)
		state     saga.State
	}{
		"another has finished it":                         {nil, func(l *lab, other *saga.Runner) { l.once(other) }, saga.Completed},
		"another has finished it, and an answer was lost": {lost, func(l *lab, other *saga.Runner) { l.once(other) }, saga.Completed},
		"another has leased it, and an answer was lost": {lost, func(l *lab, _ *saga.Runner) {
			_, _ = l.memory.Sagas().Lease(l.t.Context(), saga.Lease{Names: []string{"order"}, Owner: "B", Now: l.clock.Now(),
				Until: l.clock.Now().Add(time.Minute)})
		}, saga.Running},
	}
	for name, test := range tests { // order: parallel
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, s := newLab(t), newShop()
			other := l.runner(s.definition())
			saves, leases := 0, 0
			l.store = hookedStore{Store: l.store,
				before: func(saga.Save) error {
					if saves++; saves > 1 {
						return nil
					}
					return test.answer
				},
				leased: func() {
					if leases++; leases == 1 {
						l.clock.Advance(31*time.Second + time.Microsecond)
						test.meanwhile(l, other)
					}
				}}
			d := s.definition()
			for i := range d.Steps {
				d.Steps[i].Action = func(context.Context, saga.Call) ([]byte, error) {
					t.Error("the owner that was overtaken makes a call")
					return nil, nil
				}
			}
			r := l.runner(d)
			l.start(r, "order", "o_1")
			if n, err := r.RunOnce(t.Context()); n != 0 || err != nil {
				t.Errorf("got %d, %v, want nothing done", n, err)
			}
			check(t, "it saw that it was fenced", slices.Contains(l.seen, "fenced"), true)
			check(t, "the state", l.read("o_1").State, test.state)
		})
	}
}

// A record whose answer was lost is found to have landed, and the saga goes on
// under the same lease.
func TestLostAnswerIsReadBackBeforeAnythingElseRuns(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	saves := 0
	right := l.memory.Sagas()
	l.store = hookedStore{Store: right, before: func(a saga.Save) error {
		if saves++; saves != 1 {
			return nil
		}
		_, _ = right.Save(t.Context(), a)
		return errors.New("no answer")
	}}
	r := l.runner(s.definition())
	l.start(r, "order", "o_1")
	if n, err := r.RunOnce(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d, %v, want a saga that got on", n, err)
	}
	check(t, "the state", l.read("o_1").State, saga.Completed)
	check(t, "calls", s.seat.count("o_1:seat"), 1)
	check(t, "it was read back", slices.Index(l.seen, "read_back") < slices.Index(l.seen, "called seat"), true)
	rec, err := r.Read(t.Context(), "o_1")
	if err != nil || rec == nil || !rec.State.Final() {
		t.Errorf("got %v, %v, want the final saga", rec, err)
	}
}

// A store that stays away before the record: nothing is called, and nothing is lost.
func TestCallIsNotMadeWhenItCannotBeRecorded(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	away := true
	l.store = hookedStore{Store: l.store, before: func(saga.Save) error {
		if away {
			return errors.New("no answer")
		}
		return nil
	}}
	r := l.runner(s.definition())
	l.start(r, "order", "o_1")
	if _, err := r.RunOnce(t.Context()); err == nil {
		t.Error("got no error, want the store's")
	}
	check(t, "calls", len(s.seat.calls), 0)
	away = false
	check(t, "the state", l.settle("o_1", s.definition()).State, saga.Completed)
	check(t, "calls of the seat", s.seat.count("o_1:seat"), 1)
}
