package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
)

func voidCases() []effectCase {
	return []effectCase{
		{name: "VoidOfNothingVoidsClaimAndGuard", run: voidNothing},
		{name: "OriginalAfterAVoidIsRefusedForEver", run: voidThenOriginal},
		{name: "VoidLeavesWhatIsThere", run: voidLeaves},
		{name: "VoidOfAnExpiredClaimLeavesItsGuard", run: voidExpiredClaim},
		{name: "RepeatedVoidChangesNothing", run: voidRepeated},
		{name: "VoidIsWrittenAgainWhenItsClaimHasExpired", run: voidAgain},
		{name: "VoidDecidesOverAClaimWithoutAGuard", run: voidClaimAlone},
		{name: "NothingMovesAVoidedEffect", run: voidStays},
		{name: "NothingIsPostedForAVoidedEffect", run: voidPostsNothing, rows: true},
		{name: "VoidIsNeverDue", run: voidNeverDue},
		{name: "VoidWithoutANameIsRefused", run: voidBadInput},
		{name: "VoidedRowIsReadAsVoid", run: voidRow, rows: true},
		{name: "PersonMayVoidAnUnknownEffect", run: voidUnknown},
		{name: "PersonsVoidWritesWhatGoesWithIt", run: voidUnknownWrites, rows: true},
		{name: "HalvesVoidEachTheirOwn", run: voidHalves},
		{name: "VoidWithTheKeyStoreDownIsTheGuards", run: voidKeysDown},
		{name: "VoidWithTheGuardDownWritesNothing", run: voidGuardsDown},
		{name: "ClaimAndVoidAtOnceHaveOneWinner", run: raceVoid},
	}
}

// voiding asks that the effect never runs; its claim expires an hour later.
func (s *subject) voiding(owner string, now float64) effect.Begin {
	return effect.Begin{Scope: s.scope, GuardID: s.id, Owner: owner, Now: at(now), Until: at(now + 3600), Void: true}
}

func (s *subject) void(owner string, now float64) effect.Seen {
	s.Helper()
	return s.beginAs(s.voiding(owner, now))
}

// wantVoid wants both records to say that by voided the effect at now.
func (s *subject) wantVoid(seen effect.Seen, by string, now float64) {
	s.Helper()
	s.wantVoidClaim(seen.Claim, by, now+3600)
	s.wantVoidGuard(seen.Guard, by, now)
}

func (s *subject) wantVoidClaim(c *effect.Claim, by string, expires float64) {
	s.Helper()
	s.wantClaim(c, effect.ClaimVoid, by)
	check(s.world, "the void claim's scope", c.Scope, s.scope)
	check(s.world, "the void claim's guard", c.GuardID, s.id)
	check(s.world, "the void claim's fingerprint", c.Fingerprint, "")
	check(s.world, "the void claim's answer", describeAnswer(c.Answer), "none")
	sameTime(s.world, "the void claim's lease", c.Until, time.Time{})
	sameTime(s.world, "the void claim's expiry", c.ExpiresAt, at(expires))
}

func (s *subject) wantVoidGuard(g *effect.Guard, by string, now float64) {
	s.Helper()
	s.wantGuard(g, effect.Void, "")
	check(s.world, "the void guard's scope", g.Scope, s.scope)
	check(s.world, "the void guard's fingerprint", g.Fingerprint, "")
	check(s.world, "who voided", g.SettledBy, by)
	check(s.world, "the void guard's tries", g.Tries, 0)
	check(s.world, "the void guard's result", len(g.Result), 0)
	sameTime(s.world, "the void guard's lease", g.Until, time.Time{})
	sameTime(s.world, "when to ask about a void guard", g.NextAt, time.Time{})
	sameTime(s.world, "the void guard's CreatedAt", g.CreatedAt, at(now))
	sameTime(s.world, "the void guard's UpdatedAt", g.UpdatedAt, at(now))
}

