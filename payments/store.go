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
	"github.com/retryproof/retryproof/version"
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
	// Refunded is how much is refunded or on its way back: the sum of all refunds
	// that have not failed. Never more than Amount.
	Refunded  int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Refund is one refund of one payment: guard and business row in one. Recording it
// reserves its amount, on the condition that the payment is SUCCEEDED, belongs to
// the same caller, is in the same currency and has that much left (CodeExceeds
// otherwise); releasing it, or settling it as FAILED or VOID, gives the amount back,
// in the same transaction.
type Refund struct {
	ID        retryproof.ID
	PaymentID retryproof.ID
	// Caller is who asked for it: the payment's caller.
	Caller string
	// Amount is in minor units of Currency, greater than 0.
	Amount   int64
	Currency string
	State    effect.State
	// RefundID is the PSP's id, once known.
	RefundID string
	// FailureCode says why a FAILED refund failed.
	FailureCode string
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// RefundOutcome is what a settlement writes to the refund.
type RefundOutcome struct {
	RefundID    string
	FailureCode string
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
	// Due lists payments for the resolver, and evidence about them.
	Due resolve.Store
	// Refunds keeps claims, in the same key store, with the refunds table as the
	// guard. DueRefunds lists refunds for their resolver.
	Refunds    effect.Store
	DueRefunds resolve.Store
	Outbox     outbox.Store
	Inbox      inbox.Store
	// ParkedEvents lists what the relays have set aside, ParkedMessages keeps what the
	// workers have.
	ParkedEvents   outbox.ParkedStore
	ParkedMessages inbox.ParkedStore
	Notify         notify.Store
	Ledger         Ledger
	Hops           Hops
	// RefundList lists refunds over all payments; the reconciliation needs it.
	RefundList RefundList
	// Versions keeps the numbered actions of each device.
	Versions version.Store
	// Janitor cleans up.
	Janitor Janitor
}

// Ledger reads payments and balances, from the primary.
type Ledger interface {
	// Payment reads one payment; an error with CodeNotFound when there is none.
	Payment(ctx context.Context, id retryproof.ID) (Payment, error)
	// Payments lists payments ordered by (CreatedAt, ID).
	Payments(ctx context.Context, q Query) ([]Payment, error)
	// Refunds lists the refunds of a payment ordered by (CreatedAt, ID).
	Refunds(ctx context.Context, paymentID retryproof.ID) ([]Refund, error)
	// Balance is the sum of an account's postings, 0 for one without any. A posting that
	// would overflow a merchant's is refused when it is written; the sum of any other
	// account, of which no balance is kept, is NotDone with CodeInvalid as long as it
	// does not fit into 64 bits.
	Balance(ctx context.Context, account, currency string) (int64, error)
	// Post writes entries, all or none. One that is there exactly is left; when a
	// ref has another entry, or a part of this one, nothing is written and the error
	// is NotDone with CodeInvalid. Used to open accounts.
	Post(ctx context.Context, postings []ledger.Posting, now time.Time) error
	// Audit counts what must agree; it reads everything and is for operators and
	// tests.
	Audit(ctx context.Context) (Audit, error)
}

// Query says which payments to list. Zero fields do not narrow.
type Query struct {
	// From and To bound CreatedAt: From ≤ CreatedAt < To.
	From, To time.Time
	// Caller, MerchantID and OrderID name one order; they are used together or not
	// at all.
	Caller, MerchantID, OrderID string
	// After continues behind a payment: what is listed is greater than its
	// (CreatedAt, ID). The zero Payment begins at the start.
	After Payment
	// Limit is how many at most, greater than 0.
	Limit int
}

// RefundList lists refunds over all payments.
type RefundList interface {
	// RefundsBetween lists refunds with from ≤ CreatedAt < to, ordered by (CreatedAt,
	// ID), greater than after's (CreatedAt, ID); the zero Refund begins at the start.
	// Limit is how many at most, greater than 0.
	RefundsBetween(ctx context.Context, from, to time.Time, after Refund, limit int) ([]Refund, error)
}

// Audit are counts that must agree when nothing is in flight.
type Audit struct {
	// ByState counts payments.
	ByState map[effect.State]int64
	// Credits counts what merchants got from payments and CreditSum sums it; Debits and
	// DebitSum are what refunds took from them, as positive numbers.
	Credits, CreditSum, Debits, DebitSum int64
	// SucceededSum sums the amounts of SUCCEEDED payments.
	SucceededSum int64
	// RefundsByState counts refunds; RefundedSum sums the amounts of SUCCEEDED ones.
	RefundsByState map[effect.State]int64
	RefundedSum    int64
	// WrongRefunded counts payments whose Refunded is not the sum of their refunds
	// that have not failed, or more than their amount.
	WrongRefunded int64
	// Unbalanced counts refs whose postings do not sum to 0 per currency.
	Unbalanced int64
	// WrongBalance counts accounts whose kept balance is not the sum of their
	// postings.
	WrongBalance int64
	// OutboxWaiting, OutboxParked count undeleted events.
	OutboxWaiting, OutboxParked int64
	// MessagesParked counts messages that workers have set aside.
	MessagesParked int64
	// IntentsPending, IntentsSent, IntentsRefused count notifications.
	IntentsPending, IntentsSent, IntentsRefused int64
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
