package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
)

// guard is a row of a guard table.
type guard struct {
	effect.Guard
	// payment or refund is the business row; its ID, State and times are the guard's.
	payment payments.Payment
	refund  payments.Refund
	// row is what callers get of it, nil after a change. A value in an interface
	// cannot be changed by them, so that all get the same.
	row any
	// revision changes with every write, so that a Tx can tell whether what it
	// read is still there.
	revision uint64
}

// table is a guard table: the generic one, payments, or refunds.
type table struct {
	payments bool
	// of are the payments that the refunds of this table belong to; nil for others.
	of   *table
	rows map[retryproof.ID]*guard
	// byScope finds the guard of a scope: there is one at most.
	byScope map[retryproof.Scope]*guard
	// byOrder finds the payments of an order.
	byOrder map[orderKey][]*guard
	// evidence is ordered by (At, Name).
	evidence map[retryproof.ID][]effect.Evidence
	// open holds PENDING and UNKNOWN guards by (UpdatedAt, ID).
	open index[*guard]
}

func newTable(isPayments bool) *table {
	return &table{
		payments: isPayments,
		rows:     map[retryproof.ID]*guard{},
		byScope:  map[retryproof.Scope]*guard{},
		byOrder:  map[orderKey][]*guard{},
		evidence: map[retryproof.ID][]effect.Evidence{},
		open: index[*guard]{compare: func(a, b *guard) int {
			return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.ID, b.ID))
		}},
	}
}

// checkRow refuses a business row that the table could only drop.
func (t *table) checkRow(row any) error {
	_, isPayment := row.(payments.Payment)
	refund, isRefund := row.(payments.Refund)
	switch {
	case t.payments && !isPayment:
		return invalid("the row of the payments table must be a payments.Payment")
	case t.of != nil && (!isRefund || refund.Amount <= 0 || refund.PaymentID == ""):
		return invalid("the row of the refunds table must be a payments.Refund of a payment, with an amount")
	case !t.payments && t.of == nil && row != nil:
		return invalid("the generic guard table keeps no row")
	}
	return nil
}

// change lets write alter the guard and keeps the index right.
func (t *table) change(g *guard, write func()) {
	t.open.remove(g)
	write()
	g.revision++
	g.row = nil
	if !g.State.Final() {
		t.open.add(g)
	}
}

// record is step 2 of Begin: PENDING if absent, or VOID. It fails, before it writes,
// when the scope has another guard, or when the condition of a row that would be
// inserted does not hold.
func (t *table) record(b effect.Begin) (*guard, error) {
	if g := t.rows[b.GuardID]; g != nil {
		return g, nil
	}
	if t.byScope[b.Scope] != nil {
		return nil, invalid("this scope is recorded under another id")
	}
	now := round(b.Now)
	g := &guard{Guard: effect.Guard{ID: b.GuardID, Scope: b.Scope, CreatedAt: now, UpdatedAt: now}}
	if b.Void {
		g.State, g.SettledBy = effect.Void, b.Owner
		t.rows[g.ID], t.byScope[g.Scope] = g, g
		return g, nil
	}
	g.Fingerprint, g.State, g.Owner, g.Until = b.Fingerprint, effect.Pending, b.Owner, round(b.Until)
	switch {
	case t.payments:
		g.payment = b.Row.(payments.Payment)
		g.payment.Refunded = 0
		key := orderOf(g)
		t.byOrder[key] = append(t.byOrder[key], g)
	case t.of != nil:
		g.refund = b.Row.(payments.Refund)
		if err := t.reserve(g.refund, b.Scope.Caller); err != nil {
			return nil, err
		}
	}
	t.rows[g.ID], t.byScope[g.Scope] = g, g
	t.open.add(g)
	return g, nil
}

// takes reports whether the guard part of an Adopt changes a guard that is there.
func takes(g *guard, a effect.Adopt) bool {
	return !g.State.Final() && g.Owner == a.GuardFrom && effect.Stale(g.Until, round(a.Now), a.Margin)
}

// adoptable reports whether the guard part of an Adopt holds: it changes the
// guard, or did before.
func (t *table) adoptable(a effect.Adopt) bool {
	g := t.rows[a.GuardID]
	if g == nil {
		return a.Insert
	}
	return takes(g, a) || !g.State.Final() && g.Owner == a.Owner
}

// adopt writes the guard part of an Adopt that is adoptable. It fails as record does.
func (t *table) adopt(a effect.Adopt) error {
	g := t.rows[a.GuardID]
	if g == nil {
		_, err := t.record(beginOf(a))
		return err
	}
	if !takes(g, a) {
		return nil
	}
	t.change(g, func() {
		g.Owner, g.Until, g.UpdatedAt = a.Owner, round(a.Until), round(a.Now)
		g.Tries++
		if a.To == effect.Unknown {
			g.State = effect.Unknown
		}
	})
	return nil
}

