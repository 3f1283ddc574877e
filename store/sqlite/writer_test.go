package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/sqlite"
)

// file opens a database file, and a connection of another program, which waits for nobody, beside it.
func file(t *testing.T, config sqlite.Config) (*sqlite.Store, *sql.DB) {
	t.Helper()
	config.Path, config.Migrate = filepath.Join(t.TempDir(), "shop.db"), true
	s, err := sqlite.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	other, err := sql.Open("sqlite", sqlite.Config{Path: config.Path, BusyTimeout: -1}.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return s, other
}

func postOne(ctx context.Context, s *sqlite.Store, ref string) error {
	return s.Payments().Ledger.Post(ctx, []ledger.Posting{
		{Account: "merchant:m1", Currency: "USD", Amount: 1, Ref: ref}, {Account: "opening", Currency: "USD", Amount: -1, Ref: ref},
	}, time.Unix(1, 0))
}

// Writers that another process holds up each go when their own context ends, however
// long the lock is held and whoever waits before them.
func TestAWriterLeavesWhenItsContextEndsThoughAnotherProcessHoldsTheLock(t *testing.T) {
	t.Parallel()
	s, other := file(t, sqlite.Config{BusyTimeout: time.Hour})
	held, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	results := make(chan error, 3)
	for i := range 3 {
		go func() { results <- postOne(ctx, s, string(rune('a'+i))) }()
	}
	for range 3 {
		if err := <-results; retryproof.OutcomeOf(err) != retryproof.NotDone || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's end, not done", err)
		}
	}
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := postOne(t.Context(), s, "d"); err != nil {
		t.Errorf("afterwards: got %v", err)
	}
	if got, err := s.Payments().Ledger.Balance(t.Context(), "merchant:m1", "USD"); got != 1 || err != nil {
		t.Errorf("got a balance of %d, %v, want 1: what was left was not written", got, err)
	}
}

func TestALockThatIsHeldForTooLongIsAConflict(t *testing.T) {
	t.Parallel()
	s, other := file(t, sqlite.Config{BusyTimeout: 100 * time.Millisecond})
	held, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := postOne(t.Context(), s, "a"); retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeConflict {
		t.Errorf("got %v, want a conflict, not done", err)
	}
	err = s.Transact(t.Context(), func(*sql.Tx) error { return nil })
	if retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeConflict {
		t.Errorf("Transact: got %v, want a conflict, not done", err)
	}
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := postOne(t.Context(), s, "a"); err != nil {
		t.Errorf("afterwards: got %v", err)
	}
}

func TestAPanicInATransactionOfOnesOwnLeavesTheStoreUsable(t *testing.T) {
	t.Parallel()
	s, _ := file(t, sqlite.Config{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("got no panic, want the function's")
			}
		}()
		_ = s.Transact(t.Context(), func(tx *sql.Tx) error {
			if err := sqlite.Within(tx).Publish(t.Context(), retryproof.Event{ID: "e1", Group: "g"}); err != nil {
				t.Error(err)
			}
			panic("a fault of the caller")
		})
	}()
	if err := postOne(t.Context(), s, "a"); err != nil {
		t.Errorf("a write afterwards: got %v", err)
	}
	if st, err := s.Outbox().Stats(t.Context()); st != (outbox.Stats{}) || err != nil {
		t.Errorf("got %+v, %v, want nothing published", st, err)
	}
}

// A transaction that reads before it writes must not find at its write that another
// process was faster.
func TestATransactionOfOnesOwnHoldsTheLockFromItsBeginning(t *testing.T) {
	t.Parallel()
	s, other := file(t, sqlite.Config{})
	err := s.Transact(t.Context(), func(tx *sql.Tx) error {
		var n int
		if err := tx.QueryRow("SELECT count(*) FROM outbox").Scan(&n); err != nil {
			return err
		}
		if _, err := other.Exec("DELETE FROM outbox"); err == nil {
			t.Error("another process wrote meanwhile")
		}
		return sqlite.Within(tx).Publish(t.Context(), retryproof.Event{ID: "e1", Group: "g"})
	})
	if err != nil {
		t.Errorf("got %v", err)
	}
}

func TestAClosedFileIsWholeByItself(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := postOne(t.Context(), s, "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved.db")
	if err := os.WriteFile(moved, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = sqlite.Open(t.Context(), sqlite.Config{Path: moved})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if got, err := s.Payments().Ledger.Balance(t.Context(), "merchant:m1", "USD"); got != 1 || err != nil {
		t.Errorf("got %d, %v, want the balance", got, err)
	}
}
