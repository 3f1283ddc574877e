package sim

import (
	"math/rand/v2"
	"time"
)

// Habits are what buyers do that tempts a system into harm. A system that follows
// all rules withstands every one of them. The zero value is a buyer who does none.
type Habits struct {
	// SameOrders lets all buyers pay orders of one name, merchant and amount: a
	// subscription.
	SameOrders bool
	// Edit is the probability that a buyer asks for another amount under the same
	// key after the first try.
	Edit float64
	// PayAgain is the probability that a buyer takes a new key after a refusal.
	PayAgain float64
	// Late is the probability that a buyer without a definite answer returns late,
	// when the key record has expired.
	Late float64
	// ComeBack is the probability that a buyer who returns late does so although
	// the answer was definite.
	ComeBack float64
	// Hurry is the probability that a buyer waits for an answer for 1 to 3 s only.
	Hurry float64
	// Ask is the probability that a buyer asks what became of a key, AskFirst that
	// it does so before the first try.
	Ask, AskFirst float64
	// Trust makes all buyers trust formula 2; see Plan.trust.
	Trust bool
	// Refund is the probability that a buyer wants money back. Refunding is how.
	// Defaults to any way.
	Refund    float64
	Refunding Refunding
	// Pause is the longest pause between two tries. Defaults to 2 s.
	Pause time.Duration
}

// tempt draws what goes beyond faults: habits of buyers, clocks that are off by
// more than the margin, and a processor that forgets keys within the run.
func (p *Plan) tempt(r *rand.Rand) {
	p.Habits = Habits{SameOrders: r.IntN(3) == 0, Late: 0.25, ComeBack: 0.25, Pause: 2 * time.Second}
	if r.IntN(3) == 0 {
		p.Habits.Pause = 15 * time.Second
	}
	if r.IntN(3) == 0 {
		p.edit()
	}
	if r.IntN(2) == 0 {
		p.Habits.PayAgain = 1
	}
	if r.IntN(5) == 0 {
		p.Chaos.Skew = time.Second + time.Duration(r.IntN(4000))*time.Millisecond
	}
	if r.IntN(4) == 0 {
		p.forgetKeys(100*time.Second + time.Duration(r.IntN(100))*time.Second)
	}
	if r.IntN(6) == 0 {
		p.Silence = Silence{From: time.Duration(r.IntN(20000)) * time.Millisecond, For: time.Duration(5+r.IntN(200)) * time.Second}
	}
	if r.IntN(6) == 0 {
		p.hearWebhooksOnly()
	}
	p.Habits.Hurry = 0.2
	if r.IntN(2) == 0 {
		p.Habits.Ask, p.Habits.AskFirst = 0.7, 0.1
	}
	if r.IntN(2) == 0 {
		p.Habits.Refund = 0.7
	}
	p.Operator = r.IntN(3) == 0
	p.Config.AlertAfter = 4
	if r.IntN(6) == 0 {
		p.trust()
	}
	if p.Config.ResolveUnknownOnly {
		p.Habits.Late, p.Habits.Refund = 1, 0 // such a resolver leaves PENDING ones to their buyers
	}
}

// Silence is a time in which the processor works and nobody hears of it: its answers
// are lost and its webhooks wait. It ends with the time, not with the faults. The
// zero value is none.
type Silence struct {
	From, For time.Duration
	// WebhooksHeard lets the webhooks through.
	WebhooksHeard bool
}

// unheard reports whether the processor's words are lost now.
func (w *World) unheard() bool {
	s := w.options.Silence
	return w.now >= s.From && w.now < s.From+s.For
}

// edit lets buyers edit amounts. One who is refused for it asks no more; a resolver
// that leaves PENDING payments to their buyers would leave that one forever.
func (p *Plan) edit() {
	p.Habits.Edit, p.Config.ResolveUnknownOnly = 0.5, false
}

// forgetKeys lets the processor forget a key after that time, and tells the system
// so. The margin covers what may lie between the system's look at its clock and the
// processor's: a pause, a slow way, a copy of the request, and twice the skew.
func (o *Options) forgetKeys(after time.Duration) {
	o.KeyMemory, o.Config.PSPWindow, o.Config.PSPWindowMargin = after, after, time.Minute
}

// trustAfter is how long after a send a trusting buyer takes the server's deadline for
// over: 5 s, and what may lie before the stamp, up to 4.6 s, between a late claim's
// look at the clock and its commit, and between the clocks.
const trustAfter = 13 * time.Second

// trust makes a world in which formula 2 holds, with buyers who count on it: nothing
// stands still between a look at the clock and what follows, and the balancer's stamps
// are right.
func (p *Plan) trust() {
	p.Habits.Trust = true
	c := &p.Chaos
	c.Pause, c.Late, c.Stamp = 0, 0, 0
	c.MaxSlow, c.Skew = min(c.MaxSlow, 500*time.Millisecond), min(c.Skew, 100*time.Millisecond)
}

// hearWebhooksOnly loses the processor's answers for a while and lets its webhooks
// through, some of them late: what is asked about is settled meanwhile by somebody else.
func (p *Plan) hearWebhooksOnly() {
	p.Silence = Silence{For: time.Minute, WebhooksHeard: true}
	p.Chaos.WebhookOdd, p.Habits.Pause = 1, 15*time.Second
}
