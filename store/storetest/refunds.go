package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/payments"
)

// refundCases are what a refunds table promises beyond any guard table.
func refundCases() []effectCase {
	return []effectCase{
		{name: "RefundReservesItsAmount", run: refundReserves},
		{name: "RefundsNeverExceedTheirPayment", run: refundCap},
		{name: "RefundOfWhatDidNotSucceedIsRefusedAndWritesNothing", run: refundStates},
		{name: "RefundOfAnothersPaymentIsRefusedAndWritesNothing", run: refundForeign},
		{name: "RepeatedRefundReservesOnce", run: refundRepeated},
		{name: "RefundThatFailsGivesBackOnce", run: refundFails},
		{name: "ReleasedRefundGivesBackOnce", run: refundReleased},
		{name: "UnknownAndSucceededRefundsKeepTheirReservation", run: refundKeeps},
		{name: "AdoptedRefundReservesWhenItIsInserted", run: refundAdopted},
		{name: "VoidedRefundCountsNothing", run: refundVoided},
		{name: "RefundRowIsUpdatedOrLeft", run: refundRow},
		{name: "BadRefundIsRefused", run: refundBad},
		{name: "RefundsAreListedInOrder", run: refundOrder},
		{name: "AuditCountsRefunds", run: refundAudit},
		{name: "RefundsAtOnceStayWithinTheirPayment", run: raceRefunds},
		{name: "RefundThatFailsAtOnceGivesBackOnce", run: raceRefundFails},
	}
}

var paymentKind = kind{name: "Payments", payments: true}

// paymentIn is a payment of 3000 in a state.
func (w *world) paymentIn(key string, state effect.State) *subject {
	w.Helper()
	p := w.subject(paymentKind, key)
	switch state {
	case effect.Void:
		p.void("R", -10)
		return p
	case effect.Pending:
		p.begin("A1", -10)
		return p
	}
	p.begin("A1", -10)
	p.settle(p.settlement("A1", state, -9))
	return p
}

// refund is a refund that nobody asked for yet.
func (s *subject) refund(key string, of *subject, amount int64) *subject {
	one := s.subject(s.kind, key)
	one.payment, one.amount = of.id, amount
	return one
}

// paymentOf is the refund's payment as it stands.
func (s *subject) paymentOf() string {
	s.Helper()
	p, err := ask(s.world, func(ctx context.Context) (payments.Payment, error) { return s.Payments.Ledger.Payment(ctx, s.payment) })
	if retryproof.CodeOf(err) == retryproof.CodeNotFound {
		return "no payment"
	}
	if err != nil {
		s.Fatalf("reading the payment: got error %v, want none", err)
	}
	return describePayment(p)
}

// wantRefunded wants every reader of a payment to see how much is refunded.
func (s *subject) wantRefunded(of *subject, want int64) {
	s.Helper()
	p := must(s.world, func(ctx context.Context) (payments.Payment, error) { return s.Payments.Ledger.Payment(ctx, of.id) })
	check(s.world, "refunded", p.Refunded, want)
	row, _ := of.look(1).Guard.Row.(payments.Payment)
	check(s.world, "refunded, as its guard says", row.Refunded, want)
	for _, one := range s.list(payments.Query{Limit: 100}) {
		if one.ID == of.id {
			check(s.world, "refunded, as the list says", one.Refunded, want)
		}
	}
	check(s.world, "payments whose refunds do not add up", s.audit().WrongRefunded, 0)
}

// exceeds wants a refusal because there is not so much left.
func (s *subject) exceeds(what string) {
	s.Helper()
	b := s.beginning("A1", 1)
	s.unchanged(what, 1, func() {
		_, err := ask(s.world, func(ctx context.Context) (effect.Seen, error) { return s.store.Begin(ctx, b) })
		s.wantExceeds(what, err)
	})
	check(s.world, what+": records", describe(s.look(1)), describe(effect.Seen{}))
}

func (s *subject) wantExceeds(what string, err error) {
	s.Helper()
	check(s.world, what+": the code", retryproof.CodeOf(err), retryproof.CodeExceeds)
	check(s.world, what+": the outcome", retryproof.OutcomeOf(err), retryproof.NotDone)
}

