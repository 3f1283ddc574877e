package storetest

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof/saga"
)

func markCases() []testCase {
	return []testCase{
		{"FirstMarkStays", markFirst},
		{"OriginalAndCancellationAtOnceHaveOneFirst", markRace},
		{"MarkMovesFromItsStateOnly", markMoves},
		{"BadMarkIsRefused", markBad},
		{"MarksSurviveARestart", markRestart},
	}
}

type markResult struct {
	there saga.Mark
	first bool
}

func (w *world) mark(state saga.MarkState, now float64) markResult {
	w.Helper()
	return must(w, func(ctx context.Context) (markResult, error) {
		m, first, err := w.Marks.Mark(ctx, saga.Mark{Key: "o_1:charge", State: state, Result: []byte(state), CreatedAt: at(now)})
		return markResult{m, first}, err
	})
}

func (w *world) movesMark(from, to saga.MarkState, now float64, result []byte) bool {
	w.Helper()
	m := saga.MarkMove{Key: "o_1:charge", From: from, To: to, Result: result, Now: at(now)}
	return must(w, func(ctx context.Context) (bool, error) { return w.Marks.Move(ctx, m) })
}

func describeMark(m saga.Mark) string {
	return fmt.Sprintf("%q %s %x %d %d", m.Key, m.State, m.Result, m.CreatedAt.UnixMicro(), m.UpdatedAt.UnixMicro())
}

func markFirst(w *world) {
	first := w.mark(saga.MarkCancelled, 1+tick)
	check(w, "first", first.first, true)
	check(w, "the mark", describeMark(first.there), describeMark(saga.Mark{Key: "o_1:charge", State: saga.MarkCancelled,
		Result: []byte("CANCELLED"), CreatedAt: at(1 + tick), UpdatedAt: at(1 + tick)}))
	for _, state := range []saga.MarkState{saga.MarkStarted, saga.MarkDone, saga.MarkCancelled} {
		again := w.mark(state, 2)
		check(w, "first again", again.first, false)
		check(w, "the mark that the original meets", describeMark(again.there), describeMark(first.there))
	}
}

// case 40: an original and its compensation that meet.
func markRace(w *world) {
	all := w.instances()
	states := []saga.MarkState{saga.MarkStarted, saga.MarkCancelled}
	got := together(w, 30, func(ctx context.Context, i int) (markResult, error) {
		m, first, err := all[i%len(all)].Marks.Mark(ctx, saga.Mark{Key: "o_1:charge", State: states[i/len(all)%2], CreatedAt: at(float64(i))})
		return markResult{m, first}, err
	})
	firsts := 0
	for i, r := range got {
		check(w, "the mark that everybody sees", describeMark(r.there), describeMark(got[0].there))
		if r.first {
			firsts++
			check(w, "the mark is the first one's", r.there.State, states[i/len(all)%2])
		}
	}
	check(w, "firsts", firsts, 1)
}

func markMoves(w *world) {
	check(w, "an absent mark moved", w.movesMark(saga.MarkStarted, saga.MarkDone, 1, nil), false)
	w.mark(saga.MarkStarted, 1)
	check(w, "from another state", w.movesMark(saga.MarkDone, saga.MarkCancelled, 2, nil), false)
	check(w, "moved", w.movesMark(saga.MarkStarted, saga.MarkDone, 3+tick, []byte{0, 255}), true)
	check(w, "moved again", w.movesMark(saga.MarkStarted, saga.MarkDone, 4, []byte("other")), false)
	check(w, "a late cancellation of what is not STARTED", w.movesMark(saga.MarkStarted, saga.MarkCancelled, 4, nil), false)
	check(w, "the mark", describeMark(w.mark(saga.MarkStarted, 5).there), describeMark(saga.Mark{Key: "o_1:charge", State: saga.MarkDone,
		Result: []byte{0, 255}, CreatedAt: at(1), UpdatedAt: at(3 + tick)}))
	check(w, "undone", w.movesMark(saga.MarkDone, saga.MarkCancelled, 6, nil), true)
	check(w, "the state", w.mark(saga.MarkStarted, 7).there.State, saga.MarkCancelled)
}

func markBad(w *world) {
	marks := []saga.Mark{{State: saga.MarkDone}, {Key: "k", State: "?"}, {Key: "k", State: saga.MarkDone, Result: make([]byte, saga.MaxResultBytes+1)}}
	for _, m := range marks {
		refused(w, fmt.Sprintf("the mark %q %s", m.Key, m.State), func(ctx context.Context) (markResult, error) {
			there, first, err := w.Marks.Mark(ctx, m)
			return markResult{there, first}, err
		})
	}
	w.mark(saga.MarkCancelled, 1)
	for _, m := range []saga.MarkMove{
		{From: saga.MarkStarted, To: saga.MarkDone},
		{Key: "o_1:charge", From: saga.MarkCancelled, To: saga.MarkStarted},
		{Key: "o_1:charge", From: saga.MarkCancelled, To: saga.MarkDone},
		{Key: "o_1:charge", From: saga.MarkDone, To: saga.MarkStarted},
		{Key: "o_1:charge", From: saga.MarkStarted, To: saga.MarkDone, Result: make([]byte, saga.MaxResultBytes+1)},
	} {
		refused(w, fmt.Sprintf("the move of %q from %s to %s", m.Key, m.From, m.To), func(ctx context.Context) (bool, error) { return w.Marks.Move(ctx, m) })
	}
	check(w, "the state", w.mark(saga.MarkStarted, 2).there.State, saga.MarkCancelled)
}

func markRestart(w *world) {
	if w.Reopen == nil {
		return
	}
	want := describeMark(w.mark(saga.MarkCancelled, 1).there)
	w.Stores = w.Reopen(w.T)
	check(w, "the mark after a restart", describeMark(w.mark(saga.MarkStarted, 2).there), want)
}
