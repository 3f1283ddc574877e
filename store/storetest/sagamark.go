package storetest

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof/saga"
)

func sagaMarkCases() []testCase {
	return []testCase{
		{"FirstMarkStays", sagaMarkFirst},
		{"OriginalAndCancellationAtOnceHaveOneFirst", sagaMarkRace},
		{"MarkMovesFromItsStateOnly", sagaMarkMoves},
		{"BadMarkIsRefused", sagaMarkBad},
		{"MarksSurviveARestart", sagaMarkRestart},
	}
}

type sagaMarkResult struct {
	there saga.Mark
	first bool
}

func (w *world) sagaMark(state saga.MarkState, now float64) sagaMarkResult {
	w.Helper()
	return must(w, func(ctx context.Context) (sagaMarkResult, error) {
		m, first, err := w.Marks.Mark(ctx, saga.Mark{Key: "o_1:charge", State: state, Result: []byte(state), CreatedAt: at(now)})
		return sagaMarkResult{m, first}, err
	})
}

func (w *world) movesSagaMark(from, to saga.MarkState, now float64, result []byte) bool {
	w.Helper()
	m := saga.MarkMove{Key: "o_1:charge", From: from, To: to, Result: result, Now: at(now)}
	return must(w, func(ctx context.Context) (bool, error) { return w.Marks.Move(ctx, m) })
}

func describeSagaMark(m saga.Mark) string {
	return fmt.Sprintf("%q %s %x %d %d", m.Key, m.State, m.Result, m.CreatedAt.UnixMicro(), m.UpdatedAt.UnixMicro())
}

func sagaMarkFirst(w *world) {
	first := w.sagaMark(saga.MarkCancelled, 1+tick)
	check(w, "first", first.first, true)
	check(w, "the mark", describeSagaMark(first.there), describeSagaMark(saga.Mark{Key: "o_1:charge", State: saga.MarkCancelled,
		Result: []byte("CANCELLED"), CreatedAt: at(1 + tick), UpdatedAt: at(1 + tick)}))
	for _, state := range []saga.MarkState{saga.MarkStarted, saga.MarkDone, saga.MarkCancelled} {
		again := w.sagaMark(state, 2)
		check(w, "first again", again.first, false)
		check(w, "the mark that the original meets", describeSagaMark(again.there), describeSagaMark(first.there))
	}
}

// case 40: an original and its compensation that meet.
func sagaMarkRace(w *world) {
	all := w.instances()
	states := []saga.MarkState{saga.MarkStarted, saga.MarkCancelled}
	got := together(w, 30, func(ctx context.Context, i int) (sagaMarkResult, error) {
		m, first, err := all[i%len(all)].Marks.Mark(ctx, saga.Mark{Key: "o_1:charge", State: states[i/len(all)%2], CreatedAt: at(float64(i))})
		return sagaMarkResult{m, first}, err
	})
	firsts := 0
	for i, r := range got {
		check(w, "the mark that everybody sees", describeSagaMark(r.there), describeSagaMark(got[0].there))
		if r.first {
			firsts++
			check(w, "the mark is the first one's", r.there.State, states[i/len(all)%2])
		}
	}
	check(w, "firsts", firsts, 1)
}

func sagaMarkMoves(w *world) {
	check(w, "an absent mark moved", w.movesSagaMark(saga.MarkStarted, saga.MarkDone, 1, nil), false)
	w.sagaMark(saga.MarkStarted, 1)
	check(w, "from another state", w.movesSagaMark(saga.MarkDone, saga.MarkCancelled, 2, nil), false)
	check(w, "moved", w.movesSagaMark(saga.MarkStarted, saga.MarkDone, 3+tick, []byte{0, 255}), true)
	check(w, "moved again", w.movesSagaMark(saga.MarkStarted, saga.MarkDone, 4, []byte("other")), false)
	check(w, "a late cancellation of what is not STARTED", w.movesSagaMark(saga.MarkStarted, saga.MarkCancelled, 4, nil), false)
	check(w, "the mark", describeSagaMark(w.sagaMark(saga.MarkStarted, 5).there), describeSagaMark(saga.Mark{Key: "o_1:charge", State: saga.MarkDone,
		Result: []byte{0, 255}, CreatedAt: at(1), UpdatedAt: at(3 + tick)}))
	check(w, "undone", w.movesSagaMark(saga.MarkDone, saga.MarkCancelled, 6, nil), true)
	check(w, "the state", w.sagaMark(saga.MarkStarted, 7).there.State, saga.MarkCancelled)
}

func sagaMarkBad(w *world) {
	marks := []saga.Mark{{State: saga.MarkDone}, {Key: "k", State: "?"}, {Key: "k", State: saga.MarkDone, Result: make([]byte, saga.MaxResultBytes+1)}}
	for _, m := range marks {
		refused(w, fmt.Sprintf("the mark %q %s", m.Key, m.State), func(ctx context.Context) (sagaMarkResult, error) {
			there, first, err := w.Marks.Mark(ctx, m)
			return sagaMarkResult{there, first}, err
		})
	}
	w.sagaMark(saga.MarkCancelled, 1)
	for _, m := range []saga.MarkMove{
		{From: saga.MarkStarted, To: saga.MarkDone},
		{Key: "o_1:charge", From: saga.MarkCancelled, To: saga.MarkStarted},
		{Key: "o_1:charge", From: saga.MarkCancelled, To: saga.MarkDone},
		{Key: "o_1:charge", From: saga.MarkDone, To: saga.MarkStarted},
		{Key: "o_1:charge", From: saga.MarkStarted, To: saga.MarkDone, Result: make([]byte, saga.MaxResultBytes+1)},
	} {
		refused(w, fmt.Sprintf("the move of %q from %s to %s", m.Key, m.From, m.To), func(ctx context.Context) (bool, error) { return w.Marks.Move(ctx, m) })
	}
	check(w, "the state", w.sagaMark(saga.MarkStarted, 2).there.State, saga.MarkCancelled)
}

func sagaMarkRestart(w *world) {
	if w.Reopen == nil {
		return
	}
	want := describeSagaMark(w.sagaMark(saga.MarkCancelled, 1).there)
	w.Stores = w.Reopen(w.T)
	check(w, "the mark after a restart", describeSagaMark(w.sagaMark(saga.MarkStarted, 2).there), want)
}
