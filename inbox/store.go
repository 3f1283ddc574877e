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
	// effect is there. Errors are as in effect.Store.
	Apply(ctx context.Context, a Apply) (first bool, err error)
	// Forget deletes up to limit records noted before the given time, oldest
	// first, in a transaction of its own that waits for nobody's lock. It returns
	// how many it deleted.
	Forget(ctx context.Context, before time.Time, limit int) (int, error)
}

// Apply is one message's effect.
type Apply struct {
	Key retryproof.InboxKey
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
