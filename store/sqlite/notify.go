package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/store/internal/record"
)

type notifyStore struct{ s *Store }

var _ notify.Store = notifyStore{}

func insertIntent(ctx context.Context, q query, i notify.Intent) error {
	_, err := q.exec(ctx, `INSERT INTO notifications (event_id, channel, replace_id, recipient, title, body, state, sends, created_at)
		VALUES (?, ?, ?, ?, ?, ?, 'PENDING', 0, ?) ON CONFLICT DO NOTHING`,
		i.EventID, i.Channel, i.ReplaceID, i.To, i.Title, i.Body, record.Micros(i.CreatedAt))
	return err
}

const intentColumns = "event_id, channel, replace_id, recipient, title, body, state, sends, created_at, sent_at, next_at, reason"

func scanIntent(row scanner) (notify.Intent, error) {
	var i notify.Intent
	var created, sent, next sql.NullInt64
	err := row.Scan(&i.EventID, &i.Channel, &i.ReplaceID, &i.To, &i.Title, &i.Body, &i.State, &i.Sends, &created, &sent, &next, &i.Reason)
	i.CreatedAt, i.SentAt, i.NextAt = record.Time(created), record.Time(sent), record.Time(next)
	return i, err
}

// Intent reads one intent.
func (n notifyStore) Intent(ctx context.Context, k notify.Key) (*notify.Intent, error) {
	var out *notify.Intent
	err := n.s.read(ctx, func(ctx context.Context, q query) error {
		i, err := scanIntent(q.row(ctx, "SELECT "+intentColumns+" FROM notifications WHERE event_id = ? AND channel = ?", k.EventID, k.Channel))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		out = &i
		return err
	})
	return orNothing(out, err)
}

// MarkSent moves an intent to SENT.
func (n notifyStore) MarkSent(ctx context.Context, k notify.Key, now time.Time) (bool, error) {
	return n.s.change(ctx, `UPDATE notifications SET state = 'SENT', sent_at = ?, sends = sends + 1, next_at = NULL
		WHERE event_id = ? AND channel = ? AND state = 'PENDING'`, record.Micros(now), k.EventID, k.Channel)
}

// The two kinds of intents that can be due, each by one range of the index: those that
// somebody has tried or claimed, and those that nobody has.
const (
	triedSQL = "SELECT " + intentColumns + ` FROM notifications WHERE state = 'PENDING' AND channel = ?1 AND next_at <= ?2
	ORDER BY next_at, created_at, event_id LIMIT ?3`
	untriedSQL = "SELECT " + intentColumns + ` FROM notifications WHERE state = 'PENDING' AND channel = ?1 AND next_at IS NULL AND created_at <= ?2
	ORDER BY created_at, event_id LIMIT ?3`
)

// due lists what can be claimed, in order.
func due(ctx context.Context, q query, c notify.Claim) ([]notify.Intent, error) {
	var out []notify.Intent
	for _, kind := range []struct {
		sql string
		at  time.Time
	}{{triedSQL, c.Now}, {untriedSQL, c.Untried}} {
		rows, err := q.rows(ctx, kind.sql, c.Channel, record.Micros(kind.at), c.Limit)
		if err != nil {
			return nil, err
		}
		out, err = appendIntents(out, rows)
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b notify.Intent) int {
		return cmp.Or(dueAt(a).Compare(dueAt(b)), cmp.Compare(a.EventID, b.EventID))
	})
	return out[:min(c.Limit, len(out))], nil
}

func dueAt(i notify.Intent) time.Time {
	if i.NextAt.IsZero() {
		return i.CreatedAt
	}
	return i.NextAt
}

func appendIntents(out []notify.Intent, rows *sql.Rows) ([]notify.Intent, error) {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		i, err := scanIntent(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, rows.Err()
}

// Claim leases what is due. It reads first: with nothing due it takes no lock that a
// payment could wait for.
func (n notifyStore) Claim(ctx context.Context, c notify.Claim) ([]notify.Intent, error) {
	if c.Limit <= 0 {
		return nil, nil
	}
	var out []notify.Intent
	find := func(ctx context.Context, q query) (err error) {
		out, err = due(ctx, q, c)
		return err
	}
	if err := n.s.read(ctx, find); err != nil || len(out) == 0 {
		return nil, err
	}
	err := n.s.write(ctx, func(ctx context.Context, q query) error {
		if err := find(ctx, q); err != nil { // what another has claimed meanwhile is not there
			return err
		}
		for _, i := range out {
			_, err := q.exec(ctx, "UPDATE notifications SET next_at = ? WHERE event_id = ? AND channel = ?", record.Micros(c.Until), i.EventID, i.Channel)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return orNothing(out, err)
}

// Fail notes a try that failed.
func (n notifyStore) Fail(ctx context.Context, f notify.Failure) (bool, error) {
	const where = " WHERE event_id = ? AND channel = ? AND state = 'PENDING' AND sends = ?"
	if f.Refused {
		return n.s.change(ctx, "UPDATE notifications SET state = 'REFUSED', sends = sends + 1, next_at = NULL, reason = ?"+where,
			f.Reason, f.EventID, f.Channel, f.Tried)
	}
	return n.s.change(ctx, "UPDATE notifications SET sends = sends + 1, next_at = ?, reason = ?"+where,
		record.Micros(f.NextAt), f.Reason, f.EventID, f.Channel, f.Tried)
}
