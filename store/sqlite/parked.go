package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/internal/record"
)

// ParkedEvents lists the events that a relay has set aside.
func (s *Store) ParkedEvents() outbox.ParkedStore { return outboxStore{s} }

// ParkedMessages is the store of messages that consumers have set aside.
func (s *Store) ParkedMessages() inbox.ParkedStore { return parkedStore{s} }

// ListParked lists events that were set aside.
func (o outboxStore) ListParked(ctx context.Context, l outbox.ListParked) ([]outbox.Parked, error) {
	return readList(ctx, o.s, func(row scanner) (outbox.Parked, error) {
		var p outbox.Parked
		var at, parked sql.NullInt64
		err := row.Scan(&p.ID, &p.Type, &p.Group, &p.Body, &at, &p.Attempts, &p.Reason, &parked)
		p.At, p.ParkedAt = record.Time(at), record.Time(parked)
		return p, err
	}, `SELECT event_id, type, group_key, body, at, attempts, reason, parked_at FROM outbox
		WHERE parked_at IS NOT NULL AND (parked_at, event_id) > (?, ?) ORDER BY parked_at, event_id LIMIT ?`,
		record.Micros(l.After.ParkedAt), l.After.ID, max(l.Limit, 0))
}

type parkedStore struct{ s *Store }

var _ inbox.ParkedStore = parkedStore{}

// Park keeps a message.
func (p parkedStore) Park(ctx context.Context, m inbox.Parked) (bool, error) {
	if err := m.Check(); err != nil {
		return false, err
	}
	return p.s.change(ctx, "INSERT INTO inbox_parked ("+record.ParkedColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		record.ParkedArgs(m)...)
}

// Parked reads one.
func (p parkedStore) Parked(ctx context.Context, k inbox.ParkedKey) (*inbox.Parked, error) {
	var scan record.ParkedScan
	err := p.s.read(ctx, func(ctx context.Context, q query) error {
		return q.row(ctx, "SELECT "+record.ParkedColumns+" FROM inbox_parked WHERE digest = ?", record.ParkedDigest(k)).Scan(scan.Dest()...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	m := scan.Parked()
	return orNothing(&m, err)
}

// ListParked lists messages that were set aside.
func (p parkedStore) ListParked(ctx context.Context, l inbox.ListParked) ([]inbox.Parked, error) {
	args := append(record.ParkedAfter(l.After), []byte(l.Consumer), max(l.Limit, 0))
	return readList(ctx, p.s, func(row scanner) (inbox.Parked, error) {
		var scan record.ParkedScan
		err := row.Scan(scan.Dest()...)
		return scan.Parked(), err
	}, "SELECT "+record.ParkedColumns+` FROM inbox_parked WHERE (parked_at, consumer, message_id) > (?1, ?2, ?3)
		AND (length(?4) = 0 OR consumer = ?4) ORDER BY parked_at, consumer, message_id LIMIT ?5`, args...)
}

// CountParked counts messages that were set aside.
func (p parkedStore) CountParked(ctx context.Context, consumer string) (int64, error) {
	var n int64
	err := p.s.read(ctx, func(ctx context.Context, q query) error {
		return q.row(ctx, "SELECT count(*) FROM inbox_parked WHERE length(?1) = 0 OR consumer = ?1", []byte(consumer)).Scan(&n)
	})
	return orNothing(n, err)
}

// Unpark removes one.
func (p parkedStore) Unpark(ctx context.Context, k inbox.ParkedKey) (bool, error) {
	return p.s.change(ctx, "DELETE FROM inbox_parked WHERE digest = ?", record.ParkedDigest(k))
}

// readList runs one SELECT and scans every row.
func readList[T any](ctx context.Context, s *Store, scan func(row scanner) (T, error), statement string, args ...any) ([]T, error) {
	var out []T
	err := s.read(ctx, func(ctx context.Context, q query) error {
		rows, err := q.rows(ctx, statement, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			v, err := scan(rows)
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return rows.Err()
	})
	return orNothing(out, err)
}
