package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/internal/record"
)

type ledgerStore struct{ s *Store }

var _ payments.Ledger = ledgerStore{}

// Payment reads one payment.
func (l ledgerStore) Payment(ctx context.Context, id retryproof.ID) (payments.Payment, error) {
	g, err := effects{l.s, table(record.Payments)}.LookGuard(ctx, effect.Look{GuardID: id})
	if err != nil {
		return payments.Payment{}, err
	}
	if g == nil {
		return payments.Payment{}, retryproof.Refused(retryproof.CodeNotFound, "there is no such payment", nil)
	}
	return g.Row.(payments.Payment), nil
}

// Balance reads a merchant's kept balance, or adds up another account.
func (l ledgerStore) Balance(ctx context.Context, account, currency string) (int64, error) {
	if cannotExist(account, currency) {
		return 0, nil
	}
	sql := "SELECT coalesce(sum(amount), 0)::bigint FROM postings WHERE account = $1 AND currency = $2"
	if record.KeepsBalance(account) {
		sql = "SELECT balance FROM accounts WHERE account = $1 AND currency = $2"
	}
	var sum int64
	var found bool
	err := l.s.read(ctx, statement{sql, []any{account, currency}, firstRow(&found, &sum)})
	if err != nil || !found {
		return 0, err
	}
	return sum, nil
}

var postSQL = newEntrySQL(func(skip string) string { return "WITH " + postedSQL(2, "$1", "true", skip) + "\n" + balanceSQL })

// Post writes entries.
func (l ledgerStore) Post(ctx context.Context, postings []ledger.Posting, now time.Time) error {
	if err := ledger.Check(postings); err != nil {
		return err
	}
	args := append([]any{record.Micros(now)}, postingArrays(postings)...)
	return l.s.posting(ctx, postSQL, func(sql string) error { return l.s.write(ctx, statement{sql, args, noRows}) })
}

const auditSQL = `SELECT
	(SELECT coalesce(sum(amount), 0) FROM payments WHERE state = 'SUCCEEDED')::bigint,
	(SELECT count(*) FROM postings WHERE starts_with(account, 'merchant:') AND starts_with(ref, 'pay_') AND amount > 0),
	(SELECT coalesce(sum(amount), 0) FROM postings WHERE starts_with(account, 'merchant:') AND starts_with(ref, 'pay_') AND amount > 0)::bigint,
	(SELECT count(*) FROM postings WHERE starts_with(account, 'merchant:') AND amount < 0),
	(SELECT coalesce(-sum(amount), 0) FROM postings WHERE starts_with(account, 'merchant:') AND amount < 0)::bigint,
	(SELECT count(DISTINCT ref) FROM (SELECT ref FROM postings GROUP BY ref, currency HAVING sum(amount) <> 0) u),
	(SELECT count(*) FROM accounts a FULL JOIN
		(SELECT account, currency, sum(amount) AS balance FROM postings WHERE starts_with(account, 'merchant:') GROUP BY account, currency) p
		USING (account, currency) WHERE coalesce(a.balance, 0) <> coalesce(p.balance, 0)),
	(SELECT count(*) FROM outbox WHERE parked_at IS NULL),
	(SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL),
	(SELECT count(*) FROM inbox_parked),
	(SELECT count(*) FROM notifications WHERE state = 'PENDING'),
	(SELECT count(*) FROM notifications WHERE state = 'SENT'),
	(SELECT count(*) FROM notifications WHERE state = 'REFUSED'),
	(SELECT count(*) FROM claims WHERE state = 'IN_PROGRESS'),
	(SELECT coalesce(sum(amount), 0) FROM refunds WHERE state = 'SUCCEEDED')::bigint,
	(SELECT count(*) FROM payments p LEFT JOIN
		(SELECT payment_id, sum(amount) AS kept FROM refunds WHERE state NOT IN ('FAILED', 'VOID') GROUP BY payment_id) r USING (payment_id)
		WHERE p.refunded <> coalesce(r.kept, 0) OR p.refunded > p.amount),
	s.state, coalesce(p.n, 0), coalesce(r.n, 0)
FROM unnest(ARRAY['PENDING', 'UNKNOWN', 'SUCCEEDED', 'FAILED', 'VOID']) AS s (state)
LEFT JOIN (SELECT state, count(*) AS n FROM payments GROUP BY state) p ON p.state = s.state COLLATE "C"
LEFT JOIN (SELECT state, count(*) AS n FROM refunds GROUP BY state) r ON r.state = s.state COLLATE "C"
ORDER BY s.state`

