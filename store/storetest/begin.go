package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// effectCase is a promise of effect.Store.
type effectCase struct {
	name string
	run  func(s *subject)
	// atomic cases need claim and guard in one transaction.
	atomic bool
	// rows cases look at the ledger, the outbox or the inbox as well.
	rows bool
}

// effectCases are the cases of one kind of effect store.
func (s suite) effectCases(k kind) []testCase {
	var out []testCase
	lists := [][]effectCase{voidCases(), evidenceCases(), scopeCases()}
	if k.refunds {
		lists = append(lists, refundCases())
	}
	if !k.refunds || !k.split { // the halves of refunds are those of the others, but for what refunds add
		lists = append(lists, beginCases(), adoptCases(), settleCases(), completeCases(), dueCases(), raceCases())
	}
	for _, list := range lists {
		for _, c := range list {
			if c.atomic && k.split || c.rows && s.traits.NoPayments {
				continue
			}
			out = append(out, testCase{c.name, func(w *world) { c.run(w.subject(k, "K1")) }})
		}
	}
	return out
}

func beginCases() []effectCase {
	return []effectCase{
		{name: "FirstBeginOwnsClaimAndGuard", run: firstBegin},
		{name: "SecondBeginIsToldWhoOwnsIt", run: secondBegin},
		{name: "BeginRepeatedByItsOwnerIsStillItsOwn", run: repeatedBegin},
		{name: "LostClaimInsertsNoGuard", run: lostClaimInsertsNoGuard},
		{name: "ClaimIsAliveAtItsExpiryAndAbsentAMicrosecondLater", run: expiryBoundary},
		{name: "ExpiredClaimIsClaimedAnewAndTheGuardStands", run: expiredClaimLiveGuard},
		{name: "LeaseEndAloneGivesNothingAway", run: leaseEndIsNoExpiry},
		{name: "FingerprintsComeBackByteForByte", run: fingerprints},
		{name: "ScopesNeverMeet", run: scopesNeverMeet},
		{name: "LongRandomKeysAreKeptExactly", run: longKeys},
		{name: "TextsThatCannotBeHeldAreRefused", run: unusualTexts},
		{name: "BadInputIsRefusedAndWritesNothing", run: badBegin},
		{name: "EndedContextWritesNothing", run: endedContext},
		{name: "TimesAreKeptToTheMicrosecondInAnyZone", run: preciseTimes},
	}
}

func firstBegin(s *subject) {
	check(s.world, "records before", describe(s.look(0)), "no claim\n  no guard")
	seen := s.begin("A1", 0.02)
	check(s.world, "what Look sees", describe(s.look(0.02)), describe(seen))
	c, g := seen.Claim, seen.Guard
	s.wantClaim(c, effect.InProgress, "A1")
	s.wantGuard(g, effect.Pending, "A1")
	check(s.world, "the claim's scope", c.Scope, s.scope)
	check(s.world, "the claim's guard", c.GuardID, s.id)
	check(s.world, "the claim has an answer", c.Answer != nil, false)
	check(s.world, "the guard's scope", g.Scope, s.scope)
	check(s.world, "the guard's id", g.ID, s.id)
	check(s.world, "the guard's settler", g.SettledBy, "")
	check(s.world, "the guard's tries", g.Tries, 0)
	sameTime(s.world, "the claim's lease", c.Until, at(5.02))
	sameTime(s.world, "the claim's expiry", c.ExpiresAt, time.Time{})
	sameTime(s.world, "the guard's lease", g.Until, at(5.02))
	sameTime(s.world, "CreatedAt", g.CreatedAt, at(0.02))
	sameTime(s.world, "UpdatedAt", g.UpdatedAt, at(0.02))
}

func secondBegin(s *subject) {
	first := s.begin("A1", 0.02)
	other := s.beginning("A2", 0.45)
	other.Fingerprint = retryproof.FingerprintOf(retryproof.Int("amount", 3500))
	s.unchanged("a lost claim", 1, func() {
		check(s.world, "what the second sees", describe(s.beginAs(other)), describe(first))
	})
}

