package check

import (
	"time"

	"github.com/retryproof/retryproof/deadline"
)

// memory is formula 1: whatever guards in the end outlives the last retry.
func (b *builder) memory() {
	s := b.c.Server
	guard := term{"server.guard_memory", s.GuardMemory}
	begins := side{{"client.retry_horizon", b.c.Client.RetryHorizon}, {"server.deadline", s.Deadline}}
	switch {
	case s.Guard == "none" && b.c.PSP == nil:
		b.find(Refuse, CodeFormula1, "server.guard_memory ≥ client.retry_horizon", "server.guard is none and there is no psp", "nothing keeps a retry from running again")
		return
	case s.Guard == "none":
		begins = append(begins, b.call())
		if window := b.c.PSP.KeyWindow; guard.value == 0 || guard.value > window {
			guard = term{"psp.key_window (the only guard)", window}
		}
	case guard.value > 0:
	case s.Guard == "window":
		guard = term{"server.answer_ttl (the only guard)", s.AnswerTTL}
	default:
		guard = term{"server.guard_memory (durable)", deadline.Forever}
	}
	horizon := begins[0]
	forgets := func() bool { return deadline.Formula1(guard.value, horizon.value) != nil }
	b.judge(formula{CodeFormula1, Refuse, side{guard}, "≥", side{horizon},
		"a later retry looks new and runs again; keep a durable row, unique on the caller and the key", forgets})
	if guard.value != deadline.Forever && horizon.value > 0 && !forgets() {
		b.judge(formula{code: CodeGuardMemory, severity: Refuse, left: side{guard}, op: "≥", right: begins,
			harm: "the last retry arrives in time and begins after the guard has forgotten its key; it runs again"})
	}
}

// offset is the largest difference of two clocks. One that is not stated is not assumed
// to be small because the margin is.
func (b *builder) offset() term {
	s := b.c.Server
	if s.ClockOffset > 0 {
		return term{"server.clock_offset", s.ClockOffset}
	}
	return term{"server.clock_offset (assumed)", max(s.Margin, time.Second)}
}

// beforeStamp is the longest time between a send and the stamp. What is shed has waited
// in the server's own queue only, so that the rest of the way is added to it.
func (b *builder) beforeStamp() side {
	s := b.c.Server
	all, queue, shed := term{"server.wait_before_stamp", s.WaitBeforeStamp}, term{"server.wait_before_queue", s.WaitBeforeQueue}, term{"server.shed_after", s.ShedAfter}
	if s.Stamp == "balancer" {
		return side{all}
	}
	if s.Stamp == "pickup" && shed.value > 0 {
		parts := side{queue, shed}
		if all.value == 0 || queue.value > 0 && (parts.sum() < all.value || all.value < queue.value) {
			return parts
		}
		return side{all}
	}
	if queue.value > all.value && (all.value > 0 || s.Stamp == "accept") {
		return side{queue} // the whole is no less than its part
	}
	return side{all}
}

// arrival is formula 2: what has not begun when its client gives up never begins.
func (b *builder) arrival() {
	s, timeout, wait := b.c.Server, b.c.Client.Timeout, b.beforeStamp()
	harm := "a request can still begin after its client has given up and started again with a new key; stamp at the balancer, shed what waited, or shorten the deadline"
	if s.Stamp == "pickup" && s.ShedAfter > 0 && s.WaitBeforeQueue == 0 {
		harm += "; server.shed_after counts once server.wait_before_queue is stated, which it does not bound"
	}
	left := append(side{{"server.deadline", s.Deadline}}, wait...)
	var offset time.Duration
	if s.Stamp == "balancer" { // one clock writes the stamp and another reads it
		left, offset = append(left, b.offset()), b.offset().value
	}
	b.judge(formula{CodeFormula2, Refuse, left, "<", side{{"client.timeout", timeout}}, harm,
		func() bool { return deadline.Formula2(s.Deadline, wait.sum(), offset, timeout) != nil }})
	if s.ShedAfter > 0 && s.Stamp != "pickup" { // there the deadline counts from the end of the queue
		b.judge(formula{code: CodeShedding, severity: Warn, left: side{{"server.shed_after", s.ShedAfter}}, op: "<", right: side{{"server.deadline", s.Deadline}},
			harm: "nothing is shed that the deadline would not refuse anyhow"})
	}
}

