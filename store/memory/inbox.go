package memory

import (
	"cmp"
	"context"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
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
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.key.Consumer, b.key.Consumer),
				cmp.Compare(a.key.Source, b.key.Source), cmp.Compare(a.key.EventID, b.key.EventID))
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

type intentRows struct {
	byKey map[notify.Key]*notify.Intent
	// unsent holds PENDING intents by (CreatedAt, EventID, Channel).
	unsent index[*notify.Intent]
}

func newIntentRows() intentRows {
	return intentRows{
		byKey: map[notify.Key]*notify.Intent{},
		unsent: index[*notify.Intent]{compare: func(a, b *notify.Intent) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.EventID, b.EventID), cmp.Compare(a.Channel, b.Channel))
		}},
	}
}

func checkIntents(intents []notify.Intent) error {
	for _, n := range intents {
		if n.EventID == "" || n.Channel == "" {
			return invalid("an intent lacks its event or its channel")
		}
		if err := retryproof.CheckIDs("the event or the channel of an intent", n.EventID, n.Channel); err != nil {
			return err
		}
	}
	return nil
}

// insert stores intents as PENDING; one that is there is left.
func (n *intentRows) insert(intents []notify.Intent, now time.Time) {
	for _, in := range intents {
		if n.byKey[in.Key] != nil {
			continue
		}
		in.State, in.Sends, in.SentAt, in.CreatedAt = notify.Pending, 0, time.Time{}, round(in.CreatedAt)
		if in.CreatedAt.IsZero() {
			in.CreatedAt = now
		}
		n.byKey[in.Key] = &in
		n.unsent.add(&in)
	}
}

// notifyStore is notify.Store.
type notifyStore struct{ s *Store }

func (n notifyStore) Intent(ctx context.Context, k notify.Key) (*notify.Intent, error) {
	if err := n.s.lock(ctx); err != nil {
		return nil, err
	}
	defer n.s.mu.Unlock()
	in := n.s.intents.byKey[k]
	if in == nil {
		return nil, nil
	}
	out := *in
	return &out, nil
}

func (n notifyStore) MarkSent(ctx context.Context, k notify.Key, now time.Time) (bool, error) {
	if err := n.s.lock(ctx); err != nil {
		return false, err
	}
	defer n.s.mu.Unlock()
	in := n.s.intents.byKey[k]
	if in == nil || in.State != notify.Pending {
		return false, nil
	}
	n.s.intents.unsent.remove(in)
	in.State, in.SentAt = notify.Sent, round(now)
	in.Sends++
	return true, nil
}

func (n notifyStore) Unsent(ctx context.Context, before time.Time, limit int) ([]notify.Intent, error) {
	if err := n.s.lock(ctx); err != nil {
		return nil, err
	}
	defer n.s.mu.Unlock()
	before = round(before)
	var out []notify.Intent
	for _, in := range n.s.intents.unsent.first(limit, func(in *notify.Intent) bool { return in.CreatedAt.Before(before) }) {
		out = append(out, *in)
	}
	return out, nil
}
