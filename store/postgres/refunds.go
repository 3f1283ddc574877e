package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/internal/record"
)

// A refund's amount is reserved in its payment in the transaction that inserts the
// refund, and given back in the one that ends it without a payout.
//
// Lock order: the payment's row, then the refund's, its claim and the balances. A
// reservation locks the payment first and judges it as it is then, so that a refusal
// has written nothing; who gives back locks it before it changes the refund. Two
// transactions that meet in another order, over several refunds of a group, are told
// apart by the server: 40P01 is tried again.

// allowedSQL are queries of a WITH: the refund, and its payment, locked, when the
// refund is to be inserted and the payment has so much left. The refund's columns are
// the parameters from the given number on.
func allowedSQL(t record.Table, from int, condition string) string {
	p := func(column string) string { return fmt.Sprintf("$%d", from+slices.Index(t.Columns(), column)) }
	return fmt.Sprintf(`there AS MATERIALIZED (
	SELECT 1 FROM %s WHERE %s = %s::text
), allowed AS MATERIALIZED (
	SELECT 1 FROM payments WHERE payment_id = %s::text AND state = 'SUCCEEDED' AND caller_id = %s::text AND currency = %s::text
		AND %s::bigint <= amount - refunded AND NOT EXISTS (SELECT FROM there)%s
	FOR NO KEY UPDATE
)`, t.Name, t.ID, p(t.ID), p("payment_id"), p("caller_id"), p("currency"), p("amount"), condition)
}

// reservedSQL takes the amount off when the refund was recorded.
func reservedSQL(t record.Table, from int) string {
	p := func(column string) string { return fmt.Sprintf("$%d", from+slices.Index(t.Columns(), column)) }
	return fmt.Sprintf(`reserved AS (
	UPDATE payments SET refunded = refunded + %s::bigint WHERE payment_id = %s::text AND EXISTS (SELECT FROM recorded)
)`, p("amount"), p("payment_id"))
}

// mayRecord says whether nothing speaks against the refund.
const mayRecord = "EXISTS (SELECT FROM there) OR EXISTS (SELECT FROM allowed)"

// reserveSQL inserts a refund unless it is there, and reserves its amount.
func reserveSQL(t record.Table) string {
	return fmt.Sprintf(`WITH %s, recorded AS (
	INSERT INTO %s (%s) SELECT %s WHERE EXISTS (SELECT FROM allowed)
	ON CONFLICT DO NOTHING RETURNING 1
), %s
SELECT %s, EXISTS (SELECT FROM recorded)`,
		allowedSQL(t, 1, ""), t.Name, strings.Join(t.Columns(), ", "), marks(1, t.Columns()), reservedSQL(t, 1), mayRecord)
}

// paidSQL is a query of a WITH: the payment, locked, of the refund that parameter 1
// names, when the condition says that its amount may be given back.
func paidSQL(condition string) string {
	return fmt.Sprintf(`paid AS MATERIALIZED (
	SELECT 1 FROM payments WHERE payment_id = (SELECT payment_id FROM refunds WHERE refund_id = $1::text) AND %s
	FOR NO KEY UPDATE
)`, condition)
}

// afterPaid makes what it is a condition of wait for the lock of paidSQL.
const afterPaid = " AND (SELECT count(*) FROM paid) >= 0"

// returnedSQL gives the amount of the refund in the named query back.
func returnedSQL(from string) string {
	return fmt.Sprintf("UPDATE payments SET refunded = refunded - (SELECT amount FROM %[1]s) WHERE payment_id = (SELECT payment_id FROM %[1]s)", from)
}

// releaseSQL deletes an owner's PENDING guard beside which no evidence is kept. The
// first statement locks what the second changes: who keeps evidence locks the guard
// too, and only a statement that begins after the lock sees what was kept before it.
func releaseSQL(t record.Table) (lock, release string) {
	lock = fmt.Sprintf("SELECT 1 FROM %s WHERE %s = $1::text AND owner = $2::text FOR UPDATE", t.Name, t.ID)
	returned := "SELECT FROM gone"
	if t.Kind == record.RefundRows {
		lock = fmt.Sprintf("WITH %s SELECT 1 FROM %s WHERE %s = $1::text AND owner = $2::text%s FOR UPDATE", paidSQL("true"), t.Name, t.ID, afterPaid)
		returned = returnedSQL("gone")
	}
	return lock, fmt.Sprintf(`WITH gone AS (
	DELETE FROM %[1]s WHERE %[2]s = $1::text AND state = 'PENDING' AND owner = $2::text
		AND NOT EXISTS (SELECT FROM evidence WHERE guard_id = $1::text AND guard_table = '%[1]s') RETURNING *
) %[3]s`, t.Name, t.ID, returned)
}

