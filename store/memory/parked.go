package memory

import (
	"bytes"
	"cmp"
	"context"

	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/outbox"
)

// ParkedEvents lists the events that a relay has set aside.
func (s *Store) ParkedEvents() outbox.ParkedStore { return outboxStore{s} }

// ParkedMessages is the store of messages that consumers have set aside.
func (s *Store) ParkedMessages() inbox.ParkedStore { return parkedStore{s} }

func (o outboxStore) ListParked(ctx context.Context, l outbox.ListParked) ([]outbox.Parked, error) {
	if err := o.s.lock(ctx); err != nil {
		return nil, err
	}
	defer o.s.mu.Unlock()
	after, id := round(l.After.ParkedAt), l.After.ID
	var out []outbox.Parked
	for r := range o.s.outbox.aside.all() {
		if len(out) >= l.Limit {
			break
		}
		if cmp.Or(r.parkedAt.Compare(after), cmp.Compare(r.event.ID, id)) <= 0 {
			continue
		}
		e := r.event
		e.Body = bytes.Clone(e.Body)
		out = append(out, outbox.Parked{Event: e, Attempts: r.attempts, Reason: r.reason, ParkedAt: r.parkedAt})
	}
	return out, nil
}

// parkedRows is the table of messages that were set aside.
type parkedRows struct {
	byKey map[inbox.ParkedKey]*inbox.Parked
	byAge index[*inbox.Parked]
}

func newParkedRows() parkedRows {
	return parkedRows{byKey: map[inbox.ParkedKey]*inbox.Parked{}, byAge: index[*inbox.Parked]{compare: compareParked}}
}

func compareParked(a, b *inbox.Parked) int {
	return cmp.Or(a.ParkedAt.Compare(b.ParkedAt), cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.ID, b.ID))
}

// parkedStore is inbox.ParkedStore.
type parkedStore struct{ s *Store }

func (p parkedStore) Park(ctx context.Context, m inbox.Parked) (bool, error) {
	if err := m.Check(); err != nil {
		return false, err
	}
	if err := p.s.lock(ctx); err != nil {
		return false, err
	}
	defer p.s.mu.Unlock()
	if p.s.parked.byKey[m.Key()] != nil {
		return false, nil
	}
	row := copyOfParked(m)
	p.s.parked.byKey[m.Key()] = &row
	p.s.parked.byAge.add(&row)
	return true, nil
}

// copyOfParked shares nothing with the original, and has times as stores keep them.
func copyOfParked(m inbox.Parked) inbox.Parked {
	m.Body = bytes.Clone(m.Body)
	m.SentAt, m.ParkedAt = round(m.SentAt), round(m.ParkedAt)
	return m
}

func (p parkedStore) Parked(ctx context.Context, k inbox.ParkedKey) (*inbox.Parked, error) {
	if err := p.s.lock(ctx); err != nil {
		return nil, err
	}
	defer p.s.mu.Unlock()
	row := p.s.parked.byKey[k]
	if row == nil {
		return nil, nil
	}
	out := copyOfParked(*row)
	return &out, nil
}

func (p parkedStore) ListParked(ctx context.Context, l inbox.ListParked) ([]inbox.Parked, error) {
	if err := p.s.lock(ctx); err != nil {
		return nil, err
	}
	defer p.s.mu.Unlock()
	after := copyOfParked(l.After)
	var out []inbox.Parked
	for row := range p.s.parked.byAge.all() {
		if len(out) >= l.Limit {
			break
		}
		if compareParked(row, &after) > 0 && (l.Consumer == "" || l.Consumer == row.Consumer) {
			out = append(out, copyOfParked(*row))
		}
	}
	return out, nil
}

func (p parkedStore) CountParked(ctx context.Context, consumer string) (int64, error) {
	if err := p.s.lock(ctx); err != nil {
		return 0, err
	}
	defer p.s.mu.Unlock()
	n := int64(0)
	for row := range p.s.parked.byAge.all() {
		if consumer == "" || consumer == row.Consumer {
			n++
		}
	}
	return n, nil
}

func (p parkedStore) Unpark(ctx context.Context, k inbox.ParkedKey) (bool, error) {
	if err := p.s.lock(ctx); err != nil {
		return false, err
	}
	defer p.s.mu.Unlock()
	row := p.s.parked.byKey[k]
	if row == nil {
		return false, nil
	}
	delete(p.s.parked.byKey, k)
	p.s.parked.byAge.remove(row)
	return true, nil
}
