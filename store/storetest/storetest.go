// Package storetest is the suite that judges every store driver: the same cases,
// the same boundaries, the same verdicts, so that a program behaves alike on all
// of them. Its own saboteurs, drivers with one planted fault each, judge the suite.
//
// A driver's test opens an empty store per case:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Traits{Volatile: true}, func(t *testing.T) storetest.Stores { … })
//	}
//
// The suite takes the comments of the interfaces at their word. Where they leave
// a choice it holds drivers to these readings:
//
//   - a lease is alive while its end ≥ now, and an outbox row can be leased again
//     from 1 µs after it; a guard is due when Adopt may take it: from 1 µs after its
//     lease and the margin;
//   - every write of a guard sets UpdatedAt, adoption too;
//   - an owner whose own lease is stale renews it by adopting from itself: Until
//     is set and Tries raised; while it is alive the same call changes nothing;
//   - an alive lease holds back the group for its own relay as well, since the
//     answer to its claim may have been lost;
//   - the postings of one call with one ref are an entry: it is written whole, left
//     when exactly it is there, and refused when the ref has another one; a merchant's
//     balance that would overflow is refused too; both are NotDone and write nothing;
//   - any other account's sum is judged when it is read, whatever it was on the way;
//   - an event needs an id and a group, and no type;
//   - a lookup by a text that the driver cannot hold finds nothing;
//   - a void shows as a guard in lists and counts, as any other state does; a refund
//     that was voided before it began belongs to no payment;
//   - a Begin that loses its claim, and an adoption that its claim refuses, are answered
//     with what is there, even when the scope has a guard with another id;
//   - what is kept beside a guard goes with it when the guard is released;
//   - texts are ordered by their bytes;
//   - Audit.Credits counts postings whose account begins "merchant:" and whose
//     ref begins "pay_";
//   - a text that a driver cannot hold, for example with a NUL byte, is refused
//     with NotDone and never shortened or changed.
//
// Does not judge: speed, and what a crash leaves behind inside one operation.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/locator"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/saga"
	"github.com/retryproof/retryproof/version"
)

// Traits say which optional parts a driver has and how patient the suite is with
// it. They never change what is right. The zero value is a driver with all parts.
type Traits struct {
	// NoPayments: there is no payments table, outbox, inbox or ledger;
	// Stores.Payments and Stores.PaymentGuards stay empty. Defaults to false.
	NoPayments bool
	// NoRefunds: there is no refunds table; Payments.Refunds, Payments.DueRefunds and
	// Stores.RefundGuards stay empty, and Tx.SettleRefund is not called. Goes with
	// NoPayments. Defaults to false.
	NoRefunds bool
	// NoEffects: there is no effect.Store with a generic guard table;
	// Stores.Effects and Stores.Due stay nil. Defaults to false.
	NoEffects bool
	// NoKeys: there is no effect.Keys. Defaults to false.
	NoKeys bool
	// NoGuards: there is no effect.Guards, of any table. Defaults to false.
	NoGuards bool
	// NoSagas: there is no saga.Store and no saga.Marks; Stores.Sagas and Stores.Marks
	// stay nil. Defaults to false.
	NoSagas bool
	// NoVersions: there is no version.Store; Stores.Versions stays nil. Defaults to
	// false.
	NoVersions bool
	// NoLocators: there is no locator.Store; Stores.Locators stays nil. Defaults to
	// false.
	NoLocators bool
	// Volatile: data ends with the process; Stores.Reopen stays nil. Defaults to
	// false.
	Volatile bool
	// SingleProcess: one process at a time uses the data; Stores.Second stays
	// nil. Defaults to false.
	SingleProcess bool
	// NoWithin: a program cannot open a transaction of its own; Stores.Within
	// stays nil. Defaults to false.
	NoWithin bool
	// MaxAnswer is the largest answer body that the driver keeps, in bytes; a
	// larger one must be refused with NotDone. Defaults to 8 MiB, the largest
	// that is tried.
	MaxAnswer int
	// RetriesInside: the driver itself runs again what a serialization failure or a
	// deadlock has undone. Where the suite's own transactions hold no lock, CodeConflict
	// is then a failure. Defaults to false.
	RetriesInside bool
	// Tries is how often the suite asks again when a driver answers NotDone with
	// CodeConflict because a lock was held. Defaults to 500.
	Tries int
	// Pause is the longest wait between two such tries. Defaults to 5 ms.
	Pause time.Duration
}

func (tr Traits) withDefaults() Traits {
	tr.NoRefunds = tr.NoRefunds || tr.NoPayments
	if tr.MaxAnswer == 0 {
		tr.MaxAnswer = 8 << 20
	}
	if tr.Tries == 0 {
		tr.Tries = 500
	}
	if tr.Pause == 0 {
		tr.Pause = 5 * time.Millisecond
	}
	return tr
}

