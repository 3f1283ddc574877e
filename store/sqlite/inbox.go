package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/store/internal/record"
)

type inboxStore struct{ s *Store }

var _ inbox.Store = inboxStore{}

// noteInbox records the message; it reports false when it was there.
func noteInbox(ctx context.Context, q query, k retryproof.InboxKey, now time.Time) (bool, error) {
	n, err := q.exec(ctx, "INSERT INTO inbox (event_id, source, consumer, noted_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
		k.EventID, k.Source, k.Consumer, record.Micros(now))
	return n > 0, err
}

// meetInbox is noteInbox that keeps a message which still comes from being forgotten.
func meetInbox(ctx context.Context, q query, k retryproof.InboxKey, now time.Time) (bool, error) {
	first, err := noteInbox(ctx, q, k, now)
	if first || err != nil {
		return first, err
	}
	_, err = q.exec(ctx, "UPDATE inbox SET noted_at = ? WHERE event_id = ? AND source = ? AND consumer = ? AND noted_at < ?",
		record.Micros(now), k.EventID, k.Source, k.Consumer, record.Micros(now))
	return false, err
}

// Apply records the message and, the first time, its effect.
func (i inboxStore) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	err := errors.Join(record.CheckInbox(a.Key, a.Now), ledger.Check(a.Postings), record.CheckIntents(a.Intents), record.CheckEvents(a.Events))
	if err != nil {
		return false, err
	}
	var first bool
	err = i.s.write(ctx, func(ctx context.Context, q query) (err error) {
		if first, err = meetInbox(ctx, q, a.Key, a.Now); err != nil || !first {
			return err
		}
		return writeEffects(ctx, q, a.Postings, record.NewIntents(a.Intents, a.Now), a.Events, a.Now)
	})
	return first && err == nil, err
}

// Forget deletes old records.
func (i inboxStore) Forget(ctx context.Context, before time.Time, limit int) (int, error) {
	return i.s.forget(ctx, `DELETE FROM inbox WHERE (event_id, source, consumer) IN (
		SELECT event_id, source, consumer FROM inbox WHERE noted_at < ?
		ORDER BY noted_at, event_id, source, consumer LIMIT ?)`, record.Micros(before), max(limit, 0))
}

func (s *Store) forget(ctx context.Context, statement string, args ...any) (int, error) {
	var n int64
	err := s.write(ctx, func(ctx context.Context, q query) (err error) {
		n, err = q.exec(ctx, statement, args...)
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(n), nil
}

type notifyStore struct{ s *Store }

var _ notify.Store = notifyStore{}

func insertIntent(ctx context.Context, q query, i notify.Intent) error {
	_, err := q.exec(ctx, `INSERT INTO notifications (event_id, channel, replace_id, recipient, title, body, state, sends, created_at)
		VALUES (?, ?, ?, ?, ?, ?, 'PENDING', 0, ?) ON CONFLICT DO NOTHING`,
		i.EventID, i.Channel, i.ReplaceID, i.To, i.Title, i.Body, record.Micros(i.CreatedAt))
	return err
}

const intentColumns = "event_id, channel, replace_id, recipient, title, body, state, sends, created_at, sent_at"

func scanIntent(row scanner) (*notify.Intent, error) {
	var i notify.Intent
	var created, sent sql.NullInt64
	err := row.Scan(&i.EventID, &i.Channel, &i.ReplaceID, &i.To, &i.Title, &i.Body, &i.State, &i.Sends, &created, &sent)
	i.CreatedAt, i.SentAt = record.Time(created), record.Time(sent)
	return &i, err
}

// Intent reads one intent.
func (n notifyStore) Intent(ctx context.Context, k notify.Key) (*notify.Intent, error) {
	var out *notify.Intent
	err := n.s.read(ctx, func(ctx context.Context, q query) error {
		i, err := scanIntent(q.row(ctx, "SELECT "+intentColumns+" FROM notifications WHERE event_id = ? AND channel = ?", k.EventID, k.Channel))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		out = i
		return err
	})
	return orNothing(out, err)
}

// MarkSent moves an intent to SENT.
func (n notifyStore) MarkSent(ctx context.Context, k notify.Key, now time.Time) (bool, error) {
	return n.s.change(ctx, `UPDATE notifications SET state = 'SENT', sent_at = ?, sends = sends + 1
		WHERE event_id = ? AND channel = ? AND state = 'PENDING'`, record.Micros(now), k.EventID, k.Channel)
}

// Unsent lists PENDING intents.
func (n notifyStore) Unsent(ctx context.Context, before time.Time, limit int) ([]notify.Intent, error) {
	return readList(ctx, n.s, func(row scanner) (notify.Intent, error) {
		i, err := scanIntent(row)
		return *i, err
	}, "SELECT "+intentColumns+` FROM notifications WHERE state = 'PENDING' AND created_at < ?
		ORDER BY created_at, event_id, channel LIMIT ?`, record.Micros(before), max(limit, 0))
}
