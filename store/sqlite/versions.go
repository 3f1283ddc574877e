package sqlite

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

const (
	applyVersion = `INSERT INTO versions (subject, device, caller, stream, version, action, fingerprint, value, applied_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (subject, device, caller, stream) DO UPDATE SET version = excluded.version, action = excluded.action,
			fingerprint = excluded.fingerprint, value = excluded.value, applied_at = excluded.applied_at
		WHERE versions.version < excluded.version`
	selectVersion = `SELECT subject, device, caller, stream, version, action, fingerprint, value, applied_at FROM versions`
	readVersion   = selectVersion + ` WHERE subject = ? AND device = ? AND caller = ? AND stream = ?`
	ofLine        = selectVersion + ` WHERE device = ? AND caller = ? AND stream = ?`
	highestFirst  = ` ORDER BY version DESC, subject DESC LIMIT ?`
	topVersions   = ofLine + highestFirst
	lowerVersions = ofLine + ` AND (version, subject) < (?, ?)` + highestFirst
)

// readMark reads one mark, nil when there is none.
func readMark(ctx context.Context, q query, statement string, args ...any) (*version.Mark, error) {
	m, err := scanMark(q.row(ctx, statement, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return m, err
}

func scanMark(row scanner) (*version.Mark, error) {
	var m version.Mark
	var at int64
	err := row.Scan(&m.Subject, &m.Device, &m.Caller, &m.Stream, &m.Version, &m.Action, &m.Fingerprint, &m.Value, &at)
	if err != nil {
		return nil, err
	}
	m.At = record.Time(sql.NullInt64{Int64: at, Valid: true})
	if len(m.Value) == 0 {
		m.Value = nil
	}
	return &m, nil
}

// writeVersion is Apply, for a write that was checked.
func writeVersion(ctx context.Context, q query, w version.Write) (version.Result, error) {
	n, err := q.exec(ctx, applyVersion, w.Subject, w.Device, w.Caller, w.Stream, w.Version, w.Action, string(w.Fingerprint),
		notNil(w.Value), record.Micros(w.Now))
	if err != nil {
		return version.Result{}, err
	}
	have, err := readMark(ctx, q, readVersion, w.Subject, w.Device, w.Caller, w.Stream)
	if err != nil {
		return version.Result{}, err
	}
	if n > 0 && have != nil {
		return version.Result{Verdict: version.Applied, Mark: *have}, nil
	}
	return version.Next(have, w), nil
}

// notNil is b for a column that is NOT NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Apply writes on the condition that the version is higher.
func (v versionStore) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	w, err := version.Check(w)
	if err != nil {
		return version.Result{}, err
	}
	var out version.Result
	err = v.s.write(ctx, func(ctx context.Context, q query) (err error) {
		out, err = writeVersion(ctx, q, w)
		return err
	})
	return orNothing(out, err)
}

// Last is the line's mark with the highest version.
func (v versionStore) Last(ctx context.Context, l version.Line) (*version.Mark, error) {
	return v.read(ctx, topVersions, l.Device, l.Caller, l.Stream, 1)
}

// Recent lists the line's marks that are lower than after, highest first.
func (v versionStore) Recent(ctx context.Context, l version.Line, after version.Mark, limit int) ([]version.Mark, error) {
	statement, args := topVersions, []any{l.Device, l.Caller, l.Stream}
	if after.Version > 0 {
		statement, args = lowerVersions, append(args, after.Version, after.Subject)
	}
	var out []version.Mark
	err := v.s.read(ctx, func(ctx context.Context, q query) error {
		rows, err := q.rows(ctx, statement, append(args, max(limit, 0))...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			m, err := scanMark(rows)
			if err != nil {
				return err
			}
			out = append(out, *m)
		}
		return rows.Err()
	})
	return orNothing(out, err)
}

// Look is the subject's mark.
func (v versionStore) Look(ctx context.Context, l version.Line, subject string) (*version.Mark, error) {
	return v.read(ctx, readVersion, subject, l.Device, l.Caller, l.Stream)
}

func (v versionStore) read(ctx context.Context, statement string, args ...any) (*version.Mark, error) {
	var out *version.Mark
	err := v.s.read(ctx, func(ctx context.Context, q query) (err error) {
		out, err = readMark(ctx, q, statement, args...)
		return err
	})
	return orNothing(out, err)
}

// ApplyVersion is version.Store's Apply, as a part of your transaction.
func (t Tx) ApplyVersion(ctx context.Context, w version.Write) (version.Result, error) {
	if err := t.valid(); err != nil {
		return version.Result{}, err
	}
	w, err := version.Check(w)
	if err != nil {
		return version.Result{}, err
	}
	out, err := writeVersion(ctx, t.q, w)
	return orNothing(out, notDone(err))
}
