package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
)

func ledgerCases() []testCase {
	return []testCase{
		{"PostHappensOnce", ledgerPost},
		{"BalancesAreKeptPerAccountAndCurrency", ledgerBalances},
		{"BadPostingsAreRefused", ledgerBadPostings},
		{"SumOfASystemAccountIsJudgedWhenItIsRead", ledgerSystemSum},
		{"PostsAtOnceAddUp", ledgerRace},
		{"AbsentPaymentIsNotFound", ledgerNotFound},
		{"AuditCountsEverything", ledgerAudit},
		{"EntryIsTakenWholeOrRefused", ledgerEntries},
		{"OneOfManyEntriesOfARefIsTaken", ledgerEntryRace},
		{"LookupOfWhatCannotExistFindsNothing", lookupNothing},
	}
}

func (w *world) post(postings []ledger.Posting) {
	w.Helper()
	must(w, func(ctx context.Context) (bool, error) { return true, w.Payments.Ledger.Post(ctx, postings, at(0)) })
}

func ledgerPost(w *world) {
	check(w, "an account without postings", w.balance("merchant:m1"), 0)
	for range 3 {
		w.post(credit("opening:m1", 12000))
	}
	check(w, "m1", w.balance("merchant:m1"), 12000)
	w.post(credit("opening:again", 1))
	check(w, "m1", w.balance("merchant:m1"), 12001)
	w.post(nil)
	a := w.audit()
	check(w, "openings are no credits", a.Credits, 0)
	check(w, "wrong balances", a.WrongBalance, 0)
	check(w, "unbalanced", a.Unbalanced, 0)
}

func ledgerBalances(w *world) {
	w.post([]ledger.Posting{
		{Account: "a", Currency: "USD", Amount: math.MaxInt64, Ref: "r1"}, {Account: "b", Currency: "USD", Amount: -math.MaxInt64, Ref: "r1"},
	})
	w.post([]ledger.Posting{
		{Account: "a", Currency: "EUR", Amount: -7, Ref: "r2"}, {Account: "b", Currency: "EUR", Amount: 4, Ref: "r2"}, {Account: "c", Currency: "EUR", Amount: 3, Ref: "r2"},
	})
	w.post([]ledger.Posting{{Account: "A", Currency: "USD", Amount: 1, Ref: "r3"}, {Account: "a ", Currency: "USD", Amount: -1, Ref: "r3"}})
	for _, c := range []struct {
		account, currency string
		want              int64
	}{
		{"a", "USD", math.MaxInt64}, {"b", "USD", -math.MaxInt64}, {"a", "EUR", -7}, {"b", "EUR", 4}, {"c", "EUR", 3},
		{"c", "USD", 0}, {"A", "USD", 1}, {"a ", "USD", -1}, {"a", "usd", 0},
	} {
		got := must(w, func(ctx context.Context) (int64, error) { return w.Payments.Ledger.Balance(ctx, c.account, c.currency) })
		check(w, fmt.Sprintf("%q in %s", c.account, c.currency), got, c.want)
	}
}

func ledgerBadPostings(w *world) {
	for what, postings := range badPostings() { // order: each is refused alone
		refused(w, what, func(ctx context.Context) (bool, error) { return false, w.Payments.Ledger.Post(ctx, postings, at(0)) })
	}
	w.post(credit("opening:m1", math.MaxInt64))
	refused(w, "an overflowing balance", func(ctx context.Context) (bool, error) {
		return false, w.Payments.Ledger.Post(ctx, credit("more", 1), at(0))
	})
	check(w, "m1", w.balance("merchant:m1"), math.MaxInt64)
	check(w, "a", w.balance("a"), 0)
	check(w, "wrong balances", w.audit().WrongBalance, 0)
}

