package storetest

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
)

func scopeCases() []effectCase {
	return []effectCase{
		{name: "OneScopeHasOneGuard", run: scopeBegin},
		{name: "AdoptionInsertsNoSecondGuardOfAScope", run: scopeAdopt},
		{name: "VoidOfAScopeUnderAnotherIDIsRefused", run: scopeVoid},
		{name: "ResolveUnderAnotherIDSaysNothingOfWhatSucceeded", run: scopeResolve},
		{name: "HalvesKeepOneGuardOfAScope", run: scopeHalves},
		{name: "IDsOfOneScopeAtOnceHaveOneGuard", run: scopeRace},
	}
}

// renamed is the same scope under another guard id.
func (s *subject) renamed(n int) *subject {
	other := *s
	other.id = retryproof.Derive("pay", fmt.Sprintf("another %d", n), string(s.scope.Key))
	return &other
}

// succeeded begins and settles; the claim's answer expires at 100.
func (s *subject) succeeded() {
	s.Helper()
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Claim = s.completion("A1", ok200("final"), 100)
	check(s.world, "moved", s.settle(m).Moved, true)
}

// otherID wants a refusal that writes nothing, for the scope has another guard.
func (s *subject) otherID(what string, other *subject, now float64, f func(ctx context.Context) (effect.Seen, error)) {
	s.Helper()
	s.unchanged(what, now, func() { invalid(s.world, what, f) })
	check(s.world, what+": the guard of the other id", describeGuard(other.look(now).Guard), "no guard")
}

func scopeBegin(s *subject) {
	s.succeeded()
	other := s.renamed(1)
	b := other.beginning("B", 200)
	begin := func(ctx context.Context) (effect.Seen, error) { return s.store.Begin(ctx, b) }
	for range 2 {
		s.otherID("a Begin under another id", other, 200, begin)
	}
	if s.kind.refunds { // nothing is reserved, so the cap does not matter
		other.amount = 1 << 60
		b = other.beginning("B", 200)
		s.otherID("a refund that exceeds", other, 200, begin)
	}
	s.wantClaim(s.begin("A2", 201).Claim, effect.InProgress, "A2")

	free := s.subject(s.kind, "K2")
	free.begin("A1", 0.02)
	check(s.world, "the guard is gone", free.release("A1"), true)
	other = free.renamed(1)
	other.wantGuard(other.begin("B", 1).Guard, effect.Pending, "B")
	free.otherID("the first id again", free, 9, func(ctx context.Context) (effect.Seen, error) {
		return free.store.Begin(ctx, effect.Begin{Scope: free.scope, GuardID: free.id, Owner: "R", Now: at(9), Until: at(3600), Void: true})
	})
}

func scopeAdopt(s *subject) {
	s.succeeded()
	other := s.renamed(1)
	a := other.adoption("B", "A1", 200)
	a.Insert = true
	adopt := func(ctx context.Context) (effect.Seen, error) { return s.store.Adopt(ctx, a) }
	s.unchanged("an adoption that the claim refuses", 50, func() {
		early := a
		early.Now, early.Until = at(50), at(55)
		other.adopt(early)
	})
	s.otherID("an adoption under another id", other, 200, adopt)
	if s.kind.refunds {
		other.amount = 1 << 60
		a.Row = other.row(a.Now)
		s.otherID("an adoption that exceeds", other, 200, adopt)
	}
	if !s.kind.split { // where the claim of a GuardOnly adoption is another store's
		a.GuardOnly, a.Row = true, other.row(a.Now)
		s.otherID("an adoption of the guard alone", other, 200, adopt)
	}
}

func scopeVoid(s *subject) {
	s.succeeded()
	other := s.renamed(1)
	for _, now := range []float64{50, 200} { // with the claim, and without
		b := other.voiding("R", now)
		s.otherID(fmt.Sprintf("a void at %v", now), other, now, func(ctx context.Context) (effect.Seen, error) { return s.store.Begin(ctx, b) })
	}
	pending := s.subject(s.kind, "K2")
	pending.begin("A1", 0.02)
	other = pending.renamed(1)
	pending.otherID("a void beside a PENDING guard", other, 1, func(ctx context.Context) (effect.Seen, error) {
		return s.store.Begin(ctx, other.voiding("R", 1))
	})
	voided := s.subject(s.kind, "K3")
	voided.void("R", 0.02)
	other = voided.renamed(1)
	voided.otherID("an original under another id", other, 5000, func(ctx context.Context) (effect.Seen, error) {
		return s.store.Begin(ctx, other.beginning("A1", 5000))
	})
}