func refundReserves(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	updated := of.look(1).Guard.State
	one := s.refund("K1", of, 1200)
	seen := one.begin("A1", 0.02)
	one.wantClaim(seen.Claim, effect.InProgress, "A1")
	one.wantGuard(seen.Guard, effect.Pending, "A1")
	s.wantRefunded(of, 1200)
	check(s.world, "the payment's state", of.look(1).Guard.State, updated)
	want := payments.Refund{ID: one.id, PaymentID: of.id, Caller: "u1", Amount: 1200, Currency: "USD", State: effect.Pending, CreatedAt: at(0.02), UpdatedAt: at(0.02)}
	check(s.world, "the refund", describeGuard(&effect.Guard{Row: seen.Guard.Row}), describeGuard(&effect.Guard{Row: want}))
	check(s.world, "the refunds", s.refunds(of.id), describeRefund(want))
	s.refund("K2", of, 800).begin("A1", 1)
	s.wantRefunded(of, 2000)
}

func refundCap(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	s.refund("over", of, 3001).exceeds("more than the payment")
	s.refund("max", of, math.MaxInt64).exceeds("the largest amount")
	s.refund("first", of, 1000).begin("A1", 0.02)
	s.refund("over2", of, 2001).exceeds("more than what is left")
	s.refund("max2", of, math.MaxInt64).exceeds("the largest amount beside another")
	s.refund("exact", of, 2000).begin("A1", 0.02)
	s.wantRefunded(of, 3000)
	s.refund("one", of, 1).exceeds("one more than nothing")
	whole := s.paymentIn("P2", effect.Succeeded)
	s.refund("whole", whole, 3000).begin("A1", 0.02)
	s.wantRefunded(whole, 3000)
}

func refundStates(s *subject) {
	for _, state := range []effect.State{effect.Pending, effect.Unknown, effect.Failed, effect.Void} {
		of := s.paymentIn(string(state), state)
		s.refund("of "+string(state), of, 1).exceeds("a refund of a payment that is " + string(state))
		s.wantRefunded(of, 0)
	}
	nobody := *s
	nobody.id = "pay_nobody"
	s.refund("of nobody", &nobody, 1).exceeds("a refund of a payment that is not there")
	for _, id := range []retryproof.ID{"\x00", "pay_\xff"} { // what cannot be held is not there
		nobody.id = id
		one := s.refund("of "+string(id), &nobody, 1)
		one.scope.Key = "of nobody"
		refused(s.world, "a refund of "+string(id), func(ctx context.Context) (effect.Seen, error) {
			return one.store.Begin(ctx, one.beginning("A1", 1))
		})
	}

	of := s.subject(paymentKind, "later") // the key is free when the payment succeeds
	of.begin("A1", -10)
	one := s.refund("early", of, 3000)
	one.exceeds("an early refund")
	of.settle(of.settlement("A1", effect.Succeeded, 2))
	one.wantGuard(one.begin("A2", 3).Guard, effect.Pending, "A2")
	s.wantRefunded(of, 3000)
}

func refundForeign(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	for _, caller := range []string{"u2", "U1", "u1 "} {
		one := s.subjectOf(s.kind, retryproof.Scope{Endpoint: "refunds", Caller: caller, Key: "K1"})
		one.payment, one.amount = of.id, 1
		one.exceeds(fmt.Sprintf("a refund by %q", caller))
	}
	for _, currency := range []string{"EUR", "usd", ""} {
		one := s.refund("in "+currency, of, 1)
		b := one.beginning("A1", 1)
		r := b.Row.(payments.Refund)
		r.Currency = currency
		b.Row = r
		one.unchanged("a refund in another currency", 1, func() {
			_, err := ask(s.world, func(ctx context.Context) (effect.Seen, error) { return one.store.Begin(ctx, b) })
			check(s.world, "the outcome", retryproof.OutcomeOf(err), retryproof.NotDone)
			if currency != "" {
				one.wantExceeds("a refund in "+currency, err)
			}
		})
	}
	s.wantRefunded(of, 0)
}

