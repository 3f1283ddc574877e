package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/saga"
	"github.com/retryproof/retryproof/store/internal/record"
)

// Sagas is the store of sagas.
func (s *Store) Sagas() saga.Store { return sagaStore{s} }

// Marks is the store of marks for a saga's participant.
func (s *Store) Marks() saga.Marks { return markStore{s} }

type sagaStore struct{ s *Store }

var _ saga.Store = sagaStore{}

const sagaColumns = "id, name, fingerprint, input, state, log, reason, version, owner, lease_until, saved_by, next_at, created_at, updated_at"

func scanSaga(row scanner) (*saga.Record, error) {
	var r saga.Record
	var log []byte
	var until, next, created, updated sql.NullInt64
	err := row.Scan(&r.ID, &r.Name, &r.Fingerprint, &r.Input, &r.State, &log, &r.Reason, &r.Version, &r.Owner, &until, &r.SavedBy, &next, &created, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.Until, r.NextAt, r.CreatedAt, r.UpdatedAt = record.Time(until), record.Time(next), record.Time(created), record.Time(updated)
	r.Log, err = saga.DecodeLog(log)
	return &r, err
}

func readSaga(ctx context.Context, q query, id retryproof.ID) (*saga.Record, error) {
	return scanSaga(q.row(ctx, "SELECT "+sagaColumns+" FROM sagas WHERE id = ?", string(id)))
}

// Start inserts a saga if it is not there. A repeat finds it and writes nothing.
func (t sagaStore) Start(ctx context.Context, s saga.Start) (saga.Record, error) {
	if err := s.Check(); err != nil {
		return saga.Record{}, err
	}
	there, err := t.Read(ctx, s.ID)
	if err == nil && there == nil {
		now := record.Micros(s.Now)
		err = t.s.write(ctx, func(ctx context.Context, q query) (err error) {
			if _, err = q.exec(ctx, `INSERT INTO sagas (`+sagaColumns+`)
				VALUES (?, ?, ?, ?, 'RUNNING', CAST('[]' AS BLOB), '', 1, '', NULL, '', ?, ?, ?) ON CONFLICT DO NOTHING`,
				string(s.ID), s.Name, string(s.Fingerprint), filled(s.Input), now, now, now); err != nil {
				return err
			}
			there, err = readSaga(ctx, q, s.ID)
			return err
		})
	}
	if err != nil {
		return saga.Record{}, err
	}
	return *there, nil
}

// filled is b for a column that is NOT NULL.
func filled(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// freeSagaSQL is the condition of a saga that can be leased. Parameters: names as a
// JSON array, then the time before which a lease must have ended.
const freeSagaSQL = `state IN ('RUNNING', 'COMPENSATING') AND name IN (SELECT value FROM json_each(?1))
	AND (owner = '' OR lease_until < ?2)`

// dueSagaSQL picks the saga to lease; ?3 is the time, or the saga's id.
const (
	dueSagaSQL = "SELECT id FROM sagas WHERE " + freeSagaSQL + " AND next_at <= ?3 ORDER BY next_at, id LIMIT 1"
	oneSagaSQL = "SELECT id FROM sagas WHERE " + freeSagaSQL + " AND id = ?3"
)

// Lease takes one saga. With none that can be taken nothing is written.
func (t sagaStore) Lease(ctx context.Context, l saga.Lease) (*saga.Record, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	names, err := json.Marshal(l.Names)
	if err != nil {
		return nil, record.Invalid("the names cannot be written as JSON")
	}
	pick, by := dueSagaSQL, any(record.Micros(l.Now))
	if l.ID != "" {
		pick, by = oneSagaSQL, string(l.ID)
	}
	args := []any{string(names), record.Micros(l.Now.Add(-l.Margin)), by}
	var there bool
	err = t.s.read(ctx, func(ctx context.Context, q query) error {
		return q.row(ctx, "SELECT EXISTS ("+pick+")", args...).Scan(&there)
	})
	if err != nil || !there {
		return nil, err
	}
	var out *saga.Record
	err = t.s.write(ctx, func(ctx context.Context, q query) (err error) {
		out, err = scanSaga(q.row(ctx, `UPDATE sagas SET owner = ?4, lease_until = ?5, saved_by = '', version = version + 1
			WHERE id = (`+pick+`) RETURNING `+sagaColumns, append(args, l.Owner, record.Micros(l.Until))...))
		return err
	})
	return orNothing(out, err)
}

// Save writes progress under the owner's token and version.
func (t sagaStore) Save(ctx context.Context, s saga.Save) (bool, error) {
	if err := s.Check(); err != nil {
		return false, err
	}
	log, err := saga.EncodeLog(s.Log)
	if err != nil {
		return false, err
	}
	owner, until := "", any(nil)
	if s.Keeps() {
		owner, until = s.Owner, record.Micros(s.Until)
	}
	return t.s.change(ctx, `UPDATE sagas SET state = ?, log = ?, reason = ?, next_at = ?, updated_at = ?, owner = ?, lease_until = ?,
			saved_by = owner, version = version + 1
		WHERE id = ? AND owner = ? AND version = ? AND state IN ('RUNNING', 'COMPENSATING')`,
		string(s.State), log, s.Reason, record.Micros(s.NextAt), record.Micros(s.Now), owner, until, string(s.ID), s.Owner, s.Version)
}

// Read reads one saga.
func (t sagaStore) Read(ctx context.Context, id retryproof.ID) (*saga.Record, error) {
	var out *saga.Record
	err := t.s.read(ctx, func(ctx context.Context, q query) (err error) {
		out, err = readSaga(ctx, q, id)
		return err
	})
	return orNothing(out, err)
}

// List lists sagas.
func (t sagaStore) List(ctx context.Context, q saga.Query) ([]saga.Record, error) {
	states := []any{string(q.State), string(q.State)}
	if q.State == "" {
		states = []any{string(saga.Running), string(saga.Compensating)}
	}
	where, args := []string{"state IN (?, ?)"}, states
	if q.After != nil {
		where = append(where, "(created_at, id) > (?, ?)")
		args = append(args, record.Micros(q.After.CreatedAt), string(q.After.ID))
	}
	var out []saga.Record
	err := t.s.read(ctx, func(ctx context.Context, on query) error {
		rows, err := on.rows(ctx, "SELECT "+sagaColumns+" FROM sagas WHERE "+strings.Join(where, " AND ")+
			" ORDER BY created_at, id LIMIT ?", append(args, max(q.Limit, 0))...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		out = nil
		for rows.Next() {
			r, err := scanSaga(rows)
			if err != nil {
				return err
			}
			out = append(out, *r)
		}
		return rows.Err()
	})
	return orNothing(out, err)
}

type markStore struct{ s *Store }

var _ saga.Marks = markStore{}

// Mark inserts a mark if it is not there.
func (t markStore) Mark(ctx context.Context, m saga.Mark) (saga.Mark, bool, error) {
	if err := m.Check(); err != nil {
		return saga.Mark{}, false, err
	}
	var there saga.Mark
	var first bool
	err := t.s.write(ctx, func(ctx context.Context, q query) error {
		n, err := q.exec(ctx, "INSERT INTO saga_marks (key, state, result, created_at, updated_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			m.Key, string(m.State), filled(m.Result), record.Micros(m.CreatedAt), record.Micros(m.CreatedAt))
		if err != nil {
			return err
		}
		first = n > 0
		var created, updated sql.NullInt64
		err = q.row(ctx, "SELECT key, state, result, created_at, updated_at FROM saga_marks WHERE key = ?", m.Key).
			Scan(&there.Key, &there.State, &there.Result, &created, &updated)
		there.CreatedAt, there.UpdatedAt = record.Time(created), record.Time(updated)
		return err
	})
	if err != nil {
		return saga.Mark{}, false, err
	}
	return there, first, nil
}

// Move is a compare-and-set on a mark's state.
func (t markStore) Move(ctx context.Context, m saga.MarkMove) (bool, error) {
	if err := m.Check(); err != nil {
		return false, err
	}
	return t.s.change(ctx, "UPDATE saga_marks SET state = ?, result = ?, updated_at = ? WHERE key = ? AND state = ?",
		string(m.To), filled(m.Result), record.Micros(m.Now), m.Key, string(m.From))
}
