package postgres

import (
	"context"
	"database/sql"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/internal/record"
)

type outboxStore struct{ s *Store }

var _ outbox.Store = outboxStore{}

const (
	// newTurnSQL puts the row back that relays take turns at, when a restore or a
	// TRUNCATE has left it out. Of two that do it at once one waits for the other.
	newTurnSQL = "INSERT INTO outbox_turn (id) SELECT 1 WHERE NOT EXISTS (SELECT FROM outbox_turn) ON CONFLICT (id) DO NOTHING"

	// turnSQL waits for the relay that claims now. With nothing to claim it locks and
	// writes nothing.
	turnSQL = "SELECT id FROM outbox_turn WHERE EXISTS (SELECT FROM outbox WHERE parked_at IS NULL) ORDER BY id FOR UPDATE"

	// claimSQL leases rows from the head of each group on. Each group stops at its first
	// row that is leased or waits for its time: a row behind that is left, so that no row
	// overtakes an earlier one of its group. One look in an index for each row that waits:
	// a join would be planned for the few that the statistics last saw, and 120,000 held
	// groups would take minutes.
	claimSQL = `WITH free AS MATERIALIZED (
	SELECT o.seq FROM outbox o LEFT JOIN LATERAL (
		SELECT true AS stops FROM outbox h
		WHERE h.group_key = o.group_key AND h.seq <= o.seq AND h.parked_at IS NULL AND (h.leased_until IS NOT NULL OR h.next_at IS NOT NULL)
			AND (h.leased_until >= $1::bigint OR h.next_at > $1::bigint)
		ORDER BY h.seq LIMIT 1
	) held ON true
	WHERE o.parked_at IS NULL AND held.stops IS NULL
	ORDER BY o.seq LIMIT $4::bigint
), leased AS (
	UPDATE outbox o SET leased_by = $2::text, leased_until = $3::bigint, attempts = o.attempts + 1
	FROM free WHERE o.seq = free.seq AND o.parked_at IS NULL
	RETURNING o.seq, o.event_id, o.type, o.group_key, o.body, o.at, o.attempts
)
SELECT seq, event_id, type, group_key, body, at, attempts FROM leased ORDER BY seq`
)

// Claim leases rows. Relays take turns, and each reads only once it has its turn: the
// claim is READ COMMITTED at every Config.Isolation, since a snapshot from before the
// wait would show the rows as the relay before left them.
func (o outboxStore) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
	if c.Relay == "" {
		return nil, record.Invalid("the relay has no token")
	}
	if c.Limit <= 0 {
		return nil, nil
	}
	config := o.s.config
	config.Isolation = pgx.ReadCommitted
	var out []outbox.Row
	claim := statement{claimSQL, []any{record.Micros(c.Now), c.Relay, record.Micros(c.Until), int64(c.Limit)}, list(&out, func(row scanner) (outbox.Row, error) {
		var r outbox.Row
		var at sql.NullInt64
		err := row.Scan(&r.Seq, &r.ID, &r.Type, &r.Group, &r.Body, &at, &r.Attempts)
		r.At = record.Time(at)
		return r, err
	})}
	err := o.s.retried(ctx, func() error {
		return o.s.writeOnce(ctx, config.opening(), []statement{{newTurnSQL, nil, noRows}, {turnSQL, nil, noRows}, claim})
	})
	return orNothing(out, err)
}

// Delete removes sent rows, in one statement.
func (o outboxStore) Delete(ctx context.Context, relay string, eventIDs []string) ([]string, error) {
	var gone []string
	err := o.s.write(ctx, statement{"DELETE FROM outbox WHERE event_id = ANY ($1) AND leased_by = $2 AND leased_by <> '' RETURNING event_id",
		[]any{eventIDs, relay}, list(&gone, func(row scanner) (id string, err error) {
			err = row.Scan(&id)
			return id, err
		})})
	if err != nil {
		return nil, err
	}
	var deleted []string
	for _, id := range eventIDs {
		if slices.Contains(gone, id) {
			deleted = append(deleted, id)
		}
	}
	return deleted, nil
}

// Defer gives a row back.
func (o outboxStore) Defer(ctx context.Context, d outbox.Defer) (bool, error) {
	var untried int64
	if d.Untried {
		untried = 1
	}
	return o.s.changes(ctx, `UPDATE outbox SET leased_by = '', leased_until = NULL, next_at = $3::bigint, reason = $4, attempts = attempts - $5
		WHERE event_id = $1 AND leased_by = $2 AND leased_by <> ''`, d.EventID, d.Relay, record.Nullable(d.NextAt), d.Reason, untried)
}

// Park sets a row aside.
func (o outboxStore) Park(ctx context.Context, p outbox.Park) (bool, error) {
	return o.s.changes(ctx, `UPDATE outbox SET leased_by = '', leased_until = NULL, next_at = NULL, parked_at = $3, reason = $4
		WHERE event_id = $1 AND leased_by = $2 AND leased_by <> ''`, p.EventID, p.Relay, record.Micros(p.Now), p.Reason)
}

// Redrive puts a parked row back.
func (o outboxStore) Redrive(ctx context.Context, r outbox.Redrive) (bool, error) {
	return o.s.changes(ctx, `UPDATE outbox SET parked_at = NULL, reason = '', attempts = 0, body = coalesce($2::bytea, body)
		WHERE event_id = $1 AND parked_at IS NOT NULL`, r.EventID, bytesOrNull(r.Body))
}

// Stats counts rows.
func (o outboxStore) Stats(ctx context.Context) (outbox.Stats, error) {
	var st outbox.Stats
	var oldest sql.NullInt64
	err := o.s.read(ctx, statement{`SELECT count(*) FILTER (WHERE parked_at IS NULL), count(*) FILTER (WHERE parked_at IS NOT NULL),
		min(at) FILTER (WHERE parked_at IS NULL) FROM outbox`, nil,
		eachRow(func(row scanner) error { return row.Scan(&st.Waiting, &st.Parked, &oldest) })})
	st.OldestAt = record.Time(oldest)
	return orNothing(st, err)
}

// changes runs one statement and reports whether it changed a row.
func (s *Store) changes(ctx context.Context, sql string, args ...any) (bool, error) {
	n, err := s.countChanged(ctx, sql, args...)
	return n > 0 && err == nil, err
}

// countChanged runs one statement and counts the rows that it changed.
func (s *Store) countChanged(ctx context.Context, sql string, args ...any) (int64, error) {
	var n int64
	err := s.write(ctx, statement{sql, args, func(rows pgx.Rows) error {
		rows.Close()
		n = rows.CommandTag().RowsAffected()
		return rows.Err()
	}})
	return orNothing(n, err)
}
