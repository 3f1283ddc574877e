package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
)

func settleCases() []effectCase {
	return []effectCase{
		{name: "SettleMovesTheGuardOnce", run: settleOnce},
		{name: "SettleWritesEverythingThatGoesWithTheMove", run: settleWritesAll, rows: true},
		{name: "EveryMoveIsAllowedOrForbidden", run: settleTransitions},
		{name: "OnlyTheStatesAskedForMove", run: settleFrom},
		{name: "ZombieThatWasTakenOverChangesNothing", run: settleZombie, rows: true},
		{name: "FencedByNobodyIsRefused", run: settleFencedByNobody},
		{name: "EvidenceMovesAGuardOfAnybody", run: settleEvidence},
		{name: "SettlingNothingWritesNothing", run: settleAbsent, rows: true},
		{name: "GuardThatDoesNotMoveWritesNoPostingsAndNoEvents", run: settleNotMoved, rows: true},
		{name: "InboxIsKeptWhenTheGuardDoesNotMove", run: settleInbox, rows: true},
		{name: "BadPostingsAreRefusedAndWriteNothing", run: settleBadPostings, rows: true},
		{name: "OverflowOfABalanceIsRefusedAndWritesNothing", run: settleOverflow, rows: true},
		{name: "PostingsThatAreThereChangeNothing", run: settleOldPostings, rows: true},
		{name: "OtherEntryOfAnOldRefIsRefusedAndWritesNothing", run: settleOtherEntry, rows: true},
		{name: "EventsThatAreThereChangeNothing", run: settleOldEvents, rows: true},
		{name: "ClaimOfAnotherOwnerDoesNotHoldTheMoveBack", run: settleForeignClaim},
		{name: "UnknownKeepsWhenToAsk", run: settleNextAt},
		{name: "ResultIsKeptAndBounded", run: settleResult},
		{name: "BusinessRowIsUpdatedOrLeft", run: settleRow},
	}
}

func settleOnce(s *subject) {
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Succeeded, 0.54)
	m.Claim = s.completion("A1", ok200("final"), 3600.54)
	got := s.settle(m)
	check(s.world, "moved", got.Moved, true)
	check(s.world, "repeat", got.Repeat, false)
	check(s.world, "completed", got.Completed, true)
	s.wantGuard(got.Guard, effect.Succeeded, "")
	sameTime(s.world, "the lease", got.Guard.Until, time.Time{})
	sameTime(s.world, "UpdatedAt", got.Guard.UpdatedAt, at(0.54))
	sameTime(s.world, "CreatedAt", got.Guard.CreatedAt, at(0.02))
	check(s.world, "settled by", got.Guard.SettledBy, "A1")
	seen := s.look(1)
	s.wantClaim(seen.Claim, effect.Complete, "A1")
	check(s.world, "the answer", describeAnswer(seen.Claim.Answer), describeAnswer(ok200("final")))
	sameTime(s.world, "the expiry", seen.Claim.ExpiresAt, at(3600.54))
	check(s.world, "the guard that Look sees", describeGuard(seen.Guard), describeGuard(got.Guard))
	s.unchanged("the repeat of a lost answer", 1, func() {
		again := s.settle(m)
		check(s.world, "the repeat moved", again.Moved, false)
		check(s.world, "who settled it", describeGuard(again.Guard), describeGuard(got.Guard))
	})
}

func settleWritesAll(s *subject) {
	s.begin("A1", 0.02)
	before := s.audit()
	m := s.settlement("A1", effect.Succeeded, 0.54)
	m.Postings = credit(string(s.id), 3000)
	m.Events = []retryproof.Event{event(s.id.Sub("SUCCEEDED"), "m1"), event(s.id.Sub("second"), "m1")}
	m.Inbox = &retryproof.InboxKey{Consumer: "psp-webhook", Source: "psp", EventID: "evt_1"}
	check(s.world, "moved", s.settle(m).Moved, true)
	check(s.world, "m1", s.balance("merchant:m1"), 3000)
	check(s.world, "transit", s.balance("payments:transit"), -3000)
	a := s.audit()
	check(s.world, "credits", a.Credits-before.Credits, 1)
	check(s.world, "waiting", a.OutboxWaiting, 2)
	rows := must(s.world, func(ctx context.Context) ([]outbox.Row, error) {
		return s.Payments.Outbox.Claim(ctx, outbox.Claim{Relay: "r", Now: at(12), Until: at(20), Limit: 10})
	})
	check(s.world, "events", len(rows), 2)
	for i, row := range rows {
		check(s.world, "the event", describeEvent(row.Event), describeEvent(m.Events[i]))
	}
	s.unchanged("the repeat", 1, func() { check(s.world, "the inbox knows it", s.settle(m).Repeat, true) })
}