func refundRepeated(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	one := s.refund("K1", of, 2000)
	one.begin("A1", 0.02)
	one.unchanged("repeats of a refund", 1, func() {
		one.begin("A1", 0.02)
		one.begin("A1", 1)
		one.begin("A2", 1)
		other := *one
		other.amount, other.print = 500, retryproof.FingerprintOf(retryproof.Int("amount", 500))
		other.begin("A3", 1)
	})
	s.wantRefunded(of, 2000)
	m := one.settlement("A1", effect.Unknown, 5)
	m.Claim = one.completion("A1", nil, 100)
	one.settle(m)
	seen := one.begin("A4", 100+tick) // finds the guard, and more than what is left
	one.wantClaim(seen.Claim, effect.InProgress, "A4")
	one.wantGuard(seen.Guard, effect.Unknown, "")
	s.wantRefunded(of, 2000)
}

func refundFails(s *subject) {
	for _, to := range []effect.State{effect.Failed, effect.Void} {
		of := s.paymentIn("P "+string(to), effect.Succeeded)
		s.refund("other "+string(to), of, 1000).begin("A1", 0.02)
		one := s.refund("K "+string(to), of, 2000)
		one.begin("A1", 0.02)
		m := one.settlement("A1", effect.Unknown, 1)
		m.Claim = one.completion("A1", nil, 3600)
		one.settle(m)
		s.wantRefunded(of, 3000)
		m = one.evidence("operator alice", to, 2)
		check(s.world, "moved", one.settle(m).Moved, true)
		s.wantRefunded(of, 1000)
		one.unchanged("what comes after a refund that is "+string(to), 3, func() {
			check(s.world, "moved again", one.settle(m).Moved, false)
			check(s.world, "moved to SUCCEEDED", one.settle(one.evidence("W", effect.Succeeded, 3)).Moved, false)
			check(s.world, "released", one.release("A1"), false)
			one.begin("A1", 3)
		})
		s.wantRefunded(of, 1000)
		s.refund("over "+string(to), of, 2001).exceeds("more than what was given back")
		s.refund("again "+string(to), of, 2000).begin("A1", 4)
		s.wantRefunded(of, 3000)
	}

	of := s.paymentIn("at once", effect.Succeeded)
	one := s.refund("at once", of, 3000)
	one.begin("A1", 0.02)
	one.settle(one.settlement("A1", effect.Failed, 1))
	s.wantRefunded(of, 0)
}

func refundReleased(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	s.refund("other", of, 1000).begin("A1", 0.02)
	one := s.refund("K1", of, 2000)
	one.begin("A1", 0.02)
	one.unchanged("a release by another", 1, func() { one.release("A2") })
	for range 3 {
		check(s.world, "gone", one.release("A1"), true)
		s.wantRefunded(of, 1000)
	}
	one.begin("A2", 2)
	s.wantRefunded(of, 3000)
	one.unchanged("a release by the first owner", 3, func() { check(s.world, "gone", one.release("A1"), false) })
}

func refundKeeps(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	one := s.refund("K1", of, 2000)
	one.begin("A1", 0.02)
	a := one.adoption("R", "A1", 7)
	a.GuardOnly, a.To = true, effect.Unknown
	one.adopt(a)
	s.wantRefunded(of, 2000)
	for _, to := range []effect.State{effect.Unknown, effect.Unknown, effect.Succeeded, effect.Failed} {
		m := one.evidence("W", to, 8)
		check(s.world, "moved to "+string(to), one.settle(m).Moved, to != effect.Failed)
		s.wantRefunded(of, 2000)
		s.refund("over", of, 1001).exceeds("more than what is left beside a refund that is " + string(to))
	}
}