// A COMMIT without an answer is asked again with the same arguments.
func repeatedBegin(s *subject) {
	b := s.beginning("A1", 0.02)
	first := s.beginAs(b)
	s.unchanged("a repeated Begin", 1, func() {
		check(s.world, "what the repeat sees", describe(s.beginAs(b)), describe(first))
	})
	later := b
	later.Now = at(3)
	check(s.world, "what a later repeat sees", describe(s.beginAs(later)), describe(first))
}

// Only a foreign guard id can show it: two ids asked for under one scope.
func lostClaimInsertsNoGuard(s *subject) {
	s.begin("A1", 0.02)
	other := *s
	other.id = retryproof.Derive("pay", "another", string(s.scope.Key))
	b := other.beginning("A2", 0.45)
	seen := s.beginAs(b)
	s.wantClaim(seen.Claim, effect.InProgress, "A1")
	check(s.world, "the guard of the lost claim", describeGuard(other.look(1).Guard), "no guard")
	s.complete("A1", ok200("done"), 100)
	seen = s.beginAs(b)
	check(s.world, "the claim is still complete", seen.Claim != nil && seen.Claim.State == effect.Complete, true)
	check(s.world, "the guard of the claim lost to an answer", describeGuard(other.look(1).Guard), "no guard")
}

// case 19: expires_at exactly now
func expiryBoundary(s *subject) {
	s.begin("A1", 0.02)
	s.settle(s.settlement("A1", effect.Succeeded, 0.54))
	check(s.world, "completed", s.complete("A1", ok200("final"), 3605.02), true)
	for _, c := range []struct {
		now   float64
		alive bool
	}{{3605.02 - tick, true}, {3605.02, true}, {3605.02 + tick, false}, {7200, false}} {
		seen := s.look(c.now)
		check(s.world, fmt.Sprintf("alive at %.6f", c.now), seen.Claim != nil, c.alive)
	}
	seen := s.begin("A2", 3605.02)
	s.wantClaim(seen.Claim, effect.Complete, "A1")
	check(s.world, "the answer at the expiry", describeAnswer(seen.Claim.Answer), describeAnswer(ok200("final")))
	seen = s.begin("A3", 3605.02+tick)
	s.wantClaim(seen.Claim, effect.InProgress, "A3")
	check(s.world, "the new claim has an answer", seen.Claim.Answer != nil, false)
	sameTime(s.world, "the new claim's lease", seen.Claim.Until, at(3605.02+tick+lease))
	sameTime(s.world, "the new claim's expiry", seen.Claim.ExpiresAt, time.Time{})
}

func expiredClaimLiveGuard(s *subject) {
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Succeeded, 0.54)
	m.Claim = s.completion("A1", ok200("final"), 3605.02)
	s.settle(m)
	before := describeGuard(s.look(7200).Guard)
	b := s.beginning("A3", 7200)
	seen := s.beginAs(b)
	s.wantClaim(seen.Claim, effect.InProgress, "A3")
	check(s.world, "the guard", describeGuard(seen.Guard), before)
	check(s.world, "the repeat", describe(s.beginAs(b)), describe(seen))
	check(s.world, "the answer is rewritten", s.complete("A3", ok200("from the row"), 10805), true)
	check(s.world, "the guard after the rewrite", describeGuard(s.look(7201).Guard), before)
}

// The end of a lease is for Adopt to judge, with its margin.
func leaseEndIsNoExpiry(s *subject) {
	first := describe(s.begin("A1", 0.02))
	for i, now := range []float64{5.02, 5.02 + tick, 6.03, 86400} {
		check(s.world, fmt.Sprintf("at %.6f", now), describe(s.begin(fmt.Sprintf("B%d", i), now)), first)
	}
}

// case 14
func fingerprints(s *subject) {
	for i, print := range []retryproof.Fingerprint{
		retryproof.FingerprintOf(retryproof.Text("order", "42")),
		retryproof.FingerprintOf(retryproof.Text("order", "42"), retryproof.Text("tip", "0").Since(2), retryproof.Text("lang", "de").Since(3)),
		"1=a,9=b,10=c",
		"7=" + retryproof.Fingerprint(strings.Repeat("x", 2000)),
	} {
		one := s.subject(s.kind, fmt.Sprintf("F%d", i))
		one.print = print
		one.begin("A1", 0.02)
		seen := one.look(1)
		check(s.world, "the claim's fingerprint", seen.Claim.Fingerprint, print)
		check(s.world, "the guard's fingerprint", seen.Guard.Fingerprint, print)
	}
}

