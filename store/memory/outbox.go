package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/outbox"
)

// outRow is an event that has not been deleted.
type outRow struct {
	event    retryproof.Event
	seq      int64
	attempts int
	// relay holds the lease until leasedUntil; "" without a lease.
	relay       string
	leasedUntil time.Time
	nextAt      time.Time
	parked      bool
	parkedAt    time.Time
	reason      string
}

// freeFrom is when the row can be leased: its try has come and a lease is over.
func (r *outRow) freeFrom() time.Time {
	if over := r.leasedUntil.Add(clock.Precision); r.relay != "" && over.After(r.nextAt) {
		return over
	}
	return r.nextAt
}

// outGroup is a group with its rows that wait, in order of seq.
type outGroup struct {
	name string
	rows []*outRow
	// seq and freeFrom are those of the head when the group was put into an
	// index; waiting says which index.
	seq      int64
	freeFrom time.Time
	waiting  bool
}

// outboxRows is the outbox table. A claim looks only at groups whose head may be
// free: the others wait in an index by the time when they are.
type outboxRows struct {
	byID   map[string]*outRow
	groups map[string]*outGroup
	seq    int64
	parked int64
	// aside holds parked rows by (parkedAt, id).
	aside index[*outRow]
	// byAge holds rows that wait by (At, seq).
	byAge          index[*outRow]
	ready, waiting index[*outGroup]
}

func newOutboxRows() outboxRows {
	return outboxRows{
		byID:   map[string]*outRow{},
		groups: map[string]*outGroup{},
		aside: index[*outRow]{compare: func(a, b *outRow) int {
			return cmp.Or(a.parkedAt.Compare(b.parkedAt), cmp.Compare(a.event.ID, b.event.ID))
		}},
		byAge: index[*outRow]{compare: func(a, b *outRow) int {
			return cmp.Or(a.event.At.Compare(b.event.At), cmp.Compare(a.seq, b.seq))
		}},
		ready: index[*outGroup]{compare: func(a, b *outGroup) int { return cmp.Compare(a.seq, b.seq) }},
		waiting: index[*outGroup]{compare: func(a, b *outGroup) int {
			return cmp.Or(a.freeFrom.Compare(b.freeFrom), cmp.Compare(a.seq, b.seq))
		}},
	}
}

func checkEvents(events []retryproof.Event) error {
	for _, e := range events {
		if e.ID == "" || e.Group == "" {
			return invalid("an event lacks its id or its group")
		}
		if err := retryproof.CheckIDs("the id or the group of an event", e.ID, e.Group); err != nil {
			return err
		}
	}
	return nil
}

// insert stores events in order; one that is there is left.
func (o *outboxRows) insert(events []retryproof.Event) {
	for _, e := range events {
		if o.byID[e.ID] != nil {
			continue
		}
		o.seq++
		e.Body, e.At = bytes.Clone(e.Body), round(e.At)
		r := &outRow{event: e, seq: o.seq}
		o.byID[e.ID] = r
		o.enqueue(r)
	}
}

// enqueue puts a row into its group, at the place of its seq.
func (o *outboxRows) enqueue(r *outRow) {
	g := o.groups[r.event.Group]
	if g == nil {
		g = &outGroup{name: r.event.Group}
		o.groups[g.name] = g
	}
	o.change(g, func() {
		at, _ := slices.BinarySearchFunc(g.rows, r.seq, func(r *outRow, seq int64) int { return cmp.Compare(r.seq, seq) })
		g.rows = slices.Insert(g.rows, at, r)
	})
	o.byAge.add(r)
}

// dequeue takes a row out of its group.
func (o *outboxRows) dequeue(r *outRow) {
	g := o.groups[r.event.Group]
	o.change(g, func() {
		if g.rows[0] == r { // the usual case, without moving the rest
			g.rows[0] = nil
			g.rows = g.rows[1:]
			return
		}
		g.rows = slices.DeleteFunc(g.rows, func(other *outRow) bool { return other == r })
	})
	o.byAge.remove(r)
}

// change lets write alter a group or its rows and keeps the indexes right. A
// group goes to waiting when its head is leased or deferred; the next claim whose
// time has come brings it back.
func (o *outboxRows) change(g *outGroup, write func()) {
	if g.waiting {
		o.waiting.remove(g)
	} else {
		o.ready.remove(g)
	}
	write()
	if len(g.rows) == 0 {
		delete(o.groups, g.name)
		return
	}
	head := g.rows[0]
	g.seq, g.freeFrom = head.seq, head.freeFrom()
	g.waiting = !g.freeFrom.IsZero()
	if g.waiting {
		o.waiting.add(g)
	} else {
		o.ready.add(g)
	}
}

// claim leases rows; see outbox.Store.Claim.
func (o *outboxRows) claim(c outbox.Claim) []outbox.Row {
	now, until := round(c.Now), round(c.Until)
	o.wake(now)
	var picked []*outRow
	touched := o.pick(now, c.Limit, &picked)
	out := make([]outbox.Row, 0, len(picked))
	for _, r := range picked {
		r.relay, r.leasedUntil = c.Relay, until
		r.attempts++
		e := r.event
		e.Body = bytes.Clone(e.Body)
		out = append(out, outbox.Row{Event: e, Seq: r.seq, Attempts: r.attempts})
	}
	for _, g := range touched {
		o.change(g, func() {})
	}
	return out
}

