package storetest

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
)

func janitorCases() []testCase {
	return []testCase{
		{"ExpiredClaimsAreForgottenAndLiveOnesKept", janitorExpired},
		{"AbandonedClaimsAreForgotten", janitorAbandoned},
		{"JanitorIsBounded", janitorBounded},
		{"ForgettingAClaimLeavesTheGuard", janitorGuard},
	}
}

func (w *world) forget(now, abandoned float64, limit int) int {
	w.Helper()
	return must(w, func(ctx context.Context) (int, error) {
		return w.Payments.Janitor.ForgetClaims(ctx, at(now), at(abandoned), limit)
	})
}

// claimed makes a claim; with expires > 0 it is completed.
func (w *world) claimed(key string, now, expires float64, answer *effect.Answer) *subject {
	w.Helper()
	s := w.subject(paymentKind, key)
	s.begin("A1", now)
	if expires > 0 {
		check(w, "completed", s.complete("A1", answer, expires), true)
	}
	return s
}

func janitorExpired(w *world) {
	final := w.claimed("final", 0, 100, ok200("final"))
	pointer := w.claimed("pointer", 0, 100, nil)
	later := w.claimed("later", 0, 100+tick, nil)
	running := w.claimed("running", 0, 0, nil)
	check(w, "forgotten at the expiry", w.forget(100, -1000, 99), 0)
	final.wantClaim(final.look(100).Claim, effect.Complete, "A1")
	check(w, "forgotten a microsecond later", w.forget(100+tick, -1000, 99), 2)
	check(w, "the final one", describeClaim(final.look(50).Claim), "no claim")
	check(w, "the pointer", describeClaim(pointer.look(50).Claim), "no claim")
	later.wantClaim(later.look(100).Claim, effect.Complete, "A1")
	running.wantClaim(running.look(1e6).Claim, effect.InProgress, "A1")
}

func janitorAbandoned(w *world) {
	old := w.claimed("old", 0, 0, nil)
	edge := w.claimed("edge", 10, 0, nil)
	young := w.claimed("young", 20, 0, nil)
	answered := w.claimed("answered", 0, 2000, ok200("final")) // its lease is as old
	check(w, "forgotten", w.forget(1000, 15, 99), 1)           // edge's lease ends at 15
	check(w, "the old one", describeClaim(old.look(1).Claim), "no claim")
	edge.wantClaim(edge.look(1).Claim, effect.InProgress, "A1")
	check(w, "forgotten a microsecond later", w.forget(1000, 15+tick, 99), 1)
	young.wantClaim(young.look(1).Claim, effect.InProgress, "A1")
	answered.wantClaim(answered.look(1).Claim, effect.Complete, "A1")
}

func janitorBounded(w *world) {
	for i := range 7 {
		w.claimed(fmt.Sprintf("expired%d", i), 0, 100, nil)
		w.claimed(fmt.Sprintf("abandoned%d", i), 0, 0, nil)
	}
	left := 14
	for _, limit := range []int{0, 3, 5, 5, 5} {
		n := w.forget(1000, 900, limit)
		check(w, fmt.Sprintf("forgotten of %d with limit %d", left, limit), n, min(limit, left))
		left -= n
	}
}

// The guard answers when the claim is gone.
func janitorGuard(w *world) {
	s := w.claimed("K1", 0, 0, nil)
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Claim = s.completion("A1", ok200("final"), 100)
	s.settle(m)
	guard := describeGuard(s.look(1).Guard)
	check(w, "forgotten", w.forget(200, -1, 9), 1)
	check(w, "the guard", describeGuard(s.look(1).Guard), guard)
	seen := s.begin("A2", 200)
	s.wantClaim(seen.Claim, effect.InProgress, "A2")
	check(w, "the guard that the next request finds", describeGuard(seen.Guard), guard)
}

func restartCases() []testCase {
	return []testCase{
		{"RestartKeepsEverything", restartKeeps},
		{"SecondProcessSeesEverything", secondSees},
	}
}

func restartKeeps(w *world) {
	if w.Reopen != nil {
		w.keptBy(func() Stores { return w.Reopen(w.T) })
	}
}

func secondSees(w *world) {
	if w.Second != nil {
		w.keptBy(func() Stores { return w.Second(w.T) })
	}
}

// keptBy writes a bit of everything and compares what the other instance holds.
func (w *world) keptBy(other func() Stores) {
	w.Helper()
	s := w.claimed("K1", 0.02, 0, nil)
	m := s.settlement("A1", effect.Succeeded, 0.54)
	m.Postings, m.Row = credit(string(s.id), 3000), payments.Outcome{ChargeID: "ch_1"}
	m.Events = []retryproof.Event{event(s.id.Sub("SUCCEEDED"), "m1"), event(s.id.Sub("more"), "m1")}
	m.Inbox = &retryproof.InboxKey{Consumer: "webhook", Source: "psp", EventID: "evt_1"}
	m.Claim = s.completion("A1", ok200("final"), 3600)
	m.Evidence, m.Note = proof("verdict", effect.EvidenceVerdict, 0.5), proof("note", effect.EvidenceAlert, 0.4)
	s.settle(m)
	voided := w.subject(paymentKind, "K3")
	voided.void("R", 1)
	running := w.claimed("K2", 1, 0, nil)
	w.applies(inbox.Apply{Key: message("ev"), Now: at(2), Intents: []notify.Intent{intent("ev", "push", 2)}})
	w.saw(payments.Sighting{PaymentID: s.id, Hop: "queue", What: "deliveries", N: 1, At: at(2)})
	w.wantClaimed("r1", 10, 20, 1, s.id.Sub("SUCCEEDED"))
	refund := w.refundOf(s)
	want := []string{s.snapshot(5), running.snapshot(5), voided.snapshot(5), w.refunds(s.id), describeIntent(w.intent("ev", "push")), w.sightings(s.id)}

	w.Stores = other()
	for _, one := range []*subject{s, running, voided} {
		one.store = one.kind.store(w.Stores)
	}
	got := []string{s.snapshot(5), running.snapshot(5), voided.snapshot(5), w.refunds(s.id), describeIntent(w.intent("ev", "push")), w.sightings(s.id)}
	for i := range want {
		check(w, "what the other instance holds", got[i], want[i])
	}
	check(w, "the refunds are there", want[3] != "", refund)
	check(w, "the webhook is known", s.settle(m).Repeat, true)
	check(w, "the message is known", w.applies(inbox.Apply{Key: message("ev"), Now: at(3)}), false)
	w.wantClaimed("r2", 20, 40, 9, "") // r1's lease is alive
	rows := must(w, func(ctx context.Context) ([]outbox.Row, error) {
		return w.Payments.Outbox.Claim(ctx, outbox.Claim{Relay: "r2", Now: at(20 + tick), Until: at(40), Limit: 9})
	})
	check(w, "rows", len(rows), 2)
	check(w, "attempts", rows[0].Attempts, 2)
	w.publish(event("new", "m1"))
	w.deletes("r2", rows[0].ID)
	w.deletes("r2", rows[1].ID)
	w.wantClaimed("r2", 21, 40, 9, "new")
}

// refundOf begins a refund of the payment, where there are refunds.
func (w *world) refundOf(s *subject) bool {
	w.Helper()
	if w.traits.NoRefunds {
		return false
	}
	one := w.subject(kind{name: "Refunds", refunds: true}, "K4").refund("K4", s, 1200)
	one.begin("A1", 3)
	return true
}
