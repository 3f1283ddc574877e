package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/retryproof/retryproof/effect"
)

func adoptCases() []effectCase {
	return []effectCase{
		{name: "AdoptAtLeaseEndPlusMarginIsRefusedAndAMicrosecondLaterAccepted", run: adoptBoundary},
		{name: "StalenessHasOneTable", run: stalenessTable},
		{name: "TimesCountToTheMicrosecond", run: finerTimes},
		{name: "AdoptFromAnotherOwnerThanReadChangesNothing", run: adoptWrongOwner},
		{name: "AdoptRefusedByTheGuardLeavesTheClaim", run: adoptRefusedByGuard},
		{name: "AdoptRefusedByTheClaimLeavesTheGuard", run: adoptRefusedByClaim, atomic: true},
		{name: "AdoptRepeatedByItsOwnerChangesNothing", run: adoptRepeated},
		{name: "OwnStaleLeaseIsRenewed", run: adoptOwnStaleLease},
		{name: "GuardOnlyLeavesTheClaim", run: adoptGuardOnly},
		{name: "AbsentGuardIsInsertedOnlyWhenAsked", run: adoptAbsentGuard},
		{name: "StaleClaimWithoutGuardIsTakenOver", run: adoptClaimWithoutGuard},
		{name: "PointerIsAdoptedAndAFinalAnswerIsNot", run: adoptPointer},
		{name: "ExpiredClaimIsInserted", run: adoptExpiredClaim},
		{name: "SweepMakesAStalePendingGuardUnknown", run: adoptSweep},
		{name: "FinalGuardIsNeverAdopted", run: adoptFinalGuard},
		{name: "UnknownGuardWithoutOwnerIsAdoptedAtOnce", run: adoptOwnerless},
		{name: "EveryAdoptionRaisesTries", run: adoptTries},
		{name: "AdoptIntoAFinalStateIsRefused", run: adoptBadTarget},
	}
}

func adoptBoundary(s *subject) {
	s.begin("A1", 0.02)
	s.unchanged("an early adoption", 6.02, func() {
		for _, now := range []float64{0.02, 5.02, 5.02 + tick, 6.02 - tick, 6.02} {
			seen := s.adopt(s.adoption("B", "A1", now))
			s.wantGuard(seen.Guard, effect.Pending, "A1")
			s.wantClaim(seen.Claim, effect.InProgress, "A1")
		}
	})
	seen := s.adopt(s.adoption("B", "A1", 6.02+tick))
	s.wantClaim(seen.Claim, effect.InProgress, "B")
	s.wantGuard(seen.Guard, effect.Pending, "B")
	sameTime(s.world, "the claim's lease", seen.Claim.Until, at(6.02+tick+lease))
	sameTime(s.world, "the guard's lease", seen.Guard.Until, at(6.02+tick+lease))
	sameTime(s.world, "UpdatedAt", seen.Guard.UpdatedAt, at(6.02+tick))
	sameTime(s.world, "CreatedAt", seen.Guard.CreatedAt, at(0.02))
	check(s.world, "tries", seen.Guard.Tries, 1)
	check(s.world, "what Look sees", describe(s.look(7)), describe(seen))
	check(s.world, "the fingerprint", seen.Claim.Fingerprint, s.print)
}

// case 19: what is finer than the stores keep moves no boundary.
func finerTimes(s *subject) {
	const finer = 500 * time.Nanosecond
	s.begin("A1", 0.02)
	early := s.adoption("B", "A1", 6.02)
	early.Now = early.Now.Add(finer)
	seen := s.adopt(early)
	s.wantGuard(seen.Guard, effect.Pending, "A1")
	s.wantClaim(seen.Claim, effect.InProgress, "A1")
	m := s.settlement("A1", effect.Succeeded, 0.54)
	m.Claim = s.completion("A1", ok200("final"), 3600)
	s.settle(m)
	look := effect.Look{Scope: s.scope, GuardID: s.id, Now: at(3600).Add(finer)}
	kept := must(s.world, func(ctx context.Context) (effect.Seen, error) { return s.store.Look(ctx, look) })
	s.wantClaim(kept.Claim, effect.Complete, "A1")
	again := s.beginning("A2", 3600)
	again.Now = again.Now.Add(finer)
	seen = must(s.world, func(ctx context.Context) (effect.Seen, error) { return s.store.Begin(ctx, again) })
	s.wantClaim(seen.Claim, effect.Complete, "A1")
}

