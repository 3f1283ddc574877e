package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

func evidenceCases() []effectCase {
	return []effectCase{
		{name: "EvidenceIsKeptWithTheMove", run: evidenceKept},
		{name: "EvidenceWithoutAMoveIsDropped", run: evidenceDropped},
		{name: "NoteIsKeptWithoutAMove", run: noteKept},
		{name: "NoteOfARepeatedDeliveryIsDropped", run: noteRepeat, rows: true},
		{name: "NoteNeedsAGuard", run: noteAbsent},
		{name: "SecondEvidenceOfANameIsLeft", run: evidenceNames},
		{name: "EvidenceIsOrderedByTimeAndName", run: evidenceOrder},
		{name: "EvidenceOverItsBoundsIsRefusedAndWritesNothing", run: evidenceBounds},
		{name: "EvidenceAtItsBoundsComesBackByteForByte", run: evidenceExact},
		{name: "EvidenceOfARefusedSettlementIsNotKept", run: evidenceRefused, rows: true},
		{name: "EvidenceHoldsTheGuard", run: evidenceHolds},
		{name: "EvidenceOutlivesTheClaim", run: evidenceStays},
		{name: "NotesOfOneNameAtOnceAreKeptOnce", run: raceNotes},
	}
}

// proof is evidence that is recognised by its name.
func proof(name string, kind effect.EvidenceKind, now float64) *effect.Evidence {
	return &effect.Evidence{Name: name, Kind: kind, By: "resolver r1", Seen: `{"charge":"` + name + `"}`, At: at(now)}
}

func describeEvidence(list []effect.Evidence) string {
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("%s %q %s by %q at %s: %q", e.GuardID, e.Name, e.Kind, e.By, instant(e.At), e.Seen))
	}
	return strings.Join(out, "\n")
}

// kept is the evidence beside the guard, one a line.
func (s *subject) kept() string {
	s.Helper()
	list := s.kind.due(s.Stores)
	if list == nil {
		return ""
	}
	return describeEvidence(must(s.world, func(ctx context.Context) ([]effect.Evidence, error) { return list.Evidence(ctx, s.id) }))
}

func (s *subject) wantEvidence(what string, want ...*effect.Evidence) {
	s.Helper()
	if !s.hasDue() {
		return
	}
	var list []effect.Evidence
	for _, e := range want {
		one := *e
		one.GuardID = s.id
		list = append(list, one)
	}
	check(s.world, "evidence "+what, s.kept(), describeEvidence(list))
}

// noting settles nothing, and leaves a note.
func (s *subject) noting(note *effect.Evidence, now float64) effect.Settle {
	m := s.evidence("webhook evt_1", effect.Failed, now)
	m.From, m.Note = nil, note
	return m
}

func evidenceKept(s *subject) {
	s.wantEvidence("of what is not there")
	s.begin("A1", 0.02)
	s.wantEvidence("of what has just begun")
	first, second := proof("asked", effect.EvidenceAlert, 5), proof("verdict", effect.EvidenceVerdict, 11)
	first.GuardID = "another" // the guard is the settlement's
	m := s.settlement("A1", effect.Unknown, 5.02)
	m.Evidence = first
	got := s.settle(m)
	check(s.world, "moved", got.Moved, true)
	check(s.world, "noted", got.Noted, false)
	s.wantEvidence("of the first move", first)
	m = s.evidence("R", effect.Succeeded, 12)
	m.Evidence, m.Note = second, proof("note", effect.EvidenceConflict, 11.5)
	got = s.settle(m)
	check(s.world, "moved", got.Moved, true)
	check(s.world, "noted", got.Noted, true)
	s.wantEvidence("of both", first, second, m.Note)
	s.unchanged("the repeat", 13, func() {
		got := s.settle(m)
		check(s.world, "moved again", got.Moved, false)
		check(s.world, "noted again", got.Noted, false)
	})
	second.Seen = "changed by the caller"
	second = proof("verdict", effect.EvidenceVerdict, 11)
	s.wantEvidence("after the caller changed what it passed", first, second, m.Note)
}

func evidenceDropped(s *subject) {
	s.begin("A1", 0.02)
	s.unchanged("evidence of a zombie", 1, func() {
		m := s.settlement("A0", effect.Succeeded, 1)
		m.Evidence = proof("zombie", effect.EvidenceVerdict, 1)
		check(s.world, "moved", s.settle(m).Moved, false)
	})
	s.settle(s.settlement("A1", effect.Failed, 1))
	s.unchanged("evidence about what is final", 2, func() {
		m := s.evidence("W", effect.Succeeded, 2)
		m.Evidence = proof("late", effect.EvidenceVerdict, 2)
		got := s.settle(m)
		check(s.world, "moved", got.Moved, false)
		check(s.world, "noted", got.Noted, false)
	})
}

