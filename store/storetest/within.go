package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
)

// Tx is a driver's open transaction, as the suite needs it.
type Tx interface {
	// Publish stores an event for the outbox.
	Publish(ctx context.Context, e retryproof.Event) error
	// Once notes a message and reports whether it is the first of its key.
	Once(ctx context.Context, k retryproof.InboxKey, now time.Time) (first bool, err error)
	// Finish ends an attempt of the generic guards.
	Finish(ctx context.Context, a *effect.Attempt, f effect.Finish) error
	// SettlePayment and SettleRefund move a guard of the table.
	SettlePayment(ctx context.Context, m effect.Settle) (effect.Settled, error)
	SettleRefund(ctx context.Context, m effect.Settle) (effect.Settled, error)
}

func withinCases(tr Traits) []testCase {
	cases := []testCase{
		{"TransactionCommitsEverythingTogether", withinCommits},
		{"TransactionThatFailsLeavesNothing", withinFails},
		{"TransactionThatPanicsLeavesNothing", withinPanics},
		{"PublishAfterTheEndIsAnError", withinOver},
		{"OnceIsFirstOnce", withinOnce},
		{"OnceAtOnceIsFirstOnce", withinRace},
		{"OnceKeepsWhatStillComesFromBeingForgotten", withinStillComes},
		{"DuplicateLeavesTheTransactionUsable", withinDuplicate},
		{"SlowTransactionIsNotSkipped", withinSlow},
		{"SettlementInATransactionIsAllOrNothing", withinSettles},
	}
	if !tr.NoEffects {
		cases = append(cases, testCase{"FinishInATransactionCommitsWithIt", withinFinish}, testCase{"LateOwnersTransactionIsRefused", withinLate})
	}
	if !tr.NoRefunds {
		cases = append(cases, testCase{"RefundThatFailsInATransactionGivesBackWithIt", withinRefund})
	}
	return cases
}

func (w *world) within(fn func(ctx context.Context, tx Tx) error) error {
	_, err := ask(w.patient(), func(ctx context.Context) (bool, error) {
		return true, w.Within(ctx, func(tx Tx) error { return fn(ctx, tx) })
	})
	return err
}

func (w *world) commits(fn func(ctx context.Context, tx Tx) error) {
	w.Helper()
	if err := w.within(fn); err != nil {
		w.Fatalf("got error %v, want a commit", err)
	}
}

func withinCommits(w *world) {
	w.commits(func(ctx context.Context, tx Tx) error {
		_, err := tx.Once(ctx, message("ev_7"), at(1))
		return errors.Join(err, tx.Publish(ctx, event("e1", "g")), tx.Publish(ctx, event("e2", "g")))
	})
	w.wantClaimed("r", 10, 20, 9, "e1 e2")
	check(w, "first after the commit", w.applies(inbox.Apply{Key: message("ev_7"), Now: at(2)}), false)
}

func withinFails(w *world) {
	cause := errors.New("the program changed its mind")
	err := w.within(func(ctx context.Context, tx Tx) error {
		_, err := tx.Once(ctx, message("ev_7"), at(1))
		return errors.Join(err, tx.Publish(ctx, event("e1", "g")), cause)
	})
	check(w, "the program's error comes back", errors.Is(err, cause), true)
	w.leftNothing()
}

func (w *world) leftNothing() {
	w.Helper()
	w.wantClaimed("r", 10, 20, 9, "")
	check(w, "waiting", w.stats().Waiting, 0)
	check(w, "first", w.applies(inbox.Apply{Key: message("ev_7"), Now: at(2)}), true)
}

func withinPanics(w *world) {
	const value = "the program's own panic"
	got := func() (got any) {
		defer func() { got = recover() }()
		return w.within(func(ctx context.Context, tx Tx) error {
			if _, err := tx.Once(ctx, message("ev_7"), at(1)); err != nil {
				return err
			}
			if err := tx.Publish(ctx, event("e1", "g")); err != nil {
				return err
			}
			panic(value)
		})
	}()
	check(w, "the panic goes on", got, any(value))
	w.leftNothing()
}

// case 34: a publish that comes after the transaction is an error, never silence.
func withinOver(w *world) {
	var committed, failed Tx
	w.commits(func(ctx context.Context, tx Tx) error {
		committed = tx
		return tx.Publish(ctx, event("e1", "g"))
	})
	_ = w.within(func(_ context.Context, tx Tx) error {
		failed = tx
		return errors.New("rolled back")
	})
	for what, tx := range map[string]Tx{"a commit": committed, "a rollback": failed} { // order: each is asked alone
		if err := tx.Publish(w.Context(), event("late", "g")); err == nil {
			w.Errorf("Publish after %s: got no error, want one", what)
		}
		if _, err := tx.Once(w.Context(), message("ev_7"), at(1)); err == nil {
			w.Errorf("Once after %s: got no error, want one", what)
		}
	}
	w.wantClaimed("r", 10, 20, 9, "e1")
	check(w, "first", w.applies(inbox.Apply{Key: message("ev_7"), Now: at(2)}), true)
}

