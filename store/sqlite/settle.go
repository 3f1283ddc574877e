package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/store/internal/record"
)

// Settle moves the guard and writes what goes with the move, in one transaction.
func (e effects) Settle(ctx context.Context, set effect.Settle) (effect.Settled, error) {
	var out effect.Settled
	if err := record.CheckSettle(set); err != nil {
		return out, err
	}
	err := e.s.write(ctx, func(ctx context.Context, q query) (err error) {
		out, err = e.settle(ctx, q, set)
		return err
	})
	return orNothing(out, err)
}

func (e effects) settle(ctx context.Context, q query, set effect.Settle) (out effect.Settled, err error) {
	business, err := e.t.SettleArgs(set)
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
	if out.Guard, err = e.readGuard(ctx, q, string(set.ID)); err != nil || out.Guard == nil {
		return out, err
	}
	if out.Repeat {
		return out, nil
	}
	if out.Noted, err = e.keep(ctx, q, set.ID, set.Note); err != nil || !record.MaySettle(*out.Guard, set) {
		return out, err
	}
	g := e.t.Settled(*out.Guard, set)
	if _, err := q.exec(ctx, e.t.update, e.updateArgs(*g, business)...); err != nil {
		return out, err
	}
	out.Moved = true
	if e.t.GivesBack(set.To) {
		if err := e.giveBack(ctx, q, g); err != nil {
			return out, err
		}
	}
	if _, err := e.keep(ctx, q, set.ID, set.Evidence); err != nil {
		return out, err
	}
	if err := writeEffects(ctx, q, set.Postings, nil, set.Events, set.Now); err != nil {
		return out, err
	}
	if set.Claim != nil {
		if out.Completed, err = complete(ctx, q, *set.Claim); err != nil {
			return out, err
		}
	}
	out.Guard = g
	return out, nil
}

// writeEffects writes what an effect leaves behind.
func writeEffects(ctx context.Context, q query, postings []ledger.Posting, intents []notify.Intent, events []retryproof.Event, now time.Time) error {
	for _, entry := range record.Entries(postings) {
		if err := post(ctx, q, entry, now); err != nil {
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

// post writes one entry and raises the kept balances, unless exactly this entry is
// there. The transaction holds the write lock, so what it reads stays.
func post(ctx context.Context, q query, entry []ledger.Posting, now time.Time) error {
	there, err := readEntry(ctx, q, entry[0].Ref)
	if err != nil || slices.Equal(there, entry) {
		return err
	}
	if len(there) > 0 {
		return record.Invalid(record.OtherEntry)
	}
	for _, p := range entry {
		_, err := q.exec(ctx, "INSERT INTO postings (ref, account, currency, amount, created_at) VALUES (?, ?, ?, ?, ?)",
			p.Ref, p.Account, p.Currency, p.Amount, record.Micros(now))
		if err != nil {
			return err
		}
		if !record.KeepsBalance(p.Account) {
			continue
		}
		_, err = q.exec(ctx, `INSERT INTO accounts (account, currency, balance) VALUES (?, ?, ?)
			ON CONFLICT (account, currency) DO UPDATE SET balance = balance + excluded.balance`, p.Account, p.Currency, p.Amount)
		if err != nil {
			return err
		}
	}
	return nil
}

// readEntry reads the entry of a ref in the order of record.Entries.
func readEntry(ctx context.Context, q query, ref string) ([]ledger.Posting, error) {
	rows, err := q.rows(ctx, "SELECT account, currency, amount FROM postings WHERE ref = ? ORDER BY account", ref)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []ledger.Posting
	for rows.Next() {
		p := ledger.Posting{Ref: ref}
		if err := rows.Scan(&p.Account, &p.Currency, &p.Amount); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// SettleGuard is Settle without its Claim.
func (e effects) SettleGuard(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	s.Claim = nil
	return e.Settle(ctx, s)
}

// RecordGuard is the guard part of Begin.
func (e effects) RecordGuard(ctx context.Context, b effect.Begin) (*effect.Guard, error) {
	if err := record.CheckBegin(b); err != nil {
		return nil, err
	}
	row, err := e.t.InsertArgs(b)
	if err != nil {
		return nil, err
	}
	g, err := e.LookGuard(ctx, effect.Look{GuardID: b.GuardID})
	if err != nil || g != nil {
		return g, err
	}
	err = e.s.reserving(ctx, func(ctx context.Context, q query) error {
		if e.t.Reservation(b) == nil {
			g, err = e.record(ctx, q, b, row)
			return err
		}
		if g, err = e.readGuard(ctx, q, string(b.GuardID)); err != nil {
			return err
		}
		g, err = e.recordRefund(ctx, q, b, row, g)
		return err
	})
	return orNothing(g, err)
}

// AdoptGuard is the guard part of Adopt.
func (e effects) AdoptGuard(ctx context.Context, a effect.Adopt) (*effect.Guard, error) {
	a.GuardOnly = true
	seen, err := e.Adopt(ctx, a)
	return seen.Guard, err
}

// ReleaseGuard is the guard part of Release.
func (e effects) ReleaseGuard(ctx context.Context, r effect.Release) (bool, error) {
	var gone bool
	err := e.s.write(ctx, func(ctx context.Context, q query) (err error) {
		gone, err = e.releaseGuard(ctx, q, r)
		return err
	})
	return gone && err == nil, err
}

// LookGuard reads the guard.
func (e effects) LookGuard(ctx context.Context, l effect.Look) (*effect.Guard, error) {
	var g *effect.Guard
	err := e.s.read(ctx, func(ctx context.Context, q query) (err error) {
		g, err = e.readGuard(ctx, q, string(l.GuardID))
		return err
	})
	return orNothing(g, err)
}
