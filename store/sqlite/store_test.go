package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/store/sqlite"
	"github.com/retryproof/retryproof/store/storetest"
)

// TestStore: cases 11, 15, 17 to 19, 30 to 33 and 37 are among the suite's.
func TestStore(t *testing.T) {
	t.Parallel()
	t.Run("store=sqlite", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, storetest.Traits{}, func(t *testing.T) storetest.Stores {
			path := filepath.Join(t.TempDir(), "test.db")
			empty, err := emptyDatabase()
			if err == nil {
				err = os.WriteFile(path, empty, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			return stores(t, path)
		})
	})
	if raceDetector {
		return // the same code has run on a file
	}
	t.Run("store=sqlite/memory", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, storetest.Traits{Volatile: true, SingleProcess: true, NoWithin: true}, func(t *testing.T) storetest.Stores {
			s := stores(t, ":memory:")
			s.Reopen, s.Second = nil, nil
			return s
		})
	})
}

// emptyDatabase is the file of a database that was migrated once for all tests.
var emptyDatabase = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "retryproof-sqlite")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config := sqlite.Config{Path: filepath.Join(dir, "empty.db")}
	if _, err := sqlite.Migrate(context.Background(), config, sqlite.Up); err != nil {
		return nil, err
	}
	return os.ReadFile(config.Path)
})

func stores(t *testing.T, path string) storetest.Stores {
	t.Helper()
	config := sqlite.Config{Path: path, Migrate: true, BusyTimeout: 250 * time.Millisecond}
	s := open(t, config)
	return storetest.Stores{
		Sagas: s.Sagas(), Marks: s.Marks(),
		Within:   func(ctx context.Context, fn func(storetest.Tx) error) error { return within(ctx, config, fn) },
		Payments: s.Payments(), Effects: s.Effects(), Due: s.Due(), Keys: s.Keys(), Guards: s.Guards(),
		PaymentGuards: s.PaymentGuards(), RefundGuards: s.RefundGuards(),
		Versions: s.Versions(), Locators: s.Locators(),
		Second: func(t *testing.T) storetest.Stores { return stores(t, path) },
		Reopen: func(t *testing.T) storetest.Stores {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return stores(t, path)
		},
	}
}

// within runs fn in a transaction of a program's own connection.
func within(ctx context.Context, config sqlite.Config, fn func(storetest.Tx) error) error {
	db, err := sql.Open("sqlite", config.DSN())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil { // another holds the lock: nothing was begun, and the suite tries again
		return retryproof.Refused(retryproof.CodeConflict, "the transaction did not begin", err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(sqlite.Within(tx)); err != nil {
		return err
	}
	return tx.Commit()
}
