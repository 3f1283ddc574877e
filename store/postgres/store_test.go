package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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
			storetest.Run(t, storetest.Traits{}, func(t *testing.T) storetest.Stores {
				return stores(t, postgres.Config{URL: database(t), Isolation: level, MaxConns: 8})
			})
		})
	}
}

// case 20: every transaction may run on another connection of the pooler's.
func TestStoreBehindAPooler(t *testing.T) {
	t.Parallel()
	t.Run("store=postgres-pooled", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, storetest.Traits{}, func(t *testing.T) storetest.Stores {
			return stores(t, postgres.Config{URL: pooled(t), MaxConns: 8})
		})
	})
}

func stores(t *testing.T, config postgres.Config) storetest.Stores {
	t.Helper()
	s := open(t, config)
	return storetest.Stores{
		Payments: s.Payments(), Effects: s.Effects(), Due: s.Due(), Keys: s.Keys(), Guards: s.Guards(),
		PaymentGuards: s.PaymentGuards(),
		Within:        func(ctx context.Context, fn func(storetest.Tx) error) error { return within(ctx, s, config, fn) },
		Second:        func(t *testing.T) storetest.Stores { return stores(t, config) },
		Reopen: func(t *testing.T) storetest.Stores {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return stores(t, config)
		},
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
