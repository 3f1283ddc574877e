package main

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/postgres"
)

// simTables are emptied between two worlds: all that a store has, and no table of
// somebody else's that may be beside them.
var simTables = []string{"claims", "guards", "payments", "refunds", "evidence", "postings", "accounts", "outbox", "inbox", "inbox_parked", "notifications",
	"sightings", "sagas", "saga_marks", "versions", "locators"}

// openSimPostgres opens a database for worlds that follow each other; it is emptied
// between two of them. A database that holds payments is refused.
func openSimPostgres(ctx context.Context, url string) (*simStores, error) {
	s, err := postgres.Open(ctx, postgres.Config{URL: url, Migrate: true, LockTimeout: time.Millisecond, MaxGroup: 1})
	if err != nil {
		return nil, storeError(err)
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, storeError(err)
	}
	closeAll := func() error { pool.Close(); return s.Close() }
	var n int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM (SELECT 1 FROM payments LIMIT 1) p").Scan(&n); err != nil || n > 0 {
		_ = closeAll()
		if err == nil {
			err = misuse{errNotEmpty}
		}
		return nil, err
	}
	stores := s.Payments()
	clear := func() error {
		_, err := pool.Exec(ctx, "TRUNCATE "+strings.Join(simTables, ", "))
		return err
	}
	return &simStores{close: closeAll, fresh: func() (*payments.Stores, func(), error) {
		return &stores, func() { _ = clear() }, clear() // a failing clear shows at the next world
	}}, nil
}
