// Package memory is a driver that keeps everything in one process's memory: for
// tests, examples and the simulator. What it holds is gone with the process.
//
// Promises: it satisfies every store interface of this module with the meaning
// that store/storetest judges; each operation is atomic; what goes in and what
// comes out are copies, so that a caller may change either; the same calls give
// the same results in the same order. It starts no goroutine and reads no clock.
//
// Does not promise: durability. There are no crash points: an operation has
// happened when it has returned, and a process that ends loses all of them.
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
)

// Store holds claims, guards, payments, outbox, inbox, intents, versions, locators, the ledger and
// sightings. Use [New]. All methods are safe for concurrent use.
type Store struct {
	mu       sync.Mutex
	claims   claims
	generic  *table
	payments *table
	refunds  *table
	outbox   outboxRows
	inbox    inboxRows
	parked   parkedRows
	intents  intentRows
	ledger   ledgerRows
	sagas    sagaRows
	versions versionRows
	locators locatorRows
	// sightings are sorted by (Hop, What).
	sightings map[retryproof.ID][]payments.Sighting
}

// New returns an empty store.
func New() *Store {
	s := &Store{
		claims:    newClaims(),
		generic:   newTable(false),
		payments:  newTable(true),
		outbox:    newOutboxRows(),
		inbox:     newInboxRows(),
		parked:    newParkedRows(),
		intents:   newIntentRows(),
		ledger:    newLedgerRows(),
		sagas:     newSagaRows(),
		sightings: map[retryproof.ID][]payments.Sighting{},
	}
	s.refunds = newTable(false)
	s.refunds.of = s.payments
	return s
}

// Effects is the store of effects with the generic guard table.
func (s *Store) Effects() effect.Store { return effects{s, s.generic} }

// Due lists guards of the generic table for a resolver.
func (s *Store) Due() resolve.Store { return due{s, s.generic} }

// Keys is the claim half alone.
func (s *Store) Keys() effect.Keys { return keys{s} }

// Guards is the guard half alone, with the generic table.
func (s *Store) Guards() effect.Guards { return guards{s, s.generic} }

// PaymentGuards is the guard half alone, with the payments table.
func (s *Store) PaymentGuards() effect.Guards { return guards{s, s.payments} }

// RefundGuards is the guard half alone, with the refunds table.
func (s *Store) RefundGuards() effect.Guards { return guards{s, s.refunds} }

// Outbox is the store of events that wait to be sent.
func (s *Store) Outbox() outbox.Store { return outboxStore{s} }

// Inbox is the store of messages that were applied.
func (s *Store) Inbox() inbox.Store { return inboxStore{s} }

// Notify is the store of notification intents.
func (s *Store) Notify() notify.Store { return notifyStore{s} }

// Payments are all the stores of the payments system, kept in this one.
func (s *Store) Payments() payments.Stores {
	return payments.Stores{
		Effects: effects{s, s.payments},
		Due:     due{s, s.payments},
		Refunds: effects{s, s.refunds}, DueRefunds: due{s, s.refunds},
		Outbox:         s.Outbox(),
		Inbox:          s.Inbox(),
		ParkedMessages: s.ParkedMessages(),
		ParkedEvents:   s.ParkedEvents(),
		Notify:         s.Notify(),
		Ledger:         ledgerStore{s},
		RefundList:     ledgerStore{s},
		Versions:       s.Versions(),
		Hops:           hops{s},
		Janitor:        janitor{s},
	}
}

// lock takes the mutex unless the caller's context has ended; then nothing has
// been written. Callers must unlock when the error is nil.
func (s *Store) lock(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return retryproof.Refused(retryproof.CodeUnavailable, "the caller's context has ended", cause)
	}
	s.mu.Lock()
	return nil
}

// round brings a time to the precision that all stores share.
func round(t time.Time) time.Time { return t.UTC().Truncate(clock.Precision) }

func invalid(message string) error {
	return retryproof.Refused(retryproof.CodeInvalid, message, nil)
}
