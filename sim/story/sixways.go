package story

import (
	"context"
	"fmt"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/saga"
)

// way is one design under the gray failure of events 3 to 9: the processor charges
// and its reply is lost. handle is what a server does with a request.
type way struct {
	approach, why string
	noRetry       bool
	handle        func(n *naive) func(server) error
	// double says that the design charges again, keyed that its retry is recognised;
	// records is what its log holds.
	double, keyed bool
	records       int
}

func waysOf() []way {
	return []way{
		{approach: "never retry", why: "the money is taken and nobody knows: no order", noRetry: true,
			handle: func(n *naive) func(server) error { return func(s server) error { return n.order(n.charge(s, "")) } }},
		{approach: "a lock around the call", why: "the lock orders the attempts; once it is free the retry charges again", double: true, handle: lockAround},
		{approach: "two-phase commit", why: "the processor cannot vote; the ledger's part is rolled back and a new transaction charges again", double: true, handle: twoPhases},
		{approach: "a saga named after the client's key", why: "the retry finds the saga, whose step asks again under its derived key", keyed: true, handle: sagaWithKeys},
		{approach: "a saga, without keys", why: "the step is taken for failed and compensated; a new saga charges again", double: true, handle: sagaWithoutKeys},
		{approach: "an exactly-once broker", why: "what the broker covers happens once; the HTTP retry charged again before it", double: true, handle: exactlyOnceLog, records: 1},
	}
}

// order notes the order once the charge is known.
func (n *naive) order(err error) error {
	if err == nil {
		n.ordered = true
	}
	return err
}

// lockAround takes a lock on the order for the time of the call.
func lockAround(n *naive) func(server) error {
	held := false
	return func(s server) error {
		if held {
			return fmt.Errorf("order %s is locked", order)
		}
		held = true
		defer func() { held = false }()
		return n.order(n.charge(s, ""))
	}
}

// twoPhases coordinates the ledger, which can vote and roll back, with the
// processor, which can only charge.
func twoPhases(n *naive) func(server) error {
	transactions := 0
	prepared := map[int]bool{}
	return func(s server) error {
		transactions++
		id := transactions
		prepared[id] = true // the ledger votes yes
		if err := n.charge(s, fmt.Sprintf("tx-%d-%s", id, entropy.Token(s.d.Rand)[:8])); err != nil {
			delete(prepared, id) // no vote from the processor: abort
			return err
		}
		return n.order(nil)
	}
}

// sagaWithKeys is named after the client's key; its steps carry derived keys.
func sagaWithKeys(n *naive) func(server) error {
	id := retryproof.Of("saga", scopeK1)
	return func(s server) error {
		return n.saga(s, id, func(c saga.Call) error { return n.chargeAs(s, c.Key, string(id)) })
	}
}

// sagaWithoutKeys names its runs itself: a retry is another saga. A timeout is a
// failure to it, and there is no charge to refund, it believes.
func sagaWithoutKeys(n *naive) func(server) error {
	return func(s server) error {
		id := retryproof.ID("saga-" + entropy.Token(s.d.Rand)[:8])
		return n.saga(s, id, func(c saga.Call) error {
			if err := n.charge(s, c.Key); err != nil {
				return retryproof.Refused("timeout", "it failed", err)
			}
			return nil
		})
	}
}

// saga runs an order as a saga over the world's store: reserve, then charge.
func (n *naive) saga(s server, id retryproof.ID, charge func(saga.Call) error) error {
	nothing := func(context.Context, saga.Call) ([]byte, error) { return nil, nil }
	r, err := saga.New(n.st.store.Sagas(), saga.Config{CallTimeout: n.st.p.Deadline, Lease: n.st.p.Deadline + 5*time.Second, MinBackoff: time.Millisecond,
		Clock: s.d.Clock, Rand: s.d.Rand}, saga.Definition{Name: "order", Steps: []saga.Step{
		{Name: "reserve", Action: nothing, Cancel: nothing, CancelName: "release"},
		{Name: "charge", Action: func(_ context.Context, c saga.Call) ([]byte, error) { return nil, charge(c) }, Cancel: nothing, CancelName: "refund"},
	}})
	if err != nil {
		return err
	}
	rec, err := r.Start(background, saga.Start{ID: id, Name: "order", Input: []byte(order)})
	if err == nil {
		rec, err = r.Advance(background, id)
	}
	if err == nil && rec.State != saga.Completed {
		err = fmt.Errorf("the saga is %s", rec.State)
	}
	return n.order(err)
}

