package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
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

// near is how many of the oldest rows a claim looks at one by one. When they do not
// give it enough it goes from group to group instead: a merchant whose head cannot be
// sent may have any number of rows behind it.
const near = 1024

// heldSQL finds what a row waits behind: an earlier row of its group, or the row itself,
// that is leased or waits for its time. No row overtakes an earlier one of its group.
const heldSQL = `SELECT 1 FROM outbox h
	WHERE h.group_key = o.group_key AND h.seq <= o.seq AND h.parked_at IS NULL AND (h.leased_until IS NOT NULL OR h.next_at IS NOT NULL)
		AND (h.leased_until >= ?1 OR h.next_at > ?1)`

// nearSQL finds free rows among the oldest.
const nearSQL = `SELECT o.seq FROM (SELECT seq, group_key FROM outbox WHERE parked_at IS NULL ORDER BY seq LIMIT ?3) o
	WHERE NOT EXISTS (` + heldSQL + `) ORDER BY o.seq LIMIT ?2`

// moreSQL says whether there are more than the oldest.
const moreSQL = "SELECT EXISTS (SELECT 1 FROM outbox WHERE parked_at IS NULL ORDER BY seq LIMIT 1 OFFSET ?1)"

// farSQL finds free rows anywhere. It steps from group to group in the index, takes the
// groups with the oldest free heads, as many as rows may be claimed, and of each as many
// rows: the oldest free rows are among those.
const farSQL = `
WITH RECURSIVE names(name) AS (
	SELECT min(group_key) FROM outbox WHERE parked_at IS NULL
	UNION ALL
	SELECT (SELECT min(group_key) FROM outbox WHERE parked_at IS NULL AND group_key > name) FROM names WHERE name IS NOT NULL
), heads AS MATERIALIZED (
	SELECT h.group_key FROM names CROSS JOIN outbox h ON h.seq = (SELECT min(seq) FROM outbox WHERE parked_at IS NULL AND group_key = name)
	WHERE (h.leased_until IS NULL OR h.leased_until < ?1) AND (h.next_at IS NULL OR h.next_at <= ?1)
	ORDER BY h.seq LIMIT ?2
)
SELECT o.seq FROM heads CROSS JOIN outbox o
	ON o.seq IN (SELECT seq FROM outbox WHERE parked_at IS NULL AND group_key = heads.group_key ORDER BY seq LIMIT ?2)
WHERE NOT EXISTS (` + heldSQL + `) ORDER BY o.seq LIMIT ?2`

// free finds the oldest rows that can be leased.
func free(ctx context.Context, q query, now int64, limit int) ([]int64, error) {
	found, err := numbers(ctx, q, nearSQL, now, limit, near)
	if err != nil || len(found) == limit {
		return found, err
	}
	var more bool
	if err := q.row(ctx, moreSQL, near).Scan(&more); err != nil || !more {
		return found, err
	}
	return numbers(ctx, q, farSQL, now, limit)
}

func numbers(ctx context.Context, q query, statement string, args ...any) ([]int64, error) {
	rows, err := q.rows(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []int64
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, rows.Err()
}

const leaseSQL = `UPDATE outbox SET leased_by = ?1, leased_until = ?2, attempts = attempts + 1
WHERE seq IN (SELECT value FROM json_each(?3))
RETURNING seq, event_id, type, group_key, body, at, attempts`

// Claim leases rows. It looks for some on a connection that reads, so that relays that
// find none, and may look often and for long, hold up nobody's commit. The write lock
// keeps two relays apart: what it leases is looked up under it.
func (o outboxStore) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
	if c.Relay == "" {
		return nil, record.Invalid("the relay has no token")
	}
	if c.Limit <= 0 {
		return nil, nil
	}
	now := record.Micros(c.Now)
	var found []int64
	err := o.s.read(ctx, func(ctx context.Context, q query) (err error) {
		found, err = free(ctx, q, now, c.Limit)
		return err
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var out []outbox.Row
	err = o.s.write(ctx, func(ctx context.Context, q query) error {
		out = nil
		found, err := free(ctx, q, now, c.Limit)
		if err != nil {
			return err
		}
		list, err := json.Marshal(found)
		if err != nil {
			return err
		}
		rows, err := q.rows(ctx, leaseSQL, c.Relay, record.Micros(c.Until), string(list))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
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
