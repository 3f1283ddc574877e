package memory

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
)

type accountKey struct{ account, currency string }

// ledgerRows is the journal and the balances kept beside it.
type ledgerRows struct {
	journal []ledger.Posting
	// posted says where the entry of a ref is in the journal.
	posted map[string]span
	// balances are those of merchants, sums those of the other accounts, which are not
	// judged when a posting is written.
	balances map[accountKey]int64
	sums     map[accountKey]sum
}

type span struct{ from, to int }

func newLedgerRows() ledgerRows {
	return ledgerRows{posted: map[string]span{}, balances: map[accountKey]int64{}, sums: map[accountKey]sum{}}
}

// keepsBalance reports whether the account's balance is bounded: see record.KeepsBalance.
func keepsBalance(account string) bool { return strings.HasPrefix(account, "merchant:") }

// sum has 128 bits, as two's complement.
type sum struct {
	high int64
	low  uint64
}

func (s sum) plus(amount int64) sum {
	low, carry := bits.Add64(s.low, uint64(amount), 0)
	return sum{s.high + amount>>63 + int64(carry), low}
}

// value reports false when the sum does not fit into an int64.
func (s sum) value() (int64, bool) {
	v := int64(s.low)
	return v, s.high == v>>63
}

// balance is the sum of the account's postings, as far as it is a number of 64 bits.
func (l *ledgerRows) balance(k accountKey) (int64, error) {
	if keepsBalance(k.account) {
		return l.balances[k], nil
	}
	v, fits := l.sums[k].value()
	if !fits {
		return 0, invalid("the sum of the account's postings does not fit into 64 bits")
	}
	return v, nil
}

// entries groups the postings of one call by ref.
func entries(postings []ledger.Posting) [][]ledger.Posting {
	if len(postings) > 0 && !slices.ContainsFunc(postings, func(p ledger.Posting) bool { return p.Ref != postings[0].Ref }) {
		return [][]ledger.Posting{slices.Clone(postings)} // nearly always
	}
	var out [][]ledger.Posting
	for _, p := range postings {
		at := slices.IndexFunc(out, func(e []ledger.Posting) bool { return e[0].Ref == p.Ref })
		if at < 0 {
			out, at = append(out, nil), len(out)
		}
		out[at] = append(out[at], p)
	}
	return out
}

// same reports whether two entries have the same postings, in whatever order. An
// entry names an account once.
func same(a, b []ledger.Posting) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p ledger.Posting) bool { return !slices.Contains(b, p) })
}

// fits refuses an entry whose ref has another one, and those that would overflow a
// merchant's balance. They are few, so that earlier ones are added up again instead of kept in
// a map.
func (l *ledgerRows) fits(all [][]ledger.Posting) error {
	var fresh []ledger.Posting
	for i, e := range all {
		ref := e[0].Ref
		there, found := l.entry(ref)
		for _, earlier := range all[:i] {
			if earlier[0].Ref == ref {
				there, found = earlier, true
			}
		}
		switch {
		case !found:
			fresh = append(fresh, e...)
		case !same(there, e):
			return invalid("the ref of the postings has another entry already")
		}
	}
	for i, p := range fresh {
		if !keepsBalance(p.Account) {
			continue
		}
		balance := l.balances[accountKey{p.Account, p.Currency}]
		for _, earlier := range fresh[:i] {
			if earlier.Account == p.Account && earlier.Currency == p.Currency {
				balance += earlier.Amount
			}
		}
		if (balance+p.Amount > balance) != (p.Amount > 0) {
			return invalid("the balance of " + p.Account + " would overflow")
		}
	}
	return nil
}

func (l *ledgerRows) entry(ref string) ([]ledger.Posting, bool) {
	at, found := l.posted[ref]
	return l.journal[at.from:at.to], found
}

// post writes entries that fit; one that is there is left.
func (l *ledgerRows) post(all [][]ledger.Posting) {
	for _, e := range all {
		if _, there := l.posted[e[0].Ref]; there {
			continue
		}
		l.posted[e[0].Ref] = span{len(l.journal), len(l.journal) + len(e)}
		for _, p := range e {
			l.journal = append(l.journal, p)
			k := accountKey{p.Account, p.Currency}
			if keepsBalance(p.Account) {
				l.balances[k] += p.Amount
			} else {
				l.sums[k] = l.sums[k].plus(p.Amount)
			}
		}
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
	return l.s.ledger.balance(accountKey{account, currency})
}

func (l ledgerStore) Post(ctx context.Context, postings []ledger.Posting, _ time.Time) error {
	if err := ledger.Check(postings); err != nil {
		return err
	}
	if err := l.s.lock(ctx); err != nil {
		return err
	}
	defer l.s.mu.Unlock()
	all := entries(postings)
	if err := l.s.ledger.fits(all); err != nil {
		return err
	}
	l.s.ledger.post(all)
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
		switch in.State {
		case notify.Sent:
			a.IntentsSent++
		case notify.Refused:
			a.IntentsRefused++
		case notify.Pending:
			a.IntentsPending++
		}
	}
	for range l.s.claims.running.all() {
		a.ClaimsInProgress++
	}
	box := l.s.outbox.stats()
	a.OutboxWaiting, a.OutboxParked = box.Waiting, box.Parked
	a.MessagesParked = int64(len(l.s.parked.byKey))
	l.s.ledger.audit(&a)
	l.s.auditRefunds(&a)
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
		switch {
		case !keepsBalance(p.Account):
		case p.Amount < 0:
			a.Debits++
			a.DebitSum -= p.Amount
		case strings.HasPrefix(p.Ref, "pay_"):
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