// wantRefused wants every engine to tell the owner of the request that it was voided.
func (s *subject) wantRefused(what, owner string, seen effect.Seen, now float64) {
	s.Helper()
	for _, rerun := range []effect.Rerun{effect.RerunNever, effect.RerunPending, effect.RerunAlways} {
		d := effect.Next(seen, owner, s.print, at(now), effect.Policy{Rerun: rerun, Margin: margin})
		check(s.world, what+": the verdict", d.Verdict, effect.Voided)
	}
}

func voidNothing(s *subject) {
	seen := s.void("R", 0.02)
	s.wantVoid(seen, "R", 0.02)
	check(s.world, "what Look sees", describe(s.look(0.02)), describe(seen))

	other := s.subject(s.kind, "K2") // what a void brings beside its name is not used
	b := other.voiding("R", 1)
	b.Fingerprint, b.Row = other.print, other.row(at(1))
	other.beginAs(b)
	other.wantVoid(other.look(1), "R", 1)
}

// case 14: the answer "never happened" must stay true, whenever the original arrives.
func voidThenOriginal(s *subject) {
	s.void("R", 0.02)
	s.unchanged("an original that comes too late", 1, func() {
		for _, now := range []float64{0.02, 1, 3600.02} {
			seen := s.begin("A1", now)
			s.wantRefused(fmt.Sprintf("at %.2f", now), "A1", seen, now)
			s.wantClaim(seen.Claim, effect.ClaimVoid, "R")
		}
	})
	check(s.world, "the claim after its hour", describeClaim(s.look(3600.02+tick).Claim), "no claim")
	for i, now := range []float64{3600.02 + tick, 90000, 1e8} {
		owner := fmt.Sprintf("B%d", i)
		seen := s.begin(owner, now)
		s.wantVoidGuard(seen.Guard, "R", 0.02)
		s.wantRefused("after the claim's hour", owner, seen, now)
		check(s.world, "the guard is gone", s.release(owner), false)
		seen = s.look(now)
		check(s.world, "the claim that was given back", describeClaim(seen.Claim), "no claim")
		s.wantVoidGuard(seen.Guard, "R", 0.02)
	}
}

func voidLeaves(s *subject) {
	for name, prepare := range map[string]func(one *subject){ // order: each is alone
		"PENDING": func(*subject) {},
		"taken over": func(one *subject) {
			one.adopt(one.adoption("A2", "A1", 7))
		},
		"UNKNOWN": func(one *subject) {
			m := one.settlement("A1", effect.Unknown, 1)
			m.Claim = one.completion("A1", nil, 3600)
			one.settle(m)
		},
		"UNKNOWN with a resolver": func(one *subject) {
			a := one.adoption("R", "A1", 7)
			a.GuardOnly, a.To = true, effect.Unknown
			one.adopt(a)
		},
		"SUCCEEDED": func(one *subject) {
			m := one.settlement("A1", effect.Succeeded, 1)
			m.Claim = one.completion("A1", ok200("final"), 3600)
			one.settle(m)
		},
		"FAILED": func(one *subject) { one.settle(one.settlement("A1", effect.Failed, 1)) },
	} {
		one := s.subject(s.kind, name)
		one.begin("A1", 0.02)
		prepare(one)
		want := one.look(8)
		one.unchanged("a void of what is "+name, 8, func() {
			for _, owner := range []string{"V", "A1"} {
				seen := one.void(owner, 8) // its lease is stale by then, and still it may have run
				check(s.world, name+": the claim", describeClaim(seen.Claim), describeClaim(want.Claim))
				if seen.Guard != nil || want.Claim.Answer == nil {
					check(s.world, name+": the guard", describeGuard(seen.Guard), describeGuard(want.Guard))
				}
			}
		})
	}
}