// release deletes the guard if it is PENDING and the owner's, and has no evidence
// beside it.
func (t *table) release(r effect.Release) (gone bool) {
	g := t.rows[r.GuardID]
	if g != nil && g.State == effect.Pending && g.Owner == r.Owner && len(t.evidence[g.ID]) == 0 {
		t.open.remove(g)
		delete(t.rows, g.ID)
		delete(t.byScope, g.Scope)
		if t.payments {
			key := orderOf(g)
			t.byOrder[key] = slices.DeleteFunc(t.byOrder[key], func(other *guard) bool { return other == g })
		}
		t.giveBack(g)
		return true
	}
	return g == nil
}

// out copies a guard for a caller.
func (t *table) out(g *guard) *effect.Guard {
	if g == nil {
		return nil
	}
	out := g.Guard
	out.Result = bytes.Clone(g.Result)
	if g.row == nil {
		switch {
		case t.payments:
			g.row = g.paymentOut()
		case t.of != nil:
			g.row = g.refundOut()
		}
	}
	out.Row = g.row
	return &out
}

func (g *guard) paymentOut() payments.Payment {
	p := g.payment
	p.ID, p.Caller, p.State, p.CreatedAt, p.UpdatedAt = g.ID, g.Scope.Caller, g.State, g.CreatedAt, g.UpdatedAt
	return p
}

func beginOf(a effect.Adopt) effect.Begin {
	return effect.Begin{
		Scope: a.Scope, GuardID: a.GuardID, Fingerprint: a.Fingerprint,
		Owner: a.Owner, Now: a.Now, Until: a.Until, Row: a.Row,
	}
}

func (t *table) checkBegin(b effect.Begin) error {
	if b.GuardID == "" {
		return invalid("the guard has no id")
	}
	if err := retryproof.CheckIDs("the guard id", string(b.GuardID)); err != nil {
		return err
	}
	if err := checkOwner(b.Scope, b.Owner); err != nil || b.Void {
		return err
	}
	return t.checkRow(b.Row)
}

func (t *table) checkAdopt(a effect.Adopt) error {
	switch {
	case a.To != effect.Pending && a.To != effect.Unknown:
		return invalid("an adopted guard becomes PENDING or UNKNOWN")
	case a.GuardID == "":
		return invalid("the guard has no id")
	case a.Owner == "":
		return invalid("the owner has no token")
	case !a.GuardOnly || a.Insert:
		if err := a.Scope.Valid(); err != nil {
			return err
		}
	}
	if err := retryproof.CheckIDs("the guard id", string(a.GuardID)); err != nil {
		return err
	}
	if a.Insert {
		return t.checkRow(a.Row)
	}
	return nil
}

// guards is effect.Guards over one table.
type guards struct {
	s *Store
	t *table
}

func (g guards) RecordGuard(ctx context.Context, b effect.Begin) (*effect.Guard, error) {
	if err := g.t.checkBegin(b); err != nil {
		return nil, err
	}
	if err := g.s.lock(ctx); err != nil {
		return nil, err
	}
	defer g.s.mu.Unlock()
	held, err := g.t.record(b)
	return g.t.out(held), err
}

func (g guards) AdoptGuard(ctx context.Context, a effect.Adopt) (*effect.Guard, error) {
	if err := g.t.checkAdopt(a); err != nil {
		return nil, err
	}
	if err := g.s.lock(ctx); err != nil {
		return nil, err
	}
	defer g.s.mu.Unlock()
	if g.t.adoptable(a) {
		if err := g.t.adopt(a); err != nil {
			return nil, err
		}
	}
	return g.t.out(g.t.rows[a.GuardID]), nil
}

func (g guards) SettleGuard(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	s.Claim = nil
	return effects(g).Settle(ctx, s)
}

func (g guards) ReleaseGuard(ctx context.Context, r effect.Release) (bool, error) {
	if err := g.s.lock(ctx); err != nil {
		return false, err
	}
	defer g.s.mu.Unlock()
	return g.t.release(r), nil
}

func (g guards) LookGuard(ctx context.Context, l effect.Look) (*effect.Guard, error) {
	if err := g.s.lock(ctx); err != nil {
		return nil, err
	}
	defer g.s.mu.Unlock()
	return g.t.out(g.t.rows[l.GuardID]), nil
}

// due is resolve.Store over one table.
type due struct {
	s *Store
	t *table
}

func (d due) Due(ctx context.Context, q resolve.Due) ([]effect.Guard, error) {
	if err := d.s.lock(ctx); err != nil {
		return nil, err
	}
	defer d.s.mu.Unlock()
	now := round(q.Now)
	var out []effect.Guard
	for g := range d.t.open.all() {
		if len(out) >= q.Limit {
			break
		}
		asked := !q.UnknownOnly
		if g.State == effect.Unknown {
			asked = !g.NextAt.After(now)
		}
		if asked && effect.Stale(g.Until, now, q.Margin) {
			out = append(out, *d.t.out(g))
		}
	}
	return slices.Clip(out), nil
}

func (d due) Evidence(ctx context.Context, id retryproof.ID) ([]effect.Evidence, error) {
	if err := d.s.lock(ctx); err != nil {
		return nil, err
	}
	defer d.s.mu.Unlock()
	return slices.Clone(d.t.evidence[id]), nil
}