// reserveWithin inserts a refund, which was absent, in a transaction that is open
// already.
func (e effects) reserveWithin(ctx context.Context, q query, a effect.Adopt, args []any) error {
	var may, recorded bool
	if err := q.row(ctx, e.t.reserve, args...).Scan(&may, &recorded); err != nil || recorded {
		return err
	}
	if may {
		return e.notInserted(ctx, q, a, errRefused) // a concurrent transaction was faster
	}
	return e.notInserted(ctx, q, a, record.Exceeds())
}

// lockPaid locks the payment of a refund whose settlement gives its amount back.
func (e effects) lockPaid(ctx context.Context, q query, set effect.Settle) error {
	if !e.t.GivesBack(set.To) {
		return nil
	}
	_, err := q.exec(ctx, "SELECT 1 FROM payments WHERE payment_id = (SELECT payment_id FROM refunds WHERE refund_id = $1) FOR NO KEY UPDATE", string(set.ID))
	return err
}

// giveBack gives the amount of a refund that was settled back.
func (e effects) giveBack(ctx context.Context, q query, g *effect.Guard) error {
	r, ok := g.Row.(payments.Refund)
	if !ok || !e.t.GivesBack(g.State) {
		return nil
	}
	_, err := q.exec(ctx, "UPDATE payments SET refunded = refunded - $1 WHERE payment_id = $2", r.Amount, string(r.PaymentID))
	return err
}

var paymentsSQL = func() (out struct{ all, order string }) {
	columns := strings.Join(record.Payments.Columns(), ", ")
	const page = " WHERE created_at >= $1 AND created_at < $2 AND (created_at, payment_id) > ($3, $4) ORDER BY created_at, payment_id LIMIT $5"
	out.all = "SELECT " + columns + " FROM payments" + page
	// An order has few payments; the planner must not look for them along the times.
	out.order = "WITH mine AS MATERIALIZED (SELECT " + columns + " FROM payments WHERE order_id = $6 AND merchant_id = $7 AND caller_id = $8) SELECT " + columns + " FROM mine" + page
	return out
}()

// Payments lists payments.
func (l ledgerStore) Payments(ctx context.Context, pq payments.Query) ([]payments.Payment, error) {
	if err := record.CheckQuery(pq); err != nil {
		return nil, err
	}
	if cannotExist(pq.Caller, pq.MerchantID, pq.OrderID, string(pq.After.ID)) {
		return nil, nil
	}
	sql, args := paymentsSQL.all, record.QueryArgs(pq)
	if pq.OrderID != "" {
		sql, args = paymentsSQL.order, append(args, pq.OrderID, pq.MerchantID, pq.Caller)
	}
	var out []payments.Payment
	err := l.s.read(ctx, statement{sql, args, rowsOf(record.Payments, &out)})
	return orNothing(out, err)
}

var refundsSQL = fmt.Sprintf("SELECT %s FROM refunds WHERE payment_id = $1 AND amount > 0 ORDER BY created_at, refund_id",
	strings.Join(record.Refunds.Columns(), ", "))

// Refunds lists the refunds of a payment.
func (l ledgerStore) Refunds(ctx context.Context, paymentID retryproof.ID) ([]payments.Refund, error) {
	if cannotExist(string(paymentID)) {
		return nil, nil
	}
	var out []payments.Refund
	err := l.s.read(ctx, statement{refundsSQL, []any{string(paymentID)}, rowsOf(record.Refunds, &out)})
	return orNothing(out, err)
}

// rowsOf lists business rows.
func rowsOf[T any](t record.Table, out *[]T) func(pgx.Rows) error {
	return list(out, func(row scanner) (T, error) {
		g := t.Scan()
		if err := row.Scan(g.Dest()...); err != nil {
			var none T
			return none, err
		}
		return g.Guard().Row.(T), nil
	})
}