// Mission D1: each move is allowed or not, whatever From says.
func settleTransitions(s *subject) {
	states := []effect.State{effect.Pending, effect.Unknown, effect.Succeeded, effect.Failed}
	for _, from := range states {
		for _, to := range append(states, effect.Void) {
			one := s.subject(s.kind, string(from)+"-"+string(to))
			one.begin("A1", 0.02)
			if from != effect.Pending {
				one.settle(one.settlement("A1", from, 1))
			}
			m := one.evidence("W", to, 2)
			m.From = append(states, effect.Void)
			what := fmt.Sprintf("%s to %s", from, to)
			before := describe(one.look(2))
			got, err := ask(s.world, func(ctx context.Context) (effect.Settled, error) { return one.store.Settle(ctx, m) })
			if err != nil && (effect.CanMove(from, to) || retryproof.OutcomeOf(err) != retryproof.NotDone) {
				s.Fatalf("%s: got error %v, want none", what, err)
			}
			check(s.world, what, got.Moved, effect.CanMove(from, to))
			if got.Moved {
				one.wantGuard(got.Guard, to, "")
				check(s.world, what+" settled by", got.Guard.SettledBy, "W")
				continue
			}
			check(s.world, what+" left", describe(one.look(2)), before)
		}
	}
}

func settleFrom(s *subject) {
	s.begin("A1", 0.02)
	s.unchanged("a settlement from other states", 2, func() {
		for _, from := range [][]effect.State{nil, {effect.Unknown}, {effect.Unknown, effect.Succeeded}} {
			m := s.evidence("W", effect.Succeeded, 1)
			m.From = from
			check(s.world, fmt.Sprintf("moved from %v", from), s.settle(m).Moved, false)
		}
	})
}

// case 18: A pauses, B takes over, A wakes.
func settleZombie(s *subject) {
	s.begin("A", 0.02)
	s.adopt(s.adoption("B", "A", 6.03))
	s.unchanged("a zombie", 8, func() {
		m := s.settlement("A", effect.Succeeded, 7)
		m.Postings = credit(string(s.id), 3000)
		m.Events = []retryproof.Event{event(s.id.Sub("SUCCEEDED"), "m1")}
		m.Claim = s.completion("A", ok200("the zombie's"), 3607)
		got := s.settle(m)
		check(s.world, "the zombie moved", got.Moved, false)
		check(s.world, "the zombie completed", got.Completed, false)
		s.wantGuard(got.Guard, effect.Pending, "B")
		m = s.settlement("A", effect.Unknown, 7)
		m.Claim = s.completion("A", nil, 3607)
		check(s.world, "the zombie's UNKNOWN moved", s.settle(m).Moved, false)
		check(s.world, "the zombie's answer", s.complete("A", ok200("the zombie's"), 3607), false)
		check(s.world, "the zombie's pointer", s.complete("A", nil, 3607), false)
		check(s.world, "the zombie's release", s.release("A"), false)
		s.wantClaim(s.begin("C", 7.5).Claim, effect.InProgress, "B")
	})
	m := s.settlement("B", effect.Succeeded, 8)
	m.Claim = s.completion("B", ok200("final"), 3608)
	got := s.settle(m)
	check(s.world, "the new owner moved", got.Moved && got.Completed, true)
}

