package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/store/internal/record"
)

// Settle is one statement, and one more that reads when the guard did not move: what
// moved it may have been committed after the statement began. Postings that are there
// cost one more; see entrySQL.
func (e effects) Settle(ctx context.Context, set effect.Settle) (effect.Settled, error) {
	if err := record.CheckSettle(set); err != nil {
		return effect.Settled{}, err
	}
	args, err := e.settleArgs(set)
	if err != nil {
		return effect.Settled{}, err
	}
	sql := e.t.settle
	if set.Evidence != nil || set.Note != nil {
		sql, args = e.t.settleNoting, append(args, evidenceArgs(set)...)
	}
	var first, completed, noted bool
	g := e.t.Scan()
	dest := append([]any{&first, &completed, &noted}, g.Dest()...)
	var answered bool
	err = e.s.posting(ctx, sql, func(sql string) error {
		return e.s.settles.do(ctx, lockOrder(set), statement{sql, args, firstRow(&answered, dest...)})
	})
	if err != nil {
		return effect.Settled{}, err
	}
	out := effect.Settled{Repeat: set.Inbox != nil && !first, Completed: completed, Noted: noted, Guard: g.Guard()}
	out.Moved = out.Guard != nil
	switch {
	case !out.Moved:
		out.Guard, err = e.LookGuard(ctx, effect.Look{GuardID: set.ID})
	case set.Claim != nil && !completed:
		out.Completed, err = e.holds(ctx, *set.Claim)
	}
	if err != nil { // the settlement itself stands
		return effect.Settled{}, &retryproof.Error{Code: retryproof.CodeUnknown, Message: "the settlement could not be read back", Err: err}
	}
	return out, nil
}

// lockOrder sorts the settlements of a group by the balance that they lock.
func lockOrder(s effect.Settle) string {
	for _, p := range s.Postings {
		if record.KeepsBalance(p.Account) {
			return p.Account
		}
	}
	return ""
}

func (e effects) settleArgs(s effect.Settle) ([]any, error) {
	args, err := e.t.moveArgs(s)
	if err != nil {
		return nil, err
	}
	var k retryproof.InboxKey
	if s.Inbox != nil {
		k = *s.Inbox
	}
	args = append(args, s.Inbox != nil, k.EventID, k.Source, k.Consumer)
	args = append(append(args, postingArrays(s.Postings)...), eventArrays(s.Events)...)
	done := effect.Completion{}
	if s.Claim != nil {
		done = *s.Claim
	}
	answer, err := record.EncodeAnswer(done.Answer)
	if err != nil {
		return nil, err
	}
	scope := ""
	if s.Claim != nil {
		scope = string(done.Scope.ID())
	}
	return append(args, bytesOrNull(answer), record.Nullable(done.ExpiresAt), scope, done.Owner), nil
}

func bytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// eventArrays are the columns event_id, type, group_key, body and at.
func eventArrays(events []retryproof.Event) []any {
	n := len(events)
	ids, types, groups, bodies, times := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n), make([]int64, n)
	for i, e := range events {
		ids[i], types[i], groups[i], bodies[i], times[i] = e.ID, e.Type, e.Group, e.Body, record.Micros(e.At)
		if bodies[i] == nil {
			bodies[i] = []byte{}
		}
	}
	return []any{ids, types, groups, bodies, times}
}

// SettleGuard is Settle without its Claim.
func (e effects) SettleGuard(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	s.Claim = nil
	return e.Settle(ctx, s)
}

// settleWithin settles in a transaction that is open already, in plain statements that
// every driver for PostgreSQL can send.
func (e effects) settleWithin(ctx context.Context, q query, set effect.Settle) (out effect.Settled, err error) {
	args, err := e.t.moveArgs(set)
	if err != nil {
		return out, err
	}
	if set.Inbox != nil {
		first, err := noteInbox(ctx, q, *set.Inbox, set.Now)
		if err != nil {
			return out, err
		}
		out.Repeat = !first
	}
	if !out.Repeat {
		if err := e.lockPaid(ctx, q, set); err != nil {
			return out, err
		}
		g := e.t.Scan()
		err := q.row(ctx, e.t.move, args...).Scan(g.Dest()...)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return out, err
		}
		out.Guard, out.Moved = g.Guard(), err == nil
	}
	if !out.Moved {
		lock := ""
		if set.Note != nil {
			lock = forUpdate // a guard that is released at the same time keeps no note
		}
		if out.Guard, err = e.readGuard(ctx, q, string(set.ID), lock); err != nil || out.Guard == nil || out.Repeat {
			return out, err
		}
	}
	if out.Noted, err = e.keep(ctx, q, set.ID, set.Note); err != nil || !out.Moved {
		return out, err
	}
	if _, err = e.keep(ctx, q, set.ID, set.Evidence); err != nil {
		return out, err
	}
	if err := e.giveBack(ctx, q, out.Guard); err != nil {
		return out, err
	}
	if err := writeEffects(ctx, q, set.Postings, nil, set.Events, set.Now); err != nil {
		return out, err
	}
	if set.Claim != nil {
		out.Completed, err = completeWithin(ctx, q, *set.Claim)
	}
	return out, err
}

// writeEffects writes what an effect leaves behind, in plain statements.
func writeEffects(ctx context.Context, q query, postings []ledger.Posting, intents []notify.Intent, events []retryproof.Event, now time.Time) error {
	for _, entry := range record.Entries(postings) {
		if err := postWithin(ctx, q, entry, now); err != nil {
			return err
		}
	}
	for _, i := range intents {
		if err := insertIntent(ctx, q, i); err != nil {
			return err
		}
	}
	for _, e := range events {
		if err := insertEvent(ctx, q, e); err != nil {
			return err
		}
	}
	return nil
}
