package inbox

import (
	"context"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
)

// Store applies messages once.
type Store interface {
	// Apply records a.Key and, only when it was not there, writes the rest, all
	// in one transaction. It reports whether this call was the first; the repeat
	// of a call whose COMMIT answer was lost reports false, which is right: the
	// effect is there. A repeat moves the record's time to a.Now when that is later, so
	// that a message which still comes is not forgotten. A key without an event id or
	// a consumer and a zero Now are refused with CodeInvalid. Errors are as in
	// effect.Store.
	Apply(ctx context.Context, a Apply) (first bool, err error)
	// Forget deletes up to limit records that were last met before the given time,
	// oldest first, in a transaction of its own that waits for nobody's lock. It returns
	// how many it deleted.
	Forget(ctx context.Context, before time.Time, limit int) (int, error)
}

// Apply is one message's effect.
type Apply struct {
	// Key names the message for its consumer. Its Consumer and EventID are needed; two
	// consumers that share a name take each other's messages for applied.
	Key retryproof.InboxKey
	// Now is when it is applied, not when it was sent: its record is kept from then on,
	// and a message that comes for long would be forgotten while it still comes. A
	// Consumer fills in its clock's when it is zero; a Store refuses zero.
	Now time.Time
	// Postings are checked by ledger.Check before anything is written. When a ref
	// has another entry, the whole message is refused, NotDone with CodeInvalid,
	// and not recorded; an entry that is there exactly is left.
	Postings []ledger.Posting
	// Intents are notifications to send after the commit.
	Intents []notify.Intent
	// Events are follow-ups for the outbox; each needs an id and a group.
	Events []retryproof.Event
}
