// Package sqlite keeps everything in one SQLite file (modernc.org/sqlite, pure Go):
// claims, guards, payments, refunds, ledger, outbox, inbox, notifications.
//
// Promises: a write that returned nil is on the disk (write-ahead log, synchronous
// FULL); each method is one transaction, and callers that wait at the same time share
// one commit, each with its own verdict; a read sees the last commit; several
// processes may open one file on one machine.
//
// Does not promise: anything on a network file system, where SQLite's locks do not
// hold; more than one writer at a time.
//
// Crash points: before COMMIT nothing is there, after it everything is. A crash
// during COMMIT leaves one or the other; SQLite decides when the file is opened
// again.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/store/internal/record"

	_ "modernc.org/sqlite" // registers the driver
)

// Store is an open database. Safe for concurrent use.
type Store struct {
	config   Config
	writerDB *sql.DB
	readerDB *sql.DB // nil in memory
	writer   *writer
	reader   *prepared // nil in memory
}

// Open opens or creates the database. It refuses one that lacks a migration, unless
// Config.Migrate is set, and one that a newer program has migrated.
func Open(ctx context.Context, config Config) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	s := &Store{config: config}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(notDone(err), s.Close())
	}
	if err := s.checkSchema(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) connect(ctx context.Context) error {
	db, err := sql.Open("sqlite", s.config.dsn("_txlock=immediate"))
	if err != nil {
		return err
	}
	s.writerDB = db
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	s.writer = newWriter(conn, s.config)
	if s.config.BusyTimeout > lockPause { // from here on the writer itself waits, for whoever still wants to
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", lockPause.Milliseconds())); err != nil {
			return err
		}
	}
	if s.config.inMemory() {
		return nil
	}
	s.readerDB, err = sql.Open("sqlite", s.config.dsn("_query_only=1"))
	if err != nil {
		return err
	}
	s.readerDB.SetMaxOpenConns(s.config.Readers)
	s.readerDB.SetMaxIdleConns(s.config.Readers)
	s.reader = newPrepared(s.readerDB)
	return nil
}

func (s *Store) checkSchema(ctx context.Context) error {
	if s.config.Migrate {
		_, err := s.migrate(ctx, Up)
		return err
	}
	return s.requireSchema(ctx)
}

// Close waits for the running commit, moves the write-ahead log into the file, so that
// a copy of the file alone is whole, and closes it. While another process has the file
// open, its last Close does that.
func (s *Store) Close() error {
	var errs []error
	if s.readerDB != nil {
		errs = append(errs, s.readerDB.Close())
	}
	if s.writer != nil {
		_ = s.writer.alone(context.Background(), func() {
			_, _ = s.writer.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
			errs = append(errs, s.writer.conn.Close())
		})
	}
	if s.writerDB != nil {
		errs = append(errs, s.writerDB.Close())
	}
	if err := errors.Join(errs...); err != nil && !errors.Is(err, sql.ErrConnDone) {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

// write runs f in a transaction that it may share with others.
func (s *Store) write(ctx context.Context, f func(ctx context.Context, q query) error) error {
	return s.writer.do(ctx, f)
}

// read runs f on a connection that reads the last commit. f must not write.
func (s *Store) read(ctx context.Context, f func(ctx context.Context, q query) error) error {
	if s.reader == nil {
		var err error
		if stopped := s.writer.alone(ctx, func() { err = f(ctx, s.writer.q) }); stopped != nil {
			return stopped
		}
		return notDone(err)
	}
	return notDone(f(ctx, s.reader))
}

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