// A system account is part of every entry: its balance is not kept, so that no write
// waits for another to add it up.
func ledgerSystemSum(w *world) {
	entries := 0
	move := func(amount int64) { // from b to a
		entries++
		ref := fmt.Sprintf("r%d", entries)
		w.post([]ledger.Posting{line("a", "USD", amount, ref), line("b", "USD", -amount, ref)})
	}
	tooLarge := func(what, account string) {
		w.Helper()
		invalid(w, what, func(ctx context.Context) (int64, error) { return w.Payments.Ledger.Balance(ctx, account, "USD") })
	}
	move(math.MaxInt64)
	check(w, "a", w.balance("a"), math.MaxInt64)
	check(w, "b", w.balance("b"), -math.MaxInt64)
	move(1)
	tooLarge("one more", "a")
	check(w, "b at its smallest", w.balance("b"), math.MinInt64)
	move(math.MaxInt64)
	move(1)
	tooLarge("twice as much", "a")
	tooLarge("twice as little", "b")
	move(-math.MaxInt64)
	move(-math.MaxInt64)
	check(w, "a afterwards", w.balance("a"), 2)
	check(w, "b afterwards", w.balance("b"), -2)
	move(-5)
	check(w, "a below zero", w.balance("a"), -3)
	move(-1 << 33)
	check(w, "a far below zero", w.balance("a"), -3-1<<33)
	check(w, "unbalanced", w.audit().Unbalanced, 0)
	check(w, "wrong balances", w.audit().WrongBalance, 0)
}

func ledgerRace(w *world) {
	all := w.instances()
	together(w, 60, func(ctx context.Context, i int) (bool, error) {
		// Half of them name the accounts in the other order: no deadlock may come of it.
		p := credit(fmt.Sprintf("ref%d", i/3), 10)
		if i%2 == 1 {
			p[0], p[1] = p[1], p[0]
		}
		return true, all[i%len(all)].Payments.Ledger.Post(ctx, p, at(0))
	})
	check(w, "m1", w.balance("merchant:m1"), 200)
	check(w, "transit", w.balance("payments:transit"), -200)
	check(w, "wrong balances", w.audit().WrongBalance, 0)
}

func ledgerNotFound(w *world) {
	_, err := ask(w, func(ctx context.Context) (payments.Payment, error) {
		return w.Payments.Ledger.Payment(ctx, "pay_nobody")
	})
	check(w, "the code", retryproof.CodeOf(err), retryproof.CodeNotFound)
}

