package sqlite

import (
	"context"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/internal/record"
)

// A refund's amount is reserved in its payment in the transaction that inserts the
// refund, and given back in the one that ends it without a payout. The write lock of
// the file makes the order of the two rows indifferent.

// reserve takes the amount of the refund that b asks for off what is left of its
// payment, or refuses. It is called before anything of the operation is written, so
// that a refusal does not roll back what the operation's group has written.
func (e effects) reserve(ctx context.Context, q query, b effect.Begin) error {
	r := e.t.Reservation(b)
	if r == nil {
		return nil
	}
	n, err := q.exec(ctx, `UPDATE payments SET refunded = refunded + ?1
		WHERE payment_id = ?2 AND state = 'SUCCEEDED' AND caller_id = ?3 AND currency = ?4 AND ?1 <= amount - refunded`,
		r.Amount, string(r.PaymentID), b.Scope.Caller, r.Currency)
	if err == nil && n == 0 {
		return e.exceeds(ctx, q, b.Scope)
	}
	return err
}

// exceeds is why a refund, which is absent, cannot be reserved. That its scope has
// another refund comes first: then there is nothing to reserve.
func (e effects) exceeds(ctx context.Context, q query, s retryproof.Scope) error {
	var taken bool
	err := q.row(ctx, "SELECT EXISTS (SELECT 1 FROM refunds WHERE client_key = ? AND caller_id = ? AND endpoint = ?)",
		string(s.Key), s.Caller, s.Endpoint).Scan(&taken)
	switch {
	case err != nil:
		return err
	case taken:
		return record.OtherID()
	}
	return record.Exceeds()
}

// beginRefund is begin for refunds: it reserves before it writes.
func (e effects) beginRefund(ctx context.Context, q query, b effect.Begin, row []any) (effect.Seen, error) {
	look := effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now}
	seen, err := e.look(ctx, q, look)
	if err != nil || record.Decided(b, seen) {
		return seen, err
	}
	if seen.Guard, err = e.recordRefund(ctx, q, b, row, seen.Guard); err != nil || seen.Claim != nil {
		return seen, err
	}
	if _, err := insertClaim(ctx, q, b); err != nil {
		return seen, err
	}
	return e.look(ctx, q, look)
}

// recordRefund inserts a refund unless g says that it is there.
func (e effects) recordRefund(ctx context.Context, q query, b effect.Begin, row []any, g *effect.Guard) (*effect.Guard, error) {
	if g != nil {
		return g, nil
	}
	if err := e.reserve(ctx, q, b); err != nil {
		return nil, err
	}
	if err := inserted(q.exec(ctx, e.t.insert, row...)); err != nil {
		return nil, err
	}
	return e.t.Recorded(b), nil
}

// giveBack undoes reserve for a refund that is, or was, g.
func (e effects) giveBack(ctx context.Context, q query, g *effect.Guard) error {
	r, ok := g.Row.(payments.Refund)
	if !ok || r.Amount == 0 {
		return nil
	}
	_, err := q.exec(ctx, "UPDATE payments SET refunded = refunded - ? WHERE payment_id = ?", r.Amount, string(r.PaymentID))
	return err
}

// reserving is write for an operation that may be refused by reserve, first thing. The
// refusal is the operation's verdict, not a failure of its transaction.
func (s *Store) reserving(ctx context.Context, f func(ctx context.Context, q query) error) error {
	var refused error
	err := s.write(ctx, func(ctx context.Context, q query) error {
		refused = nil
		err := f(ctx, q)
		if retryproof.CodeOf(err) == retryproof.CodeExceeds {
			refused, err = err, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return refused
}

// Payments lists payments.
func (l ledgerStore) Payments(ctx context.Context, pq payments.Query) ([]payments.Payment, error) {
	if err := record.CheckQuery(pq); err != nil {
		return nil, err
	}
	t := table(record.Payments)
	where, args := "", record.QueryArgs(pq)
	if pq.OrderID != "" {
		where, args = " AND caller_id = ?6 AND merchant_id = ?7 AND order_id = ?8", append(args, pq.Caller, pq.MerchantID, pq.OrderID)
	}
	var out []payments.Payment
	err := listGuards(ctx, l.s, t, t.list+` WHERE created_at >= ?1 AND created_at < ?2 AND (created_at, payment_id) > (?3, ?4)`+where+`
		ORDER BY created_at, payment_id LIMIT ?5`, args, func(g *effect.Guard) { out = append(out, g.Row.(payments.Payment)) })
	return orNothing(out, err)
}

// Refunds lists the refunds of a payment.
func (l ledgerStore) Refunds(ctx context.Context, paymentID retryproof.ID) ([]payments.Refund, error) {
	t := table(record.Refunds)
	var out []payments.Refund
	err := listGuards(ctx, l.s, t, t.list+" WHERE payment_id = ? AND amount > 0 ORDER BY created_at, refund_id",
		[]any{string(paymentID)}, func(g *effect.Guard) { out = append(out, g.Row.(payments.Refund)) })
	return orNothing(out, err)
}

// listGuards reads guards.
func listGuards(ctx context.Context, s *Store, t *guardTable, statement string, args []any, each func(*effect.Guard)) error {
	return s.read(ctx, func(ctx context.Context, q query) error {
		rows, err := q.rows(ctx, statement, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			g := t.Scan()
			if err := rows.Scan(g.Dest()...); err != nil {
				return err
			}
			each(g.Guard())
		}
		return rows.Err()
	})
}