// wake moves groups whose head is free at now to ready.
func (o *outboxRows) wake(now time.Time) {
	for _, g := range o.waiting.first(len(o.groups), func(g *outGroup) bool { return !g.freeFrom.After(now) }) {
		o.waiting.remove(g)
		g.waiting = false
		o.ready.add(g)
	}
}

// pick chooses the free rows with the lowest seq that have no row of their group
// left out before them, and returns the groups that they are from. It merges the
// ready groups: cursors holds those already opened, by their next row.
func (o *outboxRows) pick(now time.Time, limit int, picked *[]*outRow) []*outGroup {
	cursors := index[cursor]{compare: func(a, b cursor) int { return cmp.Compare(a.seq(), b.seq()) }}
	open := func(c cursor) {
		if c.at < len(c.g.rows) && !c.g.rows[c.at].freeFrom().After(now) {
			cursors.add(c)
		}
	}
	take := func(below int64) {
		for len(*picked) < limit && len(cursors.blocks) > 0 && cursors.blocks[0][0].seq() < below {
			c := cursors.blocks[0][0]
			cursors.remove(c)
			*picked = append(*picked, c.g.rows[c.at])
			open(cursor{c.g, c.at + 1})
		}
	}
	var touched []*outGroup
	for g := range o.ready.all() {
		take(g.seq)
		if len(*picked) >= limit {
			return touched
		}
		touched = append(touched, g)
		open(cursor{g, 0})
	}
	take(o.seq + 1)
	return touched
}

type cursor struct {
	g  *outGroup
	at int
}

func (c cursor) seq() int64 { return c.g.rows[c.at].seq }

// leased returns the row if the relay was the last to lease it, and it is neither
// given back nor parked.
func (o *outboxRows) leased(relay, id string) *outRow {
	if r := o.byID[id]; r != nil && r.relay != "" && r.relay == relay {
		return r
	}
	return nil
}

// outboxStore is outbox.Store.
type outboxStore struct{ s *Store }

func (o outboxStore) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
	if c.Relay == "" {
		return nil, invalid("the relay has no token")
	}
	if err := o.s.lock(ctx); err != nil {
		return nil, err
	}
	defer o.s.mu.Unlock()
	return o.s.outbox.claim(c), nil
}

func (o outboxStore) Delete(ctx context.Context, relay string, eventIDs []string) ([]string, error) {
	if err := o.s.lock(ctx); err != nil {
		return nil, err
	}
	defer o.s.mu.Unlock()
	var deleted []string
	for _, id := range eventIDs {
		r := o.s.outbox.leased(relay, id)
		if r == nil {
			continue
		}
		o.s.outbox.dequeue(r)
		delete(o.s.outbox.byID, id)
		deleted = append(deleted, id)
	}
	return deleted, nil
}

func (o outboxStore) Defer(ctx context.Context, d outbox.Defer) (bool, error) {
	if err := o.s.lock(ctx); err != nil {
		return false, err
	}
	defer o.s.mu.Unlock()
	r := o.s.outbox.leased(d.Relay, d.EventID)
	if r == nil {
		return false, nil
	}
	o.s.outbox.change(o.s.outbox.groups[r.event.Group], func() {
		r.relay, r.leasedUntil, r.nextAt, r.reason = "", time.Time{}, round(d.NextAt), d.Reason
		if d.Untried {
			r.attempts--
		}
	})
	return true, nil
}

func (o outboxStore) Park(ctx context.Context, p outbox.Park) (bool, error) {
	if err := o.s.lock(ctx); err != nil {
		return false, err
	}
	defer o.s.mu.Unlock()
	r := o.s.outbox.leased(p.Relay, p.EventID)
	if r == nil {
		return false, nil
	}
	o.s.outbox.dequeue(r)
	o.s.outbox.parked++
	r.relay, r.leasedUntil, r.nextAt = "", time.Time{}, time.Time{}
	r.parked, r.parkedAt, r.reason = true, round(p.Now), p.Reason
	o.s.outbox.aside.add(r)
	return true, nil
}

func (o outboxStore) Redrive(ctx context.Context, d outbox.Redrive) (bool, error) {
	if err := o.s.lock(ctx); err != nil {
		return false, err
	}
	defer o.s.mu.Unlock()
	r := o.s.outbox.byID[d.EventID]
	if r == nil || !r.parked {
		return false, nil
	}
	o.s.outbox.parked--
	o.s.outbox.aside.remove(r)
	r.parked, r.parkedAt, r.reason, r.attempts = false, time.Time{}, "", 0
	if d.Body != nil {
		r.event.Body = bytes.Clone(d.Body)
	}
	o.s.outbox.enqueue(r)
	return true, nil
}

func (o outboxStore) Stats(ctx context.Context) (outbox.Stats, error) {
	if err := o.s.lock(ctx); err != nil {
		return outbox.Stats{}, err
	}
	defer o.s.mu.Unlock()
	return o.s.outbox.stats(), nil
}

func (o *outboxRows) stats() outbox.Stats {
	st := outbox.Stats{Parked: o.parked, Waiting: int64(len(o.byID)) - o.parked}
	for r := range o.byAge.all() {
		st.OldestAt = r.event.At
		break
	}
	return st
}