func ledgerAudit(w *world) {
	k := paymentKind
	empty := w.audit()
	check(w, "an empty audit", fmt.Sprintf("%+v", empty), fmt.Sprintf("%+v", payments.Audit{ByState: empty.ByState, RefundsByState: empty.RefundsByState}))
	w.post(credit("opening:m1", 12000))
	for i, state := range []effect.State{effect.Pending, effect.Unknown, effect.Succeeded, effect.Succeeded, effect.Failed} {
		one := w.subject(k, fmt.Sprintf("K%d", i))
		one.begin("A1", 0.02)
		if state == effect.Pending {
			continue
		}
		m := one.settlement("A1", state, 1)
		if i != 3 {
			m.Claim = one.completion("A1", nil, 3600)
		}
		if state == effect.Succeeded {
			m.Postings = []ledger.Posting{{Account: "psp:clearing", Currency: "USD", Amount: -3000, Ref: string(one.id)}, {Account: "payments:transit", Currency: "USD", Amount: 3000, Ref: string(one.id)}}
			m.Events = []retryproof.Event{event(one.id.Sub("SUCCEEDED"), "m1")}
		}
		one.settle(m)
	}
	sent := w.claim("r", 20, 30, 1)[0]
	w.applies(inbox.Apply{Key: message(sent.ID), Now: at(21), Postings: credit(sent.ID, 3000),
		Intents: []notify.Intent{intent(sent.ID, "push", 21), intent(sent.ID, "mail", 21), intent(sent.ID, "sms", 21)}})
	w.post([]ledger.Posting{{Account: "refunds:transit", Currency: "USD", Amount: 700, Ref: sent.ID + ":cancel"}, {Account: "merchant:m1", Currency: "USD", Amount: -700, Ref: sent.ID + ":cancel"}})
	w.markSent(sent.ID, "push", 22)
	refused := failed(sent.ID, 0, 23)
	refused.Channel, refused.Refused = "sms", true
	w.fails(refused)
	w.parks("r", sent.ID, 23)
	got := w.audit()
	for _, c := range []struct {
		state effect.State
		want  int64
	}{{effect.Pending, 1}, {effect.Unknown, 1}, {effect.Succeeded, 2}, {effect.Failed, 1}, {effect.Void, 0}} {
		check(w, "payments that are "+string(c.state), got.ByState[c.state], c.want)
	}
	want := payments.Audit{
		Credits: 1, CreditSum: 3000, Debits: 1, DebitSum: 700, SucceededSum: 6000, OutboxWaiting: 1, OutboxParked: 1,
		IntentsPending: 1, IntentsSent: 1, IntentsRefused: 1, ClaimsInProgress: 2,
	}
	got.ByState, got.RefundsByState = nil, nil
	check(w, "the audit", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
}

// A text that a driver cannot hold is in no row: whoever looks for it finds nothing.
func lookupNothing(w *world) {
	k := paymentKind
	for _, id := range []string{"", "\x00", "pay_7\x00", "\xff", "pay_\xc3", strings.Repeat("x", 1<<16)} {
		what := fmt.Sprintf("%.20q", id)
		_, err := ask(w, func(ctx context.Context) (payments.Payment, error) {
			return w.Payments.Ledger.Payment(ctx, retryproof.ID(id))
		})
		check(w, what+": the code", retryproof.CodeOf(err), retryproof.CodeNotFound)
		check(w, what+": sightings", w.sightings(retryproof.ID(id)), "")
		check(w, what+": balance", w.balance("merchant:"+id), 0)
		check(w, what+": intent", describeIntent(w.intent(id, id)), "no intent")
		one := w.subject(k, "K1")
		one.id, one.scope.Key = retryproof.ID(id), retryproof.Key(id)
		check(w, what+": records", describe(one.look(1)), describe(effect.Seen{}))
		check(w, what+": evidence", one.kept(), "")
	}
}

func hopCases() []testCase {
	return []testCase{
		{"SightingsAddUpAndKeepTheLatestTime", hopsAdd},
		{"SightingsAtOnceAddUp", hopsRace},
	}
}

func (w *world) sightings(id retryproof.ID) string {
	w.Helper()
	var out []string
	for _, s := range must(w, func(ctx context.Context) ([]payments.Sighting, error) { return w.Payments.Hops.Sightings(ctx, id) }) {
		out = append(out, fmt.Sprintf("%s %s/%s=%d %s", s.PaymentID, s.Hop, s.What, s.N, instant(s.At)))
	}
	return strings.Join(out, "\n")
}

func (w *world) saw(s ...payments.Sighting) {
	w.Helper()
	must(w, func(ctx context.Context) (bool, error) { return true, w.Payments.Hops.AddSightings(ctx, s) })
}

func hopsAdd(w *world) {
	check(w, "nothing was seen", w.sightings("pay_7"), "")
	w.saw()
	w.saw(
		payments.Sighting{PaymentID: "pay_7", Hop: "queue", What: "deliveries", N: 1, At: at(14.5)},
		payments.Sighting{PaymentID: "pay_7", Hop: "payment API", What: "replays", N: 2, At: at(3)},
		payments.Sighting{PaymentID: "pay_8", Hop: "queue", What: "deliveries", N: 9, At: at(1)},
		payments.Sighting{PaymentID: "pay_7", Hop: "payment API", What: "first requests", N: 1, At: at(0.02)},
		payments.Sighting{PaymentID: "pay_7", Hop: "queue", What: "deliveries", N: 4, At: at(14)},
	)
	w.saw(payments.Sighting{PaymentID: "pay_7", Hop: "payment API", What: "replays", N: 3, At: at(7200)})
	w.saw(payments.Sighting{PaymentID: "pay_7", Hop: "payment API", What: "replays", N: 1, At: at(2)})
	check(w, "sightings", w.sightings("pay_7"), strings.Join([]string{
		"pay_7 payment API/first requests=1 " + instant(at(0.02)),
		"pay_7 payment API/replays=6 " + instant(at(7200)),
		"pay_7 queue/deliveries=5 " + instant(at(14.5)),
	}, "\n"))
}

func hopsRace(w *world) {
	all := w.instances()
	together(w, 30, func(ctx context.Context, i int) (bool, error) {
		a := payments.Sighting{PaymentID: "pay_7", Hop: "a", What: "x", N: 1, At: at(float64(i))}
		b := payments.Sighting{PaymentID: "pay_7", Hop: "b", What: "x", N: 2, At: at(1)}
		both := []payments.Sighting{a, b}
		if i%2 == 1 {
			both[0], both[1] = both[1], both[0]
		}
		return true, all[i%len(all)].Payments.Hops.AddSightings(ctx, both)
	})
	check(w, "sightings", w.sightings("pay_7"), "pay_7 a/x=30 "+instant(at(29))+"\npay_7 b/x=60 "+instant(at(1)))
}