func voidExpiredClaim(s *subject) {
	for _, state := range []effect.State{effect.Pending, effect.Unknown, effect.Succeeded, effect.Failed} {
		one := s.subject(s.kind, string(state))
		one.begin("A1", 0.02)
		one.complete("A1", ok200("early"), 2)
		if state != effect.Pending {
			one.settle(one.settlement("A1", state, 1))
		}
		guard := describeGuard(one.look(3).Guard)
		one.unchanged("a void of an expired claim that is "+string(state), 1, func() {
			seen := one.void("R", 2+tick)
			check(s.world, "the claim", describeClaim(seen.Claim), "no claim")
			check(s.world, "the guard", describeGuard(seen.Guard), guard)
		})
	}
}

// A lost answer is asked again, and others ask too.
func voidRepeated(s *subject) {
	first := describe(s.void("R", 0.02))
	s.unchanged("a repeated void", 1, func() {
		check(s.world, "the same again", describe(s.void("R", 0.02)), first)
		check(s.world, "the same, later", describe(s.void("R", 5)), first)
		check(s.world, "by another", describe(s.void("R2", 6)), first)
		check(s.world, "at the claim's expiry", describe(s.void("R2", 3600.02)), first)
	})
}

func voidAgain(s *subject) {
	s.void("R", 0.02)
	seen := s.void("R2", 3600.02+tick)
	s.wantVoidClaim(seen.Claim, "R2", 7200.02+tick)
	s.wantVoidGuard(seen.Guard, "R", 0.02)
	check(s.world, "what Look sees", describe(s.look(3601)), describe(seen))
	s.begin("A1", 7300)
	s.unchanged("a void while a late original holds the claim", 7300, func() {
		seen := s.void("R3", 7301)
		s.wantClaim(seen.Claim, effect.InProgress, "A1")
		s.wantVoidGuard(seen.Guard, "R", 0.02)
	})
}

// With two stores an original may have claimed and not recorded yet.
func voidClaimAlone(s *subject) {
	if s.Keys == nil {
		return // without the halves a claim never stands alone
	}
	b := s.beginning("A1", 0.02)
	claim := must(s.world, func(ctx context.Context) (*effect.Claim, error) { return s.Keys.ClaimKey(ctx, b) })
	seen := s.void("R", 1)
	check(s.world, "the claim", describeClaim(seen.Claim), describeClaim(claim))
	s.wantVoidGuard(seen.Guard, "R", 1)
	s.unchanged("the claim's owner", 2, func() {
		seen := s.beginAs(b)
		s.wantVoidGuard(seen.Guard, "R", 1)
		s.wantRefused("the claim's owner", "A1", seen, 1)
	})
	check(s.world, "the guard is gone", s.release("A1"), false)
	seen = s.look(3)
	check(s.world, "the claim", describeClaim(seen.Claim), "no claim")
	s.wantVoidGuard(seen.Guard, "R", 1)
}

func voidStays(s *subject) {
	s.void("R", 0.02)
	all := []effect.State{effect.Pending, effect.Unknown, effect.Succeeded, effect.Failed, effect.Void}
	s.unchanged("whoever comes after a void", 9, func() {
		for _, owner := range []string{"R", "A1", ""} {
			check(s.world, fmt.Sprintf("an answer of %q", owner), s.complete(owner, ok200("wrong"), 3600), false)
			check(s.world, fmt.Sprintf("a pointer of %q", owner), s.complete(owner, nil, 3600), false)
			check(s.world, fmt.Sprintf("released by %q", owner), s.release(owner), false)
			if owner == "" {
				continue
			}
			s.wantRefused("a first request of "+owner, owner, s.begin(owner, 2), 2)
			for _, to := range all {
				m := s.evidence(owner, to, 3)
				m.From, m.Claim = all, s.completion("R", ok200("wrong"), 3600)
				got := s.settle(m)
				check(s.world, "moved to "+string(to), got.Moved, false)
				check(s.world, "completed", got.Completed, false)
				s.wantVoidGuard(got.Guard, "R", 0.02)
				m.Fenced = true
				check(s.world, "moved by its owner to "+string(to), s.settle(m).Moved, false)
			}
		}
		for _, from := range []string{"", "R"} {
			a := s.adoption("B", from, 8)
			a.ClaimFrom = "R"
			s.adopt(a)
			a.Insert = true
			s.adopt(a)
			a.Insert, a.GuardOnly, a.To = false, true, effect.Unknown
			s.adopt(a)
		}
	})
	s.unchanged("a takeover after the claim's hour", 4000, func() { s.adopt(s.adoption("B", "", 4000)) })
}

