package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
)

// plainStore is claims and payments in two maps, with each rule that a twin takes
// away in one function. With all of them as newPlainStore sets them it is a right
// driver of effect.Store, which the control runs of the tests show; the journal,
// the outbox, the inbox and the intents stay with the store below. It is as atomic
// as a transaction, since it never parks.
type plainStore struct {
	below  payments.Stores
	claims map[retryproof.Scope]*effect.Claim
	guards map[retryproof.ID]*effect.Guard
	// evidence is what is kept beside the guards.
	evidence map[retryproof.ID][]effect.Evidence
	// entries counts settlements, to name their entries.
	entries int

	// claimKey is the primary key of the claims.
	claimKey func(retryproof.Scope) retryproof.Scope
	// mayComplete is the WHERE of a completion, maySettle that of a settlement.
	mayComplete func(*effect.Claim, effect.Completion) bool
	maySettle   func(*effect.Guard, effect.Settle) bool
}

func newPlainStore(below payments.Stores) *plainStore {
	return &plainStore{below: below, claims: map[retryproof.Scope]*effect.Claim{}, guards: map[retryproof.ID]*effect.Guard{}, evidence: map[retryproof.ID][]effect.Evidence{},
		claimKey:    func(s retryproof.Scope) retryproof.Scope { return s },
		mayComplete: mayComplete, maySettle: maySettle}
}

// mayComplete is the rule: the owner's, and nothing final is replaced.
func mayComplete(c *effect.Claim, done effect.Completion) bool {
	return c.Owner == done.Owner && (c.State == effect.InProgress || c.State == effect.Complete && c.Answer == nil)
}

// maySettle is the rule: a compare-and-set on the state and, when fenced, the owner.
func maySettle(g *effect.Guard, s effect.Settle) bool {
	return slices.Contains(s.From, g.State) && effect.CanMove(g.State, s.To) && (!s.Fenced || g.Owner == s.By)
}

// stores are the databases with the plain store in them; effects is the store
// itself, or a twin around it.
func (d *plainStore) stores(effects effect.Store) payments.Stores {
	out := d.below
	out.Effects, out.Due, out.Ledger = effects, d, plainLedger{d.below.Ledger, d}
	return out
}

// plainStores puts a plain store with all rules into the databases.
func plainStores(below payments.Stores) payments.Stores {
	d := newPlainStore(below)
	return d.stores(d)
}

// relaxed puts a plain store into the databases that a twin has changed.
func relaxed(change func(*plainStore)) func(payments.Stores) payments.Stores {
	return func(below payments.Stores) payments.Stores {
		d := newPlainStore(below)
		change(d)
		return d.stores(d)
	}
}

func (d *plainStore) live(s retryproof.Scope, now time.Time) *effect.Claim {
	if c := d.claims[d.claimKey(s)]; !c.Expired(now) {
		return c
	}
	return nil
}

func (d *plainStore) seen(s retryproof.Scope, id retryproof.ID, now time.Time) effect.Seen {
	var out effect.Seen
	if c := d.live(s, now); c != nil {
		shown := *c
		out.Claim = &shown
	}
	out.Guard = d.guard(id)
	return out
}

// guard is a copy of the guard with its row as it is now; nil when there is none.
func (d *plainStore) guard(id retryproof.ID) *effect.Guard {
	g := d.guards[id]
	if g == nil {
		return nil
	}
	shown := *g
	p, _ := g.Row.(payments.Payment) // a VOID guard has none
	p.ID, p.Caller, p.State, p.CreatedAt, p.UpdatedAt = g.ID, g.Scope.Caller, g.State, g.CreatedAt, g.UpdatedAt
	shown.Row = p
	return &shown
}

func (d *plainStore) claim(b effect.Begin) *effect.Claim {
	c := &effect.Claim{Scope: b.Scope, GuardID: b.GuardID, Fingerprint: b.Fingerprint, State: effect.InProgress, Owner: b.Owner, Until: b.Until}
	d.claims[d.claimKey(b.Scope)] = c
	return c
}

func (d *plainStore) record(b effect.Begin) {
	if b.Void {
		d.guards[b.GuardID] = &effect.Guard{ID: b.GuardID, Scope: b.Scope, State: effect.Void, SettledBy: b.Owner, CreatedAt: b.Now, UpdatedAt: b.Now}
		return
	}
	d.guards[b.GuardID] = &effect.Guard{ID: b.GuardID, Scope: b.Scope, Fingerprint: b.Fingerprint, State: effect.Pending, Owner: b.Owner,
		Until: b.Until, CreatedAt: b.Now, UpdatedAt: b.Now, Row: b.Row}
}

