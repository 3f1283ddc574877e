package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
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

// Balance reads a merchant's kept balance, or adds up another account. SQLite fails at the
// first sum that overflows on the way, so that the halves of the amounts are added apart.
func (l ledgerStore) Balance(ctx context.Context, account, currency string) (int64, error) {
	statement := "SELECT coalesce(sum(amount >> 32), 0), coalesce(sum(amount & 0xffffffff), 0) FROM postings WHERE account = ? AND currency = ?"
	if record.KeepsBalance(account) {
		statement = "SELECT 0, balance FROM accounts WHERE account = ? AND currency = ?"
	}
	var high, low int64
	err := l.s.read(ctx, func(ctx context.Context, q query) error {
		err := q.row(ctx, statement, account, currency).Scan(&high, &low)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil || high == 0 {
		return orNothing(low, err)
	}
	high += low >> 32
	if high != int64(int32(high)) {
		return 0, record.Invalid("the sum of the account's postings does not fit into 64 bits")
	}
	return high<<32 + low&0xffffffff, nil
}

// Post writes one entry.
func (l ledgerStore) Post(ctx context.Context, postings []ledger.Posting, now time.Time) error {
	if err := ledger.Check(postings); err != nil {
		return err
	}
	return l.s.write(ctx, func(ctx context.Context, q query) error {
		return writeEffects(ctx, q, postings, nil, nil, now)
	})
}

const auditSQL = `SELECT
	(SELECT coalesce(sum(amount), 0) FROM payments WHERE state = 'SUCCEEDED'),
	(SELECT count(*) FROM postings WHERE substr(account, 1, 9) = 'merchant:' AND substr(ref, 1, 4) = 'pay_' AND amount > 0),
	(SELECT coalesce(sum(amount), 0) FROM postings WHERE substr(account, 1, 9) = 'merchant:' AND substr(ref, 1, 4) = 'pay_' AND amount > 0),
	(SELECT count(*) FROM postings WHERE substr(account, 1, 9) = 'merchant:' AND amount < 0),
	(SELECT coalesce(-sum(amount), 0) FROM postings WHERE substr(account, 1, 9) = 'merchant:' AND amount < 0),
	(SELECT count(DISTINCT ref) FROM (SELECT ref FROM postings GROUP BY ref, currency HAVING sum(amount) <> 0)),
	(SELECT count(*) FROM accounts a FULL JOIN
		(SELECT account, currency, sum(amount) AS balance FROM postings WHERE substr(account, 1, 9) = 'merchant:' GROUP BY account, currency) p
		ON a.account = p.account AND a.currency = p.currency
		WHERE coalesce(a.balance, 0) <> coalesce(p.balance, 0)),
	(SELECT count(*) FROM outbox WHERE parked_at IS NULL),
	(SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL),
	(SELECT count(*) FROM inbox_parked),
	(SELECT count(*) FROM notifications WHERE state = 'PENDING'),
	(SELECT count(*) FROM notifications WHERE state = 'SENT'),
	(SELECT count(*) FROM notifications WHERE state = 'REFUSED'),
	(SELECT count(*) FROM claims WHERE state = 'IN_PROGRESS'),
	(SELECT coalesce(sum(amount), 0) FROM refunds WHERE state = 'SUCCEEDED'),
	(SELECT count(*) FROM payments p LEFT JOIN
		(SELECT payment_id, sum(amount) AS kept FROM refunds WHERE state NOT IN ('FAILED', 'VOID') GROUP BY payment_id) r
		ON r.payment_id = p.payment_id
		WHERE p.refunded <> coalesce(r.kept, 0) OR p.refunded > p.amount),
	(SELECT json_group_object(state, n) FROM (SELECT state, count(*) AS n FROM payments GROUP BY state ORDER BY state)),
	(SELECT json_group_object(state, n) FROM (SELECT state, count(*) AS n FROM refunds GROUP BY state ORDER BY state))`

// Audit adds everything up, in one snapshot.
func (l ledgerStore) Audit(ctx context.Context) (payments.Audit, error) {
	a := payments.Audit{ByState: map[effect.State]int64{}, RefundsByState: map[effect.State]int64{}}
	var byState, refundsByState []byte
	err := l.s.read(ctx, func(ctx context.Context, q query) error {
		return q.row(ctx, auditSQL).Scan(&a.SucceededSum, &a.Credits, &a.CreditSum, &a.Debits, &a.DebitSum, &a.Unbalanced, &a.WrongBalance,
			&a.OutboxWaiting, &a.OutboxParked, &a.MessagesParked, &a.IntentsPending, &a.IntentsSent, &a.IntentsRefused, &a.ClaimsInProgress, &a.RefundedSum, &a.WrongRefunded,
			&byState, &refundsByState)
	})
	if err == nil {
		err = errors.Join(json.Unmarshal(byState, &a.ByState), json.Unmarshal(refundsByState, &a.RefundsByState))
	}
	return orNothing(a, err)
}

type hopStore struct{ s *Store }

var _ payments.Hops = hopStore{}

// AddSightings adds to the counts.
func (h hopStore) AddSightings(ctx context.Context, seen []payments.Sighting) error {
	if len(seen) == 0 {
		return nil
	}
	return h.s.write(ctx, func(ctx context.Context, q query) error {
		for _, s := range record.MergeSightings(seen) {
			_, err := q.exec(ctx, `INSERT INTO sightings (payment_id, hop, what, n, last_at) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (payment_id, hop, what) DO UPDATE SET n = n + excluded.n, last_at = max(last_at, excluded.last_at)`,
				string(s.PaymentID), s.Hop, s.What, s.N, record.Micros(s.At))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Sightings lists a payment's counts.
func (h hopStore) Sightings(ctx context.Context, id retryproof.ID) ([]payments.Sighting, error) {
	var out []payments.Sighting
	err := h.s.read(ctx, func(ctx context.Context, q query) error {
		rows, err := q.rows(ctx, "SELECT hop, what, n, last_at FROM sightings WHERE payment_id = ? ORDER BY hop, what", string(id))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			s := payments.Sighting{PaymentID: id}
			var at sql.NullInt64
			if err := rows.Scan(&s.Hop, &s.What, &s.N, &at); err != nil {
				return err
			}
			s.At = record.Time(at)
			out = append(out, s)
		}
		return rows.Err()
	})
	return orNothing(out, err)
}

type janitor struct{ s *Store }

var _ payments.Janitor = janitor{}

// ForgetClaims deletes expired claims, then abandoned ones.
func (j janitor) ForgetClaims(ctx context.Context, now, abandoned time.Time, limit int) (int, error) {
	return j.s.forget(ctx, `DELETE FROM claims WHERE scope_id IN (
		SELECT scope_id FROM (
			SELECT scope_id, 0 AS kind, expires_at AS at FROM claims WHERE expires_at < ?1
			UNION ALL
			SELECT scope_id, 1, lease_until FROM claims WHERE state = 'IN_PROGRESS' AND lease_until < ?2)
		ORDER BY kind, at, scope_id LIMIT ?3)`, record.Micros(now), record.Micros(abandoned), max(limit, 0))
}
