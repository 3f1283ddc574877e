package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
)

// kind is one of a driver's effect stores.
type kind struct {
	name     string
	payments bool // the guard is a payment
	refunds  bool // the guard is a refund
	split    bool // claim and guard are written by two calls
}

func (s suite) kinds() []kind {
	var out []kind
	halves := !s.traits.NoKeys && !s.traits.NoGuards
	if !s.traits.NoEffects {
		out = append(out, kind{name: "Generic"})
	}
	if !s.traits.NoPayments {
		out = append(out, kind{name: "Payments", payments: true})
	}
	if !s.traits.NoRefunds {
		out = append(out, kind{name: "Refunds", refunds: true})
	}
	if halves {
		out = append(out, kind{name: "KeysAndGuards", split: true})
	}
	if halves && !s.traits.NoPayments {
		out = append(out, kind{name: "KeysAndPaymentGuards", payments: true, split: true})
	}
	if halves && !s.traits.NoRefunds {
		out = append(out, kind{name: "KeysAndRefundGuards", refunds: true, split: true})
	}
	return out
}

// business kinds have a row of business behind the guard.
func (k kind) business() bool { return k.payments || k.refunds }

func (k kind) guards(s Stores) effect.Guards {
	switch {
	case k.payments:
		return s.PaymentGuards
	case k.refunds:
		return s.RefundGuards
	}
	return s.Guards
}

func (k kind) store(s Stores) effect.Store {
	switch {
	case k.split:
		return effect.Split(s.Keys, k.guards(s))
	case k.payments:
		return s.Payments.Effects
	case k.refunds:
		return s.Payments.Refunds
	}
	return s.Effects
}

func (k kind) due(s Stores) resolve.Store {
	switch {
	case k.payments:
		return s.Payments.Due
	case k.refunds:
		return s.Payments.DueRefunds
	}
	return s.Due
}

// subject is one effect under test.
type subject struct {
	*world
	kind  kind
	store effect.Store
	scope retryproof.Scope
	id    retryproof.ID
	print retryproof.Fingerprint
	// payment and amount are what a refund is taken from, and how much.
	payment retryproof.ID
	amount  int64
}

func (w *world) subject(k kind, key string) *subject {
	return w.subjectOf(k, retryproof.Scope{Endpoint: "payments", Caller: "u1", Key: retryproof.Key(key)})
}

func (w *world) subjectOf(k kind, scope retryproof.Scope) *subject {
	s := &subject{
		world: w, kind: k, store: k.store(w.Stores), scope: scope, id: retryproof.Of("pay", scope),
		print: retryproof.FingerprintOf(retryproof.Text("order", "42"), retryproof.Int("amount", 3000)), amount: 3000,
	}
	if k.refunds {
		s.payment = w.payer(scope.Caller)
	}
	return s
}

// payer is a payment of the caller's that has enough left for every refund of a
// case. A caller whose name the driver cannot hold has none.
func (w *world) payer(caller string) retryproof.ID {
	w.Helper()
	if id, ok := w.paid[caller]; ok {
		return id
	}
	s := w.subjectOf(paymentKind, retryproof.Scope{Endpoint: "set-up", Caller: caller, Key: "paid"})
	s.amount = 1 << 50
	if _, err := ask(w, func(ctx context.Context) (effect.Seen, error) { return s.store.Begin(ctx, s.beginning("set-up", -100)) }); err == nil {
		m := s.settlement("set-up", effect.Succeeded, -99)
		m.Claim = s.completion("set-up", nil, 1e9)
		s.settle(m)
	}
	w.paid[caller] = s.id
	return s.id
}

// row is the business row that a first request brings.
func (s *subject) row(now time.Time) any {
	switch {
	case s.kind.refunds:
		return payments.Refund{
			ID: s.id, PaymentID: s.payment, Caller: s.scope.Caller, Amount: s.amount, Currency: "USD", State: effect.Pending,
			CreatedAt: now, UpdatedAt: now,
		}
	case !s.kind.payments:
		return nil
	}
	return payments.Payment{
		ID: s.id, Caller: s.scope.Caller, OrderID: "42", MerchantID: "m1", Amount: s.amount, Currency: "USD",
		Method: "pm_1", State: effect.Pending, CreatedAt: now, UpdatedAt: now,
	}
}

