package postgres

import (
	"context"
	"database/sql"
	"slices"
	"time"

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

	// near is how many of the oldest rows a claim looks at one by one. When they do not
	// give it enough it goes from group to group instead: a merchant whose head cannot
	// be sent may have any number of rows behind it.
	near = "greatest(1024, 4 * $4::bigint)"

	// heldSQL finds what a row o waits behind: an earlier row of its group, or the row
	// itself, that is leased or waits for its time. No row overtakes an earlier one of
	// its group. It is one look in an index for each row: a join would be planned for
	// the few that the statistics last saw, and 120,000 held groups would take minutes.
	heldSQL = `LEFT JOIN LATERAL (
		SELECT true AS stops FROM outbox h
		WHERE h.group_key = o.group_key AND h.seq <= o.seq AND h.parked_at IS NULL AND (h.leased_until IS NOT NULL OR h.next_at IS NOT NULL)
			AND (h.leased_until >= $1::bigint OR h.next_at > $1::bigint)
		ORDER BY h.seq LIMIT 1
	) held ON true WHERE held.stops IS NULL ORDER BY o.seq LIMIT $4::bigint`

	// claimSQL leases the oldest free rows and returns their numbers. If they are not
	// among the oldest rows of all, it steps from group to group in the index, takes the
	// groups with the oldest free heads, as many as rows may be claimed, and of each as
	// many rows: the oldest free rows are among those.
	claimSQL = `WITH RECURSIVE oldest AS MATERIALIZED (
	SELECT seq, group_key FROM outbox WHERE parked_at IS NULL ORDER BY seq LIMIT ` + near + `
), close_by AS MATERIALIZED (
	SELECT o.seq FROM oldest o ` + heldSQL + `
), enough AS MATERIALIZED (
	SELECT (SELECT count(*) FROM close_by) >= $4::bigint OR (SELECT count(*) FROM oldest) < ` + near + ` AS yes
), names AS (
	(SELECT group_key AS name FROM outbox WHERE parked_at IS NULL AND NOT (SELECT yes FROM enough) ORDER BY group_key LIMIT 1)
	UNION ALL
	SELECT n.group_key FROM names CROSS JOIN LATERAL (
		SELECT group_key FROM outbox WHERE parked_at IS NULL AND group_key > names.name ORDER BY group_key LIMIT 1) n
), heads AS MATERIALIZED (
	SELECT h.group_key FROM names CROSS JOIN LATERAL (
		SELECT seq, group_key, leased_until, next_at FROM outbox WHERE parked_at IS NULL AND group_key = names.name
		ORDER BY group_key, seq LIMIT 1) h
	WHERE (h.leased_until IS NULL OR h.leased_until < $1::bigint) AND (h.next_at IS NULL OR h.next_at <= $1::bigint)
	ORDER BY h.seq LIMIT $4::bigint
), theirs AS MATERIALIZED (
	SELECT r.seq, r.group_key FROM heads CROSS JOIN LATERAL (
		SELECT seq, group_key FROM outbox WHERE parked_at IS NULL AND group_key = heads.group_key
		ORDER BY group_key, seq LIMIT $4::bigint) r
), free AS MATERIALIZED (
	SELECT seq FROM close_by WHERE (SELECT yes FROM enough)
	UNION ALL
	(SELECT o.seq FROM theirs o ` + heldSQL + `)
)
UPDATE outbox o SET leased_by = $2::text, leased_until = $3::bigint, attempts = o.attempts + 1
FROM free WHERE o.seq = free.seq AND o.parked_at IS NULL
RETURNING o.seq`

	// inOrderSQL makes claimSQL walk along the indexes. The statistics may be from when
	// the outbox was all but empty, and by them it would sort a whole backlog.
	inOrderSQL = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"

	// leasedSQL reads what a claim has leased.
	leasedSQL = `SELECT seq, event_id, type, group_key, body, at, attempts FROM outbox
	WHERE seq = ANY ($1) AND leased_by = $2 AND leased_until = $3 ORDER BY seq`

	// turnTimeout bounds the wait for the turn, for callers without a deadline of their
	// own. Who has the turn does nothing but claim.
	turnTimeout = 10 * time.Second
)

// Claim leases rows. Relays take turns, and each reads only once it has its turn: the
// claim is READ COMMITTED at every Config.Isolation, since a snapshot from before the
// wait would show the rows as the relay before left them.
//
// The rows are read after the commit. While it has the turn the server must never have
// to wait for a relay: one that is stopped, with more rows on their way to it than the
// network holds, would stop all of them.
func (o outboxStore) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
	if c.Relay == "" {
		return nil, record.Invalid("the relay has no token")
	}
	if c.Limit <= 0 {
		return nil, nil
	}
	config := o.s.config
	config.Isolation = pgx.ReadCommitted
	if config.LockTimeout == 0 || config.LockTimeout > turnTimeout {
		config.LockTimeout = turnTimeout
	}
	var leased []int64
	until := record.Micros(c.Until)
	claim := statement{claimSQL, []any{record.Micros(c.Now), c.Relay, until, int64(c.Limit)}, list(&leased, func(row scanner) (seq int64, err error) {
		err = row.Scan(&seq)
		return seq, err
	})}
	err := o.s.retried(ctx, func() error {
		return o.s.writeOnce(ctx, config.opening(), []statement{{newTurnSQL, nil, noRows}, {turnSQL, nil, noRows}, {inOrderSQL, nil, noRows}, claim})
	})
	if err != nil || len(leased) == 0 {
		return nil, err
	}
	return o.leased(ctx, leased, c.Relay, until)
}

// leased reads rows that were just leased. If one of them is another relay's already,
// the lease is over for all of them.
func (o outboxStore) leased(ctx context.Context, seqs []int64, relay string, until int64) ([]outbox.Row, error) {
	var out []outbox.Row
	err := o.s.read(ctx, statement{leasedSQL, []any{seqs, relay, until}, list(&out, func(row scanner) (outbox.Row, error) {
		var r outbox.Row
		var at sql.NullInt64
		err := row.Scan(&r.Seq, &r.ID, &r.Type, &r.Group, &r.Body, &at, &r.Attempts)
		r.At = record.Time(at)
		return r, err
	})})
	if err != nil || len(out) < len(seqs) {
		return nil, err
	}
	return out, nil
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
