package sqlite_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/store/sqlite"
)

func TestALockOfAnotherProcessIsAConflict(t *testing.T) {
	t.Parallel()
	s, other := sqliteDB(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "test.db"), Migrate: true, BusyTimeout: -1})
	tx := begin(t, other) // immediate: holds the write lock
	err := post(t.Context(), s, "merchant:secret")
	if retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeConflict {
		t.Errorf("got %v (%v), want NotDone and CodeConflict", err, retryproof.OutcomeOf(err))
	}
	if _, err := s.Effects().Look(t.Context(), effect.Look{Now: noon}); err != nil {
		t.Errorf("a read waits for a writer: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := post(t.Context(), s, "merchant:secret"); err != nil {
		t.Errorf("after the lock was given back: got %v, want none", err)
	}
}

func TestARefusedValueIsNotDoneAndStaysOutOfTheErrorText(t *testing.T) {
	t.Parallel()
	config := sqlite.Config{Path: filepath.Join(t.TempDir(), "test.db"), Migrate: true}
	s, db := sqliteDB(t, config)
	exec(t, db, "CREATE TRIGGER refuse BEFORE INSERT ON postings BEGIN SELECT RAISE(ABORT, 'merchant:secret'); END")
	err := post(t.Context(), s, "merchant:secret")
	if retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("got %v (%v), want NotDone", err, retryproof.OutcomeOf(err))
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows a value: %v", err)
	}
	exec(t, db, "DROP TRIGGER refuse")
	if err := post(t.Context(), s, "merchant:secret"); err != nil {
		t.Errorf("afterwards: got %v, want none", err)
	}
}

func TestACallerWhoIsGoneAlreadyWritesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{Path: ":memory:", Migrate: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := post(ctx, s, "merchant:m1")
	if retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeUnavailable {
		t.Errorf("got %v (%v), want NotDone and CodeUnavailable", err, retryproof.OutcomeOf(err))
	}
	if got, err := s.Payments().Ledger.Balance(t.Context(), "merchant:m1", "USD"); got != 0 || err != nil {
		t.Errorf("got balance %d and error %v, want 0", got, err)
	}
}

func TestAClosedStoreIsNotDone(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{Path: ":memory:", Migrate: true})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := post(t.Context(), s, "merchant:m1"); retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("got %v (%v), want NotDone", err, retryproof.OutcomeOf(err))
	}
}

func TestAFileThatCannotBeOpenedSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "missing", "test.db"), Migrate: true})
	if retryproof.OutcomeOf(err) != retryproof.NotDone || !strings.Contains(err.Error(), "folder") {
		t.Errorf("got %v (%v), want NotDone and a word about the folder", err, retryproof.OutcomeOf(err))
	}
}

func post(ctx context.Context, s *sqlite.Store, account string) error {
	return s.Payments().Ledger.Post(ctx, []ledger.Posting{
		{Account: account, Currency: "USD", Amount: 5, Ref: "r1"},
		{Account: "cash", Currency: "USD", Amount: -5, Ref: "r1"},
	}, noon.Add(time.Second))
}
