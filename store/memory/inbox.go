package memory

import (
	"cmp"
	"context"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
)

// noted is an inbox row.
type noted struct {
	key retryproof.InboxKey
	at  time.Time
}

type inboxRows struct {
	byKey map[retryproof.InboxKey]*noted
	byAge index[*noted]
}

func newInboxRows() inboxRows {
	return inboxRows{
		byKey: map[retryproof.InboxKey]*noted{},
		byAge: index[*noted]{compare: func(a, b *noted) int {
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.key.EventID, b.key.EventID),
				cmp.Compare(a.key.Source, b.key.Source), cmp.Compare(a.key.Consumer, b.key.Consumer))
		}},
	}
}

func (i *inboxRows) has(k retryproof.InboxKey) bool {
	return i.byKey[k] != nil
}

func (i *inboxRows) note(k retryproof.InboxKey, at time.Time) {
	n := &noted{k, at}
	i.byKey[k] = n
	i.byAge.add(n)
}

// meet keeps a message that still comes from being forgotten.
func (i *inboxRows) meet(k retryproof.InboxKey, at time.Time) {
	n := i.byKey[k]
	if n == nil || !n.at.Before(at) {
		return
	}
	i.byAge.remove(n)
	n.at = at
	i.byAge.add(n)
}

// checkInbox refuses what cannot be noted: see record.CheckInbox.
func checkInbox(k retryproof.InboxKey, now time.Time) error {
	switch {
	case k.EventID == "":
		return invalid("the inbox key has no event id")
	case k.Consumer == "":
		return invalid("the inbox key has no consumer")
	case now.IsZero():
		return invalid("a message is noted without a time")
	}
	return retryproof.CheckIDs("a part of the inbox key", k.EventID, k.Source, k.Consumer)
}

// inboxStore is inbox.Store.
type inboxStore struct{ s *Store }

func (i inboxStore) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	if err := checkInbox(a.Key, a.Now); err != nil {
		return false, err
	}
	if err := ledger.Check(a.Postings); err != nil {
		return false, err
	}
	if err := checkEvents(a.Events); err != nil {
		return false, err
	}
	if err := checkIntents(a.Intents); err != nil {
		return false, err
	}
	if err := i.s.lock(ctx); err != nil {
		return false, err
	}
	defer i.s.mu.Unlock()
	if i.s.inbox.has(a.Key) {
		i.s.inbox.meet(a.Key, round(a.Now))
		return false, nil
	}
	all := entries(a.Postings)
	if err := i.s.ledger.fits(all); err != nil {
		return false, err
	}
	i.s.inbox.note(a.Key, round(a.Now))
	i.s.ledger.post(all)
	i.s.intents.insert(a.Intents, round(a.Now))
	i.s.outbox.insert(a.Events)
	return true, nil
}

func (i inboxStore) Forget(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := i.s.lock(ctx); err != nil {
		return 0, err
	}
	defer i.s.mu.Unlock()
	before = round(before)
	old := i.s.inbox.byAge.first(limit, func(n *noted) bool { return n.at.Before(before) })
	for _, n := range old {
		i.s.inbox.byAge.remove(n)
		delete(i.s.inbox.byKey, n.key)
	}
	return len(old), nil
}
