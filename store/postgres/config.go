package postgres

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
)

// Config says which database to open and how to behave in it. For [Open] only URL is
// needed, for [New] nothing.
type Config struct {
	// URL is a postgres:// URL or a libpq keyword string. Its parameters
	// pool_max_conns, default_transaction_isolation and lock_timeout win over
	// MaxConns, Isolation and LockTimeout; search_path names a schema of one's own,
	// which must exist. [New] does not use it. Defaults to libpq's environment
	// variables and defaults.
	URL string
	// Migrate applies missing migrations. Defaults to false: a database that lacks
	// one is refused.
	Migrate bool
	// MaxConns bounds the pool. Defaults to 16.
	MaxConns int
	// Pooled says that a transaction pooler (pgbouncer) stands in between: then
	// nothing is kept in a session, no statement is prepared by name, and every read
	// checks that it is not on a replica. Open finds out by itself, so that setting
	// it is needed for New only. Defaults to false.
	Pooled bool
	// PooledPrepared lets statements be prepared by name behind a pooler that keeps
	// track of them (pgbouncer 1.21 and later with max_prepared_statements): each is
	// then planned once instead of every time. Defaults to false.
	PooledPrepared bool
	// Isolation is the level of every transaction, except that of the outbox claim,
	// which needs READ COMMITTED to see what the relay before it committed.
	// Defaults to the server's default.
	Isolation pgx.TxIsoLevel
	// LockTimeout bounds the wait for another transaction's lock; then the error is
	// CodeConflict. Defaults to the server's setting.
	LockTimeout time.Duration
	// Retries is how often a serialization failure or a deadlock is tried again
	// before it becomes CodeConflict; negative is never. Defaults to 20.
	Retries int
	// MaxGroup is how many callers' Begin or Settle share one commit at most. They
	// do only when they wait at the same time. 1 or less never groups. Defaults to
	// 64.
	MaxGroup int
	// Clock waits between retries and stamps migrations. Defaults to clock.System().
	Clock clock.Clock
	// Rand makes the jitter of retries. Defaults to entropy.System().
	Rand entropy.Source
}

func (c Config) withDefaults() Config {
	if c.MaxConns == 0 {
		c.MaxConns = 16
	}
	if c.Retries == 0 {
		c.Retries = 20
	}
	if c.MaxGroup == 0 {
		c.MaxGroup = 64
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Rand == nil {
		c.Rand = entropy.System()
	}
	return c
}

// yieldTo leaves to the URL's parameters what they say.
func (c Config) yieldTo(params map[string]string) Config {
	if level, ok := params["default_transaction_isolation"]; ok {
		c.Isolation = pgx.TxIsoLevel(strings.ToLower(level))
	}
	if _, ok := params["lock_timeout"]; ok {
		c.LockTimeout = 0
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c Config) Validate() error {
	var errs []error
	switch c.Isolation {
	case "", pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
	default:
		errs = append(errs, fmt.Errorf("postgres: Isolation %q is none of read committed, repeatable read, serializable", c.Isolation))
	}
	if c.MaxConns < 0 {
		errs = append(errs, fmt.Errorf("postgres: MaxConns is %d, must not be negative", c.MaxConns))
	}
	if c.LockTimeout < 0 || c.LockTimeout > 0 && c.LockTimeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("postgres: LockTimeout is %v, must be 0 or at least 1 ms", c.LockTimeout))
	}
	return errors.Join(errs...)
}

// opening starts a transaction with the configured level and lock timeout.
func (c Config) opening() []string {
	begin := "BEGIN"
	if c.Isolation != "" {
		begin += " ISOLATION LEVEL " + string(c.Isolation)
	}
	if c.LockTimeout == 0 {
		return []string{begin}
	}
	return []string{begin, fmt.Sprintf("SET LOCAL lock_timeout = %d", c.LockTimeout.Milliseconds())}
}