// once runs a transaction that notes one message, and ends with end.
func (w *world) once(k retryproof.InboxKey, end error) (first bool) {
	w.Helper()
	err := w.within(func(ctx context.Context, tx Tx) (err error) {
		if first, err = tx.Once(ctx, k, at(1)); err != nil {
			return err
		}
		if again, err := tx.Once(ctx, k, at(1)); again || err != nil {
			return fmt.Errorf("the second Once of a transaction: got first=%v, error %w", again, err)
		}
		return end
	})
	if !errors.Is(err, end) {
		w.Fatalf("got error %v, want %v", err, end)
	}
	return first
}

func withinOnce(w *world) {
	rollback := errors.New("rolled back")
	check(w, "first", w.once(message("ev_7"), rollback), true)
	check(w, "first after a rollback", w.once(message("ev_7"), nil), true)
	check(w, "first after a commit", w.once(message("ev_7"), nil), false)
	other := message("ev_7")
	other.Consumer = "another"
	check(w, "first of another consumer", w.once(other, nil), true)
}

// case 37
func withinStillComes(w *world) {
	check(w, "first", w.applies(inbox.Apply{Key: message("ev_7"), Now: at(0.5)}), true)
	check(w, "first in a transaction", w.once(message("ev_7"), nil), false) // at 1
	check(w, "forgotten", must(w, func(ctx context.Context) (int, error) { return w.Payments.Inbox.Forget(ctx, at(1), 9) }), 0)
	check(w, "first in another", w.once(message("ev_7"), nil), false)
}

func withinRace(w *world) {
	all := w.instances()
	firsts := together(w.patient(), 20, func(ctx context.Context, i int) (first bool, err error) {
		err = all[i%len(all)].Within(ctx, func(tx Tx) (err error) {
			if first, err = tx.Once(ctx, message("ev_7"), at(1)); err != nil || !first {
				return err
			}
			return tx.Publish(ctx, event(fmt.Sprintf("e%d", i), "g"))
		})
		return first, err
	})
	check(w, "firsts", countTrue(firsts), 1)
	check(w, "waiting", w.stats().Waiting, 1)
}

// case 16: an insert that hits a duplicate must not cost the caller its own writes.
func withinDuplicate(w *world) {
	w.publish(event("e1", "g"))
	w.applies(inbox.Apply{Key: message("ev_7"), Now: at(1)})
	w.commits(func(ctx context.Context, tx Tx) error {
		first, err := tx.Once(ctx, message("ev_7"), at(2))
		check(w, "first", first, false)
		other := event("e1", "another group")
		return errors.Join(err, tx.Publish(ctx, other), tx.Publish(ctx, other), tx.Publish(ctx, event("audit", "g")))
	})
	w.wantClaimed("r", 10, 20, 9, "e1 audit")
}

// case 30: tx1 stores an event and waits; tx2 commits; a relay polls; tx1 commits.
func withinSlow(w *world) {
	overtaken := false
	w.commits(func(ctx context.Context, tx Tx) error {
		err := tx.Publish(ctx, event("slow", "g1"))
		overtaken = err == nil && w.overtakes()
		return err
	})
	w.Logf("a later transaction overtook: %v", overtaken)
	w.wantClaimed("r", 11, 20, 9, "slow")
	w.publish(event("later", "g1"))
	check(w, "deleted", w.deletes("r", "slow"), true)
	w.wantClaimed("r", 12, 20, 9, "later")
}

// overtakes stores, claims and deletes an event while another transaction is
// open. False when the driver lets one writer in at a time: then nobody overtakes.
func (w *world) overtakes() bool {
	impatient := w.patient()
	impatient.traits.Tries = 3
	_, err := ask(impatient, func(ctx context.Context) (bool, error) {
		return w.Payments.Inbox.Apply(ctx, inbox.Apply{Key: message("fast"), Now: at(1), Events: []retryproof.Event{event("fast", "g2")}})
	})
	if err != nil {
		check(w, "what a held lock says", retryproof.OutcomeOf(err), retryproof.NotDone)
		return false
	}
	w.wantClaimed("r", 10, 20, 9, "fast")
	check(w, "deleted", w.deletes("r", "fast"), true)
	return true
}
