package check

import (
	"time"

	"github.com/retryproof/retryproof/deadline"
)

// memory is formula 1: whatever guards in the end outlives the last retry.
func (b *builder) memory() {
	s := b.c.Server
	guard := term{"server.guard_memory", s.GuardMemory}
	if guard.value == 0 {
		switch {
		case s.Guard == "durable":
			guard = term{"server.guard_memory (durable)", deadline.Forever}
		case s.Guard == "window":
			guard = term{"server.answer_ttl (the only guard)", s.AnswerTTL}
		case b.c.PSP != nil:
			guard = term{"psp.key_window (the only guard)", b.c.PSP.KeyWindow}
		default:
			b.find(Refuse, CodeFormula1, "server.guard_memory ≥ client.retry_horizon", "server.guard is none and there is no psp", "nothing keeps a retry from running again")
			return
		}
	}
	horizon := b.c.Client.RetryHorizon
	b.judge(formula{CodeFormula1, Refuse, side{guard}, "≥", side{{"client.retry_horizon", horizon}},
		"a later retry looks new and runs again; keep a durable row, unique on the caller and the key",
		func() bool { return deadline.Formula1(guard.value, horizon) != nil }})
}

// arrival is formula 2: what has not begun when its client gives up never begins.
func (b *builder) arrival() {
	s, timeout := b.c.Server, b.c.Client.Timeout
	wait := term{"server.wait_before_stamp", s.WaitBeforeStamp}
	if s.Stamp == "pickup" && s.ShedAfter > 0 && (wait.value == 0 || s.ShedAfter < wait.value) {
		wait = term{"server.shed_after", s.ShedAfter}
	}
	left := side{{"server.deadline", s.Deadline}, wait}
	var offset time.Duration
	if s.Stamp == "balancer" { // one clock writes the stamp and another reads it
		offset = s.ClockOffset
		name := "server.clock_offset"
		if offset == 0 {
			offset, name = s.Margin, "server.margin"
		}
		left = append(left, term{name, offset})
	}
	b.judge(formula{CodeFormula2, Refuse, left, "<", side{{"client.timeout", timeout}},
		"a request can still begin after its client has given up and started again with a new key; stamp at the balancer, shed what waited, or shorten the deadline",
		func() bool { return deadline.Formula2(s.Deadline, wait.value, offset, timeout) != nil }})
	if s.ShedAfter > 0 {
		b.judge(formula{code: CodeShedding, severity: Warn, left: side{{"server.shed_after", s.ShedAfter}}, op: "<", right: side{{"server.deadline", s.Deadline}},
			harm: "nothing is shed that the deadline would not refuse anyhow"})
	}
}

func (b *builder) server() {
	s := b.c.Server
	lease, margin := term{"server.lease", s.Lease}, term{"server.margin", s.Margin}
	b.judge(formula{code: CodeLease, severity: Refuse, left: side{lease}, op: "≥", right: side{{"server.deadline", s.Deadline}},
		harm: "somebody takes over while the first owner may still begin a side effect"})
	if s.ClockOffset > 0 {
		b.judge(formula{code: CodeClockMargin, severity: Refuse, left: side{margin}, op: "≥", right: side{{"server.clock_offset", s.ClockOffset}},
			harm: "a machine whose clock is ahead takes over an owner whose lease has not ended"})
	}
	b.judge(formula{code: CodeAnswerTTL, severity: Refuse, left: side{{"server.answer_ttl", s.AnswerTTL}}, op: "≥", right: side{lease, margin},
		harm: "an answer expires while its own request can still be taken over"})
	if s.BalancerTimeout > 0 {
		b.judge(formula{code: CodeBalancerTimeout, severity: Warn, left: side{{"server.balancer_timeout", s.BalancerTimeout}}, op: ">", right: side{{"server.deadline", s.Deadline}},
			harm: "the balancer answers 504 for requests that are still running"})
	}
}

func (b *builder) psp() {
	p, s, r := b.c.PSP, b.c.Server, b.c.Resolver
	if p == nil {
		return
	}
	timeout, window := term{"psp.timeout", p.Timeout}, term{"psp.key_window", p.KeyWindow}
	keep, margin := term{"psp.window_margin", p.WindowMargin}, term{"server.margin", s.Margin}
	b.judge(formula{code: CodePSPTimeout, severity: Refuse, left: side{{"server.lease", s.Lease}}, op: ">", right: side{timeout},
		harm: "the lease ends while its owner still waits for the call, and a second owner calls too"})
	b.judge(formula{code: CodePSPWindow, severity: Refuse, left: side{window}, op: ">", right: side{keep, {"server.lease", s.Lease}, margin},
		harm: "a call can be repeated after its key was forgotten, and happens twice"})
	if r == nil {
		return
	}
	asks := term{"resolver.lease", r.Lease}
	b.judge(formula{code: CodePSPWindowMargin, severity: Refuse, left: side{keep}, op: "≥", right: side{asks, margin},
		harm: "a repeat that sets out inside of the PSP's window can arrive after it, and happens twice"})
	b.judge(formula{code: CodeResolverLease, severity: Refuse, left: side{asks}, op: ">", right: side{timeout},
		harm: "a second resolver asks about the same effect while the first still waits"})
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
		b.judge(formula{code: CodeWindowOnly, severity: Refuse, left: side{{"queue.dedup_window (the only guard: no inbox is described)", q.DedupWindow}}, op: "≥", right: keeps,
			harm: "a message that comes again after the window is applied again; keep an inbox in the transaction of the effect"})
	} else {
		b.judge(formula{code: CodeInboxRetention, severity: Refuse, left: side{{"inbox.retention", inbox.Retention}}, op: "≥", right: keeps,
			harm: "a message that comes after the inbox forgot it is applied again"})
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