// Who asks what became of a key, and does not name its guard as the original did, must not
// be told that it never will happen.
func scopeResolve(s *subject) {
	s.succeeded()
	for _, now := range []float64{50, 200} {
		e, err := effect.New(s.store, effect.Config{Retries: s.traits.Tries, Clock: clocktest.New(at(now))})
		if err != nil {
			s.Fatal(err)
		}
		s.unchanged("a question under another id", now, func() {
			d, err := e.Resolve(s.Context(), effect.Request{Scope: s.scope})
			if retryproof.CodeOf(err) != retryproof.CodeInvalid || d.Verdict != 0 {
				s.Errorf("at %v: got %v, error %v, want CodeInvalid", now, d.Verdict, err)
			}
		})
		d, err := e.Resolve(s.Context(), effect.Request{Scope: s.scope, GuardID: s.id})
		if err != nil || d.Verdict != effect.Replay || d.State != effect.Succeeded {
			s.Errorf("by its own id at %v: got %v %s, error %v, want the replay", now, d.Verdict, d.State, err)
		}
	}
}

func scopeHalves(s *subject) {
	if !s.kind.split {
		return
	}
	s.begin("A1", 0.02)
	other, guards := s.renamed(1), s.kind.guards(s.Stores)
	half := func(what string, f func(ctx context.Context) (*effect.Guard, error)) {
		s.Helper()
		s.otherID(what, other, 20, func(ctx context.Context) (effect.Seen, error) {
			g, err := f(ctx)
			return effect.Seen{Guard: g}, err
		})
	}
	half("recording", func(ctx context.Context) (*effect.Guard, error) {
		return guards.RecordGuard(ctx, other.beginning("B", 20))
	})
	half("voiding", func(ctx context.Context) (*effect.Guard, error) {
		return guards.RecordGuard(ctx, other.voiding("B", 20))
	})
	a := other.adoption("B", "A1", 20)
	a.Insert = true
	half("adopting", func(ctx context.Context) (*effect.Guard, error) { return guards.AdoptGuard(ctx, a) })
}

// Per key an original and a void come under each of several ids.
func scopeRace(s *subject) {
	const keys, ids = 10, 4
	all := s.instances()
	var subjects [keys][ids]*subject
	for k := range keys {
		for i := range ids {
			subjects[k][i] = s.subject(s.kind, fmt.Sprintf("K%d", k)).renamed(i)
		}
	}
	together(s.world, 2*keys*ids, func(ctx context.Context, n int) (bool, error) {
		one, owner := subjects[n%keys][n/keys%ids], fmt.Sprintf("A%d", n)
		b := one.beginning(owner, 0.02)
		if n/keys >= ids {
			b = one.voiding(owner, 0.02)
		}
		_, err := one.via(all, n).Begin(ctx, b)
		if retryproof.OutcomeOf(err) == retryproof.NotDone && retryproof.CodeOf(err) == retryproof.CodeInvalid {
			return false, nil
		}
		return true, err
	})
	for k := range keys {
		var guards []*effect.Guard
		for i := range ids {
			if g := subjects[k][i].look(1).Guard; g != nil {
				guards = append(guards, g)
			}
		}
		if len(guards) != 1 {
			s.Fatalf("key %d: got %d guards, want one", k, len(guards))
		}
		if c := subjects[k][0].look(1).Claim; !s.kind.split { // with two stores an original may leave a claim, which goes stale
			check(s.world, fmt.Sprintf("key %d: the claim's guard", k), c.GuardID, guards[0].ID)
			check(s.world, fmt.Sprintf("key %d: claim and guard agree", k), c.State == effect.ClaimVoid, guards[0].State == effect.Void)
		}
	}
}
