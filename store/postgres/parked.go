package postgres

import (
	"context"
	"database/sql"

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
	var out []outbox.Parked
	err := o.s.read(ctx, statement{`SELECT event_id, type, group_key, body, at, attempts, reason, parked_at FROM outbox
		WHERE parked_at IS NOT NULL AND (parked_at, event_id) > ($1::bigint, $2::text) ORDER BY parked_at, event_id LIMIT $3`,
		[]any{record.Micros(l.After.ParkedAt), l.After.ID, int64(max(l.Limit, 0))}, list(&out, func(row scanner) (outbox.Parked, error) {
			var p outbox.Parked
			var at, parked sql.NullInt64
			err := row.Scan(&p.ID, &p.Type, &p.Group, &p.Body, &at, &p.Attempts, &p.Reason, &parked)
			p.At, p.ParkedAt = record.Time(at), record.Time(parked)
			return p, err
		})})
	return orNothing(out, err)
}

type parkedStore struct{ s *Store }

var _ inbox.ParkedStore = parkedStore{}

// Park keeps a message.
func (p parkedStore) Park(ctx context.Context, m inbox.Parked) (bool, error) {
	if err := m.Check(); err != nil {
		return false, err
	}
	return p.s.changes(ctx, "INSERT INTO inbox_parked ("+record.ParkedColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (digest) DO NOTHING",
		record.ParkedArgs(m)...)
}

// Parked reads one.
func (p parkedStore) Parked(ctx context.Context, k inbox.ParkedKey) (*inbox.Parked, error) {
	found, err := p.list(ctx, "digest = $1", record.ParkedDigest(k))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// ListParked lists messages that were set aside.
func (p parkedStore) ListParked(ctx context.Context, l inbox.ListParked) ([]inbox.Parked, error) {
	args := append(record.ParkedAfter(l.After), []byte(l.Consumer), int64(max(l.Limit, 0)))
	return p.list(ctx, `(parked_at, consumer, message_id) > ($1::bigint, $2::bytea, $3::bytea)
		AND (length($4::bytea) = 0 OR consumer = $4::bytea) ORDER BY parked_at, consumer, message_id LIMIT $5`, args...)
}

func (p parkedStore) list(ctx context.Context, where string, args ...any) ([]inbox.Parked, error) {
	var out []inbox.Parked
	err := p.s.read(ctx, statement{"SELECT " + record.ParkedColumns + " FROM inbox_parked WHERE " + where, args, list(&out, func(row scanner) (inbox.Parked, error) {
		var scan record.ParkedScan
		err := row.Scan(scan.Dest()...)
		return scan.Parked(), err
	})})
	return orNothing(out, err)
}

// CountParked counts messages that were set aside.
func (p parkedStore) CountParked(ctx context.Context, consumer string) (int64, error) {
	var n int64
	err := p.s.read(ctx, statement{"SELECT count(*) FROM inbox_parked WHERE length($1::bytea) = 0 OR consumer = $1::bytea", []any{[]byte(consumer)},
		eachRow(func(row scanner) error { return row.Scan(&n) })})
	return orNothing(n, err)
}

// Unpark removes one.
func (p parkedStore) Unpark(ctx context.Context, k inbox.ParkedKey) (bool, error) {
	return p.s.changes(ctx, "DELETE FROM inbox_parked WHERE digest = $1", record.ParkedDigest(k))
}
