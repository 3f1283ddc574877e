package story

import (
	"slices"
	"time"
)

// predicted is what the main line must come to, computed from its parameters and
// from nothing that happened.
type predicted struct {
	arrived   time.Duration // A1 at the load balancer
	leaseEnd  time.Duration
	chargedAt time.Duration
	// settledAt and settledBy are when the payment becomes SUCCEEDED, and who
	// moves it.
	settledAt time.Duration
	settledBy string
	// expires is when the key record of A1 ends.
	expires time.Duration
	// pspRequests are the requests with the charge's key.
	pspRequests int
	// sends are the relay's sends; stored those that became messages.
	sends, stored []time.Duration
	credited      time.Duration
	// deliveries are the queue's, alerts the moments of the pushes.
	deliveries, alerts []time.Duration
}

// dedup is how the queue recognises a repeat.
type dedup int

const (
	byID     dedup = iota // the stored event id
	never                 // every send looks new, and joins its group's line
	newGroup              // every repeat looks new and comes in a group of its own
)

// predict follows the main line on paper.
func predict(p Params, d dedup) predicted {
	q := predicted{arrived: p.Network, leaseEnd: p.Network + p.Deadline, chargedAt: p.Network + p.PSPLatency, pspRequests: 1}
	q.expires = q.leaseEnd + p.KeyWindow
	q.settledAt, q.settledBy = p.WebhookAt, "webhook"
	if asked := p.ResolveAt; asked >= q.leaseEnd && asked < p.WebhookAt {
		q.pspRequests = 2
		if done := asked + 2*p.PSPLatency; done < p.WebhookAt {
			q.settledAt, q.settledBy = done, "resolver"
		}
	}
	q.relays(p, d)
	q.works(p, d)
	return q
}

// relays follows the relay: it sends what is settled, dies twice and then lives to
// delete the row.
func (q *predicted) relays(p Params, d dedup) {
	leased := time.Duration(-1)
	for _, at := range []time.Duration{p.RelayAt, p.RelayAgainAt, p.RelayLastAt} {
		if at < q.settledAt || leased >= at {
			continue
		}
		leased = at + p.RelayLease
		q.sends = append(q.sends, at)
		if n := len(q.stored); n == 0 || d != byID || at >= q.stored[n-1]+p.QueueWindow {
			q.stored = append(q.stored, at)
		}
	}
}

// works follows the workers. w1 dies after its push; its delivery comes again when
// the visibility timeout is over. w2 receives until there is nothing.
func (q *predicted) works(p Params, d dedup) {
	type message struct {
		sent, until time.Duration
		done        bool
	}
	var line []*message
	for _, at := range q.stored {
		line = append(line, &message{sent: at})
	}
	marked := false
	receive := func(at time.Duration, dies bool) bool {
		for i, m := range line {
			head := d == newGroup || !slices.ContainsFunc(line[:i], func(o *message) bool { return !o.done })
			if m.done || m.sent > at || m.until > at || !head {
				continue
			}
			q.deliveries = append(q.deliveries, at)
			if q.credited == 0 {
				q.credited = at
			}
			if !marked {
				q.alerts = append(q.alerts, at)
			}
			if dies && !marked {
				m.until = at + p.Visibility
				return true
			}
			m.done, marked = true, true
			return true
		}
		return false
	}
	receive(p.WorkAt, true)
	times := []time.Duration{p.WorkAt + p.Visibility, p.RelayLastAt}
	slices.Sort(times)
	for _, at := range times {
		for receive(at, false) {
		}
	}
}

// before counts the moments up to and including at.
func before(moments []time.Duration, at time.Duration) int64 {
	n := int64(0)
	for _, m := range moments {
		if m <= at {
			n++
		}
	}
	return n
}

// copyAnswer is what A1′ must hear.
func (q predicted) copyAnswer(p Params) string {
	if p.CopyAt < q.leaseEnd {
		return "409 in-progress"
	}
	return "202 PROCESSING"
}

// retryAnswer is what A2 must hear.
func (q predicted) retryAnswer(p Params) string {
	return q.later(p.ClientTimeout + p.Network)
}

// later is what a repeat that arrives at a moment must hear.
func (q predicted) later(at time.Duration) string {
	switch {
	case at >= q.settledAt:
		return "201 SUCCEEDED"
	case at > q.leaseEnd:
		return "202 PROCESSING"
	}
	return "409 in-progress"
}

// remembers reports whether A1's key record answers at a moment: it expires when
// its time is before now.
func (q predicted) remembers(at time.Duration) bool { return q.expires >= at }

// lateFrom is what answers A3: the key record while it holds the final answer,
// afterwards the ledger row.
func (q predicted) lateFrom(p Params) string {
	at := p.RetryAt + p.Network
	if q.settledBy == "resolver" && q.remembers(at) && at >= q.settledAt {
		return "key record"
	}
	return "ledger row"
}