// case 19: the same verdict in every store, whoever asks and by whatever clock.
// The store judges with the time that it is given; with an offset of up to 0.9 s
// nobody takes over while the owner's own clock says that the lease is alive.
func stalenessTable(s *subject) {
	for i, row := range []struct {
		trueTime, offset float64
		taken            bool
	}{
		{5.02, 0, false}, {6.02, 0, false}, {6.0201, 0, true},
		{5.02, -0.9, false}, {6.02, -0.9, false}, {6.0201, -0.9, false}, {6.92, -0.9, false}, {6.9201, -0.9, true},
		{5.02, 0.9, false}, {5.12, 0.9, false}, {5.1201, 0.9, true}, {6.02, 0.9, true}, {6.0201, 0.9, true},
		{0.03, 60, true}, {5.02, 60, true}, {6.02, 60, true}, {6.0201, 60, true},
	} {
		now := row.trueTime + row.offset
		owner := map[bool]string{false: "A1", true: "B"}[row.taken]
		what := fmt.Sprintf("at %.4f by a clock that is %+.1f s off", row.trueTime, row.offset)

		takeover := s.subject(s.kind, fmt.Sprintf("takeover-%d", i))
		takeover.begin("A1", 0.02)
		seen := takeover.adopt(takeover.adoption("B", "A1", now))
		check(s.world, "takeover of the guard "+what, seen.Guard.Owner, owner)
		check(s.world, "takeover of the claim "+what, seen.Claim.Owner, owner)

		sweep := s.subject(s.kind, fmt.Sprintf("sweep-%d", i))
		sweep.begin("A1", 0.02)
		a := sweep.adoption("B", "A1", now)
		a.GuardOnly, a.To = true, effect.Unknown
		seen = sweep.adopt(a)
		check(s.world, "sweep of the guard "+what, seen.Guard.Owner, owner)
		sweep.wantClaim(sweep.look(now).Claim, effect.InProgress, "A1")
	}
}

func adoptWrongOwner(s *subject) {
	s.begin("A1", 0.02)
	s.unchanged("adoption from a wrong owner", 8, func() {
		for _, from := range []string{"A2", "", "a1", "A1 "} {
			s.adopt(s.adoption("B", from, 8))
		}
	})
}

// The claim could be had, the guard could not.
func adoptRefusedByGuard(s *subject) {
	s.begin("A1", 0.02)
	a := s.adoption("B", "A1", 8)
	a.GuardFrom = "somebody else"
	s.unchanged("an adoption refused by the guard's owner", 9, func() { s.adopt(a) })

	a = s.adoption("R", "A1", 7)
	a.GuardOnly, a.To = true, effect.Unknown
	s.adopt(a) // a resolver holds the guard until 12
	s.unchanged("an adoption refused by the guard's lease", 9, func() {
		a := s.adoption("B", "A1", 8)
		a.GuardFrom = "R"
		s.adopt(a)
	})
}

// The guard could be had, the claim could not.
func adoptRefusedByClaim(s *subject) {
	s.begin("A1", 0.02)
	a := s.adoption("B", "A1", 8)
	a.ClaimFrom = "somebody else"
	s.unchanged("an adoption refused by the claim's owner", 9, func() { s.adopt(a) })

	answered := s.subject(s.kind, "answered")
	answered.begin("A1", 0.02)
	answered.complete("A1", ok200("final"), 3605)
	answered.unchanged("an adoption refused by a final answer", 9, func() { answered.adopt(answered.adoption("B", "A1", 8)) })

	held := s.subject(s.kind, "held")
	held.begin("A1", 0.02)
	held.complete("A1", nil, 7) // expires, and somebody claims again
	held.begin("C", 8)
	held.unchanged("an adoption refused by the claim's lease", 9, func() {
		a := held.adoption("B", "A1", 9)
		a.ClaimFrom = "C"
		held.adopt(a)
	})
}