// Begin implements effect.Store.
func (d *plainStore) Begin(_ context.Context, b effect.Begin) (effect.Seen, error) {
	if b.Void {
		return d.void(b), nil
	}
	c := d.live(b.Scope, b.Now)
	if c == nil {
		c = d.claim(b)
	}
	if c.Owner == b.Owner && c.State == effect.InProgress && d.guards[b.GuardID] == nil {
		d.record(b)
	}
	return d.seen(b.Scope, b.GuardID, b.Now), nil
}

// void is a Begin with Void.
func (d *plainStore) void(b effect.Begin) effect.Seen {
	if d.guards[b.GuardID] == nil {
		d.record(b)
	}
	if d.guards[b.GuardID].State == effect.Void && d.live(b.Scope, b.Now) == nil {
		d.claims[d.claimKey(b.Scope)] = &effect.Claim{Scope: b.Scope, GuardID: b.GuardID, State: effect.ClaimVoid, Owner: b.Owner, ExpiresAt: b.Until}
	}
	return d.seen(b.Scope, b.GuardID, b.Now)
}

func beginOf(a effect.Adopt) effect.Begin {
	return effect.Begin{Scope: a.Scope, GuardID: a.GuardID, Fingerprint: a.Fingerprint, Owner: a.Owner, Now: a.Now, Until: a.Until, Row: a.Row}
}

func (d *plainStore) adoptableClaim(a effect.Adopt) bool {
	c := d.live(a.Scope, a.Now)
	if c == nil || c.State == effect.InProgress && c.Owner == a.Owner {
		return true
	}
	return c.Owner == a.ClaimFrom && (c.State == effect.InProgress && effect.Stale(c.Until, a.Now, a.Margin) || c.State == effect.Complete && c.Answer == nil)
}

func (d *plainStore) adoptableGuard(a effect.Adopt) bool {
	g := d.guards[a.GuardID]
	if g == nil {
		return a.Insert
	}
	return !g.State.Final() && (g.Owner == a.Owner || g.Owner == a.GuardFrom && effect.Stale(g.Until, a.Now, a.Margin))
}

// adoptClaim takes the claim over; what it is about stays.
func (d *plainStore) adoptClaim(a effect.Adopt) {
	old := d.live(a.Scope, a.Now)
	fresh := d.claim(beginOf(a))
	if old != nil {
		fresh.GuardID, fresh.Fingerprint = old.GuardID, old.Fingerprint
	}
}

// Adopt implements effect.Store.
func (d *plainStore) Adopt(_ context.Context, a effect.Adopt) (effect.Seen, error) {
	if d.adoptableGuard(a) && (a.GuardOnly || d.adoptableClaim(a)) {
		switch g := d.guards[a.GuardID]; {
		case g == nil:
			d.record(beginOf(a))
		case g.Owner != a.Owner:
			g.Owner, g.Until, g.UpdatedAt = a.Owner, a.Until, a.Now
			g.Tries++
			if a.To == effect.Unknown {
				g.State = effect.Unknown
			}
		}
		if !a.GuardOnly {
			d.adoptClaim(a)
		}
	}
	return d.seen(a.Scope, a.GuardID, a.Now), nil
}

// Settle implements effect.Store.
func (d *plainStore) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	if s.Inbox != nil {
		first, err := d.below.Inbox.Apply(ctx, inbox.Apply{Key: *s.Inbox, Now: s.Now})
		if err != nil || !first {
			return effect.Settled{Repeat: err == nil, Guard: d.guard(s.ID)}, err
		}
	}
	g := d.guards[s.ID]
	noted := g != nil && d.keep(s.ID, s.Note)
	if g == nil || !d.maySettle(g, s) {
		return effect.Settled{Noted: noted, Guard: d.guard(s.ID)}, nil
	}
	d.keep(s.ID, s.Evidence)
	d.entries++
	entry := retryproof.InboxKey{Consumer: "settlement", Source: string(s.ID), EventID: fmt.Sprint(d.entries)}
	if _, err := d.below.Inbox.Apply(ctx, inbox.Apply{Key: entry, Now: s.Now, Postings: s.Postings, Events: s.Events}); err != nil {
		return effect.Settled{}, err
	}
	g.State, g.SettledBy, g.UpdatedAt, g.Owner, g.Until, g.NextAt = s.To, s.By, s.Now, "", time.Time{}, time.Time{}
	if s.To == effect.Unknown {
		g.NextAt = s.NextAt
	}
	if o, ok := s.Row.(payments.Outcome); ok {
		p := g.Row.(payments.Payment)
		p.ChargeID, p.DeclineCode = o.ChargeID, o.DeclineCode
		g.Row = p
	}
	out := effect.Settled{Moved: true, Noted: noted, Guard: d.guard(s.ID)}
	if s.Claim != nil {
		out.Completed, _ = d.Complete(ctx, *s.Claim)
	}
	return out, nil
}

