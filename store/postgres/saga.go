package postgres

import (
	"context"
	"database/sql"
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

var sagaColumns = []string{"id", "name", "fingerprint", "input", "state", "log", "reason", "version", "owner", "lease_until",
	"saved_by", "next_at", "created_at", "updated_at"}

func scanSaga(row scanner) (saga.Record, error) {
	var r saga.Record
	var log []byte
	var until, next, created, updated sql.NullInt64
	err := row.Scan(&r.ID, &r.Name, &r.Fingerprint, &r.Input, &r.State, &log, &r.Reason, &r.Version, &r.Owner, &until, &r.SavedBy, &next, &created, &updated)
	if err != nil {
		return r, err
	}
	r.Until, r.NextAt, r.CreatedAt, r.UpdatedAt = record.Time(until), record.Time(next), record.Time(created), record.Time(updated)
	r.Log, err = saga.DecodeLog(log)
	return r, err
}

// filled is b for a column that is NOT NULL.
func filled(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// startSagaSQL inserts a saga if it is not there, and returns it if it did.
var startSagaSQL = "INSERT INTO sagas (" + strings.Join(sagaColumns, ", ") + `)
	VALUES ($1, $2, $3, $4, 'RUNNING', '[]', '', 1, '', NULL, '', $5, $5, $5)
	ON CONFLICT DO NOTHING RETURNING ` + strings.Join(sagaColumns, ", ")

// Start inserts a saga if it is not there. A repeat finds it and writes nothing.
func (t sagaStore) Start(ctx context.Context, s saga.Start) (saga.Record, error) {
	if err := s.Check(); err != nil {
		return saga.Record{}, err
	}
	there, err := t.Read(ctx, s.ID)
	if err != nil {
		return saga.Record{}, err
	}
	var inserted []saga.Record
	if there == nil {
		err := t.s.write(ctx, statement{startSagaSQL, []any{string(s.ID), s.Name, string(s.Fingerprint), filled(s.Input), record.Micros(s.Now)},
			list(&inserted, scanSaga)})
		if err != nil {
			return saga.Record{}, err
		}
		if len(inserted) > 0 {
			return inserted[0], nil
		}
		// Somebody else has inserted it since: a later statement sees what was committed.
		if there, err = t.Read(ctx, s.ID); err != nil {
			return saga.Record{}, err
		}
	}
	if there == nil {
		return saga.Record{}, &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeConflict, Message: "the saga came and went"}
	}
	return *there, nil
}

// leaseSagaSQL takes the first saga that can be had; one that somebody is taking now
// is left alone. Parameters: names, the time before which a lease must have ended,
// the time, the owner, the end of the lease, an id or "".
var leaseSagaSQL = `WITH free AS MATERIALIZED (
	SELECT id FROM sagas
	WHERE state IN ('RUNNING', 'COMPENSATING') AND name = ANY ($1::text[]) AND (owner = '' OR lease_until < $2::bigint)
		AND (CASE WHEN $6::text = '' THEN next_at <= $3::bigint ELSE id = $6::text END)
	ORDER BY next_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE sagas s SET owner = $4::text, lease_until = $5::bigint, saved_by = '', version = s.version + 1
FROM free WHERE s.id = free.id
RETURNING ` + record.Prefixed("s", sagaColumns)

// Lease takes one saga.
func (t sagaStore) Lease(ctx context.Context, l saga.Lease) (*saga.Record, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if cannotExist(append([]string{string(l.ID)}, l.Names...)...) {
		return nil, nil
	}
	var out []saga.Record
	err := t.s.write(ctx, statement{leaseSagaSQL, []any{append([]string{}, l.Names...), record.Micros(l.Now.Add(-l.Margin)), record.Micros(l.Now),
		l.Owner, record.Micros(l.Until), string(l.ID)}, list(&out, scanSaga)})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return &out[0], nil
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
	return t.s.changes(ctx, `UPDATE sagas SET state = $4, log = $5, reason = $6, next_at = $7, updated_at = $8, owner = $9, lease_until = $10::bigint,
			saved_by = owner, version = version + 1
		WHERE id = $1 AND owner = $2 AND version = $3 AND state IN ('RUNNING', 'COMPENSATING')`,
		string(s.ID), s.Owner, s.Version, string(s.State), log, s.Reason, record.Micros(s.NextAt), record.Micros(s.Now), owner, until)
}

func (t sagaStore) list(ctx context.Context, where string, args ...any) ([]saga.Record, error) {
	var out []saga.Record
	err := t.s.read(ctx, statement{"SELECT " + record.Prefixed("s", sagaColumns) + " FROM sagas s WHERE " + where, args, list(&out, scanSaga)})
	return orNothing(out, err)
}

// Read reads one saga.
func (t sagaStore) Read(ctx context.Context, id retryproof.ID) (*saga.Record, error) {
	if cannotExist(string(id)) {
		return nil, nil
	}
	found, err := t.list(ctx, "id = $1", string(id))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// List lists sagas.
func (t sagaStore) List(ctx context.Context, q saga.Query) ([]saga.Record, error) {
	states := []string{string(q.State)}
	if q.State == "" {
		states = []string{string(saga.Running), string(saga.Compensating)}
	}
	if q.After == nil {
		return t.list(ctx, "state = ANY ($1::text[]) ORDER BY created_at, id LIMIT $2", states, max(q.Limit, 0))
	}
	return t.list(ctx, "state = ANY ($1::text[]) AND (created_at, id) > ($2::bigint, $3::text) ORDER BY created_at, id LIMIT $4",
		states, record.Micros(q.After.CreatedAt), string(q.After.ID), max(q.Limit, 0))
}

type markStore struct{ s *Store }

var _ saga.Marks = markStore{}

const markColumns = "key, state, result, created_at, updated_at"

func scanMark(row scanner) (saga.Mark, error) {
	var m saga.Mark
	var created, updated sql.NullInt64
	err := row.Scan(&m.Key, &m.State, &m.Result, &created, &updated)
	m.CreatedAt, m.UpdatedAt = record.Time(created), record.Time(updated)
	return m, err
}

// Mark inserts a mark if it is not there.
func (t markStore) Mark(ctx context.Context, m saga.Mark) (saga.Mark, bool, error) {
	if err := m.Check(); err != nil {
		return saga.Mark{}, false, err
	}
	var out []saga.Mark
	err := t.s.write(ctx, statement{"INSERT INTO saga_marks (" + markColumns + ") VALUES ($1, $2, $3, $4, $4) ON CONFLICT DO NOTHING RETURNING " + markColumns,
		[]any{m.Key, string(m.State), filled(m.Result), record.Micros(m.CreatedAt)}, list(&out, scanMark)})
	if err != nil {
		return saga.Mark{}, false, err
	}
	if len(out) > 0 {
		return out[0], true, nil
	}
	err = t.s.read(ctx, statement{"SELECT " + markColumns + " FROM saga_marks WHERE key = $1", []any{m.Key}, list(&out, scanMark)})
	if err != nil {
		return saga.Mark{}, false, err
	}
	if len(out) == 0 {
		return saga.Mark{}, false, &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeConflict, Message: "the mark came and went"}
	}
	return out[0], false, nil
}

// Move is a compare-and-set on a mark's state.
func (t markStore) Move(ctx context.Context, m saga.MarkMove) (bool, error) {
	if err := m.Check(); err != nil {
		return false, err
	}
	return t.s.changes(ctx, "UPDATE saga_marks SET state = $3, result = $4, updated_at = $5 WHERE key = $1 AND state = $2",
		m.Key, string(m.From), string(m.To), filled(m.Result), record.Micros(m.Now))
}