// A lost answer is asked again.
func adoptRepeated(s *subject) {
	s.begin("A1", 0.02)
	a := s.adoption("B", "A1", 7)
	first := describe(s.adopt(a))
	s.unchanged("a repeated adoption", 8, func() {
		check(s.world, "the repeat", describe(s.adopt(a)), first)
		a.Now = at(8)
		check(s.world, "a later repeat", describe(s.adopt(a)), first)
	})

	swept := s.subject(s.kind, "swept")
	swept.begin("A1", 0.02)
	a = swept.adoption("R", "A1", 7)
	a.GuardOnly, a.To = true, effect.Unknown
	first = describeGuard(swept.adopt(a).Guard)
	check(s.world, "the repeat of a sweep", describeGuard(swept.adopt(a).Guard), first)
}

func adoptOwnStaleLease(s *subject) {
	s.begin("A1", 0.02)
	a := s.adoption("R", "A1", 7)
	a.GuardOnly, a.To = true, effect.Unknown
	s.adopt(a)
	again := s.adoption("R", "R", 13)
	again.GuardOnly, again.To = true, effect.Unknown
	s.unchanged("an own lease that is not stale yet", 13, func() { s.adopt(again) })
	again.Now, again.Until = at(13+tick), at(18)
	g := s.adopt(again).Guard
	s.wantGuard(g, effect.Unknown, "R")
	sameTime(s.world, "the renewed lease", g.Until, at(18))
	check(s.world, "tries", g.Tries, 2)
}

func adoptGuardOnly(s *subject) {
	s.begin("A1", 0.02)
	claim := describeClaim(s.look(7).Claim)
	a := s.adoption("R", "A1", 7)
	a.GuardOnly, a.ClaimFrom = true, ""
	s.adopt(a)
	seen := s.look(7)
	check(s.world, "the claim", describeClaim(seen.Claim), claim)
	s.wantGuard(seen.Guard, effect.Pending, "R")

	expired := s.subject(s.kind, "expired")
	expired.begin("A1", 0.02)
	expired.complete("A1", nil, 2)
	a = expired.adoption("R", "A1", 7)
	a.GuardOnly, a.ClaimFrom = true, ""
	expired.adopt(a)
	check(s.world, "the expired claim", describeClaim(expired.look(7).Claim), "no claim")
}

func adoptAbsentGuard(s *subject) {
	a := s.adoption("B", "", 7)
	s.unchanged("adopting what is not there", 7, func() { s.adopt(a) })
	a.Insert = true
	seen := s.adopt(a)
	s.wantClaim(seen.Claim, effect.InProgress, "B")
	s.wantGuard(seen.Guard, effect.Pending, "B")
	check(s.world, "the guard's scope", seen.Guard.Scope, s.scope)
	check(s.world, "the guard's fingerprint", seen.Guard.Fingerprint, s.print)
	sameTime(s.world, "CreatedAt", seen.Guard.CreatedAt, at(7))
	s.unchanged("the repeat", 8, func() { s.adopt(a) })
}

func adoptClaimWithoutGuard(s *subject) {
	if s.Keys == nil {
		s.begin("A1", 0.02) // without the halves a claim never stands alone
		return
	}
	b := s.beginning("A1", 0.02)
	must(s.world, func(ctx context.Context) (*effect.Claim, error) { return s.Keys.ClaimKey(ctx, b) })
	check(s.world, "the guard", describeGuard(s.look(1).Guard), "no guard")
	early := s.adoption("B", "A1", 6.02)
	early.Insert = true
	s.unchanged("adopting a live claim without a guard", 6.02, func() { s.adopt(early) })
	late := s.adoption("B", "A1", 6.02+tick)
	late.Insert = true
	seen := s.adopt(late)
	s.wantClaim(seen.Claim, effect.InProgress, "B")
	s.wantGuard(seen.Guard, effect.Pending, "B")
}

