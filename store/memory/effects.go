package memory

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/payments"
)

// effects is effect.Store over the claims and one guard table.
type effects struct {
	s *Store
	t *table
}

func (e effects) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	if err := e.t.checkBegin(b); err != nil {
		return effect.Seen{}, err
	}
	if err := e.s.lock(ctx); err != nil {
		return effect.Seen{}, err
	}
	defer e.s.mu.Unlock()
	if b.Void {
		return e.void(b)
	}
	held := e.s.claims.byScope[b.Scope]
	if held.Expired(round(b.Now)) || mine(held, b.Owner) {
		if _, err := e.t.record(b); err != nil { // before the claim, which cannot fail
			return effect.Seen{}, err
		}
	}
	c := e.s.claims.claim(b)
	return effect.Seen{Claim: claimOut(c), Guard: e.t.out(e.t.rows[b.GuardID])}, nil
}

// void is a Begin with Void.
func (e effects) void(b effect.Begin) (effect.Seen, error) {
	g, err := e.t.record(b)
	if err != nil {
		return effect.Seen{}, err
	}
	if g.State == effect.Void {
		e.s.claims.claim(b)
	}
	return effect.Seen{Claim: claimOut(e.s.claims.live(b.Scope, round(b.Now))), Guard: e.t.out(g)}, nil
}

func (e effects) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	if err := e.t.checkAdopt(a); err != nil {
		return effect.Seen{}, err
	}
	if err := e.s.lock(ctx); err != nil {
		return effect.Seen{}, err
	}
	defer e.s.mu.Unlock()
	if e.t.adoptable(a) && (a.GuardOnly || e.s.claims.adoptable(a)) {
		if err := e.t.adopt(a); err != nil {
			return effect.Seen{}, err
		}
		if !a.GuardOnly {
			e.s.claims.adopt(a)
		}
	}
	return effect.Seen{
		Claim: claimOut(e.s.claims.live(a.Scope, round(a.Now))),
		Guard: e.t.out(e.t.rows[a.GuardID]),
	}, nil
}

func (e effects) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	if err := e.t.checkSettle(s); err != nil {
		return effect.Settled{}, err
	}
	if err := e.s.lock(ctx); err != nil {
		return effect.Settled{}, err
	}
	defer e.s.mu.Unlock()
	return e.s.settle(e.t, s)
}

func (e effects) Complete(ctx context.Context, c effect.Completion) (bool, error) {
	return keys{e.s}.CompleteKey(ctx, c)
}

func (e effects) Release(ctx context.Context, r effect.Release) (bool, error) {
	if err := e.s.lock(ctx); err != nil {
		return false, err
	}
	defer e.s.mu.Unlock()
	e.s.claims.release(r)
	return e.t.release(r), nil
}

func (e effects) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	if err := e.s.lock(ctx); err != nil {
		return effect.Seen{}, err
	}
	defer e.s.mu.Unlock()
	return effect.Seen{
		Claim: claimOut(e.s.claims.live(l.Scope, round(l.Now))),
		Guard: e.t.out(e.t.rows[l.GuardID]),
	}, nil
}

// checkSettle refuses what no stored state could make right.
func (t *table) checkSettle(s effect.Settle) error {
	if s.ID == "" {
		return invalid("the settlement names no guard")
	}
	if s.Fenced && s.By == "" {
		return invalid("a fenced settlement needs the owner's token")
	}
	if len(s.Result) > effect.MaxResultBytes {
		return invalid("the result is larger than effect.MaxResultBytes")
	}
	_, isOutcome := s.Row.(payments.Outcome)
	_, isRefund := s.Row.(payments.RefundOutcome)
	if s.Row != nil && (!t.payments || !isOutcome) && (t.of == nil || !isRefund) {
		return invalid("the row of a settlement must be a payments.Outcome for the payments table, a payments.RefundOutcome for refunds, and nil for the generic one")
	}
	for _, e := range []*effect.Evidence{s.Evidence, s.Note} {
		if e == nil {
			continue
		}
		if err := e.Check(); err != nil {
			return err
		}
	}
	if s.Inbox != nil {
		if err := checkInbox(*s.Inbox, s.Now); err != nil {
			return err
		}
	}
	if err := checkEvents(s.Events); err != nil {
		return err
	}
	return ledger.Check(s.Postings)
}

// moves reports whether the settlement's conditions hold for the guard.
func moves(g *guard, s effect.Settle) bool {
	return g != nil && slices.Contains(s.From, g.State) && effect.CanMove(g.State, s.To) &&
		(!s.Fenced || g.Owner == s.By)
}

// settle writes a checked settlement. It fails only before its first write.
func (s *Store) settle(t *table, m effect.Settle) (effect.Settled, error) {
	if m.Inbox != nil && s.inbox.has(*m.Inbox) {
		return effect.Settled{Repeat: true, Guard: t.out(t.rows[m.ID])}, nil
	}
	g := t.rows[m.ID]
	moved := moves(g, m)
	if moved {
		if err := s.ledger.fits(entries(m.Postings)); err != nil {
			return effect.Settled{}, err
		}
	}
	if m.Inbox != nil {
		s.inbox.note(*m.Inbox, round(m.Now))
	}
	noted := g != nil && m.Note != nil && t.keep(m.ID, *m.Note)
	if !moved {
		return effect.Settled{Noted: noted, Guard: t.out(g)}, nil
	}
	completed := s.settleFits(t, m)
	return effect.Settled{Moved: true, Completed: completed, Noted: noted, Guard: t.out(g)}, nil
}

// settleFits writes a settlement whose conditions hold and whose postings fit.
func (s *Store) settleFits(t *table, m effect.Settle) (completed bool) {
	g := t.rows[m.ID]
	t.change(g, func() { move(g, m) })
	if m.To == effect.Failed || m.To == effect.Void {
		t.giveBack(g)
	}
	if m.Evidence != nil {
		t.keep(m.ID, *m.Evidence)
	}
	s.ledger.post(entries(m.Postings))
	s.outbox.insert(m.Events)
	return m.Claim != nil && s.claims.complete(*m.Claim)
}

func move(g *guard, m effect.Settle) {
	g.State, g.SettledBy, g.UpdatedAt = m.To, m.By, round(m.Now)
	g.Owner, g.Until, g.NextAt = "", time.Time{}, time.Time{}
	if m.To == effect.Unknown {
		g.NextAt = round(m.NextAt)
	}
	if m.Result != nil {
		g.Result = bytes.Clone(m.Result)
	}
	if o, ok := m.Row.(payments.Outcome); ok {
		g.payment.ChargeID, g.payment.DeclineCode = o.ChargeID, o.DeclineCode
	}
	if o, ok := m.Row.(payments.RefundOutcome); ok {
		g.refund.RefundID, g.refund.FailureCode = o.RefundID, o.FailureCode
	}
}
