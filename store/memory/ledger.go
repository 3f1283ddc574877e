package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
)

type postingKey struct{ ref, account string }

type accountKey struct{ account, currency string }

// ledgerRows is the journal and the balances kept beside it.
type ledgerRows struct {
	journal  []ledger.Posting
	posted   map[postingKey]struct{}
	balances map[accountKey]int64
}

func newLedgerRows() ledgerRows {
	return ledgerRows{posted: map[postingKey]struct{}{}, balances: map[accountKey]int64{}}
}

// checkPostings refuses what ledger.Check refuses, and an entry that names one
// (Ref, Account) twice: its second line would be dropped as a repeat, and the
// rest would not sum to zero.
func checkPostings(postings []ledger.Posting) error {
	if err := ledger.Check(postings); err != nil {
		return err
	}
	for i, p := range postings {
		for _, other := range postings[:i] {
			if p.Ref == other.Ref && p.Account == other.Account {
				return invalid("the postings name one account twice under one ref")
			}
		}
	}
	return nil
}

// fits refuses postings that would overflow a balance. The postings of one call
// are few, so that earlier ones are added up again instead of kept in a map.
func (l *ledgerRows) fits(postings []ledger.Posting) error {
	for i, p := range postings {
		if l.there(p) {
			continue
		}
		balance := l.balances[accountKey{p.Account, p.Currency}]
		for _, earlier := range postings[:i] {
			if earlier.Account == p.Account && earlier.Currency == p.Currency && !l.there(earlier) {
				balance += earlier.Amount
			}
		}
		if (balance+p.Amount > balance) != (p.Amount > 0) {
			return invalid("the balance of " + p.Account + " would overflow")
		}
	}
	return nil
}

func (l *ledgerRows) there(p ledger.Posting) bool {
	_, there := l.posted[postingKey{p.Ref, p.Account}]
	return there
}

// post writes postings that fit; one that is there is left.
func (l *ledgerRows) post(postings []ledger.Posting) {
	for _, p := range postings {
		k := postingKey{p.Ref, p.Account}
		if _, there := l.posted[k]; there {
			continue
		}
		l.posted[k] = struct{}{}
		l.journal = append(l.journal, p)
		l.balances[accountKey{p.Account, p.Currency}] += p.Amount
	}
}

// ledgerStore is payments.Ledger.
type ledgerStore struct{ s *Store }

func (l ledgerStore) Payment(ctx context.Context, id retryproof.ID) (payments.Payment, error) {
	if err := l.s.lock(ctx); err != nil {
		return payments.Payment{}, err
	}
	defer l.s.mu.Unlock()
	g := l.s.payments.rows[id]
	if g == nil {
		return payments.Payment{}, retryproof.Refused(retryproof.CodeNotFound, "there is no such payment", nil)
	}
	return g.paymentOut(), nil
}

func (l ledgerStore) Balance(ctx context.Context, account, currency string) (int64, error) {
	if err := l.s.lock(ctx); err != nil {
		return 0, err
	}
	defer l.s.mu.Unlock()
	return l.s.ledger.balances[accountKey{account, currency}], nil
}

func (l ledgerStore) Post(ctx context.Context, postings []ledger.Posting, _ time.Time) error {
	if err := checkPostings(postings); err != nil {
		return err
	}
	if err := l.s.lock(ctx); err != nil {
		return err
	}
	defer l.s.mu.Unlock()
	if err := l.s.ledger.fits(postings); err != nil {
		return err
	}
	l.s.ledger.post(postings)
	return nil
}

func (l ledgerStore) Audit(ctx context.Context) (payments.Audit, error) {
	if err := l.s.lock(ctx); err != nil {
		return payments.Audit{}, err
	}
	defer l.s.mu.Unlock()
	a := payments.Audit{ByState: map[effect.State]int64{}}
	for _, g := range l.s.payments.rows { // order: counts and sums only
		a.ByState[g.State]++
		if g.State == effect.Succeeded {
			a.SucceededSum += g.payment.Amount
		}
	}
	for _, in := range l.s.intents.byKey { // order: counts only
		if in.State == notify.Sent {
			a.IntentsSent++
		} else {
			a.IntentsPending++
		}
	}
	for range l.s.claims.running.all() {
		a.ClaimsInProgress++
	}
	box := l.s.outbox.stats()
	a.OutboxWaiting, a.OutboxParked = box.Waiting, box.Parked
	l.s.ledger.audit(&a)
	return a, nil
}

// audit adds the journal up again.
func (l *ledgerRows) audit(a *payments.Audit) {
	type refCurrency struct{ ref, currency string }
	sums := map[accountKey]int64{}
	entries := map[refCurrency]int64{}
	for _, p := range l.journal {
		sums[accountKey{p.Account, p.Currency}] += p.Amount
		entries[refCurrency{p.Ref, p.Currency}] += p.Amount
		if strings.HasPrefix(p.Account, "merchant:") && strings.HasPrefix(p.Ref, "pay_") {
			a.Credits++
			a.CreditSum += p.Amount
		}
	}
	refs := map[string]struct{}{}
	for k, sum := range entries { // order: builds a set
		if sum != 0 {
			refs[k.ref] = struct{}{}
		}
	}
	a.Unbalanced = int64(len(refs))
	for k, kept := range l.balances { // order: counts only
		if sums[k] != kept {
			a.WrongBalance++
		}
	}
}

// hops is payments.Hops.
type hops struct{ s *Store }

func (h hops) AddSightings(ctx context.Context, seen []payments.Sighting) error {
	if err := h.s.lock(ctx); err != nil {
		return err
	}
	defer h.s.mu.Unlock()
	for _, add := range seen {
		rows := h.s.sightings[add.PaymentID]
		at, found := slices.BinarySearchFunc(rows, add, func(a, b payments.Sighting) int {
			return cmp.Or(cmp.Compare(a.Hop, b.Hop), cmp.Compare(a.What, b.What))
		})
		add.At = round(add.At)
		if !found {
			h.s.sightings[add.PaymentID] = slices.Insert(rows, at, add)
			continue
		}
		rows[at].N += add.N
		if add.At.After(rows[at].At) {
			rows[at].At = add.At
		}
	}
	return nil
}

func (h hops) Sightings(ctx context.Context, id retryproof.ID) ([]payments.Sighting, error) {
	if err := h.s.lock(ctx); err != nil {
		return nil, err
	}
	defer h.s.mu.Unlock()
	return slices.Clone(h.s.sightings[id]), nil
}

// janitor is payments.Janitor.
type janitor struct{ s *Store }

func (j janitor) ForgetClaims(ctx context.Context, now, abandoned time.Time, limit int) (int, error) {
	if err := j.s.lock(ctx); err != nil {
		return 0, err
	}
	defer j.s.mu.Unlock()
	return j.s.claims.forget(round(now), round(abandoned), limit), nil
}