func adoptPointer(s *subject) {
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Unknown, 5.02)
	m.Claim = s.completion("A1", nil, 3605.02)
	s.settle(m)
	wrong := s.adoption("B", "", 5.03)
	wrong.ClaimFrom = "A2"
	if !s.kind.split {
		s.unchanged("adopting another owner's pointer", 6, func() { s.adopt(wrong) })
	}
	a := s.adoption("B", "", 5.03) // at once: a pointer has no lease, nor has the guard
	a.ClaimFrom = "A1"
	seen := s.adopt(a)
	s.wantClaim(seen.Claim, effect.InProgress, "B")
	s.wantGuard(seen.Guard, effect.Unknown, "B")
}

func adoptExpiredClaim(s *subject) {
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Unknown, 5.02)
	m.Claim = s.completion("A1", nil, 100)
	s.settle(m)
	a := s.adoption("B", "", 100+tick)
	seen := s.adopt(a)
	s.wantClaim(seen.Claim, effect.InProgress, "B")
	s.wantGuard(seen.Guard, effect.Unknown, "B")
	sameTime(s.world, "the claim's lease", seen.Claim.Until, at(100+tick+lease))
}

func adoptSweep(s *subject) {
	s.begin("A1", 0.02)
	a := s.adoption("R", "A1", 7)
	a.GuardOnly, a.To = true, effect.Unknown
	g := s.adopt(a).Guard
	s.wantGuard(g, effect.Unknown, "R")
	sameTime(s.world, "the lease", g.Until, at(12))
	a = s.adoption("B", "R", 20)
	a.ClaimFrom, a.To = "A1", effect.Pending
	s.wantGuard(s.adopt(a).Guard, effect.Unknown, "B") // UNKNOWN stays UNKNOWN
}

func adoptFinalGuard(s *subject) {
	for _, state := range []effect.State{effect.Succeeded, effect.Failed} {
		one := s.subject(s.kind, string(state))
		one.begin("A1", 0.02)
		one.settle(one.settlement("A1", state, 1))
		one.unchanged("adopting a guard that is "+string(state), 100, func() {
			for _, from := range []string{"", "A1"} {
				a := one.adoption("B", from, 99)
				a.ClaimFrom = "A1"
				one.adopt(a)
				a.GuardOnly, a.To = true, effect.Unknown
				one.adopt(a)
			}
		})
	}
}

func adoptOwnerless(s *subject) {
	s.begin("A1", 0.02)
	s.settle(s.settlement("A1", effect.Unknown, 5.02))
	a := s.adoption("R", "", 5.02)
	a.GuardOnly, a.To = true, effect.Unknown
	g := s.adopt(a).Guard
	s.wantGuard(g, effect.Unknown, "R")
	check(s.world, "tries", g.Tries, 1)
	s.unchanged("the second resolver with the same list", 6, func() { // case 19
		a := s.adoption("R2", "", 5.03)
		a.GuardOnly, a.To = true, effect.Unknown
		s.adopt(a)
	})
}

func adoptTries(s *subject) {
	s.begin("A1", 0.02)
	from := "A1"
	for i := range 4 {
		now := 10 * float64(i+1)
		a := s.adoption(fmt.Sprintf("R%d", i), from, now)
		a.GuardOnly, a.To = true, effect.Unknown
		check(s.world, "tries", s.adopt(a).Guard.Tries, i+1)
		from = a.Owner
	}
	s.settle(s.settlement(from, effect.Unknown, 41))
	check(s.world, "tries after a settlement", s.look(41).Guard.Tries, 4)
}

func adoptBadTarget(s *subject) {
	s.begin("A1", 0.02)
	s.unchanged("adopting into a state that is not PENDING or UNKNOWN", 8, func() {
		for _, to := range []effect.State{effect.Succeeded, effect.Failed, effect.Void, ""} {
			a := s.adoption("B", "A1", 8)
			a.To = to
			refused(s.world, "to "+string(to), func(ctx context.Context) (effect.Seen, error) { return s.store.Adopt(ctx, a) })
		}
		a := s.adoption("", "A1", 8)
		refused(s.world, "no owner", func(ctx context.Context) (effect.Seen, error) { return s.store.Adopt(ctx, a) })
	})
}