// Complete implements effect.Store.
func (d *plainStore) Complete(_ context.Context, done effect.Completion) (bool, error) {
	c := d.claims[d.claimKey(done.Scope)]
	if c == nil || !d.mayComplete(c, done) {
		return false, nil
	}
	c.State, c.Answer, c.ExpiresAt = effect.Complete, done.Answer, done.ExpiresAt
	return true, nil
}

// Release implements effect.Store.
func (d *plainStore) Release(_ context.Context, r effect.Release) (bool, error) {
	if c := d.claims[d.claimKey(r.Scope)]; c != nil && c.State == effect.InProgress && c.Owner == r.Owner {
		delete(d.claims, d.claimKey(r.Scope))
	}
	g := d.guards[r.GuardID]
	if g != nil && g.State == effect.Pending && g.Owner == r.Owner && len(d.evidence[r.GuardID]) == 0 {
		delete(d.guards, r.GuardID)
		g = nil
	}
	return g == nil, nil
}

// Look implements effect.Store.
func (d *plainStore) Look(_ context.Context, l effect.Look) (effect.Seen, error) {
	return d.seen(l.Scope, l.GuardID, l.Now), nil
}

// keep stores evidence unless one of its name is there.
func (d *plainStore) keep(id retryproof.ID, e *effect.Evidence) bool {
	if e == nil || slices.ContainsFunc(d.evidence[id], func(there effect.Evidence) bool { return there.Name == e.Name }) {
		return false
	}
	d.evidence[id] = append(d.evidence[id], *e)
	return true
}

// Evidence implements resolve.Store.
func (d *plainStore) Evidence(_ context.Context, id retryproof.ID) ([]effect.Evidence, error) {
	return slices.Clone(d.evidence[id]), nil
}

// Due implements resolve.Store.
func (d *plainStore) Due(_ context.Context, q resolve.Due) ([]effect.Guard, error) {
	var due []effect.Guard
	for id, g := range d.guards { // order: sorted below
		unknown := g.State == effect.Unknown && !g.NextAt.After(q.Now) && g.Until.Before(q.Now)
		pending := g.State == effect.Pending && !q.UnknownOnly && effect.Stale(g.Until, q.Now, q.Margin)
		if unknown || pending {
			due = append(due, *d.guard(id))
		}
	}
	slices.SortFunc(due, func(a, b effect.Guard) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.ID, b.ID))
	})
	return due[:min(len(due), q.Limit)], nil
}

// plainLedger reads payments from the plain store; entries are below.
type plainLedger struct {
	payments.Ledger
	d *plainStore
}

// Payment implements payments.Ledger.
func (l plainLedger) Payment(_ context.Context, id retryproof.ID) (payments.Payment, error) {
	g := l.d.guard(id)
	if g == nil {
		return payments.Payment{}, retryproof.Refused(retryproof.CodeNotFound, "there is no such payment", nil)
	}
	return g.Row.(payments.Payment), nil
}

// Payments implements payments.Ledger.
func (l plainLedger) Payments(_ context.Context, q payments.Query) ([]payments.Payment, error) {
	var out []payments.Payment
	for id := range l.d.guards { // order: sorted below
		p := l.d.guard(id).Row.(payments.Payment)
		if q.OrderID == "" || p.OrderID == q.OrderID && p.Caller == q.Caller && p.MerchantID == q.MerchantID {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b payments.Payment) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out[:min(len(out), q.Limit)], nil
}

// Audit implements payments.Ledger.
func (l plainLedger) Audit(ctx context.Context) (payments.Audit, error) {
	a, err := l.Ledger.Audit(ctx)
	a.ByState, a.SucceededSum = map[effect.State]int64{}, 0
	for _, g := range l.d.guards { // order: counts and sums only
		a.ByState[g.State]++
		if p, ok := g.Row.(payments.Payment); ok && g.State == effect.Succeeded {
			a.SucceededSum += p.Amount
		}
	}
	return a, err
}
