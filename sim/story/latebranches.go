package story

import (
	"fmt"
	"time"

	"github.com/retryproof/retryproof/sim"
)

// lateSteps are the opening story with keys: A1 waits in api-1's queue, the phone
// gives up, asks with the given question, and taps again under another key when it is
// told that there is nothing.
func lateSteps(p Params, question string) []step {
	b1 := step{do: doTap, who: "api-2", tag: "B1", amount: p.Amount, key: keyK2}
	done := max(p.QueuedUntil+p.HandOver, p.ClientTimeout+p.Network) + 2*p.PSPLatency
	steps := []step{
		{at: 0, do: doTap, who: "api-1", tag: "A1", amount: p.Amount, queued: p.QueuedUntil - p.Network, held: true,
			faults: []sim.ScriptedFault{{Node: "api-1", Op: "psp charge", Do: "pause-before", For: p.HandOver}}},
		{at: p.ClientTimeout, do: question, who: "api-2", tag: "ask", again: &b1},
		{at: p.ClientTimeout + p.Network, do: doSnap, tag: "before A1", shown: p.ClientTimeout},
		{at: done, do: doSnap, tag: "after A1", shown: p.QueuedUntil},
	}
	if p.QueuedUntil > p.ClientTimeout+10*time.Minute { // the rest comes meanwhile
		done = p.ClientTimeout + p.Network + 2*p.PSPLatency
	}
	return append(steps, quietTail(p, done)...)
}

// lateNeeds keep A1 in the queue until its phone has given up.
func lateNeeds(p Params) []need {
	return []need{
		{p.QueuedUntil > p.ClientTimeout, "client_timeout < queued_until: A1 waits longer than its phone does"},
		{p.QueuedUntil+p.HandOver != p.ClientTimeout+p.Network, "queued_until + hand_over ≠ client_timeout + network"},
		{p.Network < p.Deadline && p.Network < p.ClientTimeout, "network < deadline and client_timeout"},
		{2*p.PSPLatency+p.HandOver < p.Deadline, "2·psp_latency + hand_over < deadline: who begins also ends"},
		{2*p.Network+2*p.PSPLatency+p.HandOver < p.WebhookAt, "2·network + 2·psp_latency + hand_over < webhook_at: the answer comes before the webhook"},
	}
}

// stampNeeds let a request whose arrival was stamped be too late, or end in time.
func stampNeeds(p Params) []need {
	return append(lateNeeds(p), need{tooLate(p) || p.QueuedUntil+p.HandOver+2*p.PSPLatency < p.Network+p.Deadline,
		"network + deadline < queued_until, or queued_until + hand_over + 2·psp_latency < network + deadline: A1 is too late, or has time"})
}

// tooLate reports whether A1 has waited longer than its deadline, counted from the
// load balancer's stamp.
func tooLate(p Params) bool { return p.QueuedUntil > p.Network+p.Deadline }

func lateBranches() []scenario {
	void := func(p Params) []step { return lateSteps(p, doVoid) }
	unstamped := func(Params) setting { return setting{twoKeys: true, unstamped: true} }
	race := func(Params) setting { return setting{twoKeys: true, unstamped: true, split: true, slowRow: true} }
	return []scenario{{
		group: "Side traces", id: "D-deadline", title: "An original that waited too long is refused",
		moral: "The deadline counts from the load balancer's stamp: A1 leaves the queue too old to begin, and the second tap is the only payment.",
		needs: stampNeeds,
		world: func(Params) setting { return setting{twoKeys: true} },
		steps: func(p Params) []step { return lateSteps(p, doLook) }, expect: expectDeadline,
	}, {
		group: "Side traces", id: "D-void", title: "“Did it happen?” voids the key",
		moral: "No deadline here; the question itself makes sure that what has not happened never will.",
		needs: lateNeeds, world: unstamped, steps: void, expect: expectVoid,
	}, {
		group: "Side traces", id: "D-void-late", title: "A voided key stays void after its record has gone",
		moral:    "The key store has forgotten the key; the VOID row under the unique key has not.",
		defaults: func(p *Params) { p.QueuedUntil = 3700 * time.Second },
		needs:    lateNeeds, world: unstamped, steps: void, expect: expectVoid,
	}, {
		group: "Side traces", id: "D-race", title: "The question races the original, and the original is first",
		moral:    "Whoever takes the unique row first wins. The original has it: the question is told to wait, and the phone keeps its key.",
		defaults: func(p *Params) { p.QueuedUntil = 9950 * time.Millisecond },
		needs:    raceNeeds, world: race, steps: raceSteps, expect: expectRace,
	}, {
		group: "Side traces", id: "D-race-void", title: "The question races the original, and the question is first",
		moral:    "The original has claimed its key and not yet its row. The question takes the row: the original is refused although it holds the claim.",
		defaults: func(p *Params) { p.QueuedUntil, p.AskAt = 9950*time.Millisecond, 9960*time.Millisecond },
		needs:    raceNeeds, world: race, steps: raceSteps, expect: expectRace,
	}}
}