// beginning is what owner asks for at now, with a lease of 5 s.
func (s *subject) beginning(owner string, now float64) effect.Begin {
	return effect.Begin{
		Scope: s.scope, GuardID: s.id, Fingerprint: s.print, Owner: owner,
		Now: at(now), Until: at(now + lease), Row: s.row(at(now)),
	}
}

func (s *subject) begin(owner string, now float64) effect.Seen {
	s.Helper()
	return s.beginAs(s.beginning(owner, now))
}

func (s *subject) beginAs(b effect.Begin) effect.Seen {
	s.Helper()
	return must(s.world, func(ctx context.Context) (effect.Seen, error) { return s.store.Begin(ctx, b) })
}

// adoption is owner's takeover of a claim and guard that belong to from.
func (s *subject) adoption(owner, from string, now float64) effect.Adopt {
	return effect.Adopt{
		Scope: s.scope, GuardID: s.id, Fingerprint: s.print, ClaimFrom: from, GuardFrom: from, Owner: owner,
		Now: at(now), Until: at(now + lease), Margin: margin, To: effect.Pending, Row: s.row(at(now)),
	}
}

func (s *subject) adopt(a effect.Adopt) effect.Seen {
	s.Helper()
	return must(s.world, func(ctx context.Context) (effect.Seen, error) { return s.store.Adopt(ctx, a) })
}

// settlement is by's fenced move.
func (s *subject) settlement(by string, to effect.State, now float64) effect.Settle {
	return effect.Settle{
		ID: s.id, From: []effect.State{effect.Pending, effect.Unknown}, To: to, By: by, Fenced: true,
		Now: at(now), NextAt: at(now),
	}
}

// evidence is a move that any holder of proof may make.
func (s *subject) evidence(by string, to effect.State, now float64) effect.Settle {
	m := s.settlement(by, to, now)
	m.Fenced = false
	return m
}

