package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
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