func refundAdopted(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	one := s.refund("K1", of, 2000)
	a := one.adoption("B", "", 7)
	a.Insert = true
	for range 2 {
		one.wantGuard(one.adopt(a).Guard, effect.Pending, "B")
		s.wantRefunded(of, 2000)
	}
	takeover := one.adoption("C", "B", 20)
	takeover.Insert = true
	one.wantGuard(one.adopt(takeover).Guard, effect.Pending, "C")
	s.wantRefunded(of, 2000)

	over := s.refund("over", of, 1001)
	a = over.adoption("B", "", 7)
	a.Insert = true
	over.unchanged("adopting more than what is left", 8, func() {
		_, err := ask(s.world, func(ctx context.Context) (effect.Seen, error) { return over.store.Adopt(ctx, a) })
		over.wantExceeds("adopting more than what is left", err)
	})
	check(s.world, "records", describe(over.look(8)), describe(effect.Seen{}))
	exact := s.refund("exact", of, 1000)
	a = exact.adoption("B", "", 7)
	a.Insert = true
	exact.adopt(a)
	s.wantRefunded(of, 3000)
}

func refundVoided(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	one := s.refund("K1", of, 2000)
	one.void("R", 0.02)
	s.wantRefunded(of, 0)
	check(s.world, "the refunds", s.refunds(of.id), "")
	check(s.world, "the refunds of no payment", s.refunds(""), "")
	one.unchanged("a refund that comes after its void", 1, func() {
		one.wantRefused("the refund", "A1", one.begin("A1", 1), 1)
		a := one.adoption("B", "", 2)
		a.Insert = true
		one.adopt(a)
	})
	one.begin("A1", 4000) // after the claim's hour
	s.wantRefunded(of, 0)
	a := s.audit()
	check(s.world, "refunds that are VOID", a.RefundsByState[effect.Void], 1)
	check(s.world, "refunded", a.RefundedSum, 0)

	running := s.refund("K2", of, 2000)
	running.begin("A1", 0.02)
	running.unchanged("a void of a refund that is PENDING", 1, func() { running.void("R", 1) })
	s.wantRefunded(of, 2000)
}

func refundRow(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	one := s.refund("K1", of, 2000)
	one.begin("A1", 0.02)
	m := one.settlement("A1", effect.Unknown, 1)
	m.Row = payments.Outcome{ChargeID: "ch_1"}
	one.unchanged("the row of another table", 1, func() {
		refused(s.world, "a payment's outcome", func(ctx context.Context) (effect.Settled, error) { return one.store.Settle(ctx, m) })
	})
	m.Row = payments.RefundOutcome{RefundID: "re_1", FailureCode: "expired_card"}
	one.settle(m)
	got := one.settle(one.evidence("W", effect.Failed, 2)).Guard
	want := payments.Refund{
		ID: one.id, PaymentID: of.id, Caller: "u1", Amount: 2000, Currency: "USD", State: effect.Failed,
		RefundID: "re_1", FailureCode: "expired_card", CreatedAt: at(0.02), UpdatedAt: at(2),
	}
	check(s.world, "the refund", describeGuard(&effect.Guard{Row: got.Row}), describeGuard(&effect.Guard{Row: want}))
	check(s.world, "the refund as listed", s.refunds(of.id), describeRefund(want))
	other := of.evidence("W", effect.Succeeded, 3)
	other.Row = payments.RefundOutcome{RefundID: "re_1"}
	refused(s.world, "a refund's outcome for a payment", func(ctx context.Context) (effect.Settled, error) { return of.store.Settle(ctx, other) })
}

func refundBad(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	for what, row := range map[string]any{ // order: each is refused alone
		"no amount":          payments.Refund{PaymentID: of.id, Caller: "u1", Currency: "USD"},
		"an amount below 0":  payments.Refund{PaymentID: of.id, Caller: "u1", Currency: "USD", Amount: -1},
		"the lowest amount":  payments.Refund{PaymentID: of.id, Caller: "u1", Currency: "USD", Amount: math.MinInt64},
		"no payment's id":    payments.Refund{Caller: "u1", Currency: "USD", Amount: 1},
		"a payment's row":    payments.Payment{ID: s.id, Caller: "u1", Currency: "USD", Amount: 1},
		"a pointer to a row": &payments.Refund{PaymentID: of.id, Caller: "u1", Currency: "USD", Amount: 1},
	} {
		one := s.refund("bad", of, 1)
		b := one.beginning("A1", 1)
		b.Row = row
		one.unchanged(what, 1, func() {
			refused(s.world, what, func(ctx context.Context) (effect.Seen, error) { return one.store.Begin(ctx, b) })
		})
	}
	p := s.subject(paymentKind, "P2")
	b := p.beginning("A1", 1)
	b.Row = payments.Refund{PaymentID: of.id, Caller: "u1", Currency: "USD", Amount: 1}
	refused(s.world, "a refund's row for a payment", func(ctx context.Context) (effect.Seen, error) { return p.store.Begin(ctx, b) })
	s.wantRefunded(of, 0)
}

