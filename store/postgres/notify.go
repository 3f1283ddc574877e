package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/store/internal/record"
)

type notifyStore struct{ s *Store }

var _ notify.Store = notifyStore{}

func insertIntent(ctx context.Context, q query, i notify.Intent) error {
	_, err := q.exec(ctx, `INSERT INTO notifications (event_id, channel, replace_id, recipient, title, body, state, sends, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, 'PENDING', 0, $7) ON CONFLICT (event_id, channel) DO NOTHING`,
		i.EventID, i.Channel, i.ReplaceID, i.To, i.Title, i.Body, record.Micros(i.CreatedAt))
	return err
}

const intentColumns = "event_id, channel, replace_id, recipient, title, body, state, sends, created_at, sent_at, next_at, reason"

func scanIntent(row scanner) (i notify.Intent, err error) {
	var created, sent, next sql.NullInt64
	err = row.Scan(&i.EventID, &i.Channel, &i.ReplaceID, &i.To, &i.Title, &i.Body, &i.State, &i.Sends, &created, &sent, &next, &i.Reason)
	i.CreatedAt, i.SentAt, i.NextAt = record.Time(created), record.Time(sent), record.Time(next)
	return i, err
}

// Intent reads one intent.
func (n notifyStore) Intent(ctx context.Context, k notify.Key) (*notify.Intent, error) {
	if cannotExist(k.EventID, k.Channel) {
		return nil, nil
	}
	var found []notify.Intent
	err := n.s.read(ctx, statement{"SELECT " + intentColumns + " FROM notifications WHERE event_id = $1 AND channel = $2",
		[]any{k.EventID, k.Channel}, list(&found, scanIntent)})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// MarkSent moves an intent to SENT.
func (n notifyStore) MarkSent(ctx context.Context, k notify.Key, now time.Time) (bool, error) {
	return n.s.changes(ctx, `UPDATE notifications SET state = 'SENT', sent_at = $3, sends = sends + 1, next_at = NULL
		WHERE event_id = $1 AND channel = $2 AND state = 'PENDING'`, k.EventID, k.Channel, record.Micros(now))
}

// claimIntentsSQL leases what is due of two kinds, each one range of the index: what
// somebody has tried or claimed, and what nobody has. Rows that another claim holds are
// left, so that it waits for nobody.
const claimIntentsSQL = `WITH tried AS MATERIALIZED (
	SELECT event_id, channel, next_at AS due FROM notifications WHERE state = 'PENDING' AND channel = $1::text AND next_at <= $2::bigint
	ORDER BY next_at, created_at, event_id LIMIT $5::bigint FOR NO KEY UPDATE SKIP LOCKED
), untried AS MATERIALIZED (
	SELECT event_id, channel, created_at AS due FROM notifications WHERE state = 'PENDING' AND channel = $1::text AND next_at IS NULL AND created_at <= $3::bigint
	ORDER BY created_at, event_id LIMIT $5::bigint FOR NO KEY UPDATE SKIP LOCKED
), free AS MATERIALIZED (
	SELECT event_id, channel, due FROM (SELECT * FROM tried UNION ALL SELECT * FROM untried) both_kinds ORDER BY due, event_id LIMIT $5::bigint
), before AS MATERIALIZED (
	SELECT n.event_id, n.channel, n.replace_id, n.recipient, n.title, n.body, n.state, n.sends, n.created_at, n.sent_at, n.next_at, n.reason, f.due
	FROM free f JOIN notifications n ON n.event_id = f.event_id AND n.channel = f.channel
), claimed AS (
	UPDATE notifications n SET next_at = $4::bigint FROM free f WHERE n.event_id = f.event_id AND n.channel = f.channel
	RETURNING n.event_id
)
SELECT ` + intentColumns + ` FROM before WHERE event_id IN (SELECT event_id FROM claimed) ORDER BY due, event_id`

// Claim leases what is due.
func (n notifyStore) Claim(ctx context.Context, c notify.Claim) ([]notify.Intent, error) {
	if c.Limit <= 0 || cannotExist(c.Channel) {
		return nil, nil
	}
	var out []notify.Intent
	err := n.s.write(ctx, statement{claimIntentsSQL, []any{c.Channel, record.Micros(c.Now), record.Micros(c.Untried), record.Micros(c.Until), int64(c.Limit)},
		list(&out, scanIntent)})
	return orNothing(out, err)
}

// Fail notes a try that failed.
func (n notifyStore) Fail(ctx context.Context, f notify.Failure) (bool, error) {
	if cannotExist(f.EventID, f.Channel) {
		return false, nil
	}
	const where = " WHERE event_id = $1 AND channel = $2 AND state = 'PENDING' AND sends = $3"
	if f.Refused {
		return n.s.changes(ctx, "UPDATE notifications SET state = 'REFUSED', sends = sends + 1, next_at = NULL, reason = $4"+where,
			f.EventID, f.Channel, f.Tried, f.Reason)
	}
	return n.s.changes(ctx, "UPDATE notifications SET sends = sends + 1, next_at = $5, reason = $4"+where,
		f.EventID, f.Channel, f.Tried, f.Reason, record.Micros(f.NextAt))
}
