package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/store/internal/record"
)

// Tx adds records to a transaction of yours, so that they commit, or roll back, with
// your own rows. It never commits and never makes the transaction fail for a
// duplicate: a duplicate is a result, not an error.
//
// At REPEATABLE READ and SERIALIZABLE a concurrent duplicate is CodeConflict: roll
// back and run your whole transaction again.
type Tx struct{ q query }

// Within binds to a transaction of pgx. A transaction that is finished, or nil, makes
// every method fail with CodeInvalid: nothing is published silently.
func Within(tx pgx.Tx) Tx {
	if tx == nil {
		return Tx{}
	}
	return Tx{overPgx{tx}}
}

// WithinSQL is Within for database/sql, with the driver of pgx (pgx/v5/stdlib) or any
// other for PostgreSQL that numbers parameters $1, $2, also one that wraps errors.
func WithinSQL(tx *sql.Tx) Tx {
	if tx == nil {
		return Tx{}
	}
	return Tx{overSQL{tx}}
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

// Intend stores a notification intent, which needs its CreatedAt; one that is there is
// left.
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
	settle := func() (err error) {
		out, err = effects{t: table(guards)}.settleWithin(ctx, t.q, s)
		return err
	}
	err := t.allOrNothing(ctx, settle)
	if errors.Is(err, errMoving) { // what was in the way is committed and seen now
		err = t.allOrNothing(ctx, settle)
	}
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
		_, undo := t.q.exec(ctx, "ROLLBACK TO SAVEPOINT retryproof_settle")
		err = errors.Join(err, undo)
	}
	_, release := t.q.exec(ctx, "RELEASE SAVEPOINT retryproof_settle")
	return errors.Join(err, release)
}
