package postgres

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retryproof/retryproof/entropy"
)

// query is the little that statements inside a transaction need. It has two
// adapters, for pgx and for database/sql.
type query interface {
	exec(ctx context.Context, statement string, args ...any) (changed int64, err error)
	row(ctx context.Context, statement string, args ...any) scanner
}

type scanner interface{ Scan(dest ...any) error }

// overPgx is a pgx.Tx, or a connection.
type overPgx struct {
	on interface {
		Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
		QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
	}
}

func (p overPgx) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := p.on.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (p overPgx) row(ctx context.Context, statement string, args ...any) scanner {
	return p.on.QueryRow(ctx, statement, args...)
}

// overSQL is a *sql.Tx of any driver for PostgreSQL.
type overSQL struct{ tx *sql.Tx }

func (s overSQL) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	r, err := s.tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (s overSQL) row(ctx context.Context, statement string, args ...any) scanner {
	return s.tx.QueryRowContext(ctx, statement, args...)
}

// statement is one statement with its arguments, and what to do with its rows.
type statement struct {
	sql  string
	args []any
	scan func(rows pgx.Rows) error
}

// noRows drains a statement that returns none.
func noRows(rows pgx.Rows) error {
	rows.Close()
	return rows.Err()
}

// eachRow scans every row.
func eachRow(scan func(row scanner) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

// firstRow scans a row that may be absent. It forgets what an earlier run of the
// statement found: one that fails at COMMIT has given rows before.
func firstRow(found *bool, dest ...any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*found = false
		return eachRow(func(row scanner) error {
			*found = true
			return row.Scan(dest...)
		})(rows)
	}
}

// list scans every row into out, which it empties first: a statement may run again.
func list[T any](out *[]T, scan func(row scanner) (T, error)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*out = nil
		return eachRow(func(row scanner) error {
			v, err := scan(row)
			*out = append(*out, v)
			return err
		})(rows)
	}
}

// cannotExist reports whether one of the texts is none that PostgreSQL can hold: it has
// a NUL or is no UTF-8. Nothing has such a key, so who looks for it finds nothing.
func cannotExist(texts ...string) bool {
	return slices.ContainsFunc(texts, func(s string) bool { return strings.ContainsRune(s, 0) || !utf8.ValidString(s) })
}

// read runs one SELECT on the primary: connections of our own were checked when they
// were made; behind a pooler any server may answer, so it is asked along.
// At SERIALIZABLE even a SELECT can fail and is then run again.
func (s *Store) read(ctx context.Context, st statement) error {
	return s.retried(ctx, func() error { return s.readOnce(ctx, st) })
}

func (s *Store) readOnce(ctx context.Context, st statement) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if !s.config.Pooled {
		rows, err := conn.Query(ctx, st.sql, st.args...)
		if err != nil {
			return notDone(err)
		}
		return notDone(st.scan(rows))
	}
	primary := statement{"SELECT pg_is_in_recovery()", nil, eachRow(func(row scanner) error {
		var replica bool
		if err := row.Scan(&replica); err != nil {
			return err
		}
		if replica {
			return errReplica
		}
		return nil
	})}
	return notDone(pipeline(ctx, conn, []statement{primary, st}))
}

// pipeline sends statements in one round trip and reads their answers. Without a
// BEGIN among them they are one transaction.
func pipeline(ctx context.Context, conn *pgxpool.Conn, statements []statement) (err error) {
	var b pgx.Batch
	for _, st := range statements {
		b.Queue(st.sql, st.args...)
	}
	results := conn.SendBatch(ctx, &b)
	for _, st := range statements {
		rows, queryErr := results.Query()
		if queryErr == nil {
			queryErr = st.scan(rows)
		}
		if queryErr != nil {
			_ = results.Close()
			return queryErr
		}
	}
	return results.Close()
}

// write runs statements in one transaction and one round trip, again after a
// serialization failure or a deadlock: nothing of it was done then.
func (s *Store) write(ctx context.Context, statements ...statement) error {
	return s.retried(ctx, func() error { return s.writeOnce(ctx, s.opening, statements) })
}

func (s *Store) writeOnce(ctx context.Context, opening []string, statements []statement) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if len(opening) == 0 && len(statements) == 1 {
		rows, err := conn.Query(ctx, statements[0].sql, statements[0].args...)
		if err != nil {
			return unsure(err)
		}
		return unsure(statements[0].scan(rows))
	}
	if len(opening) > 0 {
		all := make([]statement, 0, len(opening)+len(statements)+1)
		for _, o := range opening {
			all = append(all, statement{sql: o, scan: noRows})
		}
		statements = append(append(all, statements...), statement{sql: "COMMIT", scan: noRows})
	}
	if err := pipeline(ctx, conn, statements); err != nil {
		s.rollback(ctx, conn)
		return unsure(err)
	}
	return nil
}

// rollback gives the connection back clean; if it cannot, the pool drops it.
func (s *Store) rollback(ctx context.Context, conn *pgxpool.Conn) {
	if pg := conn.Conn().PgConn(); !pg.IsClosed() && pg.TxStatus() != 'I' {
		_, _ = pg.Exec(context.WithoutCancel(ctx), "ROLLBACK").ReadAll()
	}
}

// inTx runs f between BEGIN and COMMIT, and again after a serialization failure or a
// deadlock. f may run several times.
func (s *Store) inTx(ctx context.Context, f func(ctx context.Context, q query) error) error {
	return s.retried(ctx, func() error { return s.inTxOnce(ctx, f) })
}

func (s *Store) inTxOnce(ctx context.Context, f func(ctx context.Context, q query) error) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, o := range s.config.opening() {
		if _, err := conn.Exec(ctx, o); err != nil {
			s.rollback(ctx, conn)
			return notDone(err)
		}
	}
	if err := f(ctx, overPgx{conn}); err != nil {
		s.rollback(ctx, conn)
		return notDone(err)
	}
	if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
		s.rollback(ctx, conn)
		return unsure(err)
	}
	return nil
}

// retried runs f again while it fails in a way that a repeat can cure.
func (s *Store) retried(ctx context.Context, f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if err == nil || !tryAgain(err) || try >= s.config.Retries {
			return err
		}
		if s.config.Clock.Sleep(ctx, backoff(try, s.config.Rand)) != nil {
			return err
		}
	}
}

// backoff doubles from 1 ms to 64 ms, with full jitter.
func backoff(try int, r entropy.Source) time.Duration {
	return time.Duration(entropy.Fraction(r) * float64(time.Millisecond<<min(try, 6)))
}
