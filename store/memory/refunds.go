package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
)

// reserve takes a refund's amount off what is left of its payment.
func (t *table) reserve(r payments.Refund, caller string) error {
	g := t.of.rows[r.PaymentID]
	if g == nil || g.State != effect.Succeeded || g.Scope.Caller != caller || g.payment.Currency != r.Currency ||
		r.Amount > g.payment.Amount-g.payment.Refunded {
		return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeExceeds, Message: "the payment has not so much left to refund",
			Hint: "a cancel is the whole payment; what is left after a part was refunded goes back as another part"}
	}
	g.payment.Refunded += r.Amount
	g.row = nil
	g.revision++
	return nil
}

// giveBack undoes reserve for a refund that did not happen.
func (t *table) giveBack(g *guard) {
	if t.of == nil || g.refund.Amount == 0 {
		return
	}
	if p := t.of.rows[g.refund.PaymentID]; p != nil {
		p.payment.Refunded -= g.refund.Amount
		p.row = nil
		p.revision++
	}
}

func (g *guard) refundOut() payments.Refund {
	r := g.refund
	r.ID, r.Caller, r.State, r.CreatedAt, r.UpdatedAt = g.ID, g.Scope.Caller, g.State, g.CreatedAt, g.UpdatedAt
	return r
}

// keep stores evidence unless one of its name is there.
func (t *table) keep(id retryproof.ID, e effect.Evidence) bool {
	rows := t.evidence[id]
	if slices.ContainsFunc(rows, func(there effect.Evidence) bool { return there.Name == e.Name }) {
		return false
	}
	e.GuardID, e.At = id, round(e.At)
	at, _ := slices.BinarySearchFunc(rows, e, func(a, b effect.Evidence) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Name, b.Name))
	})
	t.evidence[id] = slices.Insert(rows, at, e)
	return true
}

func (l ledgerStore) Payments(ctx context.Context, q payments.Query) ([]payments.Payment, error) {
	if q.Limit <= 0 {
		return nil, invalid("a list needs a limit")
	}
	if err := l.s.lock(ctx); err != nil {
		return nil, err
	}
	defer l.s.mu.Unlock()
	var out []payments.Payment
	add := func(g *guard) {
		if p := g.paymentOut(); matches(p, q) {
			out = append(out, p)
		}
	}
	if q.OrderID != "" {
		for _, g := range l.s.payments.byOrder[orderKey{q.Caller, q.MerchantID, q.OrderID}] {
			add(g)
		}
	} else {
		for _, g := range l.s.payments.rows { // order: sorted below
			add(g)
		}
	}
	slices.SortFunc(out, comparePayments)
	return slices.Clip(out[:min(len(out), q.Limit)]), nil
}

// orderKey names an order: of one caller, at one merchant.
type orderKey struct{ caller, merchant, order string }

func orderOf(g *guard) orderKey {
	return orderKey{g.Scope.Caller, g.payment.MerchantID, g.payment.OrderID}
}

func comparePayments(a, b payments.Payment) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

func matches(p payments.Payment, q payments.Query) bool {
	switch {
	case !q.From.IsZero() && p.CreatedAt.Before(round(q.From)), !q.To.IsZero() && !p.CreatedAt.Before(round(q.To)):
		return false
	case q.OrderID != "" && (p.OrderID != q.OrderID || p.Caller != q.Caller || p.MerchantID != q.MerchantID):
		return false
	}
	return q.After.ID == "" || comparePayments(p, q.After) > 0
}

func (l ledgerStore) Refunds(ctx context.Context, paymentID retryproof.ID) ([]payments.Refund, error) {
	if err := l.s.lock(ctx); err != nil {
		return nil, err
	}
	defer l.s.mu.Unlock()
	var out []payments.Refund
	for _, g := range l.s.refunds.rows { // order: sorted below
		if g.refund.PaymentID == paymentID && g.refund.Amount > 0 {
			out = append(out, g.refundOut())
		}
	}
	slices.SortFunc(out, compareRefunds)
	return out, nil
}

func (l ledgerStore) RefundsBetween(ctx context.Context, from, to time.Time, after payments.Refund, limit int) ([]payments.Refund, error) {
	if limit <= 0 {
		return nil, invalid("a list needs a limit")
	}
	if err := l.s.lock(ctx); err != nil {
		return nil, err
	}
	defer l.s.mu.Unlock()
	var out []payments.Refund
	for _, g := range l.s.refunds.rows { // order: sorted below
		r := g.refundOut()
		if r.Amount > 0 && !r.CreatedAt.Before(round(from)) && r.CreatedAt.Before(round(to)) && (after.ID == "" || compareRefunds(r, after) > 0) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, compareRefunds)
	return slices.Clip(out[:min(len(out), limit)]), nil
}

func compareRefunds(a, b payments.Refund) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// auditRefunds counts refunds and adds their reservations up again.
func (s *Store) auditRefunds(a *payments.Audit) {
	a.RefundsByState = map[effect.State]int64{}
	reserved := map[retryproof.ID]int64{}
	for _, g := range s.refunds.rows { // order: counts and sums only
		a.RefundsByState[g.State]++
		if g.State == effect.Succeeded {
			a.RefundedSum += g.refund.Amount
		}
		if g.State != effect.Failed && g.State != effect.Void {
			reserved[g.refund.PaymentID] += g.refund.Amount
		}
	}
	for id, g := range s.payments.rows { // order: counts only
		if g.payment.Refunded != reserved[id] || g.payment.Refunded > g.payment.Amount {
			a.WrongRefunded++
		}
	}
}