// case 11
func scopesNeverMeet(s *subject) {
	var subjects []*subject
	for _, part := range []string{":", "/", "|", ",", "\x1f", "\t", " ", `"`, `\`, "'", "%", "_", "#", "é", "日本", "::"} {
		x, k := "x", retryproof.Key("k")
		for _, scope := range []retryproof.Scope{
			{Endpoint: "payments", Caller: "u1" + part + x, Key: k},
			{Endpoint: "payments", Caller: "u1", Key: retryproof.Key(x+part) + k},
			{Endpoint: "payments" + part + "u1", Caller: x, Key: k},
			{Endpoint: "payments" + part, Caller: "u1" + x, Key: k},
		} {
			subjects = append(subjects, s.subjectOf(s.kind, scope))
		}
	}
	for _, scope := range []retryproof.Scope{
		{Endpoint: "POST /orders/{id}/cancel#1", Caller: "u1", Key: "k"},
		{Endpoint: "POST /orders/{id}/cancel#2", Caller: "u1", Key: "k"},
		{Endpoint: "POST /orders/{id}/cancel#1?dry=1", Caller: "u1", Key: "k"},
		{Endpoint: "a", Caller: "b", Key: "c"}, {Endpoint: "a", Caller: "b", Key: "C"},
		{Endpoint: "a", Caller: "B", Key: "c"}, {Endpoint: "A", Caller: "b", Key: "c"},
		{Endpoint: "a", Caller: "b", Key: "c "}, {Endpoint: "a", Caller: " b", Key: "c"},
		{Endpoint: "ab", Caller: "c", Key: "d"}, {Endpoint: "a", Caller: "bc", Key: "d"}, {Endpoint: "a", Caller: "b", Key: "cd"},
		{Endpoint: "cafe\u0301", Caller: "u1", Key: "k"}, {Endpoint: "café", Caller: "u1", Key: "k"},
	} {
		subjects = append(subjects, s.subjectOf(s.kind, scope))
	}
	for i, one := range subjects {
		seen := one.begin(fmt.Sprintf("A%d", i), 0.02)
		if seen.Claim == nil || seen.Claim.Owner != fmt.Sprintf("A%d", i) {
			s.Errorf("%q is not a scope of its own: %s", [3]string{one.scope.Endpoint, one.scope.Caller, string(one.scope.Key)}, describeClaim(seen.Claim))
		}
	}
	for i, one := range subjects {
		seen := one.look(1)
		one.wantClaim(seen.Claim, effect.InProgress, fmt.Sprintf("A%d", i))
		one.wantGuard(seen.Guard, effect.Pending, fmt.Sprintf("A%d", i))
		check(s.world, "the claim's scope", seen.Claim.Scope, one.scope)
		check(s.world, "the guard's scope", seen.Guard.Scope, one.scope)
	}
}

// case 9: long random keys must neither overflow an index nor be cut.
func longKeys(s *subject) {
	random := rand.New(rand.NewPCG(1, 9))
	key := make([]byte, retryproof.MaxKeyBytes)
	for i := range key {
		key[i] = byte(0x21 + random.IntN(0x7e-0x21+1))
	}
	keys := []string{string(key), string(key[:254]), string(key[:254]) + "~", strings.Repeat("a", 255), strings.Repeat("a", 254)}
	if keys[2] == keys[0] {
		keys[2] = string(key[:254]) + "!"
	}
	for i, k := range keys {
		seen := s.subject(s.kind, k).begin(fmt.Sprintf("A%d", i), 0.02)
		s.wantClaim(seen.Claim, effect.InProgress, fmt.Sprintf("A%d", i))
		check(s.world, "the key is whole", seen.Claim.Scope.Key == retryproof.Key(k), true)
	}
}

func unusualTexts(s *subject) {
	for i, text := range []string{"\x00", "u\x00v", "u", "\xff", "\xc3", "\ud7ff", "😀", "\u202e"} {
		one := s.subjectOf(s.kind, retryproof.Scope{Endpoint: "payments", Caller: text, Key: "k"})
		owner := fmt.Sprintf("A%d", i)
		seen, err := ask(s.world, func(ctx context.Context) (effect.Seen, error) {
			return one.store.Begin(ctx, one.beginning(owner, 0.02))
		})
		if err != nil {
			check(s.world, fmt.Sprintf("what the refusal of %q says", text), retryproof.OutcomeOf(err), retryproof.NotDone)
			continue
		}
		one.wantClaim(seen.Claim, effect.InProgress, owner)
		check(s.world, "the scope", one.look(1).Claim.Scope, one.scope)
	}
}

func badBegin(s *subject) {
	type change func(b *effect.Begin)
	for what, change := range map[string]change{ // order: each is refused alone
		"no owner":    func(b *effect.Begin) { b.Owner = "" },
		"no endpoint": func(b *effect.Begin) { b.Scope.Endpoint = "" },
		"no caller":   func(b *effect.Begin) { b.Scope.Caller = "" },
		"no key":      func(b *effect.Begin) { b.Scope.Key = "" },
		"another row": func(b *effect.Begin) { b.Row = struct{ Amount int }{3000} },
	} {
		b := s.beginning("A1", 0.02)
		change(&b)
		refused(s.world, what, func(ctx context.Context) (effect.Seen, error) { return s.store.Begin(ctx, b) })
	}
	if s.kind.business() {
		b := s.beginning("A1", 0.02)
		b.Row = nil
		refused(s.world, "no row", func(ctx context.Context) (effect.Seen, error) { return s.store.Begin(ctx, b) })
	}
	check(s.world, "records afterwards", describe(s.look(1)), "no claim\n  no guard")
}

func endedContext(s *subject) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.store.Begin(ctx, s.beginning("A1", 0.02)); err == nil {
		s.Error("Begin with an ended context: got no error, want one")
	}
	check(s.world, "records afterwards", describe(s.look(1)), "no claim\n  no guard")
	s.begin("A1", 0.02)
	s.unchanged("Settle with an ended context", 1, func() {
		if _, err := s.store.Settle(ctx, s.settlement("A1", effect.Succeeded, 1)); err == nil {
			s.Error("Settle with an ended context: got no error, want one")
		}
	})
}

// zone is one that is not whole hours away.
var zone = time.FixedZone("half past", 5*3600+1800)

func preciseTimes(s *subject) {
	b := s.beginning("A1", 0)
	b.Now = time.Date(2026, 3, 29, 2, 30, 0, 1000, zone)
	b.Until = time.Date(2026, 3, 29, 2, 30, 4, 999999000, zone)
	s.beginAs(b)
	seen := s.look(0)
	sameTime(s.world, "CreatedAt", seen.Guard.CreatedAt, b.Now)
	sameTime(s.world, "the guard's lease", seen.Guard.Until, b.Until)
	sameTime(s.world, "the claim's lease", seen.Claim.Until, b.Until)
	for i, expires := range []time.Time{
		time.Date(2026, 1, 1, 0, 0, 0, 999999000, time.UTC), time.Date(2199, 12, 31, 23, 59, 59, 1000, zone),
		time.Date(2000, 2, 29, 12, 0, 0, 0, time.UTC),
	} {
		one := s.subject(s.kind, fmt.Sprintf("T%d", i))
		one.begin("A1", 0)
		c := *one.completion("A1", nil, 0)
		c.ExpiresAt = expires
		must(s.world, func(ctx context.Context) (bool, error) { return one.store.Complete(ctx, c) })
		l := effect.Look{Scope: one.scope, GuardID: one.id, Now: expires}
		seen := must(s.world, func(ctx context.Context) (effect.Seen, error) { return one.store.Look(ctx, l) })
		if seen.Claim == nil {
			s.Fatalf("the claim is absent at its expiry %v", expires)
		}
		sameTime(s.world, "the expiry", seen.Claim.ExpiresAt, expires)
	}
}
