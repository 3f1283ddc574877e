package saboteurs

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/storetest"
)

// lockFaults wait for others, or hand on what others have undone.
func lockFaults() []Saboteur {
	return []Saboteur{
		{"conflict-handed-on", "a serialization failure is the caller's matter although the driver says that it tries again", "PostHappensOnce", inLedger(func(l payments.Ledger) payments.Ledger { return &postConflicts{Ledger: l} })},
		{"inbox-waits", "forgetting messages waits for a row that another transaction has locked", "ForgettingWaitsForNobody", held(func(s *storetest.Stores, l *locks) { s.Payments.Inbox = inboxWaits{s.Payments.Inbox, l} })},
		{"janitor-waits", "forgetting claims waits for a row that another transaction has locked", "ForgettingWaitsForNobody", held(func(s *storetest.Stores, l *locks) { s.Payments.Janitor = janitorWaits{s.Payments.Janitor, l} })},
	}
}

// postConflicts refuses every other call once.
type postConflicts struct {
	payments.Ledger
	n atomic.Int64
}

func (p *postConflicts) Post(ctx context.Context, postings []ledger.Posting, now time.Time) error {
	if p.n.Add(1)%2 == 1 {
		return retryproof.Refused(retryproof.CodeConflict, "another transaction was faster", nil)
	}
	return p.Ledger.Post(ctx, postings, now)
}

// locks are rows that another transaction has locked, all or none.
type locks struct{ free chan struct{} }

// held gives the driver rows that can be locked.
func held(plant func(s *storetest.Stores, l *locks)) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		l := &locks{make(chan struct{}, 1)}
		l.free <- struct{}{}
		s.Hold = func(*testing.T, []retryproof.InboxKey, []retryproof.Scope) func() {
			<-l.free
			return func() { l.free <- struct{}{} }
		}
		plant(&s, l)
		return s
	}
}

// wait returns when nobody holds a lock, or the context ends.
func (l *locks) wait(ctx context.Context) error {
	select {
	case <-l.free:
		l.free <- struct{}{}
		return nil
	case <-ctx.Done():
		return retryproof.Refused(retryproof.CodeUnavailable, "the caller stopped waiting", context.Cause(ctx))
	}
}

type inboxWaits struct {
	inbox.Store
	l *locks
}

func (i inboxWaits) Forget(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := i.l.wait(ctx); err != nil {
		return 0, err
	}
	return i.Store.Forget(ctx, before, limit)
}

type janitorWaits struct {
	payments.Janitor
	l *locks
}

func (j janitorWaits) ForgetClaims(ctx context.Context, now, abandoned time.Time, limit int) (int, error) {
	if err := j.l.wait(ctx); err != nil {
		return 0, err
	}
	return j.Janitor.ForgetClaims(ctx, now, abandoned, limit)
}
