package story

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/sim"
)

// errNoReply is what a naive server knows when its deadline comes first.
var errNoReply = errors.New("the processor did not answer in time")

// server is a naive API server: a process with the processor behind it.
type server struct {
	name string
	p    *sim.Process
	d    payments.Deps
}

// naive is a small program of another design: two servers, a processor, a phone.
type naive struct {
	st      *stage
	servers []server
	// ordered says that there is an order; told is what the buyer heard last.
	ordered bool
	told    string
	// records is how many records the exactly-once log holds.
	records int
}

func newNaive(st *stage) *naive {
	n := &naive{st: st, told: "nothing"}
	for _, name := range []string{"api-1", "api-2"} {
		p, d := st.w.Enter(name)
		n.servers = append(n.servers, server{name, p, d})
	}
	if st.p.Opening == 0 {
		return n
	}
	st.note(st.store.Payments().Ledger.Post(background, []ledger.Posting{
		{Account: "equity:opening", Currency: currency, Amount: -st.p.Opening, Ref: "opening"},
		{Account: payments.MerchantAccount(merchant), Currency: currency, Amount: st.p.Opening, Ref: "opening"},
	}, sim.Epoch))
	return n
}

// charge asks the processor within the server's deadline. A key of "" is none.
func (n *naive) charge(s server, key string) error {
	return n.chargeAs(s, key, "order-"+order+"-"+entropy.Token(s.d.Rand)[:8])
}

// chargeAs is charge under a name of our own.
func (n *naive) chargeAs(s server, key, reference string) error {
	ctx, cancel := s.d.Clock.WithTimeout(context.Background(), n.st.p.Deadline)
	defer cancel()
	c, err := s.d.PSP.Charge(ctx, psp.ChargeRequest{Key: key, Reference: reference, Amount: n.st.p.Amount, Currency: currency, Method: method})
	if err != nil {
		return errNoReply
	}
	if c.State != psp.Succeeded {
		return fmt.Errorf("the processor says %s", c.State)
	}
	return nil
}

// tap lets the phone send a request to a server now. handle runs there when the
// request arrives, plus wait; its answer comes back.
func (n *naive) tap(tag string, s server, wait time.Duration, handle func(server) error) {
	st, sent := n.st, n.st.w.Now()
	st.say("phone", tag, "tap", fmt.Sprintf("sends %s: order %s, %s, without a key", tag, order, dollars(st.p.Amount)))
	st.w.Go(s.p, st.p.Network+wait, func() {
		a := Answer{Request: tag, At: Seconds(sent), Status: 201, BodyState: "SUCCEEDED", From: "charge"}
		if err := handle(s); err != nil {
			a.Status, a.BodyState, a.From = 504, "", ""
			a.Code = "timeout"
		}
		if wait > 0 {
			a.At = Seconds(st.w.Now())
		}
		a.Lost = a.Status == 504 || st.w.Now()+st.p.Network > sent+st.p.ClientTimeout
		st.answers = append(st.answers, a)
		what := "answers " + tag + ": " + a.told()
		if a.Lost {
			what += "; nobody listens"
		} else {
			n.told = a.told()
		}
		st.say(s.name, tag, "answer", what)
	})
}

// at runs something at a moment of the story.
func (n *naive) at(t time.Duration, run func()) {
	n.st.until(t)
	n.st.w.After(t-n.st.w.Now(), run)
	n.st.until(t)
}

// finish plays what is still under way.
func (n *naive) finish() {
	n.st.until(n.st.w.Now() + max(n.st.p.QueuedUntil+n.st.p.HandOver, n.st.p.ClientTimeout) + n.st.p.Deadline + 5*time.Second)
}

// opening is the story that begins the reference: no keys, and an original that
// outlives its retry.
func opening(st *stage) {
	n, p := newNaive(st), st.p
	pay := func(s server) error {
		if err := n.charge(s, ""); err != nil {
			return err
		}
		n.ordered = true
		return nil
	}
	wait := p.QueuedUntil - p.Network + p.HandOver
	n.at(0, func() {
		st.w.After(p.Network, func() {
			st.say("api-1", "A1", "wait", "A1 waits in the queue until "+Seconds(p.QueuedUntil).String())
		})
		n.tap("A1", n.servers[0], wait, pay)
	})
	n.at(p.ClientTimeout, func() {
		if n.told != "nothing" {
			return // the phone heard the answer in time
		}
		ask := Answer{Request: "ask", At: Seconds(p.ClientTimeout), Status: 404, Code: "not-found"}
		if n.ordered {
			ask.Status, ask.Code, ask.BodyState = 200, "", "SUCCEEDED"
		}
		st.answers = append(st.answers, ask)
		st.say("phone", "ask", "ask", "gives up on A1 and asks whether it went through: "+ask.told())
		if !n.ordered {
			n.tap("B1", n.servers[1], 0, pay)
		}
	})
	n.finish()
}

// openingNeeds let a server give up before the phone does.
func openingNeeds(p Params) []need {
	return []need{
		{p.QueuedUntil > p.Network, "network < queued_until"},
		{2*p.PSPLatency < p.Deadline, "2·psp_latency < deadline"},
		{p.Network+p.Deadline < p.ClientTimeout, "network + deadline < client_timeout: a server gives up before the phone does"},
		{p.QueuedUntil+p.HandOver+2*p.PSPLatency+p.Network != p.ClientTimeout, "queued_until + hand_over + 2·psp_latency + network ≠ client_timeout"},
	}
}

func openingBranches() []scenario {
	return []scenario{{
		group: "Side traces", id: "naive", title: "No keys, and an original that outlives its retry",
		moral:   "Every part did something reasonable, something repeated the request, and nothing could tell that it was the same payment.",
		needs:   openingNeeds,
		program: opening,
		expect:  expectOpening,
	}}
}

func designBranches() []scenario {
	return []scenario{{
		group: "Six ways", id: "six-ways", title: "The same lost reply under six designs, and a saga with keys",
		moral:   "Only a name that the retry repeats, at every hop down to the processor, keeps it one charge.",
		needs:   func(p Params) []need { return append(openingNeeds(p), mainNeeds(p)...) },
		program: sixWays,
		expect:  expectSixWays,
	}}
}

// expectOpening computes who charges when in the naive story.
func expectOpening(p Params, r *Result, c *checks) {
	late := p.QueuedUntil + p.HandOver
	charges := []Charge{{At: Seconds(late + p.PSPLatency), Amount: p.Amount}}
	again := false
	if heard := late + 2*p.PSPLatency + p.Network; heard > p.ClientTimeout {
		again = late+2*p.PSPLatency > p.ClientTimeout
		want := "404 not-found"
		if !again {
			want = "200 SUCCEEDED"
		}
		c.given("what the phone hears when it asks", r.answer("ask"), want+" at "+Seconds(p.ClientTimeout).String())
	}
	if again {
		charges = append(charges, Charge{At: Seconds(p.ClientTimeout + p.Network + p.PSPLatency), Amount: p.Amount})
		c.chosen("B1, the second tap", r.answer("B1"), fmt.Sprintf("201 SUCCEEDED at %s", Seconds(p.ClientTimeout)))
	}
	c.given("charges", chargeList(r.Charges), chargeList(sortCharges(charges)))
	c.given("charged in total", dollars(r.ChargedTotal), dollars(p.Amount*int64(len(charges))))
	c.chosen("A1, from the queue", r.answer("A1"), fmt.Sprintf("201 SUCCEEDED at %s", Seconds(late+2*p.PSPLatency)))
}
