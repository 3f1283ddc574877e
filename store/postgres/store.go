// Package postgres keeps everything in PostgreSQL (pgx): claims, guards, payments,
// refunds, ledger, outbox, inbox, notifications.
//
// Promises: each method is one transaction; a repeat's Begin is one round trip that
// writes nothing, a first request's Begin one commit, and so is Settle; callers that
// wait at the same time share commits, each with its own verdict; everything works at
// READ COMMITTED, REPEATABLE READ and SERIALIZABLE, and through a transaction pooler;
// a read replica is refused; a unique violation never reaches a caller's transaction.
//
// Does not promise: progress of an operation while another transaction holds a lock that
// it needs, unless Config.LockTimeout is set; others go on, as long as the pool has a
// connection for each that waits. Nor that an answer to COMMIT arrives: without one the error is
// Unknown.
//
// Crash points: before COMMIT nothing is there, after it everything is. A program or
// a connection that ends during COMMIT leaves one or the other; the next read tells.
package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/store/internal/record"
)

// Store is an open database. Safe for concurrent use.
type Store struct {
	pool   *pgxpool.Pool
	config Config
	owned  bool // Close closes the pool
	// opening is what every transaction begins with; empty when a lone statement is
	// right as it is.
	opening []string
	// begins and settles let concurrent callers share commits.
	begins, settles *group
}

// Open connects and refuses a read replica, a database that lacks a migration, unless
// Config.Migrate is set, and one that a newer program has migrated.
func Open(ctx context.Context, config Config) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	pool, config, err := connect(ctx, config)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, pool, config)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// connect makes a pool for the configuration, with Pooled set when a pooler stands in
// between.
func connect(ctx context.Context, config Config) (*pgxpool.Pool, Config, error) {
	config = config.withDefaults()
	given, err := pgx.ParseConfig(config.URL)
	if err != nil {
		return nil, config, record.Invalid("the database URL cannot be parsed")
	}
	config = config.yieldTo(given.RuntimeParams)
	parsed, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, config, record.Invalid("a pool_ setting of the database URL cannot be parsed")
	}
	if !config.Pooled {
		if config.Pooled, err = behindPooler(ctx, parsed.ConnConfig); err != nil {
			return nil, config, err
		}
	}
	if _, ok := given.RuntimeParams["pool_max_conns"]; !ok {
		parsed.MaxConns = int32(config.MaxConns)
	}
	parsed.ConnConfig.ValidateConnect = refuseReplica
	switch {
	case config.Pooled && !config.PooledPrepared:
		parsed.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	case !config.Pooled:
		// A connection of our own may keep settings, so that one statement can be
		// one transaction.
		params := parsed.ConnConfig.RuntimeParams
		if config.Isolation != "" {
			params["default_transaction_isolation"] = string(config.Isolation)
		}
		if config.LockTimeout > 0 {
			params["lock_timeout"] = fmt.Sprint(config.LockTimeout.Milliseconds())
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, parsed)
	if err != nil {
		return nil, config, told(notDone(err))
	}
	return pool, config, nil
}

// behindPooler compares the server process that answers with the one that the
// connection was opened to: a pooler makes that number up.
func behindPooler(ctx context.Context, config *pgx.ConnConfig) (bool, error) {
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, told(notDone(err))
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var pid int64
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return false, told(notDone(err))
	}
	return pid != int64(conn.PgConn().PID()), nil
}

// refuseReplica is asked about every new connection, so that a failover to a replica
// is found out, and a URL with several hosts leads to the primary.
func refuseReplica(ctx context.Context, conn *pgconn.PgConn) error {
	r := conn.ExecParams(ctx, "SELECT pg_is_in_recovery()::int", nil, nil, nil, nil).Read()
	if r.Err != nil {
		return r.Err
	}
	if len(r.Rows) == 1 && string(r.Rows[0][0]) == "1" {
		return errReplica
	}
	alignNew(ctx, conn)
	return nil
}

// New uses a pool of yours, which Close leaves open. Isolation and LockTimeout are
// then set in each transaction. Set Config.Pooled when the pool leads to a transaction
// pooler.
func New(ctx context.Context, pool *pgxpool.Pool, config Config) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	s := &Store{pool: pool, config: config}
	params := pool.Config().ConnConfig.RuntimeParams
	isolated := config.Isolation == "" || params["default_transaction_isolation"] == string(config.Isolation)
	timed := config.LockTimeout == 0 || params["lock_timeout"] == fmt.Sprint(config.LockTimeout.Milliseconds())
	if !isolated || !timed {
		s.opening = config.opening()
	}
	s.begins, s.settles = newGroup(s), newGroup(s)
	if err := s.checkServer(ctx); err != nil {
		return nil, err
	}
	if err := s.checkSchema(ctx); err != nil {
		return nil, err
	}
	_ = s.align(ctx) // for a pool of yours; who meets a number that is taken does it again
	return s, nil
}

func (s *Store) checkServer(ctx context.Context) error {
	var replica bool
	if err := s.pool.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&replica); err != nil {
		return told(notDone(err))
	}
	if replica {
		return errReplica
	}
	return nil
}

// Close closes the pool if Open made it.
func (s *Store) Close() error {
	if s.owned {
		s.pool.Close()
	}
	return nil
}

// Pool is the connection pool, for transactions of your own and [Within].
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Effects keeps claims and the generic guards.
func (s *Store) Effects() effect.Store { return effects{s, table(record.Guards)} }

// Keys is the claim half of Effects, for a key store of its own.
func (s *Store) Keys() effect.Keys { return effects{s, table(record.Guards)} }

// Guards is the guard half of Effects.
func (s *Store) Guards() effect.Guards { return effects{s, table(record.Guards)} }

// PaymentGuards is the guard half of Payments().Effects.
func (s *Store) PaymentGuards() effect.Guards { return effects{s, table(record.Payments)} }

// RefundGuards is the guard half of Payments().Refunds.
func (s *Store) RefundGuards() effect.Guards { return effects{s, table(record.Refunds)} }

// Due lists the generic guards that have to be asked about.
func (s *Store) Due() resolve.Store { return effects{s, table(record.Guards)} }

// Outbox is the store of events that wait to be sent.
func (s *Store) Outbox() outbox.Store { return outboxStore{s} }

// Inbox is the store of messages that were applied.
func (s *Store) Inbox() inbox.Store { return inboxStore{s} }

// Notify is the store of notification intents.
func (s *Store) Notify() notify.Store { return notifyStore{s} }

// Payments are the databases behind the payments system, all of them this one.
func (s *Store) Payments() payments.Stores {
	guards, refunds := effects{s, table(record.Payments)}, effects{s, table(record.Refunds)}
	return payments.Stores{
		Effects:        guards,
		Due:            guards,
		Refunds:        refunds,
		DueRefunds:     refunds,
		Outbox:         s.Outbox(),
		Inbox:          s.Inbox(),
		ParkedEvents:   s.ParkedEvents(),
		ParkedMessages: s.ParkedMessages(),
		Notify:         s.Notify(),
		Ledger:         ledgerStore{s},
		Hops:           hopStore{s},
		RefundList:     ledgerStore{s},
		Versions:       s.Versions(),
		Janitor:        janitor{s},
	}
}

// acquire takes a connection. Nothing was sent when it fails.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := s.pool.Acquire(ctx)
	if err == nil {
		return conn, nil
	}
	var known *retryproof.Error
	if errors.As(err, &known) { // a replica
		return nil, known
	}
	return nil, retryproof.Refused(retryproof.CodeUnavailable, "no connection to the database", shown(err))
}