// lateCharges are who must be charged: the second tap, and A1 when it runs.
func lateCharges(p Params, runs bool) []Charge {
	out := []Charge{{Key: "pay_9:charge", At: Seconds(p.ClientTimeout + p.Network + p.PSPLatency), Amount: p.Amount}}
	if runs {
		out = append(out, Charge{Key: "pay_7:charge", At: Seconds(p.QueuedUntil + p.HandOver + p.PSPLatency), Amount: p.Amount})
	}
	return sortCharges(out)
}

// expectOriginal checks what the opening story comes to; runs says whether A1 runs.
func expectOriginal(p Params, r *Result, c *checks, runs bool) {
	charges := lateCharges(p, runs)
	n := int64(len(charges))
	c.given("charges", chargeList(r.Charges), chargeList(charges))
	c.given("charged in total", dollars(r.ChargedTotal), dollars(p.Amount*n))
	c.given("requests at the PSP", requests(r), n)
	c.chosen("B1, the second tap", r.answer("B1"), "201 SUCCEEDED at "+Seconds(p.ClientTimeout).String())
	c.chosen("m1 at the end", r.Balances[merchant], p.Opening+p.Amount*n)
	c.chosen("the auditor's verdict", r.Harm, map[bool]string{true: "double-charge", false: "none"}[runs])
}

// ran is A1's answer when it runs after all.
func ran(p Params) string {
	return "201 SUCCEEDED at " + Seconds(p.QueuedUntil+p.HandOver+2*p.PSPLatency).String()
}

func expectDeadline(p Params, r *Result, c *checks) {
	late := tooLate(p)
	want := ran(p)
	if late {
		want = "503 too-late at " + Seconds(p.QueuedUntil).String()
		c.given("before any claim: K1's record after A1", r.snapshot("after A1").KeyRecord, KeyRecord{State: "absent"})
		c.given("A1's claims", moments(r.momentsOf("A1", "claim")), "never")
		c.chosen("payments in the ledger", stateList(r.Payments), "pay_9 SUCCEEDED")
	}
	c.given("A1, from the queue", r.answer("A1"), want)
	c.given("what the phone hears when it asks", r.answer("ask"), "404 not-found at "+Seconds(p.ClientTimeout).String())
	expectOriginal(p, r, c, !late)
}

func stateList(list []Payment) string {
	text := ""
	for i, p := range list {
		if i > 0 {
			text += ", "
		}
		text += p.ID + " " + p.State
	}
	return text
}

func expectVoid(p Params, r *Result, c *checks) {
	expires := p.ClientTimeout + p.KeyWindow
	from := "key record"
	if expires < p.QueuedUntil {
		from = "ledger row"
	}
	c.given("the question voids K1", r.answer("ask"), "200 VOID at "+Seconds(p.ClientTimeout).String())
	c.given("pay_7's moves", moveList(r.payment("pay_7").Moves), moveList([]Move{{At: Seconds(p.ClientTimeout), To: "VOID", By: "ask"}}))
	c.given("K1's record before A1", r.snapshot("before A1").KeyRecord, KeyRecord{State: "VOID", ExpiresAt: Seconds(expires)})
	c.given("A1, from the queue", r.answer("A1"), "409 void at "+Seconds(p.QueuedUntil).String())
	c.given("A1 is refused by", r.answer("A1").From, from)
	c.chosen("payments in the ledger", stateList(r.Payments), "pay_7 VOID, pay_9 SUCCEEDED")
	expectOriginal(p, r, c, false)
}

