package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retryproof/retryproof"
)

// Journal is a durable append-only log in a file of its own. Records are given back
// in the order in which they were appended. Safe for concurrent use.
//
// A crash during Append leaves the record whole or absent.
type Journal struct{ s *Store }

// OpenJournal opens or creates the journal at path, as in [Config.Path].
func OpenJournal(ctx context.Context, path string) (*Journal, error) {
	config := Config{Path: path}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Store{config: config.withDefaults()}
	err := s.connect(ctx)
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, q query) error {
			_, err := q.exec(ctx, "CREATE TABLE IF NOT EXISTS journal (seq INTEGER PRIMARY KEY AUTOINCREMENT, record BLOB NOT NULL) STRICT")
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(notDone(err), s.Close())
	}
	return &Journal{s}, nil
}

// Append returns nil when the record is on the disk. Concurrent appends share a
// commit. Errors are as in effect.Store.
func (j *Journal) Append(ctx context.Context, record []byte) error {
	if record == nil {
		record = []byte{}
	}
	return j.s.write(ctx, func(ctx context.Context, q query) error {
		_, err := q.exec(ctx, "INSERT INTO journal (record) VALUES (?)", record)
		return err
	})
}

// replayPage bounds how much Replay holds; no lock is held while its function runs.
const replayPage = 256

// Replay calls f with every record that was appended before Replay was called, and
// stops at the first error, which it returns as it is.
func (j *Journal) Replay(ctx context.Context, f func(record []byte) error) error {
	var last int64
	err := j.s.read(ctx, func(ctx context.Context, q query) error {
		return q.row(ctx, "SELECT coalesce(max(seq), 0) FROM journal").Scan(&last)
	})
	if err != nil {
		return err
	}
	for after := int64(0); after < last; {
		page, next, err := j.page(ctx, after, last)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return retryproof.Refused(retryproof.CodeUnavailable, "the journal lost records while it was read", nil)
		}
		for _, r := range page {
			if err := f(r); err != nil {
				return err
			}
		}
		after = next
	}
	return nil
}

func (j *Journal) page(ctx context.Context, after, last int64) (page [][]byte, next int64, err error) {
	err = j.s.read(ctx, func(ctx context.Context, q query) error {
		rows, err := q.rows(ctx, "SELECT seq, record FROM journal WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?", after, last, replayPage)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var r sql.RawBytes
			if err := rows.Scan(&next, &r); err != nil {
				return err
			}
			page = append(page, append([]byte{}, r...))
		}
		return rows.Err()
	})
	return page, next, err
}

// Close waits for the running commit and closes the file.
func (j *Journal) Close() error { return j.s.Close() }
