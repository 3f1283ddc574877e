// Package payments is the system of this repository: a payment from the tap to
// the notification, composed of the module's packages. The same composition runs
// in production and in the simulator; they differ in [Deps] only.
//
// One payment: POST /payments claims the caller's key and records the payment
// PENDING (httpkey, effect); the card is charged under a key derived from the
// payment (psp); one transaction makes it SUCCEEDED with its journal entry and its
// event (effect, ledger); a relay publishes the event (outbox); a worker credits
// the merchant and records the notification, once per event (inbox), and sends it
// (notify). What ends without an answer is UNKNOWN until the resolver or the
// processor's webhook brings evidence (resolve).
//
// Promises, per payment: at most one charge, one credit, one notification on the
// screen, whatever is repeated, lost, late or killed; and, once the faults end,
// exactly one of each for a SUCCEEDED payment.
//
// Does not promise: one send of anything. Charges, events and notifications are
// sent again under the same name, and whoever receives them recognises it.
//
// Crash points: see docs/FAILURES.md, which lists what each leaves behind.
package payments