func voidPostsNothing(s *subject) {
	s.void("R", 0.02)
	s.unchanged("a settlement of what was voided", 3, func() {
		m := s.evidence("webhook", effect.Succeeded, 2)
		m.Postings, m.Events = credit(string(s.id), 3000), []retryproof.Event{event(s.id.Sub("SUCCEEDED"), "m1")}
		check(s.world, "moved", s.settle(m).Moved, false)
	})
}

func voidNeverDue(s *subject) {
	s.void("R", 0.02)
	check(s.world, "due", ids(s.due(1e6, nil)), "")
	check(s.world, "due as UNKNOWN", ids(s.due(1e6, func(q *resolve.Due) { q.UnknownOnly = true })), "")
}

func voidBadInput(s *subject) {
	for what, change := range map[string]func(b *effect.Begin){ // order: each is refused alone
		"no owner":    func(b *effect.Begin) { b.Owner = "" },
		"no endpoint": func(b *effect.Begin) { b.Scope.Endpoint = "" },
		"no caller":   func(b *effect.Begin) { b.Scope.Caller = "" },
		"no key":      func(b *effect.Begin) { b.Scope.Key = "" },
	} {
		b := s.voiding("R", 0.02)
		change(&b)
		refused(s.world, what, func(ctx context.Context) (effect.Seen, error) { return s.store.Begin(ctx, b) })
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.store.Begin(ctx, s.voiding("R", 0.02)); err == nil {
		s.Error("a void with an ended context: got no error, want one")
	}
	check(s.world, "records afterwards", describe(s.look(1)), describe(effect.Seen{}))
}

func voidRow(s *subject) {
	s.void("R", 0.02)
	a := s.audit()
	counts := a.ByState
	if s.kind.refunds {
		counts = a.RefundsByState
	}
	if s.kind.business() {
		check(s.world, "rows that are VOID", counts[effect.Void], 1)
	}
	if !s.kind.payments {
		return
	}
	p := must(s.world, func(ctx context.Context) (payments.Payment, error) { return s.Payments.Ledger.Payment(ctx, s.id) })
	want := payments.Payment{ID: s.id, Caller: s.scope.Caller, State: effect.Void, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt}
	check(s.world, "the payment", p, want)
	sameTime(s.world, "CreatedAt", p.CreatedAt, at(0.02))
	sameTime(s.world, "UpdatedAt", p.UpdatedAt, at(0.02))
	check(s.world, "the guard's row", describeGuard(&effect.Guard{Row: s.look(1).Guard.Row}), describeGuard(&effect.Guard{Row: p}))
}

// unknown begins and leaves the guard UNKNOWN with a pointer.
func (s *subject) unknown() {
	s.Helper()
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Unknown, 5.02)
	m.Claim = s.completion("A1", nil, 3605.02)
	s.settle(m)
}

func voidUnknown(s *subject) {
	s.unknown()
	m := s.evidence("operator alice", effect.Void, 60)
	m.Claim = s.completion("A1", ok200("never ran"), 3660)
	got := s.settle(m)
	check(s.world, "moved", got.Moved, true)
	check(s.world, "completed", got.Completed, true)
	s.wantGuard(got.Guard, effect.Void, "")
	check(s.world, "who voided", got.Guard.SettledBy, "operator alice")
	check(s.world, "the fingerprint", got.Guard.Fingerprint, s.print)
	sameTime(s.world, "the lease", got.Guard.Until, time.Time{})
	sameTime(s.world, "NextAt", got.Guard.NextAt, time.Time{})
	sameTime(s.world, "UpdatedAt", got.Guard.UpdatedAt, at(60))
	check(s.world, "the guard that Look sees", describeGuard(s.look(61).Guard), describeGuard(got.Guard))
	check(s.world, "due", ids(s.due(1e6, nil)), "")
	s.unchanged("what comes after a person's verdict", 70, func() {
		check(s.world, "moved again", s.settle(m).Moved, false)
		check(s.world, "moved by a webhook", s.settle(s.evidence("webhook", effect.Succeeded, 61)).Moved, false)
		s.void("R", 62)
	})
	seen := s.begin("B", 3660+tick)
	s.wantGuard(seen.Guard, effect.Void, "")
	s.wantRefused("an original after the claim's hour", "B", seen, 3661)
}

