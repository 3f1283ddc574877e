package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
		return &simStores{close: nothing, parallel: true, fresh: func() (*payments.Stores, func(), error) {
			s, err := sqlite.Open(ctx, sqlite.Config{Path: ":memory:", Migrate: true, BusyTimeout: -1, Readers: 1})
			if err != nil {
				return nil, nil, err
			}
			stores := s.Payments()
			return &stores, func() { _ = s.Close() }, nil
		}}, nil
	case strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://"):
		return openSimPostgres(ctx, url)
	}
	return nil, misuse{fmt.Errorf("--store %q: explore takes memory, sqlite or postgres://…", redacted(url))}
}

var errNotEmpty = errors.New("--store must be an empty database: explore deletes everything in it between two worlds")
