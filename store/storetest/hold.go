package storetest

import (
	"context"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
)

func holdCases() []testCase {
	return []testCase{
		{"ForgettingWaitsForNobody", holdForget},
	}
}

// patience is how long a call may take that has nobody to wait for.
const patience = 5 * time.Second

// case 37: another transaction has locked old rows; those are left for later.
func holdForget(w *world) {
	if w.Hold == nil {
		return
	}
	ids := []string{"e0", "e1", "e2"}
	for _, id := range ids {
		w.applies(inbox.Apply{Key: message(id), Now: at(1)})
	}
	expired, abandoned := w.claimed("expired0", 0, 100, nil), w.claimed("abandoned0", 0, 0, nil)
	for _, key := range []string{"expired1", "expired2"} {
		w.claimed(key, 0, 100, nil)
	}
	for _, key := range []string{"abandoned1", "abandoned2"} {
		w.claimed(key, 0, 0, nil)
	}
	release := w.Hold(w.T, []retryproof.InboxKey{message("e0")}, []retryproof.Scope{expired.scope, abandoned.scope})
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	quick := func(what string, err error) {
		w.Helper()
		if err != nil {
			w.Errorf("%s beside a lock: got error %v, want none and at once", what, err)
		}
	}
	first, err := w.Payments.Inbox.Apply(ctx, inbox.Apply{Key: message("e0"), Now: at(2)})
	quick("a repeat", err)
	check(w, "first", first, false)
	messages, err := w.Payments.Inbox.Forget(ctx, at(50), 99)
	quick("forgetting messages", err)
	claims, err := w.Payments.Janitor.ForgetClaims(ctx, at(1000), at(900), 99)
	quick("forgetting claims", err)
	if messages < 2 || claims < 4 {
		w.Errorf("got %d messages and %d claims forgotten, want at least the 2 and 4 that nobody holds", messages, claims)
	}
	release()
	n, err := w.Payments.Inbox.Forget(w.Context(), at(50), 99)
	quick("forgetting the message afterwards", err)
	check(w, "messages forgotten in all", messages+n, 3)
	check(w, "claims forgotten in all", claims+w.forget(1000, 900, 99), 6)
}