// Stores is one opened, empty database through all of a driver's interfaces. The
// claims behind Effects, Payments.Effects, Payments.Refunds and Keys are the same
// ones, and so are the guards behind Effects and Guards, behind Payments and
// PaymentGuards, and behind Payments.Refunds and RefundGuards.
type Stores struct {
	// Payments is everything that the payments system needs.
	Payments payments.Stores
	// Effects is the store with the generic guard table, Due its resolver list.
	Effects effect.Store
	Due     resolve.Store
	// Keys and the three kinds of Guards are the halves.
	Keys          effect.Keys
	Guards        effect.Guards
	PaymentGuards effect.Guards
	RefundGuards  effect.Guards
	// Sagas keeps sagas, Marks what their participants know.
	Sagas saga.Store
	Marks saga.Marks
	// Versions and Locators are the stores of the packages of these names.
	Versions version.Store
	Locators locator.Store
	// Within runs fn in an open transaction of the payments database: committed
	// when fn returns nil, rolled back when it fails or panics.
	Within func(ctx context.Context, fn func(tx Tx) error) error
	// Hold locks rows of the inbox and of the claims in a transaction of another
	// connection, until release is called. Nil for a driver without locks on rows.
	Hold func(t *testing.T, messages []retryproof.InboxKey, claims []retryproof.Scope) (release func())
	// Reopen ends this instance and opens its data again: a restart. The Stores
	// that it was called on are not used afterwards.
	Reopen func(t *testing.T) Stores
	// Second opens another instance on the same data: a second process.
	Second func(t *testing.T) Stores
}

// Run judges a driver. open gives one case an empty store of its own and cleans
// up with t.Cleanup; it is called by parallel tests.
func Run(t *testing.T, traits Traits, open func(t *testing.T) Stores) {
	s := suite{traits: traits.withDefaults(), open: open}
	t.Run("ADriverHasThePartsThatItsTraitsPromise", s.judgeParts)
	for _, k := range s.kinds() {
		s.group(t, "Effects/"+k.name, s.effectCases(k))
	}
	if !s.traits.NoPayments {
		s.group(t, "Outbox", outboxCases())
		s.group(t, "Inbox", inboxCases())
		s.group(t, "Parked", parkedCases())
		s.group(t, "Limits", limitCases())
		s.group(t, "Notify", notifyCases())
		s.group(t, "Ledger", ledgerCases())
		s.group(t, "List", listCases())
		s.group(t, "Hops", hopCases())
		s.group(t, "Janitor", append(janitorCases(), holdCases()...))
		s.group(t, "Restart", restartCases())
	}
	if !s.traits.NoSagas {
		s.group(t, "Saga", sagaCases())
		s.group(t, "Marks", sagaMarkCases())
	}
	s.runVersions(t)
	s.runLocators(t)
	if !s.traits.NoPayments && !s.traits.NoWithin {
		s.group(t, "Within", withinCases(s.traits))
	}
}

// suite is one run over one driver.
type suite struct {
	traits Traits
	open   func(t *testing.T) Stores
}

// testCase is one promise.
type testCase struct {
	name string
	run  func(w *world)
}

func (s suite) group(t *testing.T, name string, cases []testCase) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				w := s.world(t)
				defer w.failOnPanic()
				c.run(w)
			})
		}
	})
}

func (s suite) world(t *testing.T) *world {
	return &world{T: t, Stores: s.open(t), traits: s.traits, paid: map[string]retryproof.ID{}}
}

func (s suite) judgeParts(t *testing.T) {
	t.Parallel()
	got, p := s.open(t), payments.Stores{}
	if !s.traits.NoPayments {
		p = got.Payments
	}
	parts := []struct {
		name          string
		there, absent bool
	}{
		{"Payments.Effects", p.Effects != nil, s.traits.NoPayments},
		{"Payments.Due", p.Due != nil, s.traits.NoPayments},
		{"Payments.Refunds", p.Refunds != nil, s.traits.NoRefunds},
		{"Payments.DueRefunds", p.DueRefunds != nil, s.traits.NoRefunds},
		{"Payments.Outbox", p.Outbox != nil, s.traits.NoPayments},
		{"Payments.Inbox", p.Inbox != nil, s.traits.NoPayments},
		{"Payments.Notify", p.Notify != nil, s.traits.NoPayments},
		{"Payments.Ledger", p.Ledger != nil, s.traits.NoPayments},
		{"Payments.Hops", p.Hops != nil, s.traits.NoPayments},
		{"Payments.Janitor", p.Janitor != nil, s.traits.NoPayments},
		{"Effects", got.Effects != nil, s.traits.NoEffects},
		{"Due", got.Due != nil, s.traits.NoEffects},
		{"Keys", got.Keys != nil, s.traits.NoKeys},
		{"Guards", got.Guards != nil, s.traits.NoGuards},
		{"PaymentGuards", got.PaymentGuards != nil, s.traits.NoGuards || s.traits.NoPayments},
		{"RefundGuards", got.RefundGuards != nil, s.traits.NoGuards || s.traits.NoRefunds},
		{"Sagas", got.Sagas != nil, s.traits.NoSagas},
		{"Marks", got.Marks != nil, s.traits.NoSagas},
		{"Versions", got.Versions != nil, s.traits.NoVersions},
		{"Locators", got.Locators != nil, s.traits.NoLocators},
		{"Within", got.Within != nil, s.traits.NoWithin || s.traits.NoPayments},
		{"Reopen", got.Reopen != nil, s.traits.Volatile},
		{"Second", got.Second != nil, s.traits.SingleProcess},
	}
	for _, part := range parts {
		if !part.there && !part.absent {
			t.Errorf("the driver has no %s and no trait says so", part.name)
		}
	}
}
