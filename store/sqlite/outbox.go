package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/internal/record"
)

type outboxStore struct{ s *Store }

var _ outbox.Store = outboxStore{}

func insertEvent(ctx context.Context, q query, e retryproof.Event) error {
	body := e.Body
	if body == nil {
		body = []byte{}
	}
	_, err := q.exec(ctx, `INSERT INTO outbox (event_id, type, group_key, body, at, attempts, leased_by, reason)
		VALUES (?, ?, ?, ?, ?, 0, '', '') ON CONFLICT DO NOTHING`, e.ID, e.Type, e.Group, body, record.Micros(e.At))
	return err
}

// claimSQL leases rows from the head of each group on. held is where each group
// stops: its first row that is leased or waits for its time. A row behind that is
// left, so that no row overtakes an earlier one of its group.
const claimSQL = `
WITH held AS MATERIALIZED (
	SELECT group_key, min(seq) AS seq FROM outbox
	WHERE parked_at IS NULL AND (leased_until IS NOT NULL OR next_at IS NOT NULL)
		AND (leased_until >= ?1 OR next_at > ?1)
	GROUP BY group_key
)
UPDATE outbox SET leased_by = ?2, leased_until = ?3, attempts = attempts + 1
WHERE seq IN (
	SELECT o.seq FROM outbox o
	WHERE o.parked_at IS NULL AND NOT EXISTS (SELECT 1 FROM held WHERE held.group_key = o.group_key AND held.seq <= o.seq)
	ORDER BY o.seq LIMIT ?4)
RETURNING seq, event_id, type, group_key, body, at, attempts`

// Claim leases rows. The write lock keeps two relays apart.
func (o outboxStore) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
	if c.Relay == "" {
		return nil, record.Invalid("the relay has no token")
	}
	if idle, err := o.idle(ctx); err != nil || idle || c.Limit <= 0 {
		return nil, err
	}
	var out []outbox.Row
	err := o.s.write(ctx, func(ctx context.Context, q query) error {
		rows, err := q.rows(ctx, claimSQL, record.Micros(c.Now), c.Relay, record.Micros(c.Until), c.Limit)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		out = nil
		for rows.Next() {
			var r outbox.Row
			var at sql.NullInt64
			if err := rows.Scan(&r.Seq, &r.ID, &r.Type, &r.Group, &r.Body, &at, &r.Attempts); err != nil {
				return err
			}
			r.At = record.Time(at)
			out = append(out, r)
		}
		return rows.Err()
	})
	slices.SortFunc(out, func(a, b outbox.Row) int { return cmp.Compare(a.Seq, b.Seq) })
	return orNothing(out, err)
}

// idle reports that nothing waits, so that an idle relay commits nothing.
func (o outboxStore) idle(ctx context.Context) (bool, error) {
	var waits bool
	err := o.s.read(ctx, func(ctx context.Context, q query) error {
		return q.row(ctx, "SELECT EXISTS (SELECT 1 FROM outbox WHERE parked_at IS NULL)").Scan(&waits)
	})
	return !waits, err
}

// Delete removes sent rows, in one commit.
func (o outboxStore) Delete(ctx context.Context, relay string, eventIDs []string) ([]string, error) {
	var deleted []string
	err := o.s.write(ctx, func(ctx context.Context, q query) error {
		deleted = nil
		for _, id := range eventIDs {
			n, err := q.exec(ctx, "DELETE FROM outbox WHERE event_id = ? AND leased_by = ? AND leased_by <> ''", id, relay)
			if err != nil {
				return err
			}
			if n > 0 {
				deleted = append(deleted, id)
			}
		}
		return nil
	})
	return orNothing(deleted, err)
}

// Defer gives a row back.
func (o outboxStore) Defer(ctx context.Context, d outbox.Defer) (bool, error) {
	return o.s.change(ctx, `UPDATE outbox SET leased_by = '', leased_until = NULL, next_at = ?, reason = ?, attempts = attempts - ?
		WHERE event_id = ? AND leased_by = ? AND leased_by <> ''`,
		record.Nullable(d.NextAt), d.Reason, oneIf(d.Untried), d.EventID, d.Relay)
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Park sets a row aside.
func (o outboxStore) Park(ctx context.Context, p outbox.Park) (bool, error) {
	return o.s.change(ctx, `UPDATE outbox SET leased_by = '', leased_until = NULL, next_at = NULL, parked_at = ?, reason = ?
		WHERE event_id = ? AND leased_by = ? AND leased_by <> ''`, record.Micros(p.Now), p.Reason, p.EventID, p.Relay)
}

// Redrive puts a parked row back.
func (o outboxStore) Redrive(ctx context.Context, r outbox.Redrive) (bool, error) {
	return o.s.change(ctx, `UPDATE outbox SET parked_at = NULL, reason = '', attempts = 0, body = coalesce(?, body)
		WHERE event_id = ? AND parked_at IS NOT NULL`, r.Body, r.EventID)
}

// Stats counts rows.
func (o outboxStore) Stats(ctx context.Context) (outbox.Stats, error) {
	var st outbox.Stats
	var oldest sql.NullInt64
	err := o.s.read(ctx, func(ctx context.Context, q query) error {
		return q.row(ctx, `SELECT count(*) FILTER (WHERE parked_at IS NULL), count(*) FILTER (WHERE parked_at IS NOT NULL),
			min(at) FILTER (WHERE parked_at IS NULL) FROM outbox`).Scan(&st.Waiting, &st.Parked, &oldest)
	})
	st.OldestAt = record.Time(oldest)
	return orNothing(st, err)
}

// change runs one statement and reports whether it changed a row.
func (s *Store) change(ctx context.Context, statement string, args ...any) (bool, error) {
	var n int64
	err := s.write(ctx, func(ctx context.Context, q query) (err error) {
		n, err = q.exec(ctx, statement, args...)
		return err
	})
	return n > 0 && err == nil, err
}