func (s *subject) settle(m effect.Settle) effect.Settled {
	s.Helper()
	return must(s.world, func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
}

func (s *subject) completion(owner string, answer *effect.Answer, expires float64) *effect.Completion {
	return &effect.Completion{Scope: s.scope, Owner: owner, Answer: answer, ExpiresAt: at(expires)}
}

func (s *subject) complete(owner string, answer *effect.Answer, expires float64) bool {
	s.Helper()
	c := *s.completion(owner, answer, expires)
	return must(s.world, func(ctx context.Context) (bool, error) { return s.store.Complete(ctx, c) })
}

func (s *subject) release(owner string) bool {
	s.Helper()
	r := effect.Release{Scope: s.scope, GuardID: s.id, Owner: owner}
	return must(s.world, func(ctx context.Context) (bool, error) { return s.store.Release(ctx, r) })
}

// look reads both records. A store may leave the guard out when the claim has
// the answer, so the guard is then read under a scope that nobody claimed.
func (s *subject) look(now float64) effect.Seen {
	s.Helper()
	l := effect.Look{Scope: s.scope, GuardID: s.id, Now: at(now)}
	seen := must(s.world, func(ctx context.Context) (effect.Seen, error) { return s.store.Look(ctx, l) })
	if seen.Guard == nil {
		l.Scope.Endpoint += " nobody"
		seen.Guard = must(s.world, func(ctx context.Context) (effect.Seen, error) { return s.store.Look(ctx, l) }).Guard
	}
	return seen
}

// snapshot is everything that an operation on the effect could change, as text.
func (s *subject) snapshot(now float64) string {
	s.Helper()
	out := describe(s.look(now)) + s.kept()
	if s.traits.NoPayments {
		return out
	}
	if s.kind.refunds {
		out += "\n  " + s.paymentOf()
	}
	a, st := s.audit(), s.stats()
	for _, state := range slices.Sorted(maps.Keys(a.ByState)) {
		out += fmt.Sprintf("\n  %s: %d", state, a.ByState[state])
	}
	a.ByState = nil
	return out + fmt.Sprintf("\n  audit %+v\n  waiting %d, parked %d, m1 %d", a, st.Waiting, st.Parked, s.balance("merchant:m1"))
}

// unchanged fails when f changed anything.
func (s *subject) unchanged(what string, now float64, f func()) {
	s.Helper()
	before := s.snapshot(now)
	f()
	if after := s.snapshot(now); after != before {
		s.Errorf("%s changed the records:\nbefore %s\nafter  %s", what, before, after)
	}
}

func (s *subject) wantClaim(c *effect.Claim, state effect.ClaimState, owner string) {
	s.Helper()
	if c == nil {
		s.Fatalf("got no claim, want one %s of %q", state, owner)
	}
	check(s.world, "the claim's state", c.State, state)
	check(s.world, "the claim's owner", c.Owner, owner)
}

func (s *subject) wantGuard(g *effect.Guard, state effect.State, owner string) {
	s.Helper()
	if g == nil {
		s.Fatalf("got no guard, want one %s of %q", state, owner)
	}
	check(s.world, "the guard's state", g.State, state)
	check(s.world, "the guard's owner", g.Owner, owner)
	r, isRefund := g.Row.(payments.Refund)
	check(s.world, "the guard's row is a payments.Refund", isRefund, s.kind.refunds)
	if isRefund {
		check(s.world, "the refund's id", r.ID, s.id)
		check(s.world, "the refund's state", r.State, g.State)
		sameTime(s.world, "the refund's UpdatedAt", r.UpdatedAt, g.UpdatedAt)
	}
	p, isPayment := g.Row.(payments.Payment)
	check(s.world, "the guard's row is a payments.Payment", isPayment, s.kind.payments)
	if isPayment {
		check(s.world, "the payment's id", p.ID, s.id)
		check(s.world, "the payment's state", p.State, g.State)
		sameTime(s.world, "the payment's UpdatedAt", p.UpdatedAt, g.UpdatedAt)
	}
}

// describe writes records down so that equal records give equal texts.
func describe(seen effect.Seen) string {
	return describeClaim(seen.Claim) + "\n  " + describeGuard(seen.Guard)
}

func describeClaim(c *effect.Claim) string {
	if c == nil {
		return "no claim"
	}
	return fmt.Sprintf("claim %q of %q: guard %s, print %q, %s, until %s, expires %s, answer %s", c.Scope.ID(), c.Owner,
		c.GuardID, c.Fingerprint, c.State, instant(c.Until), instant(c.ExpiresAt), describeAnswer(c.Answer))
}

func describeAnswer(a *effect.Answer) string {
	if a == nil {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d dropped=%v", a.Status, a.BodyDropped)
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		fmt.Fprintf(&b, " %q=%q", name, a.Header[name])
	}
	body := fmt.Sprintf("%q", a.Body)
	if len(a.Body) > 200 {
		body = fmt.Sprintf("%d bytes %x", len(a.Body), sha256.Sum256(a.Body))
	}
	return b.String() + " body " + body
}

func describeGuard(g *effect.Guard) string {
	if g == nil {
		return "no guard"
	}
	row := fmt.Sprintf("%v", g.Row)
	switch r := g.Row.(type) {
	case payments.Payment:
		row = describePayment(r)
	case payments.Refund:
		row = describeRefund(r)
	}
	return fmt.Sprintf("guard %s of %q: scope %s, print %q, %s, until %s, by %q, tries %d, next %s, created %s, updated %s, result %q, row %s",
		g.ID, g.Owner, g.Scope.ID(), g.Fingerprint, g.State, instant(g.Until), g.SettledBy, g.Tries, instant(g.NextAt),
		instant(g.CreatedAt), instant(g.UpdatedAt), g.Result, row)
}

func describePayment(p payments.Payment) string {
	return fmt.Sprintf("%s %q %s %s %d-%d %s %s %s %q %q %s %s", p.ID, p.Caller, p.OrderID, p.MerchantID, p.Amount, p.Refunded, p.Currency,
		p.Method, p.State, p.ChargeID, p.DeclineCode, instant(p.CreatedAt), instant(p.UpdatedAt))
}

func describeRefund(r payments.Refund) string {
	return fmt.Sprintf("%s of %s %q %d %s %s %q %q %s %s", r.ID, r.PaymentID, r.Caller, r.Amount, r.Currency, r.State,
		r.RefundID, r.FailureCode, instant(r.CreatedAt), instant(r.UpdatedAt))
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("15:04:05.000000")
}

// credit is one balanced entry: amount to m1.
func credit(ref string, amount int64) []ledger.Posting {
	return []ledger.Posting{
		{Account: "payments:transit", Currency: "USD", Amount: -amount, Ref: ref},
		{Account: "merchant:m1", Currency: "USD", Amount: amount, Ref: ref},
	}
}

func ok200(body string) *effect.Answer {
	return &effect.Answer{Status: 200, Header: map[string][]string{"Content-Type": {"application/json"}}, Body: []byte(body)}
}
