package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/notify"
)

// intentRow is an intent with the place that it has among those that are PENDING.
type intentRow struct {
	notify.Intent
	// due is NextAt, or CreatedAt of one without.
	due time.Time
}

type intentRows struct {
	byKey map[notify.Key]*intentRow
	// untried and tried hold PENDING intents without and with NextAt, by (due, EventID,
	// Channel).
	untried, tried index[*intentRow]
}

func compareIntents(a, b *intentRow) int {
	return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.EventID, b.EventID), cmp.Compare(a.Channel, b.Channel))
}

func newIntentRows() intentRows {
	return intentRows{byKey: map[notify.Key]*intentRow{}, untried: index[*intentRow]{compare: compareIntents}, tried: index[*intentRow]{compare: compareIntents}}
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
		in.State, in.Sends, in.SentAt, in.CreatedAt, in.NextAt, in.Reason = notify.Pending, 0, time.Time{}, round(in.CreatedAt), time.Time{}, ""
		if in.CreatedAt.IsZero() {
			in.CreatedAt = now
		}
		row := &intentRow{in, in.CreatedAt}
		n.byKey[in.Key] = row
		n.untried.add(row)
	}
}

// take removes a PENDING intent from where it waits.
func (n *intentRows) take(in *intentRow) {
	if in.NextAt.IsZero() {
		n.untried.remove(in)
	} else {
		n.tried.remove(in)
	}
}

// wait lets an intent that was taken wait until it is due.
func (n *intentRows) wait(in *intentRow, next time.Time) {
	in.NextAt, in.due = next, next
	n.tried.add(in)
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
	out := in.Intent
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
	n.s.intents.take(in)
	in.State, in.SentAt, in.NextAt = notify.Sent, round(now), time.Time{}
	in.Sends++
	return true, nil
}

func (n notifyStore) Claim(ctx context.Context, c notify.Claim) ([]notify.Intent, error) {
	if err := n.s.lock(ctx); err != nil {
		return nil, err
	}
	defer n.s.mu.Unlock()
	if c.Limit <= 0 {
		return nil, nil
	}
	rows := append(n.s.intents.due(&n.s.intents.tried, c.Channel, round(c.Now), c.Limit),
		n.s.intents.due(&n.s.intents.untried, c.Channel, round(c.Untried), c.Limit)...)
	slices.SortFunc(rows, compareIntents)
	var out []notify.Intent
	for _, in := range rows[:min(c.Limit, len(rows))] {
		out = append(out, in.Intent)
		n.s.intents.take(in)
		n.s.intents.wait(in, round(c.Until))
	}
	return out, nil
}

// due lists those of one channel whose time has come.
func (n *intentRows) due(from *index[*intentRow], channel string, now time.Time, limit int) []*intentRow {
	var out []*intentRow
	for in := range from.all() {
		if len(out) == limit || in.due.After(now) {
			break
		}
		if in.Channel == channel {
			out = append(out, in)
		}
	}
	return out
}

func (n notifyStore) Fail(ctx context.Context, f notify.Failure) (bool, error) {
	if err := n.s.lock(ctx); err != nil {
		return false, err
	}
	defer n.s.mu.Unlock()
	in := n.s.intents.byKey[f.Key]
	if in == nil || in.State != notify.Pending || in.Sends != f.Tried {
		return false, nil
	}
	n.s.intents.take(in)
	in.Sends++
	in.Reason = f.Reason
	if f.Refused {
		in.State, in.NextAt = notify.Refused, time.Time{}
		return true, nil
	}
	n.s.intents.wait(in, round(f.NextAt))
	return true, nil
}
