package payments

import (
	"context"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/resolve"
)

// Payment is a payment: the durable guard of the payments endpoint and its
// business row in one. The effect.Store of the payments table takes a Payment as
// effect.Begin.Row, an Outcome as effect.Settle.Row, and gives a Payment as
// effect.Guard.Row.
type Payment struct {
	// ID is derived from the scope.
	ID retryproof.ID
	// Caller is the authenticated buyer.
	Caller     string
	OrderID    string
	MerchantID string
	// Amount is in minor units of Currency.
	Amount int64
	// Currency is ISO 4217, upper case.
	Currency string
	// Method is the payment method.
	Method string
	State  effect.State
	// ChargeID is the PSP's id, once known.
	ChargeID string
	// DeclineCode says why a FAILED payment failed.
	DeclineCode string
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Outcome is what a settlement writes to the payment.
type Outcome struct {
	ChargeID    string
	DeclineCode string
}

// Stores are the databases behind the system, as its parts need them. A driver
// fills all of them from one database; a fault injector wraps each.
type Stores struct {
	// Effects keeps claims, with the payments table as the guard.
	Effects effect.Store
	// Due lists payments for the resolver.
	Due    resolve.Store
	Outbox outbox.Store
	Inbox  inbox.Store
	Notify notify.Store
	Ledger Ledger
	Hops   Hops
	// Janitor cleans up.
	Janitor Janitor
}

// Ledger reads payments and balances, from the primary.
type Ledger interface {
	// Payment reads one payment; an error with CodeNotFound when there is none.
	Payment(ctx context.Context, id retryproof.ID) (Payment, error)
	// Balance is the sum of an account's postings, 0 for one without any.
	Balance(ctx context.Context, account, currency string) (int64, error)
	// Post writes entries, all or none. One that is there exactly is left; when a
	// ref has another entry, or a part of this one, nothing is written and the error
	// is NotDone with CodeInvalid. Used to open accounts.
	Post(ctx context.Context, postings []ledger.Posting, now time.Time) error
	// Audit counts what must agree; it reads everything and is for operators and
	// tests.
	Audit(ctx context.Context) (Audit, error)
}

// Audit are counts that must agree when nothing is in flight.
type Audit struct {
	// ByState counts payments.
	ByState map[effect.State]int64
	// Credits counts merchants' postings from payments and CreditSum sums them.
	Credits, CreditSum int64
	// SucceededSum sums the amounts of SUCCEEDED payments.
	SucceededSum int64
	// Unbalanced counts refs whose postings do not sum to 0 per currency.
	Unbalanced int64
	// WrongBalance counts accounts whose kept balance is not the sum of their
	// postings.
	WrongBalance int64
	// OutboxWaiting, OutboxParked count undeleted events.
	OutboxWaiting, OutboxParked int64
	// IntentsPending, IntentsSent count notifications.
	IntentsPending, IntentsSent int64
	// ClaimsInProgress counts claims that nobody has completed.
	ClaimsInProgress int64
}

// Sighting counts what a hop saw of one payment: requests, repeats dropped. It is
// written behind the hot path and may be lost in a crash: it explains, it guards
// nothing.
type Sighting struct {
	PaymentID retryproof.ID
	// Hop is one of the hop names, for example "payment API".
	Hop string
	// What was seen, for example "replays".
	What string
	N    int64
	// At is the last time.
	At time.Time
}

// Hops keeps sightings.
type Hops interface {
	// AddSightings adds to the counts, keeping the latest At.
	AddSightings(ctx context.Context, s []Sighting) error
	// Sightings lists a payment's counts ordered by (Hop, What).
	Sightings(ctx context.Context, id retryproof.ID) ([]Sighting, error)
}

// Janitor forgets what may be forgotten, a bounded batch at a time, each in its
// own transaction, waiting for nobody's lock. Readers never depend on it: expiry
// is judged when a record is read.
type Janitor interface {
	// ForgetClaims deletes up to limit claims whose ExpiresAt is before now, and
	// claims IN_PROGRESS whose lease ended before abandoned.
	ForgetClaims(ctx context.Context, now, abandoned time.Time, limit int) (int, error)
}