func noteKept(s *subject) {
	s.begin("A1", 0.02)
	pending := proof("while PENDING", effect.EvidenceConflict, 0.5)
	check(s.world, "noted while PENDING", s.settle(s.noting(pending, 0.5)).Noted, true)
	s.settle(s.settlement("A1", effect.Succeeded, 1))
	note := proof("conflict evt_1", effect.EvidenceConflict, 2)
	m := s.evidence("webhook", effect.Failed, 2)
	m.Note = note
	guard := describeGuard(s.look(3).Guard)
	got := s.settle(m)
	check(s.world, "moved", got.Moved, false)
	check(s.world, "noted", got.Noted, true)
	check(s.world, "the guard", describeGuard(s.look(3).Guard), guard)
	s.wantEvidence("that speaks against a final state", pending, note)
	s.unchanged("the same note again", 3, func() {
		check(s.world, "noted again", s.settle(m).Noted, false)
		m.Note = proof("conflict evt_1", effect.EvidenceAlert, 9)
		check(s.world, "noted with another content", s.settle(m).Noted, false)
	})
	zombie := s.settlement("A1", effect.Unknown, 4)
	zombie.Note = proof("zombie", effect.EvidenceConflict, 4)
	check(s.world, "a zombie's note is kept", s.settle(zombie).Noted, true)
	s.wantEvidence("of all three", pending, note, zombie.Note)
}

func noteRepeat(s *subject) {
	s.begin("A1", 0.02)
	s.settle(s.settlement("A1", effect.Succeeded, 1))
	m := s.evidence("webhook", effect.Failed, 2)
	m.Inbox = &retryproof.InboxKey{Consumer: "webhook", Source: "psp", EventID: "evt_1"}
	m.Note = proof("first", effect.EvidenceConflict, 2)
	got := s.settle(m)
	check(s.world, "repeat", got.Repeat, false)
	check(s.world, "noted", got.Noted, true)
	s.unchanged("a repeated delivery", 3, func() {
		m.Note = proof("second", effect.EvidenceConflict, 3)
		got := s.settle(m)
		check(s.world, "repeat", got.Repeat, true)
		check(s.world, "noted of a repeat", got.Noted, false)
	})
	s.wantEvidence("of the first delivery", proof("first", effect.EvidenceConflict, 2))

	other := s.subject(s.kind, "K2") // a repeat that could have moved its guard
	other.begin("A1", 0.02)
	other.unchanged("the same delivery about another effect", 3, func() {
		m := other.evidence("webhook", effect.Succeeded, 3)
		m.Inbox = &retryproof.InboxKey{Consumer: "webhook", Source: "psp", EventID: "evt_1"}
		m.Note, m.Evidence = proof("third", effect.EvidenceConflict, 3), proof("fourth", effect.EvidenceVerdict, 3)
		got := other.settle(m)
		check(s.world, "repeat", got.Repeat, true)
		check(s.world, "noted of a repeat", got.Noted, false)
	})
}

func noteAbsent(s *subject) {
	note := proof("early", effect.EvidenceConflict, 0)
	s.unchanged("a note about nothing", 1, func() {
		check(s.world, "noted", s.settle(s.noting(note, 0)).Noted, false)
	})
	s.begin("A1", 1)
	s.wantEvidence("of what begins later")
	check(s.world, "noted", s.settle(s.noting(note, 2)).Noted, true)
	voided := s.subject(s.kind, "K2")
	voided.void("R", 0.02)
	check(s.world, "noted about a void", voided.settle(voided.noting(note, 2)).Noted, true)
	voided.wantEvidence("that speaks against a void", note)
}

func evidenceNames(s *subject) {
	s.begin("A1", 0.02)
	first := proof("answer", effect.EvidenceAlert, 5)
	m := s.settlement("A1", effect.Unknown, 5.02)
	m.Evidence = first
	s.settle(m)
	m = s.evidence("R", effect.Succeeded, 7)
	m.Evidence = proof("answer", effect.EvidenceVerdict, 6)
	m.Evidence.By, m.Evidence.Seen = "somebody else", "something else"
	check(s.world, "moved", s.settle(m).Moved, true) // the name holds nothing back
	s.wantEvidence("of the first of its name", first)
	for _, name := range []string{"Answer", "answer ", " answer", "answe", "ånswer"} {
		check(s.world, fmt.Sprintf("%q is a name of its own", name), s.settle(s.noting(proof(name, effect.EvidenceAlert, 8), 8)).Noted, true)
	}
	other := s.subject(s.kind, "K2")
	other.begin("A1", 0.02)
	check(s.world, "the same name of another guard", other.settle(other.noting(proof("answer", effect.EvidenceAlert, 9), 9)).Noted, true)
	other.wantEvidence("of the other guard", proof("answer", effect.EvidenceAlert, 9))
}