// Audit adds everything up, in one snapshot.
func (l ledgerStore) Audit(ctx context.Context) (payments.Audit, error) {
	a := payments.Audit{ByState: map[effect.State]int64{}, RefundsByState: map[effect.State]int64{}}
	err := l.s.read(ctx, statement{auditSQL, nil, eachRow(func(row scanner) error {
		var state effect.State
		var n, refunds int64
		if err := row.Scan(&a.SucceededSum, &a.Credits, &a.CreditSum, &a.Debits, &a.DebitSum, &a.Unbalanced, &a.WrongBalance, &a.OutboxWaiting,
			&a.OutboxParked, &a.MessagesParked, &a.IntentsPending, &a.IntentsSent, &a.IntentsRefused, &a.ClaimsInProgress, &a.RefundedSum, &a.WrongRefunded,
			&state, &n, &refunds); err != nil {
			return err
		}
		setCount(a.ByState, state, n)
		setCount(a.RefundsByState, state, refunds)
		return nil
	})})
	return orNothing(a, err)
}

// setCount leaves states out that nothing is in.
func setCount(counts map[effect.State]int64, state effect.State, n int64) {
	delete(counts, state)
	if n > 0 {
		counts[state] = n
	}
}

type hopStore struct{ s *Store }

var _ payments.Hops = hopStore{}

// AddSightings adds to the counts.
func (h hopStore) AddSightings(ctx context.Context, seen []payments.Sighting) error {
	merged := record.MergeSightings(seen)
	n := len(merged)
	if n == 0 {
		return nil
	}
	ids, hops, whats, counts, times := make([]string, n), make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)
	for i, s := range merged {
		ids[i], hops[i], whats[i], counts[i], times[i] = string(s.PaymentID), s.Hop, s.What, s.N, record.Micros(s.At)
	}
	return h.s.write(ctx, statement{`INSERT INTO sightings AS s (payment_id, hop, what, n, last_at)
		SELECT id, hop, what, n, at FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS v (id, hop, what, n, at, i)
		ORDER BY i
		ON CONFLICT (payment_id, hop, what) DO UPDATE SET n = s.n + excluded.n, last_at = greatest(s.last_at, excluded.last_at)`,
		[]any{ids, hops, whats, counts, times}, noRows})
}

// Sightings lists a payment's counts.
func (h hopStore) Sightings(ctx context.Context, id retryproof.ID) ([]payments.Sighting, error) {
	if cannotExist(string(id)) {
		return nil, nil
	}
	var out []payments.Sighting
	err := h.s.read(ctx, statement{"SELECT hop, what, n, last_at FROM sightings WHERE payment_id = $1 ORDER BY hop, what", []any{string(id)},
		list(&out, func(row scanner) (payments.Sighting, error) {
			s := payments.Sighting{PaymentID: id}
			var at sql.NullInt64
			err := row.Scan(&s.Hop, &s.What, &s.N, &at)
			s.At = record.Time(at)
			return s, err
		})})
	return orNothing(out, err)
}

type janitor struct{ s *Store }

var _ payments.Janitor = janitor{}

// ForgetClaims deletes expired claims, then abandoned ones, and leaves those that
// somebody has locked for later. What to delete is chosen once, in a query of its own:
// PostgreSQL may run a subquery of IN again for each row, and its limit with it.
func (j janitor) ForgetClaims(ctx context.Context, now, abandoned time.Time, limit int) (int, error) {
	n, err := j.s.countChanged(ctx, `WITH old AS MATERIALIZED (
		SELECT scope_id FROM claims WHERE expires_at < $1
		ORDER BY expires_at, scope_id LIMIT $2 FOR UPDATE SKIP LOCKED
	) DELETE FROM claims USING old WHERE claims.scope_id = old.scope_id`, record.Micros(now), max(limit, 0))
	if err != nil || int(n) >= limit {
		return int(n), err
	}
	m, err := j.s.countChanged(ctx, `WITH old AS MATERIALIZED (
		SELECT scope_id FROM claims WHERE state = 'IN_PROGRESS' AND lease_until < $1
		ORDER BY lease_until, scope_id LIMIT $2 FOR UPDATE SKIP LOCKED
	) DELETE FROM claims USING old WHERE claims.scope_id = old.scope_id`, record.Micros(abandoned), limit-int(n))
	return int(n + m), err
}