func (b *builder) server() {
	s := b.c.Server
	lease, margin := term{"server.lease", s.Lease}, term{"server.margin", s.Margin}
	b.judge(formula{code: CodeLease, severity: Refuse, left: side{lease}, op: "≥", right: side{{"server.deadline", s.Deadline}},
		harm: "somebody takes over while the first owner may still begin a side effect"})
	b.ends(CodeLease, lease, margin)
	b.judge(formula{code: CodeClockMargin, severity: Refuse, left: side{margin}, op: "≥", right: side{b.offset()},
		harm: "a machine whose clock is ahead takes over an owner whose lease has not ended"})
	b.judge(formula{code: CodeAnswerTTL, severity: Refuse, left: side{{"server.answer_ttl", s.AnswerTTL}}, op: "≥", right: side{lease, margin},
		harm: "an answer expires while its own request can still be taken over"})
	if s.BalancerTimeout > 0 {
		right := side{{"server.deadline", s.Deadline}}
		if wait := b.beforeStamp(); s.Stamp != "balancer" && !wait.unstated() { // the balancer counts from its own arrival
			right = append(right, wait...)
		}
		b.judge(formula{code: CodeBalancerTimeout, severity: Warn, left: side{{"server.balancer_timeout", s.BalancerTimeout}}, op: ">", right: right,
			harm: "the balancer answers 504 for requests that are still running"})
	}
}

// ends refuses a lease without an end: what its owner held when it died is lost.
func (b *builder) ends(code string, leases ...term) {
	for _, l := range leases {
		if l.value == deadline.Forever {
			b.find(Refuse, code, l.member+" < forever", "forever", "nobody ever takes over what a dead owner held, and it is lost")
		}
	}
}

// call is the longest time that the server waits for one call.
func (b *builder) call() term {
	p, s := b.c.PSP, b.c.Server
	if p.CutOff == "lease" && (p.Timeout == 0 || p.Timeout > s.Lease) {
		return term{"server.lease", s.Lease}
	}
	return term{"psp.timeout", p.Timeout}
}

func (b *builder) psp() {
	p, s, r := b.c.PSP, b.c.Server, b.c.Resolver
	if p == nil {
		return
	}
	timeout, window := term{"psp.timeout", p.Timeout}, term{"psp.key_window", p.KeyWindow}
	keep, margin := term{"psp.window_margin", p.WindowMargin}, term{"server.margin", s.Margin}
	cutOff := func(code string, lease term) {
		b.report.Held = append(b.report.Held, Result{code, "psp.cut_off = lease", "no call is waited for after " + lease.member + ", " + deadline.Show(lease.value)})
	}
	if lease := (term{"server.lease", s.Lease}); p.CutOff == "lease" {
		cutOff(CodePSPTimeout, lease)
	} else {
		b.judge(formula{code: CodePSPTimeout, severity: Refuse, left: side{lease}, op: "≥", right: side{{"server.deadline", s.Deadline}, timeout},
			harm: "a call may begin until the deadline, so the lease ends while its owner still waits, and a second owner calls too; cut calls off at the end of the lease (psp.cut_off), or make the lease longer"})
	}
	b.judge(formula{code: CodePSPWindow, severity: Refuse, left: side{window}, op: ">", right: side{keep, {"server.lease", s.Lease}, margin},
		harm: "a call can be repeated after its key was forgotten, and happens twice"})
	b.judge(formula{code: CodePSPWindowMargin, severity: Refuse, left: side{keep}, op: "≥", right: side{b.call(), margin},
		harm: "whoever takes over can set out inside of the PSP's window and arrive after it, and it happens twice"})
	if r == nil {
		return
	}
	asks := term{"resolver.lease", r.Lease}
	b.judge(formula{code: CodePSPWindowMargin, severity: Refuse, left: side{keep}, op: "≥", right: side{asks, margin},
		harm: "a repeat that sets out inside of the PSP's window can arrive after it, and happens twice"})
	if p.CutOff == "lease" {
		cutOff(CodeResolverLease, asks)
	} else {
		b.judge(formula{code: CodeResolverLease, severity: Refuse, left: side{asks}, op: ">", right: side{timeout},
			harm: "a second resolver asks about the same effect while the first still waits"})
	}
	if p.Rate > 0 {
		words, half := "resolver.rate ≤ psp.rate / 2", p.Rate/2
		if r.Rate > half {
			b.find(Warn, CodeResolverRate, words, decimal(r.Rate)+" > "+decimal(p.Rate)+" / 2 = "+decimal(half), "after an outage the questions about old payments crowd out the new ones")
		} else {
			b.report.Held = append(b.report.Held, Result{CodeResolverRate, words, decimal(r.Rate) + " ≤ " + decimal(p.Rate) + " / 2 = " + decimal(half)})
		}
	}
}