func evidenceOrder(s *subject) {
	s.begin("A1", 0.02)
	var want []*effect.Evidence
	for _, now := range []float64{1, 1 + tick, 2} {
		for _, name := range []string{"1", "10", "2", "B", "_", "a", "a b", "b", "é"} { // in the order of their bytes
			want = append(want, proof(fmt.Sprintf("%s@%.6f", name, now), effect.EvidenceAlert, now))
		}
	}
	slices.SortFunc(want[:9], func(a, b *effect.Evidence) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(want[9:18], func(a, b *effect.Evidence) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(want[18:], func(a, b *effect.Evidence) int { return strings.Compare(a.Name, b.Name) })
	for i := range want {
		note := want[(i*11+5)%len(want)]
		check(s.world, fmt.Sprintf("%q is noted", note.Name), s.settle(s.noting(note, 3)).Noted, true)
	}
	s.wantEvidence("in order", want...)
}

func evidenceBounds(s *subject) {
	s.begin("A1", 0.02)
	s.unchanged("evidence over its bounds", 2, func() {
		for what, change := range map[string]func(e *effect.Evidence){ // order: each is refused alone
			"no name":         func(e *effect.Evidence) { e.Name = "" },
			"a long name":     func(e *effect.Evidence) { e.Name = strings.Repeat("n", effect.MaxEvidenceName+1) },
			"no kind":         func(e *effect.Evidence) { e.Kind = "" },
			"another kind":    func(e *effect.Evidence) { e.Kind = "rumour" },
			"too much to say": func(e *effect.Evidence) { e.Seen = strings.Repeat("s", effect.MaxEvidenceSeen+1) },
			"too many bytes":  func(e *effect.Evidence) { e.Seen = strings.Repeat("é", effect.MaxEvidenceSeen/2) + "!" },
		} {
			bad := proof("bad", effect.EvidenceVerdict, 1)
			change(bad)
			m := s.settlement("A1", effect.Succeeded, 1)
			m.Evidence, m.Note = bad, proof("good", effect.EvidenceAlert, 1)
			invalid(s.world, what, func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
			m.Evidence, m.Note = proof("good", effect.EvidenceVerdict, 1), bad
			invalid(s.world, what+" in a note", func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
			m.ID = "nobody"
			invalid(s.world, what+" about nothing", func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
		}
	})
	m := s.noting(proof("nul", effect.EvidenceAlert, 1), 1)
	m.Note.Seen, m.Note.By = "a\x00b", "\x00"
	if _, err := ask(s.world, func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) }); err != nil {
		check(s.world, "what the refusal of a NUL byte says", retryproof.OutcomeOf(err), retryproof.NotDone)
		s.wantEvidence("after a refusal")
		return
	}
	s.wantEvidence("with a NUL byte", m.Note)
}

func evidenceExact(s *subject) {
	s.begin("A1", 0.02)
	long := proof(strings.Repeat("é", effect.MaxEvidenceName/2)+"n", effect.EvidenceVerdict, 1)
	long.Seen = strings.Repeat("日本\n", effect.MaxEvidenceSeen/7) // 3 + 3 + 1 bytes
	long.Seen += strings.Repeat("s", effect.MaxEvidenceSeen-len(long.Seen))
	empty := &effect.Evidence{Name: "e", Kind: effect.EvidenceConflict, At: at(2)}
	odd := proof(`{"n":'1'} %s \`, effect.EvidenceAlert, 3)
	odd.By, odd.Seen = `o'brien "x" \`, "null"
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Evidence, m.Note = long, empty
	check(s.world, "noted", s.settle(m).Noted, true)
	check(s.world, "noted", s.settle(s.noting(odd, 3)).Noted, true)
	s.wantEvidence("at its bounds", long, empty, odd)
}

func evidenceRefused(s *subject) {
	s.begin("A1", 0.02)
	s.post(credit("ref", 100))
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Postings = credit("ref", 99)
	m.Evidence, m.Note = proof("verdict", effect.EvidenceVerdict, 1), proof("note", effect.EvidenceAlert, 1)
	s.unchanged("a settlement that is refused", 2, func() {
		refused(s.world, "another entry", func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
	})
	m.Postings = nil
	got := s.settle(m)
	check(s.world, "moved and noted", got.Moved && got.Noted, true)
	s.wantEvidence("of the settlement that fits", m.Note, m.Evidence)
}

// Evidence says that something was done: a guard that has some is no longer released by
// an owner who believes that nothing was, and both stay.
func evidenceHolds(s *subject) {
	s.begin("A1", 0.02)
	note := proof("note", effect.EvidenceConflict, 1)
	check(s.world, "noted", s.settle(s.noting(note, 1)).Noted, true)
	check(s.world, "gone", s.release("A1"), false)
	s.wantGuard(s.look(1).Guard, effect.Pending, "A1")
	s.wantEvidence("of a guard that holds", note)
	m := s.settlement("A1", effect.Unknown, 2)
	check(s.world, "its owner may still settle it", s.settle(m).Moved, true)
}

func evidenceStays(s *subject) {
	s.begin("A1", 0.02)
	verdict := proof("verdict", effect.EvidenceVerdict, 1)
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Evidence, m.Claim = verdict, s.completion("A1", ok200("final"), 100)
	s.settle(m)
	s.begin("A2", 100+tick)
	check(s.world, "the guard is gone", s.release("A2"), false)
	s.void("R", 200)
	s.wantEvidence("after the claim's hour", verdict)
	for i, other := range s.instances() {
		one := *s
		one.world = &world{T: s.T, Stores: other, traits: s.traits, paid: s.paid}
		one.wantEvidence(fmt.Sprintf("as instance %d sees it", i), verdict)
	}
}

func raceNotes(s *subject) {
	s.begin("A1", 0.02)
	all := s.instances()
	settled := together(s.world, 20, func(ctx context.Context, i int) (effect.Settled, error) {
		note := proof("note", effect.EvidenceAlert, 1)
		note.By = fmt.Sprintf("R%d", i)
		return s.via(all, i).Settle(ctx, s.noting(note, 1))
	})
	noted := 0
	for i, one := range settled {
		if one.Noted {
			noted++
			note := proof("note", effect.EvidenceAlert, 1)
			note.By = fmt.Sprintf("R%d", i)
			s.wantEvidence("of the one who was told so", note)
		}
	}
	check(s.world, "notes that were kept", noted, 1)
}

// A settlement in a transaction of a program's own.
func withinSettles(w *world) {
	s := w.subject(kind{name: "Payments", payments: true}, "K1")
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Evidence, m.Note = proof("verdict", effect.EvidenceVerdict, 1), proof("note", effect.EvidenceAlert, 1)
	settle := func(want effect.Settled, end error) {
		err := w.within(func(ctx context.Context, tx Tx) error {
			got, err := tx.SettlePayment(ctx, m)
			if err == nil {
				check(w, "moved", got.Moved, want.Moved)
				check(w, "noted", got.Noted, want.Noted)
			}
			return errors.Join(err, end)
		})
		if !errors.Is(err, end) {
			w.Fatalf("got error %v, want %v", err, end)
		}
	}
	rollback := errors.New("the program changed its mind")
	s.unchanged("a transaction that is rolled back", 2, func() { settle(effect.Settled{Moved: true, Noted: true}, rollback) })
	settle(effect.Settled{Moved: true, Noted: true}, nil)
	s.wantGuard(s.look(2).Guard, effect.Succeeded, "")
	s.wantEvidence("of a transaction", m.Note, m.Evidence)
	s.unchanged("the repeat", 2, func() { settle(effect.Settled{}, nil) })
	m.Note = proof("", effect.EvidenceAlert, 1)
	s.unchanged("a note without a name", 2, func() {
		err := w.within(func(ctx context.Context, tx Tx) error {
			_, err := tx.SettlePayment(ctx, m)
			return err
		})
		check(w, "the code", retryproof.CodeOf(err), retryproof.CodeInvalid)
	})
	refused := w.subject(kind{name: "Payments", payments: true}, "K2")
	refused.begin("A1", 0.02)
	w.post(credit("taken", 100))
	m = refused.settlement("A1", effect.Succeeded, 1)
	m.Postings = append(credit("new", 5), credit("taken", 99)...)
	refused.unchanged("a refused settlement in a transaction that goes on", 2, func() {
		err := w.within(func(ctx context.Context, tx Tx) error { // a driver may refuse at the commit
			if _, err := tx.SettlePayment(ctx, m); retryproof.CodeOf(err) != retryproof.CodeInvalid {
				return err
			}
			return nil
		})
		if err != nil {
			check(w, "the code at the commit", retryproof.CodeOf(err), retryproof.CodeInvalid)
		}
	})
}