func voidUnknownWrites(s *subject) {
	s.unknown()
	m := s.evidence("operator alice", effect.Void, 60)
	m.From = []effect.State{effect.Pending}
	m.Postings, m.Events = credit("undo:"+string(s.id), 5), []retryproof.Event{event(s.id.Sub("VOID"), "m1")}
	s.unchanged("a person's verdict about another state", 61, func() { check(s.world, "moved", s.settle(m).Moved, false) })
	m.From = []effect.State{effect.Unknown}
	check(s.world, "moved", s.settle(m).Moved, true)
	check(s.world, "m1", s.balance("merchant:m1"), 5)
	check(s.world, "waiting", s.stats().Waiting, 1)
	s.unchanged("the repeat", 62, func() { check(s.world, "moved again", s.settle(m).Moved, false) })
}

func voidHalves(s *subject) {
	if !s.kind.split {
		return
	}
	guards := s.kind.guards(s.Stores)
	record := func(b effect.Begin) *effect.Guard {
		return must(s.world, func(ctx context.Context) (*effect.Guard, error) { return guards.RecordGuard(ctx, b) })
	}
	claim := func(b effect.Begin) *effect.Claim {
		return must(s.world, func(ctx context.Context) (*effect.Claim, error) { return s.Keys.ClaimKey(ctx, b) })
	}
	s.wantVoidGuard(record(s.voiding("R", 0.02)), "R", 0.02)
	check(s.world, "the claim of a guard alone", describeClaim(s.look(1).Claim), "no claim")
	s.wantVoidGuard(record(s.beginning("A1", 1)), "R", 0.02)
	s.wantVoidGuard(record(s.voiding("R2", 2)), "R", 0.02)

	other := s.subject(s.kind, "K2")
	other.wantVoidClaim(claim(other.voiding("R", 0.02)), "R", 3600.02)
	check(s.world, "the guard of a claim alone", describeGuard(other.look(1).Guard), "no guard")
	other.unchanged("claiming a void key", 1, func() {
		other.wantVoidClaim(claim(other.beginning("A1", 1)), "R", 3600.02)
		other.wantVoidClaim(claim(other.voiding("R2", 2)), "R", 3600.02)
	})
	other.wantClaim(claim(other.beginning("A1", 3600.02+tick)), effect.InProgress, "A1")

	pending := s.subject(s.kind, "K3")
	pending.begin("A1", 0.02)
	pending.unchanged("voiding a guard that is PENDING", 1, func() {
		pending.wantGuard(record(pending.voiding("R", 1)), effect.Pending, "A1")
		pending.wantClaim(claim(pending.voiding("R", 1)), effect.InProgress, "A1")
	})
}

var errDown = retryproof.Refused(retryproof.CodeUnavailable, "the store is down", nil)

// keysDown is a key store that nobody can reach.
type keysDown struct{}

func (keysDown) ClaimKey(context.Context, effect.Begin) (*effect.Claim, error) { return nil, errDown }
func (keysDown) AdoptKey(context.Context, effect.Adopt) (*effect.Claim, error) { return nil, errDown }
func (keysDown) CompleteKey(context.Context, effect.Completion) (bool, error)  { return false, errDown }
func (keysDown) ReleaseKey(context.Context, effect.Release) error              { return errDown }
func (keysDown) LookKey(context.Context, effect.Look) (*effect.Claim, error)   { return nil, errDown }