// refunds are the refunds of a payment, one a line.
func (w *world) refunds(id retryproof.ID) string {
	w.Helper()
	var out []string
	for _, r := range must(w, func(ctx context.Context) ([]payments.Refund, error) { return w.Payments.Ledger.Refunds(ctx, id) }) {
		out = append(out, describeRefund(r))
	}
	return strings.Join(out, "\n")
}

func refundOrder(s *subject) {
	of, other := s.paymentIn("P1", effect.Succeeded), s.paymentIn("P2", effect.Succeeded)
	var want []string
	for _, r := range []struct {
		id  retryproof.ID
		now float64
	}{{"re_5", 3}, {"re_B", 2}, {"re_a", 2}, {"re_10", 2}, {"re_9", 2}, {"re_1", 2 + tick}, {"re_7", 1}} {
		one := s.refund("key of "+string(r.id), of, 10)
		one.id = r.id
		one.begin("A1", r.now)
	}
	s.refund("another's", other, 10).begin("A1", 2)
	for _, id := range []retryproof.ID{"re_7", "re_10", "re_9", "re_B", "re_a", "re_1", "re_5"} { // by time, then by bytes
		one := *s
		one.id = id
		want = append(want, describeRefund(one.look(4).Guard.Row.(payments.Refund)))
	}
	check(s.world, "the refunds", s.refunds(of.id), strings.Join(want, "\n"))
	for _, id := range []retryproof.ID{"pay_nobody", "", "\x00", "pay_\xff"} {
		check(s.world, fmt.Sprintf("the refunds of %q", id), s.refunds(id), "")
	}
}

func refundAudit(s *subject) {
	of := s.paymentIn("P1", effect.Succeeded)
	before := s.audit()
	check(s.world, "refunded before", before.RefundedSum, 0)
	for i, state := range []effect.State{effect.Pending, effect.Unknown, effect.Succeeded, effect.Succeeded, effect.Failed} {
		one := s.refund(fmt.Sprintf("K%d", i), of, int64(100+i))
		one.begin("A1", 0.02)
		if state != effect.Pending {
			one.settle(one.settlement("A1", state, 1))
		}
	}
	s.refund("never", of, 50).void("R", 1)
	a := s.audit()
	for _, c := range []struct {
		state effect.State
		want  int64
	}{{effect.Pending, 1}, {effect.Unknown, 1}, {effect.Succeeded, 2}, {effect.Failed, 1}, {effect.Void, 1}} {
		check(s.world, "refunds that are "+string(c.state), a.RefundsByState[c.state], c.want)
	}
	check(s.world, "refunded", a.RefundedSum, 205)
	s.post([]ledger.Posting{
		{Account: "merchant:M1", Currency: "USD", Amount: -205, Ref: "re_1:SUCCEEDED"},
		{Account: "payments:refunds", Currency: "USD", Amount: 205, Ref: "re_1:SUCCEEDED"},
	})
	debited := s.audit()
	check(s.world, "debits", debited.Debits-a.Debits, 1)
	check(s.world, "debited", debited.DebitSum-a.DebitSum, 205)
	check(s.world, "credits", debited.Credits, a.Credits)
	check(s.world, "paid", a.SucceededSum, before.SucceededSum)
	check(s.world, "payments", a.ByState[effect.Succeeded], before.ByState[effect.Succeeded])
	s.wantRefunded(of, 100+101+102+103)
}