// exactlyOnceLog publishes the payment to a log: its producer may send a record
// twice, the log keeps it once, and readers commit their offsets with their output.
func exactlyOnceLog(n *naive) func(server) error {
	sequence := 0
	return func(s server) error {
		if err := n.charge(s, ""); err != nil {
			return err // nothing to publish
		}
		sequence++
		for range 2 { // the producer's own retry
			n.publish(sequence)
		}
		return n.order(nil)
	}
}

// publish keeps a producer's record unless its number was seen.
func (n *naive) publish(sequence int) {
	if sequence > n.records {
		n.records = sequence
	}
}

// sixWays plays every design in a world of its own, and this design's main line.
func sixWays(st *stage) {
	for _, w := range waysOf() {
		s := scenario{id: "six-ways " + w.approach, program: func(sub *stage) { w.play(sub, st) }}
		if _, err := s.play(st.p); err != nil {
			st.note(err)
		}
	}
	s, err := find("main")
	if err != nil {
		st.note(err)
		return
	}
	r, err := s.play(st.p)
	st.note(err)
	last := r.answer("A3")
	st.ways = append(st.ways, Way{Approach: "this design", Charges: r.Charges, ChargedTotal: r.ChargedTotal, Told: last.told(),
		Order: last.BodyState == "SUCCEEDED", Why: "the retry repeats the key; every hop below derives its own from it"})
	st.best = &r
}

// play runs the gray failure under one design and adds its row.
func (w way) play(st, parent *stage) {
	n, p := newNaive(st), st.p
	st.w.LoseReplies("psp charge", 1)
	handle := w.handle(n)
	n.at(0, func() { n.tap("A1", n.servers[0], 0, handle) })
	n.at(p.ClientTimeout, func() {
		if w.noRetry {
			n.told = "it failed"
			return
		}
		n.tap("A2", n.servers[1], 0, handle)
	})
	n.finish()
	row := Way{Approach: w.approach, Charges: st.charges(), Told: n.told, Order: n.ordered, Why: w.why, Records: n.records}
	for i, c := range row.Charges {
		row.Charges[i].Key = plainKey(c.Key)
		row.ChargedTotal += c.Amount
	}
	parent.ways = append(parent.ways, row)
}

// plainKey keeps the word of a random key.
func plainKey(key string) string {
	for i := range key {
		if key[i] == '-' {
			return key[:i] + " (random)"
		}
	}
	return key
}

// expectSixWays computes every row.
func expectSixWays(p Params, r *Result, c *checks) {
	first := Seconds(p.Network + p.PSPLatency)
	for i, w := range waysOf() {
		row := Way{}
		if i < len(r.Ways) {
			row = r.Ways[i]
		}
		want, at, told := p.Amount, first.String(), "it failed"
		if w.keyed {
			told = "201 SUCCEEDED"
		}
		if w.double {
			want, told = 2*p.Amount, "201 SUCCEEDED"
			at += " " + Seconds(p.ClientTimeout+p.Network+p.PSPLatency).String()
		}
		c.given(w.approach+": charged", dollars(row.ChargedTotal), dollars(want))
		c.chosen(w.approach+": charged at", times(row.Charges), at)
		c.given(w.approach+": the buyer is told", fmt.Sprintf("%s; order: %v", row.Told, row.Order), fmt.Sprintf("%s; order: %v", told, w.double || w.keyed))
		if w.records > 0 {
			c.chosen(w.approach+": records in the log", row.Records, w.records)
		}
	}
	row := Way{}
	if len(r.Ways) > len(waysOf()) {
		row = r.Ways[len(waysOf())]
	}
	c.given("this design: charged", dollars(row.ChargedTotal), dollars(p.Amount))
	c.chosen("this design: charged at", times(row.Charges), first)
	c.chosen("this design: an order", row.Order, true)
}

func times(list []Charge) string {
	text := ""
	for i, c := range list {
		if i > 0 {
			text += " "
		}
		text += c.At.String()
	}
	return text
}
