package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/store/postgres"
	"github.com/retryproof/retryproof/store/storetest"
)

// TestStore: cases 11, 15 to 20, 30 to 34 and 37 are among the suite's.
func TestStore(t *testing.T) {
	t.Parallel()
	for name, level := range map[string]pgx.TxIsoLevel{
		"read committed": pgx.ReadCommitted, "repeatable read": pgx.RepeatableRead, "serializable": pgx.Serializable, // order: parallel
	} {
		t.Run("store=postgres/isolation="+name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, storetest.Traits{RetriesInside: true}, func(t *testing.T) storetest.Stores {
				return stores(t, postgres.Config{URL: database(t), Isolation: level, MaxConns: 8})
			})
		})
	}
}

// case 20: every transaction may run on another connection of the pooler's. A lock that is
// held for LockTimeout is a conflict, also a short one on a slow machine.
func TestStoreBehindAPooler(t *testing.T) {
	t.Parallel()
	t.Run("store=postgres-pooled", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, storetest.Traits{}, func(t *testing.T) storetest.Stores {
			return stores(t, postgres.Config{URL: pooled(t), MaxConns: 8, Isolation: pgx.ReadCommitted, LockTimeout: 2 * time.Second})
		})
	})
}

func stores(t *testing.T, config postgres.Config) storetest.Stores {
	t.Helper()
	s := open(t, config)
	return storetest.Stores{
		Sagas: s.Sagas(), Marks: s.Marks(),
		Payments: s.Payments(), Effects: s.Effects(), Due: s.Due(), Keys: s.Keys(), Guards: s.Guards(),
		PaymentGuards: s.PaymentGuards(), RefundGuards: s.RefundGuards(),
		Versions: s.Versions(), Locators: s.Locators(),
		Hold:   func(t *testing.T, m []retryproof.InboxKey, c []retryproof.Scope) func() { return hold(t, s, m, c) },
		Within: func(ctx context.Context, fn func(storetest.Tx) error) error { return within(ctx, s, config, fn) },
		Second: func(t *testing.T) storetest.Stores { return stores(t, config) },
		Reopen: func(t *testing.T) storetest.Stores {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return stores(t, config)
		},
	}
}

// hold locks rows in a transaction until release is called.
func hold(t *testing.T, s *postgres.Store, messages []retryproof.InboxKey, claims []retryproof.Scope) (release func()) {
	t.Helper()
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := func(sql string, args ...any) {
		var n int
		if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM ("+sql+" FOR UPDATE) held", args...).Scan(&n); err != nil || n != 1 {
			t.Errorf("got %d rows locked and error %v, want 1", n, err)
		}
	}
	for _, m := range messages {
		lock("SELECT FROM inbox WHERE event_id = $1 AND source = $2 AND consumer = $3", m.EventID, m.Source, m.Consumer)
	}
	for _, c := range claims {
		lock("SELECT FROM claims WHERE scope_id = $1", string(c.ID()))
	}
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// within runs fn in a transaction of a program's own.
func within(ctx context.Context, s *postgres.Store, config postgres.Config, fn func(storetest.Tx) error) error {
	tx, err := s.Pool().BeginTx(ctx, pgx.TxOptions{IsoLevel: config.Isolation})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err := fn(postgres.Within(tx)); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// A pool of the program's own keeps no settings for us.
func TestNewSetsTheLevelInEachTransaction(t *testing.T) {
	t.Parallel()
	place := database(t)
	run(t, place, "CREATE TABLE IF NOT EXISTS levels (level text)")
	run(t, place, "TRUNCATE levels")
	run(t, place, `CREATE OR REPLACE FUNCTION note_level() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO levels VALUES (current_setting('transaction_isolation')); RETURN NEW; END$$`)
	run(t, place, "CREATE OR REPLACE TRIGGER note_level BEFORE INSERT ON claims FOR EACH ROW EXECUTE FUNCTION note_level()")
	defer run(t, place, "DROP TRIGGER note_level ON claims")
	pool, err := pgxpool.New(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		s, err := postgres.New(t.Context(), pool, postgres.Config{Isolation: level, LockTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // a first request and its repeat
			if _, err := s.Effects().Begin(t.Context(), beginning(string(level[:4]), "a")); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got string
	if err := pool.QueryRow(t.Context(), "SELECT string_agg(level, ', ' ORDER BY level) FROM levels").Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want := "repeatable read, serializable"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatTheURLSaysWins(t *testing.T) {
	t.Parallel()
	place := database(t)
	fields := postgres.Config{MaxConns: 5, LockTimeout: 2 * time.Second, Isolation: pgx.RepeatableRead}
	for _, c := range []struct {
		params      string
		conns       int32
		lock, level string
	}{
		{"", 5, "2s", "repeatable read"},
		{"&pool_max_conns=3", 3, "2s", "repeatable read"},
		{"&lock_timeout=1234", 5, "1234ms", "repeatable read"},
		{"&default_transaction_isolation=serializable", 5, "2s", "serializable"},
	} {
		config := fields
		config.URL = place + c.params
		s := open(t, config)
		if got := s.Pool().Config().MaxConns; got != c.conns {
			t.Errorf("%q: got %d connections, want %d", c.params, got, c.conns)
		}
		for setting, want := range map[string]string{"lock_timeout": c.lock, "default_transaction_isolation": c.level} { // order: each is asked alone
			var got string
			if err := s.Pool().QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil || got != want {
				t.Errorf("%q: got %s %q and error %v, want %q", c.params, setting, got, err, want)
			}
		}
	}
	s := open(t, postgres.Config{URL: place + "&pool_max_conns=3"})
	if got := s.Pool().Config().MaxConns; got != 3 {
		t.Errorf("got %d connections, want 3", got)
	}
}