func (b *builder) queue() {
	relay, q, inbox := b.c.Relay, b.c.Queue, b.c.Inbox
	without := Refuse // what an inbox makes harmless
	if inbox != nil {
		without = Warn
	}
	if relay != nil {
		b.judge(formula{code: CodeRelayLease, severity: Refuse, left: side{{"relay.lease", relay.Lease}}, op: ">", right: side{{"relay.send_timeout", relay.SendTimeout}},
			harm: "a lease ends during a send: two relays send one batch, out of order"})
		b.ends(CodeRelayLease, term{"relay.lease", relay.Lease})
	}
	if q == nil {
		return
	}
	window, keeps := term{"queue.dedup_window", q.DedupWindow}, side{{"queue.retention", q.Retention}}
	if q.RedriveWithin > 0 {
		keeps = append(keeps, term{"queue.redrive_within", q.RedriveWithin})
	}
	if relay != nil {
		b.judge(formula{code: CodeRelayWindow, severity: without, left: side{window}, op: ">", right: side{{"relay.lease", relay.Lease}, {"relay.send_timeout", relay.SendTimeout}},
			harm: "what a relay sent before it died is a new message when the next relay sends it again"})
	}
	if inbox == nil {
		b.find(Refuse, CodeWindowOnly, "an inbox is described", "queue.dedup_window "+deadline.Show(q.DedupWindow)+" and no inbox",
			"the window drops repeated sends; a worker that dies between the effect and the delete gets a redelivery, which no window stops, and applies it again; keep an inbox in the transaction of the effect")
	} else {
		b.judge(formula{code: CodeInboxRetention, severity: Refuse, left: side{{"inbox.retention", inbox.Retention}}, op: "≥", right: keeps,
			harm: "a message that comes after the inbox forgot it is applied again"})
	}
	if q.Retention > 0 { // otherwise it was said above that it is not stated
		b.judge(formula{code: CodeRedelivery, severity: Refuse, left: side{{"queue.visibility", q.Visibility}}, op: "<", right: keeps[:1],
			harm: "a message whose worker died is dropped before it is due again, and is lost"})
	}
	if w := b.c.Worker; w != nil {
		b.judge(formula{code: CodeVisibility, severity: without, left: side{{"queue.visibility", q.Visibility}}, op: ">", right: side{{"worker.time", w.Time}},
			harm: "a message comes again while its first delivery is still being handled"})
	}
}

func (b *builder) cache() {
	k := b.c.Cache
	if k == nil {
		return
	}
	const words = "dedup_cache.maxmemory_policy = noeviction"
	switch {
	case k.MaxMemoryPolicy == "":
		b.find(Warn, CodeNotStated, words, "dedup_cache.maxmemory_policy not stated", CodeCacheEviction+" was not checked; ask the server: CONFIG GET maxmemory-policy")
	case k.MaxMemoryPolicy == "noeviction":
		b.report.Held = append(b.report.Held, Result{CodeCacheEviction, words, k.MaxMemoryPolicy})
	case k.Holds == "answers":
		b.report.Held = append(b.report.Held, Result{CodeCacheEviction, "dedup_cache.holds = answers, which can be made again", k.MaxMemoryPolicy})
	default:
		b.find(Refuse, CodeCacheEviction, words, k.MaxMemoryPolicy, "the server forgets what was done when its memory is full, and it is done again")
	}
}
