package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/sqlite"
)

// simStores gives every world an empty store.
type simStores struct {
	// fresh returns an empty store, nil for the simulator's own in memory, and what
	// to call when its world is over.
	fresh func() (*payments.Stores, func(), error)
	close func() error
	// parallel says that worlds may run beside each other.
	parallel bool
}

// openSimStores opens the store that explore's --store names. In a simulation a
// driver must not wait: a held lock is a conflict.
func openSimStores(ctx context.Context, url string) (*simStores, error) {
	nothing := func() error { return nil }
	switch {
	case url == "memory":
		return &simStores{fresh: func() (*payments.Stores, func(), error) { return nil, func() {}, nil }, close: nothing, parallel: true}, nil
	case url == "sqlite":
		p := &sqlitePool{}
		return &simStores{close: p.close, parallel: true, fresh: func() (*payments.Stores, func(), error) {
			s, err := p.get(ctx)
			if err != nil {
				return nil, nil, err
			}
			stores := s.Payments()
			return &stores, func() { p.put(s) }, nil
		}}, nil
	case strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://"):
		return openSimPostgres(ctx, url)
	}
	return nil, misuse{fmt.Errorf("--store %q: explore takes memory, sqlite or postgres://…", redacted(url))}
}

// sqlitePool keeps databases in memory for the next worlds: opening one, with its
// tables and its statements, takes as long as a small world.
type sqlitePool struct {
	mu   sync.Mutex
	free []*sqlite.Store
}

// get returns an empty database.
func (p *sqlitePool) get(ctx context.Context) (*sqlite.Store, error) {
	p.mu.Lock()
	var s *sqlite.Store
	if n := len(p.free); n > 0 {
		s, p.free = p.free[n-1], p.free[:n-1]
	}
	p.mu.Unlock()
	if s == nil {
		return sqlite.Open(ctx, sqlite.Config{Path: ":memory:", Migrate: true, BusyTimeout: -1, Readers: 1})
	}
	if err := s.Transact(ctx, func(tx *sql.Tx) error { return emptySQLite(ctx, tx) }); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (p *sqlitePool) put(s *sqlite.Store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, s)
}

func (p *sqlitePool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, s := range p.free {
		errs = append(errs, s.Close())
	}
	p.free = nil
	return errors.Join(errs...)
}

// emptySQLite deletes every row but those of the schema's own table, and lets numbers
// begin again.
func emptySQLite(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table'
		AND name <> 'schema_migrations' AND (name = 'sqlite_sequence' OR name NOT LIKE 'sqlite\_%' ESCAPE '\') ORDER BY name`)
	if err != nil {
		return err
	}
	defer rows.Close()      //nolint:errcheck // read to its end
	var statements []string // and no PRAGMA: it makes all prepared statements be prepared again
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		statements = append(statements, "DELETE FROM "+name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

var errNotEmpty = errors.New("--store must be an empty database: explore deletes everything in it between two worlds")