func voidKeysDown(s *subject) {
	if !s.kind.split {
		return
	}
	down := *s
	down.store = effect.Split(keysDown{}, s.kind.guards(s.Stores))
	seen := down.void("R", 0.02)
	check(s.world, "the claim", describeClaim(seen.Claim), "no claim")
	s.wantVoidGuard(seen.Guard, "R", 0.02)
	s.wantRefused("an original meanwhile", "A1", down.begin("A1", 1), 1)
	s.wantRefused("an original when the key store is back", "A2", s.begin("A2", 2), 2)
	check(s.world, "the guard is gone", s.release("A2"), false)
	s.wantVoidClaim(s.void("R", 3).Claim, "R", 3603)
	s.wantVoidGuard(s.look(4).Guard, "R", 0.02)

	running := s.subject(s.kind, "K2")
	running.begin("A1", 0.02)
	down = *running
	down.store = effect.Split(keysDown{}, s.kind.guards(s.Stores))
	running.unchanged("a void while the guard is PENDING", 1, func() { running.wantGuard(down.void("R", 1).Guard, effect.Pending, "A1") })
}

// guardsDown is a guard store that nobody can reach.
type guardsDown struct{ effect.Guards }

func (guardsDown) RecordGuard(context.Context, effect.Begin) (*effect.Guard, error) {
	return nil, errDown
}

func voidGuardsDown(s *subject) {
	if !s.kind.split {
		return
	}
	down := effect.Split(s.Keys, guardsDown{s.kind.guards(s.Stores)})
	refused(s.world, "a void", func(ctx context.Context) (effect.Seen, error) { return down.Begin(ctx, s.voiding("R", 0.02)) })
	check(s.world, "records afterwards", describe(s.look(1)), describe(effect.Seen{}))
	s.wantGuard(s.begin("A1", 1).Guard, effect.Pending, "A1")
}

// Per key an original and its copies meet those who ask what became of it.
func raceVoid(s *subject) {
	const keys, each = 25, 6
	all := s.instances()
	var subjects [keys]*subject
	for k := range keys {
		subjects[k] = s.subject(s.kind, fmt.Sprintf("K%d", k))
	}
	seen := together(s.world, keys*each, func(ctx context.Context, i int) (effect.Seen, error) {
		one, owner := subjects[i%keys], fmt.Sprintf("A%d", i)
		b := one.beginning(owner, 0.02)
		if i/keys%2 == 1 {
			b = one.voiding(owner, 0.02)
		}
		return one.via(all, i).Begin(ctx, b)
	})
	for k, one := range subjects {
		final, runs := one.look(1), 0
		for i := k; i < keys*each; i += keys {
			d := effect.Next(seen[i], fmt.Sprintf("A%d", i), one.print, at(0.02), effect.Policy{Margin: margin})
			switch asked := i/keys%2 == 1; {
			case asked:
				check(s.world, fmt.Sprintf("key %d: the state that who asked was told", k), seen[i].Guard.State, final.Guard.State)
			case d.Verdict == effect.Run:
				runs++
				check(s.world, "the owner of what runs", final.Guard.Owner, fmt.Sprintf("A%d", i))
			case d.Verdict == effect.Voided:
				check(s.world, fmt.Sprintf("key %d: the state of what was refused", k), final.Guard.State, effect.Void)
			default:
				check(s.world, fmt.Sprintf("key %d: the verdict of a copy", k), d.Verdict, effect.Busy)
			}
		}
		check(s.world, fmt.Sprintf("key %d, %s: runs", k, final.Guard.State), runs, map[effect.State]int{effect.Pending: 1}[final.Guard.State])
		if !s.kind.split { // with two stores an original may leave a claim, which goes stale
			check(s.world, fmt.Sprintf("key %d: claim and guard agree", k), final.Claim.State == effect.ClaimVoid, final.Guard.State == effect.Void)
		}
	}
}
