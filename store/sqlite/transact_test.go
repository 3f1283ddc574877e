package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/store/sqlite"
)

func TestARowOfOnesOwnCommitsWithAnEventInMemory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Path: ":memory:", Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	do := func(id string, result error) error {
		return s.Transact(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY) STRICT"); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?)", id); err != nil {
				return err
			}
			if err := sqlite.Within(tx).Publish(ctx, retryproof.Event{ID: id, Type: "t", Group: "g"}); err != nil {
				return err
			}
			return result
		})
	}
	refused := errors.New("refused")
	if err := do("o1", refused); !errors.Is(err, refused) {
		t.Errorf("got %v, want the function's error", err)
	}
	if err := do("o2", nil); err != nil {
		t.Fatal(err)
	}
	stats, err := s.Payments().Outbox.Stats(ctx)
	if err != nil || stats.Waiting != 1 {
		t.Errorf("got %+v %v, want one event", stats, err)
	}
	var orders int
	err = s.Transact(ctx, func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&orders) })
	if err != nil || orders != 1 {
		t.Errorf("got %d orders, %v, want one", orders, err)
	}
}
