package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retryproof/retryproof/store/internal/record"
	"github.com/retryproof/retryproof/version"
)

// Versions is the store of high-water marks.
func (s *Store) Versions() version.Store { return versionStore{s} }

type versionStore struct{ s *Store }

const versionColumns = "subject, device, caller, stream, version, action, fingerprint, value, applied_at"

const (
	applyVersionSQL = `INSERT INTO versions (` + versionColumns + `)
		VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::text, $7::text, $8::bytea, $9::bigint)
		ON CONFLICT (subject, device, caller, stream) DO UPDATE SET version = excluded.version, action = excluded.action,
			fingerprint = excluded.fingerprint, value = excluded.value, applied_at = excluded.applied_at
		WHERE versions.version < excluded.version RETURNING ` + versionColumns
	readVersionSQL = `SELECT ` + versionColumns + ` FROM versions WHERE subject = $1 AND device = $2 AND caller = $3 AND stream = $4`
	topVersionsSQL = `SELECT ` + versionColumns + ` FROM versions WHERE device = $1 AND caller = $2 AND stream = $3
		ORDER BY version DESC, subject DESC LIMIT $4`
	lowerVersionsSQL = `SELECT ` + versionColumns + ` FROM versions WHERE device = $1 AND caller = $2 AND stream = $3
		AND (version, subject) < ($5, $6) ORDER BY version DESC, subject DESC LIMIT $4`
)

// one runs a statement that gives at most one row and reports whether it gave one. It
// has two kinds, for a transaction of ours and for one of the caller's.
type one func(ctx context.Context, sql string, args []any, dest ...any) (found bool, err error)

func (s *Store) writeOne(ctx context.Context, sql string, args []any, dest ...any) (found bool, err error) {
	err = s.write(ctx, statement{sql, args, firstRow(&found, dest...)})
	return found && err == nil, err
}

func (s *Store) readOne(ctx context.Context, sql string, args []any, dest ...any) (found bool, err error) {
	err = s.read(ctx, statement{sql, args, firstRow(&found, dest...)})
	return found && err == nil, err
}

func (t Tx) one(ctx context.Context, statement string, args []any, dest ...any) (found bool, err error) {
	err = t.q.row(ctx, statement, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, notDone(err)
}

// markScan receives the columns of a mark.
type markScan struct {
	m           version.Mark
	fingerprint string
	at          sql.NullInt64
}

func (s *markScan) dest() []any {
	m := &s.m
	return []any{&m.Subject, &m.Device, &m.Caller, &m.Stream, &m.Version, &m.Action, &s.fingerprint, &m.Value, &s.at}
}

func (s *markScan) mark() *version.Mark {
	m := s.m
	m.Fingerprint, m.At = fingerprint(s.fingerprint), record.Time(s.at)
	if len(m.Value) == 0 {
		m.Value = nil
	}
	return &m
}

func readMark(ctx context.Context, read one, sql string, args ...any) (*version.Mark, error) {
	var s markScan
	if found, err := read(ctx, sql, args, s.dest()...); err != nil || !found {
		return nil, err
	}
	return s.mark(), nil
}

// applyVersion is one conditional statement. When its condition did not hold, what
// stands is read by a second one, which sees what was committed meanwhile.
func applyVersion(ctx context.Context, write, read one, w version.Write) (version.Result, error) {
	w, err := version.Check(w)
	if err != nil {
		return version.Result{}, err
	}
	value := w.Value
	if value == nil {
		value = []byte{}
	}
	args := []any{w.Subject, w.Device, w.Caller, w.Stream, w.Version, w.Action, string(w.Fingerprint), value, record.Micros(w.Now)}
	var s markScan
	applied, err := write(ctx, applyVersionSQL, args, s.dest()...)
	switch {
	case err != nil:
		return version.Result{}, err
	case applied:
		return version.Result{Verdict: version.Applied, Mark: *s.mark()}, nil
	}
	have, err := readMark(ctx, read, readVersionSQL, args[:4]...)
	if err != nil {
		return version.Result{}, err
	}
	if have == nil { // marks are never deleted
		return version.Result{}, errMoving
	}
	return version.Next(have, w), nil
}

// Apply writes on the condition that the version is higher.
func (v versionStore) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	return applyVersion(ctx, v.s.writeOne, v.s.readOne, w)
}

// Last is the line's mark with the highest version.
func (v versionStore) Last(ctx context.Context, l version.Line) (*version.Mark, error) {
	if cannotExist(l.Device, l.Caller, l.Stream) {
		return nil, nil
	}
	return readMark(ctx, v.s.readOne, topVersionsSQL, l.Device, l.Caller, l.Stream, 1)
}

// Recent lists the line's marks that are lower than after, highest first.
func (v versionStore) Recent(ctx context.Context, l version.Line, after version.Mark, limit int) ([]version.Mark, error) {
	if cannotExist(l.Device, l.Caller, l.Stream, after.Subject) {
		return nil, nil
	}
	sql, args := topVersionsSQL, []any{l.Device, l.Caller, l.Stream, max(limit, 0)}
	if after.Version > 0 {
		sql, args = lowerVersionsSQL, append(args, after.Version, after.Subject)
	}
	var out []version.Mark
	err := v.s.read(ctx, statement{sql, args, list(&out, func(row scanner) (version.Mark, error) {
		var s markScan
		err := row.Scan(s.dest()...)
		return *s.mark(), err
	})})
	return orNothing(out, err)
}

// Look is the subject's mark.
func (v versionStore) Look(ctx context.Context, l version.Line, subject string) (*version.Mark, error) {
	if cannotExist(subject, l.Device, l.Caller, l.Stream) {
		return nil, nil
	}
	return readMark(ctx, v.s.readOne, readVersionSQL, subject, l.Device, l.Caller, l.Stream)
}

// ApplyVersion is version.Store's Apply, as a part of your transaction.
func (t Tx) ApplyVersion(ctx context.Context, w version.Write) (version.Result, error) {
	if err := t.valid(); err != nil {
		return version.Result{}, err
	}
	return applyVersion(ctx, t.one, t.one, w)
}