// An ownerless guard must not belong to whoever has no token either.
func settleFencedByNobody(s *subject) {
	s.begin("A1", 0.02)
	s.settle(s.settlement("A1", effect.Unknown, 5.02))
	s.unchanged("fenced by nobody", 6, func() {
		m := s.settlement("", effect.Succeeded, 6)
		got, err := ask(s.world, func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
		check(s.world, "moved", got.Moved, false)
		if err != nil {
			check(s.world, "the refusal", retryproof.OutcomeOf(err), retryproof.NotDone)
		}
	})
	s.unchanged("fenced by the last owner", 6, func() {
		check(s.world, "moved", s.settle(s.settlement("A1", effect.Succeeded, 6)).Moved, false)
	})
}

func settleEvidence(s *subject) {
	s.begin("A1", 0.02)
	got := s.settle(s.evidence("webhook", effect.Succeeded, 0.5)) // the owner is alive
	check(s.world, "moved", got.Moved, true)
	check(s.world, "settled by", got.Guard.SettledBy, "webhook")
	s.wantGuard(got.Guard, effect.Succeeded, "")
	s.unchanged("the owner's late settlement", 1, func() {
		check(s.world, "moved", s.settle(s.settlement("A1", effect.Failed, 1)).Moved, false)
	})
}

func settleAbsent(s *subject) {
	s.unchanged("settling what is not there", 1, func() {
		m := s.evidence("W", effect.Succeeded, 1)
		m.Postings, m.Events = credit("r", 1), []retryproof.Event{event("e", "g")}
		got := s.settle(m)
		check(s.world, "moved", got.Moved, false)
		check(s.world, "guard", describeGuard(got.Guard), "no guard")
	})
}

func settleNotMoved(s *subject) {
	s.begin("A1", 0.02)
	s.settle(s.settlement("A1", effect.Failed, 1))
	s.unchanged("a settlement of a final guard", 3, func() {
		for _, m := range []effect.Settle{s.settlement("A1", effect.Succeeded, 2), s.evidence("W", effect.Succeeded, 2), s.evidence("W", effect.Unknown, 2)} {
			m.Postings, m.Events = credit(string(s.id), 3000), []retryproof.Event{event(s.id.Sub("SUCCEEDED"), "m1")}
			m.Claim = s.completion("A1", ok200("wrong"), 3600)
			got := s.settle(m)
			check(s.world, "moved", got.Moved, false)
			check(s.world, "completed", got.Completed, false)
		}
	})
}

func settleInbox(s *subject) {
	s.begin("A1", 0.02)
	s.settle(s.settlement("A1", effect.Failed, 1))
	key := retryproof.InboxKey{Consumer: "psp-webhook", Source: "psp", EventID: "evt_9"}
	m := s.evidence("webhook", effect.Succeeded, 2)
	m.Inbox, m.Events = &key, []retryproof.Event{event("e", "g")}
	got := s.settle(m)
	check(s.world, "moved", got.Moved, false)
	check(s.world, "repeat", got.Repeat, false)
	check(s.world, "the delivery is noted", s.applies(inbox.Apply{Key: key, Now: at(3)}), false)
	check(s.world, "events", s.stats().Waiting, 0)

	other := s.subject(s.kind, "K2")
	other.begin("A1", 0.02)
	m = other.evidence("webhook", effect.Succeeded, 4) // the same delivery again
	m.Inbox, m.Events, m.Postings = &key, []retryproof.Event{event("e", "g")}, credit("r", 1)
	m.Claim = other.completion("A1", ok200("wrong"), 3600)
	other.unchanged("a repeated delivery", 5, func() {
		got := other.settle(m)
		check(s.world, "repeat", got.Repeat, true)
		check(s.world, "moved", got.Moved, false)
		check(s.world, "completed", got.Completed, false)
		other.wantGuard(got.Guard, effect.Pending, "A1")
	})
	m.Inbox = &retryproof.InboxKey{Consumer: "psp-webhook", Source: "another psp", EventID: "evt_9"}
	check(s.world, "the same id of another source moved", other.settle(m).Moved, true)
}

func badPostings() map[string][]ledger.Posting {
	return map[string][]ledger.Posting{
		"unbalanced":    {{Account: "a", Currency: "USD", Amount: 1, Ref: "bad"}, {Account: "b", Currency: "USD", Amount: -2, Ref: "bad"}},
		"by currency":   {{Account: "a", Currency: "USD", Amount: 1, Ref: "bad"}, {Account: "b", Currency: "EUR", Amount: -1, Ref: "bad"}},
		"a zero amount": {{Account: "a", Currency: "USD", Amount: 0, Ref: "bad"}},
		"no ref":        {{Account: "a", Currency: "USD", Amount: 1}, {Account: "b", Currency: "USD", Amount: -1}},
		"an overflow": {{Account: "a", Currency: "USD", Amount: math.MaxInt64, Ref: "bad"}, {Account: "b", Currency: "USD", Amount: 1, Ref: "bad"},
			{Account: "c", Currency: "USD", Amount: math.MinInt64, Ref: "bad"}},
		"one account twice": {{Account: "a", Currency: "USD", Amount: 100, Ref: "bad"}, {Account: "a", Currency: "USD", Amount: 100, Ref: "bad"},
			{Account: "b", Currency: "USD", Amount: -200, Ref: "bad"}},
	}
}

func settleBadPostings(s *subject) {
	s.begin("A1", 0.02)
	key := retryproof.InboxKey{Consumer: "c", Source: "s", EventID: "evt"}
	s.unchanged("bad postings", 2, func() {
		for what, postings := range badPostings() { // order: each is refused alone
			m := s.settlement("A1", effect.Succeeded, 1)
			m.Postings, m.Inbox, m.Events = postings, &key, []retryproof.Event{event("e", "g")}
			refused(s.world, what, func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
		}
	})
	check(s.world, "the message can still be applied", s.applies(inbox.Apply{Key: key, Now: at(3)}), true)
}

func settleOverflow(s *subject) {
	s.begin("A1", 0.02)
	s.post(credit("opening:m1", math.MaxInt64-2999))
	key := retryproof.InboxKey{Consumer: "c", Source: "s", EventID: "evt"}
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Postings, m.Inbox, m.Events = credit(string(s.id), 3000), &key, []retryproof.Event{event("e", "g")}
	s.unchanged("an overflowing balance", 2, func() {
		refused(s.world, "the overflow", func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
		refused(s.world, "the overflow of a message", func(ctx context.Context) (bool, error) {
			return s.Payments.Inbox.Apply(ctx, inbox.Apply{Key: key, Now: at(1), Postings: m.Postings})
		})
	})
	m.Postings = credit(string(s.id), 2999)
	check(s.world, "moved", s.settle(m).Moved, true)
	check(s.world, "m1", s.balance("merchant:m1"), math.MaxInt64)
}

// One effect cannot be posted twice, under whatever settlement.
func settleOldPostings(s *subject) {
	s.post(credit("pay_x", 500))
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Postings = append(credit("pay_x", 500), credit("pay_y", 70)...)
	check(s.world, "moved", s.settle(m).Moved, true)
	check(s.world, "m1", s.balance("merchant:m1"), 570)
	a := s.audit()
	check(s.world, "credits", a.Credits, 2)
	check(s.world, "unbalanced", a.Unbalanced, 0)
	check(s.world, "wrong balances", a.WrongBalance, 0)
}

func settleOldEvents(s *subject) {
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Unknown, 1)
	m.Events = []retryproof.Event{event("e1", "m1"), event("e1", "m1")}
	s.settle(m)
	changed := event("e1", "m2")
	changed.Body = []byte("changed")
	m = s.evidence("W", effect.Succeeded, 2)
	m.Events = []retryproof.Event{changed, event("e2", "m1")}
	check(s.world, "moved", s.settle(m).Moved, true)
	rows := must(s.world, func(ctx context.Context) ([]outbox.Row, error) {
		return s.Payments.Outbox.Claim(ctx, outbox.Claim{Relay: "r", Now: at(12), Until: at(20), Limit: 10})
	})
	check(s.world, "events", len(rows), 2)
	check(s.world, "the first event", describeEvent(rows[0].Event), describeEvent(event("e1", "m1")))
	check(s.world, "the new event", rows[1].ID, "e2")
}

func settleForeignClaim(s *subject) {
	s.begin("A1", 0.02)
	claim := describeClaim(s.look(1).Claim)
	m := s.evidence("webhook", effect.Succeeded, 1)
	m.Claim = s.completion("webhook", ok200("final"), 3600)
	got := s.settle(m)
	check(s.world, "moved", got.Moved, true)
	check(s.world, "completed", got.Completed, false)
	check(s.world, "the claim", describeClaim(s.look(1).Claim), claim)

	other := s.subject(s.kind, "K2")
	other.begin("A1", 0.02)
	m = other.evidence("webhook", effect.Succeeded, 1)
	m.Claim = s.subject(s.kind, "nobody claimed this").completion("A1", ok200("final"), 3600)
	got = other.settle(m)
	check(s.world, "moved without a claim", got.Moved, true)
	check(s.world, "completed without a claim", got.Completed, false)
}

func settleNextAt(s *subject) {
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Unknown, 5.02)
	m.NextAt = at(11)
	got := s.settle(m)
	s.wantGuard(got.Guard, effect.Unknown, "")
	sameTime(s.world, "NextAt", got.Guard.NextAt, at(11))
	sameTime(s.world, "the lease", got.Guard.Until, time.Time{})
	m = s.evidence("R", effect.Unknown, 11.5)
	m.NextAt = at(15)
	got = s.settle(m)
	check(s.world, "UNKNOWN to UNKNOWN moved", got.Moved, true)
	sameTime(s.world, "the next NextAt", got.Guard.NextAt, at(15))
	sameTime(s.world, "NextAt as read", s.look(12).Guard.NextAt, at(15))
}

func settleResult(s *subject) {
	if s.kind.business() {
		return // a business row may have no place for it
	}
	for i, result := range [][]byte{nil, {}, []byte("ch_1"), {0, 255, 10, 0}, bytes.Repeat([]byte{7}, effect.MaxResultBytes)} {
		one := s.subject(s.kind, fmt.Sprintf("R%d", i))
		one.begin("A1", 0.02)
		m := one.settlement("A1", effect.Succeeded, 1)
		m.Result = result
		check(s.world, "moved", one.settle(m).Moved, true)
		check(s.world, fmt.Sprintf("result %d is kept", i), bytes.Equal(one.look(1).Guard.Result, result), true)
	}
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Result = make([]byte, effect.MaxResultBytes+1)
	s.unchanged("a result over the limit", 2, func() {
		refused(s.world, "a result over the limit", func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
	})
}

func settleRow(s *subject) {
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Unknown, 1)
	m.Row = "not a business row"
	refused(s.world, "a row of another type", func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
	s.wantGuard(s.look(1).Guard, effect.Pending, "A1")
	if !s.kind.payments {
		return
	}
	m.Row = payments.Outcome{ChargeID: "ch_1", DeclineCode: "insufficient_funds"}
	s.settle(m)
	m = s.evidence("W", effect.Failed, 2)
	got, ok := s.settle(m).Guard.Row.(payments.Payment)
	check(s.world, "the row is a payment", ok, true)
	want := payments.Payment{
		ID: s.id, Caller: "u1", OrderID: "42", MerchantID: "m1", Amount: 3000, Currency: "USD", Method: "pm_1", State: effect.Failed,
		ChargeID: "ch_1", DeclineCode: "insufficient_funds", CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt,
	}
	check(s.world, "the payment", got, want)
	sameTime(s.world, "CreatedAt", got.CreatedAt, at(0.02))
	sameTime(s.world, "UpdatedAt", got.UpdatedAt, at(2))
	read := must(s.world, func(ctx context.Context) (payments.Payment, error) { return s.Payments.Ledger.Payment(ctx, s.id) })
	check(s.world, "the payment as read", describeGuard(&effect.Guard{Row: read}), describeGuard(&effect.Guard{Row: got}))
}