// raceTimes are when A1 claims its key, has its row, and is settled.
func raceTimes(p Params) (claim, row, settled time.Duration) {
	row = p.QueuedUntil + p.RowAfter
	return p.QueuedUntil, row, row + 2*p.PSPLatency
}

func raceSteps(p Params) []step {
	_, _, settled := raceTimes(p)
	again := step{do: doTap, who: "api-2", tag: "B1", amount: p.Amount, key: keyK2}
	keep := step{at: max(p.AskAt, settled) + shortly, do: doTap, who: "api-2", tag: "A2", amount: p.Amount}
	done := max(p.AskAt+p.Network+2*p.PSPLatency, keep.at+p.Network)
	return append([]step{
		{at: 0, do: doTap, who: "api-1", tag: "A1", amount: p.Amount, queued: p.QueuedUntil - p.Network, held: true},
		{at: p.AskAt, do: doVoid, who: "api-2", tag: "ask", again: &again, keep: &keep},
	}, quietTail(p, done)...)
}

func raceNeeds(p Params) []need {
	claim, row, settled := raceTimes(p)
	return []need{
		{p.QueuedUntil > p.Network, "network < queued_until"},
		{p.AskAt != claim && p.AskAt != row, "ask_at ≠ queued_until, and ≠ queued_until + row_after: what is due at one moment has no order"},
		{p.AskAt > 0 && p.AskAt < settled, "0 < ask_at < queued_until + row_after + 2·psp_latency"},
		{p.RowAfter < 5*time.Second && p.RowAfter+2*p.PSPLatency < p.Deadline, "row_after + 2·psp_latency < deadline, and row_after < 5"},
		{2*p.Network+2*p.PSPLatency < p.WebhookAt, "2·network + 2·psp_latency < webhook_at: the answer comes before the webhook"},
	}
}

// expectRace computes who takes the unique row.
func expectRace(p Params, r *Result, c *checks) {
	claim, row, settled := raceTimes(p)
	ask := Seconds(p.AskAt)
	original := p.AskAt > row
	charge := Charge{ID: "ch_1", Key: "pay_9:charge", At: Seconds(p.AskAt + p.Network + p.PSPLatency), Amount: p.Amount}
	if original {
		charge.Key, charge.At = "pay_7:charge", Seconds(row+p.PSPLatency)
		c.given("the original wins: the question", r.answer("ask"), "409 in-progress at "+ask.String())
		c.given("pay_7's moves", moveList(r.payment("pay_7").Moves), moveList([]Move{{At: Seconds(row), To: "PENDING", By: "A1"}, {At: Seconds(settled), To: "SUCCEEDED", By: "A1"}}))
		c.given("the phone keeps K1: A2", r.answer("A2"), fmt.Sprintf("201 SUCCEEDED at %s", Seconds(max(p.AskAt, settled)+shortly)))
		c.chosen("A1", r.answer("A1"), "201 SUCCEEDED at "+Seconds(settled).String())
		c.chosen("payments in the ledger", stateList(r.Payments), "pay_7 SUCCEEDED")
	} else {
		refused, from := row, "ledger row"
		if p.AskAt < claim {
			refused, from = claim, "key record"
			if p.AskAt+p.KeyWindow < claim { // its record is forgotten
				refused, from = row, "ledger row"
			}
		}
		c.given("the question wins", r.answer("ask"), "200 VOID at "+ask.String())
		c.given("pay_7's moves", moveList(r.payment("pay_7").Moves), moveList([]Move{{At: ask, To: "VOID", By: "ask"}}))
		c.given("A1", r.answer("A1"), "409 void at "+Seconds(refused).String())
		c.given("A1 is refused by", r.answer("A1").From, from)
		c.chosen("B1, the second tap", r.answer("B1"), "201 SUCCEEDED at "+ask.String())
		c.chosen("payments in the ledger", stateList(r.Payments), "pay_7 VOID, pay_9 SUCCEEDED")
	}
	c.given("charges", chargeList(r.Charges), chargeList([]Charge{charge}))
	c.given("charged in total", dollars(r.ChargedTotal), dollars(p.Amount))
	c.chosen("m1 at the end", r.Balances[merchant], p.Opening+p.Amount)
	c.chosen("the auditor's verdict", r.Harm, "none")
}
