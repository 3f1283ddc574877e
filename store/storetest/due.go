package storetest

import (
	"context"
	"fmt"
	"strings"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/resolve"
)

func dueCases() []effectCase {
	return []effectCase{
		{name: "UnknownIsDueFromNextAtOn", run: dueUnknown},
		{name: "UnknownWithALiveLeaseIsNotDue", run: dueLeased},
		{name: "PendingIsDueWhenItsLeaseIsStale", run: duePending},
		{name: "FinalIsNeverDue", run: dueFinal},
		{name: "DueIsOrderedAndBounded", run: dueOrder},
	}
}

// due lists ids, or the whole guards' count is wrong; kinds without a list skip.
func (s *subject) due(now float64, change func(*resolve.Due)) []effect.Guard {
	s.Helper()
	q := resolve.Due{Now: at(now), Margin: margin, Limit: 100}
	if change != nil {
		change(&q)
	}
	list := s.kind.due(s.Stores)
	return must(s.world, func(ctx context.Context) ([]effect.Guard, error) { return list.Due(ctx, q) })
}

func (s *subject) hasDue() bool { return s.kind.due(s.Stores) != nil }

func (s *subject) checkDue(now float64, want bool) {
	s.Helper()
	check(s.world, fmt.Sprintf("due at %.6f", now), len(s.due(now, nil)) == 1, want)
}

func dueUnknown(s *subject) {
	if !s.hasDue() {
		return
	}
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Unknown, 5.02)
	m.NextAt = at(11)
	s.settle(m)
	s.checkDue(11-tick, false)
	s.checkDue(11, true)
	s.checkDue(500, true)
	got := s.due(11, func(q *resolve.Due) { q.UnknownOnly = true })
	if len(got) != 1 {
		s.Fatalf("got %d guards that are due, want 1", len(got))
	}
	check(s.world, "the whole guard", describeGuard(&got[0]), describeGuard(s.look(11).Guard))
}

func dueLeased(s *subject) {
	if !s.hasDue() {
		return
	}
	s.begin("A1", 0.02)
	s.settle(s.settlement("A1", effect.Unknown, 5.02))
	a := s.adoption("R", "", 11)
	a.GuardOnly, a.To = true, effect.Unknown
	s.adopt(a)
	s.checkDue(11, false)
	for _, now := range []float64{16, 16 + tick, 17} { // the lease, and the margin that Adopt asks for
		s.checkDue(now, false)
	}
	s.checkDue(17+tick, true)
	got := s.due(17+tick, nil)[0]
	a = s.adoption("R2", "R", 17+tick)
	a.GuardOnly, a.To = true, effect.Unknown
	check(s.world, "what is due can be adopted", s.adopt(a).Guard.Owner, "R2")
	check(s.world, "and was still the other's", got.Owner, "R")
}

func duePending(s *subject) {
	if !s.hasDue() {
		return
	}
	s.begin("A1", 0.02)
	for _, now := range []float64{0.02, 5.02, 5.02 + tick, 6.02} {
		s.checkDue(now, false)
	}
	s.checkDue(6.02+tick, true)
	check(s.world, "due when only UNKNOWN is asked for", len(s.due(100, func(q *resolve.Due) { q.UnknownOnly = true })), 0)
	check(s.world, "due by a larger margin", len(s.due(65.02, func(q *resolve.Due) { q.Margin *= 60 })), 0)
	check(s.world, "due after a larger margin", len(s.due(65.02+tick, func(q *resolve.Due) { q.Margin *= 60 })), 1)
}

func dueFinal(s *subject) {
	if !s.hasDue() {
		return
	}
	for _, state := range []effect.State{effect.Succeeded, effect.Failed} {
		one := s.subject(s.kind, string(state))
		one.begin("A1", 0.02)
		one.settle(one.settlement("A1", state, 1))
	}
	released := s.subject(s.kind, "released")
	released.begin("A1", 0.02)
	released.release("A1")
	check(s.world, "due", len(s.due(1000, nil)), 0)
}

// The order is by (UpdatedAt, ID), whatever order the rows came in.
func dueOrder(s *subject) {
	if !s.hasDue() {
		return
	}
	updated := []float64{9, 3, 7, 3, 5, 3, 8, 1, 3}
	for i, now := range updated {
		one := s.subject(s.kind, fmt.Sprintf("K%d", i))
		one.begin("A1", now)
		if i%2 == 0 {
			one.settle(one.settlement("A1", effect.Unknown, now))
		}
	}
	all := s.due(100, nil)
	check(s.world, "due", len(all), len(updated))
	for i := 1; i < len(all); i++ {
		before, after := all[i-1], all[i]
		if c := before.UpdatedAt.Compare(after.UpdatedAt); c > 0 || c == 0 && before.ID >= after.ID {
			s.Errorf("place %d: got (%s, %s) before (%s, %s)", i, instant(before.UpdatedAt), before.ID, instant(after.UpdatedAt), after.ID)
		}
	}
	for limit := range len(updated) {
		some := s.due(100, func(q *resolve.Due) { q.Limit = limit })
		check(s.world, fmt.Sprintf("the first %d", limit), ids(some), ids(all[:limit]))
	}
	first := *s
	first.id, first.scope = all[0].ID, all[0].Scope
	first.settle(first.evidence("W", effect.Unknown, 50))
	check(s.world, "a guard that was written last comes last", ids(s.due(100, nil)), ids(append(all[1:], all[0])))
}

func ids(guards []effect.Guard) string {
	var b strings.Builder
	for _, g := range guards {
		b.WriteString(string(g.ID))
		b.WriteByte(' ')
	}
	return b.String()
}
