package storetest

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
)

func line(account, currency string, amount int64, ref string) ledger.Posting {
	return ledger.Posting{Account: account, Currency: currency, Amount: amount, Ref: ref}
}

// otherEntries are balanced entries of a ref that has credit(ref, 100) already.
func otherEntries(ref string) map[string][]ledger.Posting {
	return map[string][]ledger.Posting{
		"other amounts":      credit(ref, 99),
		"the other sign":     credit(ref, -100),
		"another currency":   {line("payments:transit", "EUR", -100, ref), line("merchant:m1", "EUR", 100, ref)},
		"one other account":  {line("payments:transit", "USD", -100, ref), line("merchant:m2", "USD", 100, ref)},
		"two other accounts": {line("a", "USD", -100, ref), line("merchant:m2", "USD", 100, ref)},
		"one line more":      {line("payments:transit", "USD", -100, ref), line("merchant:m1", "USD", 100, ref), line("z", "EUR", 1, ref), line("y", "EUR", -1, ref)},
	}
}

// invalid is refused with CodeInvalid.
func invalid[T any](w *world, what string, f func(ctx context.Context) (T, error)) {
	w.Helper()
	refused(w, what, func(ctx context.Context) (T, error) {
		got, err := f(ctx)
		if code := retryproof.CodeOf(err); err != nil && code != retryproof.CodeInvalid && code != retryproof.CodeConflict {
			w.Errorf("%s: got code %q, want %q", what, code, retryproof.CodeInvalid)
		}
		return got, err
	})
}

func (w *world) postings() string {
	w.Helper()
	a, out := w.audit(), ""
	a.ByState = nil
	for _, account := range []string{"payments:transit", "merchant:m1", "merchant:m2", "a", "b", "y", "z"} {
		for _, currency := range []string{"USD", "EUR"} {
			n := must(w, func(ctx context.Context) (int64, error) { return w.Payments.Ledger.Balance(ctx, account, currency) })
			out += fmt.Sprintf("%s %s %d, ", account, currency, n)
		}
	}
	return fmt.Sprintf("%saudit %+v", out, a)
}

func ledgerEntries(w *world) {
	w.post(credit("ref", 100))
	before := w.postings()
	for what, entry := range otherEntries("ref") { // order: each is refused alone
		invalid(w, what, func(ctx context.Context) (bool, error) { return false, w.Payments.Ledger.Post(ctx, entry, at(0)) })
		both := append(credit("new", 5), entry...)
		invalid(w, what+" behind a new one", func(ctx context.Context) (bool, error) { return false, w.Payments.Ledger.Post(ctx, both, at(0)) })
		check(w, "after "+what, w.postings(), before)
	}
	turned := credit("ref", 100)
	turned[0], turned[1] = turned[1], turned[0]
	w.post(turned)
	check(w, "after the same entry in another order", w.postings(), before)
	w.post(append(credit("new", 5), turned...))
	check(w, "m1 after a new entry beside the old one", w.balance("merchant:m1"), 105)
	long := append(credit("long", 7), line("a", "USD", 3, "long"), line("b", "USD", -3, "long"))
	w.post(long)
	before = w.postings()
	for _, part := range [][]ledger.Posting{long[:2], long[2:]} {
		invalid(w, "a part", func(ctx context.Context) (bool, error) { return false, w.Payments.Ledger.Post(ctx, part, at(0)) })
	}
	check(w, "after a part", w.postings(), before)
	check(w, "unbalanced", w.audit().Unbalanced, 0)
}

// Entries that share no account, at once: one of them is the ref's.
func ledgerEntryRace(w *world) {
	all := w.instances()
	post := func(ctx context.Context, i int) (bool, error) {
		n := int64(i%6 + 1)
		entry := []ledger.Posting{line(fmt.Sprintf("merchant:%d", n), "USD", n, "ref"), line(fmt.Sprintf("from:%d", n), "USD", -n, "ref")}
		err := all[i%len(all)].Payments.Ledger.Post(ctx, entry, at(0))
		if err != nil && retryproof.OutcomeOf(err) == retryproof.NotDone && retryproof.CodeOf(err) == retryproof.CodeInvalid {
			return false, nil
		}
		return true, err
	}
	taken := together(w, 24, post)
	var total, winner int64
	for n := range int64(6) {
		if got := w.balance(fmt.Sprintf("merchant:%d", n+1)); got != 0 {
			total, winner = total+got, n+1
		}
	}
	check(w, "one entry is there", total, winner)
	for i, ok := range taken {
		check(w, fmt.Sprintf("entry %d was taken", i%6+1), ok, int64(i%6+1) == winner)
	}
	check(w, "unbalanced", w.audit().Unbalanced, 0)
	check(w, "wrong balances", w.audit().WrongBalance, 0)
}

// A settlement with another entry under an old ref writes nothing, and stops nobody.
func settleOtherEntry(s *subject) {
	s.post(credit("ref", 100))
	s.begin("A1", 0.02)
	key := retryproof.InboxKey{Consumer: "c", Source: "s", EventID: "evt"}
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Inbox, m.Events, m.Claim = &key, []retryproof.Event{event("e", "g")}, s.completion("A1", ok200("final"), 3600)
	s.unchanged("another entry", 2, func() {
		for what, entry := range otherEntries("ref") { // order: each is refused alone
			m.Postings = append(credit(string(s.id), 3000), entry...)
			invalid(s.world, what, func(ctx context.Context) (effect.Settled, error) { return s.store.Settle(ctx, m) })
		}
	})
	m.Postings = append(credit(string(s.id), 3000), credit("ref", 100)...)
	check(s.world, "moved with the entry that is there", s.settle(m).Moved, true)
	check(s.world, "m1", s.balance("merchant:m1"), 3100)
	m.Postings = credit("ref", 1)
	s.unchanged("another entry of a settlement that does not move", 2, func() {
		check(s.world, "a repeat", s.settle(m).Repeat, true)
		m.Inbox = nil
		check(s.world, "moved", s.settle(m).Moved, false)
	})
}

func inboxOtherEntry(w *world) {
	w.post(credit("ref", 100))
	a := inbox.Apply{Key: message("ev_7"), Now: at(1), Events: []retryproof.Event{event("e", "g")}}
	before := w.postings()
	for what, entry := range otherEntries("ref") { // order: each is refused alone
		a.Postings = append(credit("pay_7", 3000), entry...)
		invalid(w, what, func(ctx context.Context) (bool, error) { return w.Payments.Inbox.Apply(ctx, a) })
	}
	check(w, "after the refusals", w.postings(), before)
	a.Postings = append(credit("pay_7", 3000), credit("ref", 100)...)
	check(w, "first with the entry that is there", w.applies(a), true)
	check(w, "m1", w.balance("merchant:m1"), 3100)
	a.Postings = credit("ref", 1)
	check(w, "first again, with another entry", w.applies(a), false)
}
