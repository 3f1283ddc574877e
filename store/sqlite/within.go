package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/store/internal/record"
)

// Tx adds records to a transaction of yours, so that they commit, or roll back,
// with your own rows. It never commits and never leaves the transaction unusable: a
// duplicate is a result, not an error.
type Tx struct{ q query }

// Within binds to your transaction, from sql.Open("sqlite", [Config.DSN]) on the same
// file. A transaction that is finished, or nil, makes every method fail with
// CodeInvalid: nothing is published silently.
func Within(tx *sql.Tx) Tx {
	if tx == nil {
		return Tx{}
	}
	return Tx{inTx{tx}}
}

// Transact runs f in a transaction of the store's own writing connection, and commits
// it when f returns nil. It is how rows of yours get into a database in memory, which
// no other connection can reach: use [Within] on tx for the store's part. Nobody else
// writes meanwhile, and f must not call the store. An error of f is returned as it is,
// and nothing was written; one of COMMIT says what is known.
func (s *Store) Transact(ctx context.Context, f func(tx *sql.Tx) error) (err error) {
	stopped := s.writer.alone(ctx, func() {
		var tx *sql.Tx
		err = s.writer.patiently(ctx, func() (err error) {
			tx, err = s.writer.conn.BeginTx(ctx, nil)
			return err
		})
		if err != nil {
			err = notDone(err)
			return
		}
		defer func() { _ = tx.Rollback() }() // nothing after a COMMIT
		if err = f(tx); err != nil {
			return
		}
		if failed := tx.Commit(); failed != nil {
			err = notCommitted(failed)
		}
	})
	if stopped != nil {
		return stopped
	}
	return err
}

func (t Tx) valid() error {
	if t.q == nil {
		return record.Invalid("there is no transaction")
	}
	return nil
}

// Publish stores an event for the outbox; one with its id that is there is left.
func (t Tx) Publish(ctx context.Context, e retryproof.Event) error {
	if err := t.valid(); err != nil {
		return err
	}
	if err := record.CheckEvents([]retryproof.Event{e}); err != nil {
		return err
	}
	return notDone(insertEvent(ctx, t.q, e))
}

// Once notes a message for the inbox. When it reports false, the message's effect is
// there already.
func (t Tx) Once(ctx context.Context, k retryproof.InboxKey, now time.Time) (first bool, err error) {
	if err := t.valid(); err != nil {
		return false, err
	}
	if err := record.CheckInbox(k, now); err != nil {
		return false, err
	}
	first, err = meetInbox(ctx, t.q, k, now)
	return first && err == nil, notDone(err)
}

// Intend stores a notification intent, which needs its CreatedAt; one that is there
// is left.
func (t Tx) Intend(ctx context.Context, i notify.Intent) error {
	if err := t.valid(); err != nil {
		return err
	}
	if i.CreatedAt.IsZero() {
		return record.Invalid("the intent has no time of creation")
	}
	if err := record.CheckIntents([]notify.Intent{i}); err != nil {
		return err
	}
	return notDone(insertIntent(ctx, t.q, i))
}

// Finish ends an attempt of the generic guards in this transaction: its outcome, its
// answer and your rows commit together, or none of them. When it returns an error roll
// back: with CodeMoved another owner has taken the effect over, or an earlier transaction
// of this attempt has committed. Return the error from the run or the handler, which is
// then answered from the record; see [effect.Attempt.FinishWith].
func (t Tx) Finish(ctx context.Context, a *effect.Attempt, f effect.Finish) error {
	return a.FinishWith(ctx, f, t.Settle)
}

// Settle is effect.Store's Settle on the generic guards. An owner uses [Tx.Finish]: a
// Settle that did not move is no error, and yours must not commit then.
func (t Tx) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	return t.settle(ctx, record.Guards, s)
}

// SettlePayment is effect.Store's Settle on the payments table.
func (t Tx) SettlePayment(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	return t.settle(ctx, record.Payments, s)
}

// SettleRefund is effect.Store's Settle on the refunds table.
func (t Tx) SettleRefund(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	return t.settle(ctx, record.Refunds, s)
}

func (t Tx) settle(ctx context.Context, guards record.Table, s effect.Settle) (effect.Settled, error) {
	if err := t.valid(); err != nil {
		return effect.Settled{}, err
	}
	if err := record.CheckSettle(s); err != nil {
		return effect.Settled{}, err
	}
	var out effect.Settled
	err := t.allOrNothing(ctx, func() (err error) {
		out, err = effects{t: table(guards)}.settle(ctx, t.q, s)
		return err
	})
	return orNothing(out, notDone(err))
}

// allOrNothing undoes what write has written when it fails: postings can be refused
// after the guard has moved, and your transaction may go on and commit.
func (t Tx) allOrNothing(ctx context.Context, write func() error) error {
	if _, err := t.q.exec(ctx, "SAVEPOINT retryproof_settle"); err != nil {
		return err
	}
	err := write()
	if err != nil {
		ctx = context.WithoutCancel(ctx)
		_, undo := t.q.exec(ctx, "ROLLBACK TO retryproof_settle")
		err = errors.Join(err, undo)
	}
	_, release := t.q.exec(ctx, "RELEASE retryproof_settle")
	return errors.Join(err, release)
}
