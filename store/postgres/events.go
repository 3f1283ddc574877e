package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/store/internal/record"
)

// Events get their place from the sequence of outbox.seq. It can be behind the rows: a
// logical replica and a copy of the data alone carry rows and leave sequences as they
// are. Then an event would meet a row that has its number, or get a place before events
// of its group that wait. So every new connection looks and moves the sequence on, and
// so does whoever meets a row that has the number. An event is left only when its id is
// there; a number that is taken is never mistaken for that.

// alignSQL moves a sequence that is behind, for a role that may. One session at a time
// does it: one that has looked, and sets it after another and after new events, would
// move it back. Who finds another at it leaves it to them. The lock's key is one more
// than migrationLock, and it goes with the transaction.
const alignSQL = `SELECT CASE WHEN has_sequence_privilege(s.name, 'UPDATE') AND has_sequence_privilege(s.name, 'USAGE, SELECT') THEN
	CASE WHEN coalesce(pg_sequence_last_value(s.name::regclass), 0) < m.seq THEN
	CASE WHEN pg_try_advisory_xact_lock(8243122727984067175) THEN
	CASE WHEN coalesce(pg_sequence_last_value(s.name::regclass), 0) < m.seq THEN setval(s.name::regclass, m.seq) END END END END
FROM (SELECT pg_get_serial_sequence('outbox', 'seq') AS name) s, (SELECT max(seq) AS seq FROM outbox) m`

// aligns is how often a number that is taken is answered by moving the sequence on.
// Another may do it at the same time, so once may not be enough.
const aligns = 3

// behind is a sequence that this role cannot move on.
func behind(cause error) error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeUnavailable, Message: "the sequence of outbox.seq is behind its rows", Err: cause,
		Hint: "as the owner of the tables run: SELECT setval(pg_get_serial_sequence('outbox', 'seq'), (SELECT max(seq) FROM outbox))"}
}

// seqTaken reports whether an event met a row that has its number.
func seqTaken(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "23505" && e.TableName == "outbox"
}

// align moves the sequence on in a transaction of its own.
func (s *Store) align(ctx context.Context) error {
	var moved sql.NullInt64
	return s.write(ctx, statement{alignSQL, nil, eachRow(func(row scanner) error { return row.Scan(&moved) })})
}

// aligned runs f, again while an event meets a row that has its number.
func (s *Store) aligned(ctx context.Context, f func() error) error {
	err := f()
	for try := 0; seqTaken(err) && try < aligns; try++ {
		if err := s.align(ctx); err != nil {
			return err
		}
		err = f()
	}
	return err
}

// alignNew moves the sequence on over a new connection. That it may not, or that there
// are no tables yet, is no reason to refuse the connection.
func alignNew(ctx context.Context, conn *pgconn.PgConn) {
	r := conn.ExecParams(ctx, "SELECT (to_regclass('outbox') IS NOT NULL)::int", nil, nil, nil, nil).Read()
	if r.Err == nil && len(r.Rows) == 1 && string(r.Rows[0][0]) == "1" {
		conn.ExecParams(ctx, alignSQL, nil, nil, nil, nil).Read()
	}
}

// insertEvent stores an event in a transaction that is open already, unless one with
// its id is there.
func insertEvent(ctx context.Context, q query, e retryproof.Event) error {
	body := e.Body
	if body == nil {
		body = []byte{}
	}
	for range aligns {
		// No conflict may fail: that would end the caller's transaction.
		n, err := q.exec(ctx, `INSERT INTO outbox (event_id, type, group_key, body, at, attempts, leased_by, reason)
			VALUES ($1, $2, $3, $4, $5, 0, '', '') ON CONFLICT DO NOTHING`, e.ID, e.Type, e.Group, body, record.Micros(e.At))
		if err != nil || n > 0 {
			return err
		}
		var there bool
		if err := q.row(ctx, "SELECT count(*) > 0 FROM outbox WHERE event_id = $1", e.ID).Scan(&there); err != nil || there {
			return err
		}
		var moved sql.NullInt64
		if err := q.row(ctx, alignSQL).Scan(&moved); err != nil {
			return err
		}
	}
	return behind(nil)
}
