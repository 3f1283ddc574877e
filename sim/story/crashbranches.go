package story

import (
	"fmt"
	"time"

	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/sim"
)

// quietTail is the rest of a branch whose point is somewhere else: once the payment
// is settled its event is sent once, and worked on once.
func quietTail(p Params, settled time.Duration) []step {
	relay := max(p.RelayAt, settled+shortly)
	return []step{
		{at: relay, do: doRelay, who: "relay", tag: "relay 1"},
		{at: max(p.WorkAt, relay+shortly), do: doDrain, who: "w1", tag: "work 1"},
	}
}

// retryNeeds let the phone come back after the lease and its margin.
func retryNeeds(p Params) []need {
	return []need{
		{p.ClientTimeout > p.Deadline+p.Margin, "deadline + margin < client_timeout: the phone comes back when a takeover is allowed"},
		{2*p.PSPLatency < p.Deadline, "2·psp_latency < deadline"},
		{2*p.Network+2*p.PSPLatency < p.WebhookAt, "2·network + 2·psp_latency < webhook_at: the answer comes before the webhook"},
	}
}

// sweepNeeds let the resolver look before the phone comes back.
func sweepNeeds(p Params) []need {
	return append(retryNeeds(p),
		need{p.SweepAt > p.Network+p.Deadline+p.Margin, "network + deadline + margin < sweep_at"},
		need{p.SweepAt+2*p.PSPLatency < p.ClientTimeout, "sweep_at + 2·psp_latency < client_timeout"},
		need{takenOver(p) < p.WebhookAt, "client_timeout + network + 2·psp_latency < webhook_at"})
}

func wakeNeeds(p Params) []need {
	return append(retryNeeds(p), need{p.WakeAt > takenOver(p), "client_timeout + network + 2·psp_latency < wake_at"})
}

// takenOver is when A2, which took over, has the PSP's answer.
func takenOver(p Params) time.Duration { return p.ClientTimeout + p.Network + 2*p.PSPLatency }

// crashSteps are a first request that meets a fault, what comes then, and the rest.
func crashSteps(p Params, first step, more ...step) []step {
	first.do, first.who, first.tag, first.amount = doTap, "api-1", "A1", p.Amount
	return append(append([]step{first}, more...), quietTail(p, takenOver(p))...)
}

func comesBack(p Params) step {
	return step{at: p.ClientTimeout, do: doTap, who: "api-2", tag: "A2", amount: p.Amount}
}

// woken is after the paused server has gone on.
func woken(p Params) step {
	return step{at: p.WakeAt + 2*p.PSPLatency, do: doSnap, tag: "woken", shown: p.WakeAt}
}

// pauses holds api-1 at a call until wake_at.
func pauses(p Params, op string, nth int) step {
	return step{held: true, faults: []sim.ScriptedFault{{Node: "api-1", Op: op, Nth: nth, Do: "pause-before", For: p.WakeAt - p.Network}}}
}

func crashBranches() []scenario { return append(deadOwners(), lateOwners()...) }

// deadOwners are servers that die in the middle of a payment.
func deadOwners() []scenario {
	sendDies := step{faults: []sim.ScriptedFault{{Node: "api-1", Op: "psp charge", Do: "crash-after"}}}
	return []scenario{{
		group: "Side traces", id: "3a", title: "A server dies between the claim and the row",
		moral: "Nothing had run: whoever comes after the lease and its margin takes over and charges for the first time.",
		needs: func(p Params) []need {
			return append(retryNeeds(p), need{p.CopyAt > p.Network && p.CopyAt < p.Network+p.Deadline, "network < copy_at < network + deadline"})
		},
		world: func(Params) setting { return setting{split: true, crashBetween: true} },
		steps: func(p Params) []step {
			return crashSteps(p, step{}, step{at: p.CopyAt, do: doCopy, who: "api-2", tag: "A1′", amount: p.Amount},
				step{at: p.CopyAt, do: doSnap, tag: "crashed", shown: p.CopyAt}, comesBack(p))
		},
		expect: func(p Params, r *Result, c *checks) {
			s := r.snapshot("crashed")
			c.chosen("after the crash: the key record", s.KeyRecord, KeyRecord{State: "IN_PROGRESS", Owner: "A1", Until: Seconds(p.Network + p.Deadline)})
			c.chosen("after the crash: the ledger", s.Ledger, "no row")
			c.chosen("A1′, before the lease is over", r.answer("A1′"), fmt.Sprintf("409 in-progress at %s", Seconds(p.CopyAt)))
			expectCrash(p, r, c, c.chosen, takenOver(p)-p.PSPLatency, 1)
			c.chosen("the payment's moves", moveList(r.payment("pay_7").Moves), moveList([]Move{
				{At: Seconds(p.ClientTimeout + p.Network), To: "PENDING", By: "A2"}, {At: Seconds(takenOver(p)), To: "SUCCEEDED", By: "A2"}}))
		},
	}, {
		group: "Side traces", id: "3b", title: "A server dies after its call, and the resolver asks about UNKNOWN only",
		moral: "The row waits, PENDING, until the phone comes back; its retry repeats the call with the same key.",
		needs: sweepNeeds,
		world: func(Params) setting { return setting{config: payments.Config{ResolveUnknownOnly: true}} },
		steps: func(p Params) []step {
			return crashSteps(p, sendDies, step{at: p.SweepAt, do: doResolve, who: "resolver", tag: "resolve"},
				step{at: p.SweepAt + 2*p.PSPLatency, do: doSnap, tag: "swept", shown: p.SweepAt}, comesBack(p))
		},
		expect: func(p Params, r *Result, c *checks) {
			c.given("after the resolver's look: the ledger", r.snapshot("swept").Ledger, "PENDING")
			expectCrash(p, r, c, c.given, p.Network+p.PSPLatency, 2)
			expectMoves(p, r, c.given, takenOver(p), "A2")
		},
	}, {
		group: "Side traces", id: "3b-sweep", title: "A server dies after its call, and the resolver sweeps PENDING too",
		moral: "The payment is settled although the phone never comes back.",
		needs: sweepNeeds,
		steps: func(p Params) []step {
			return crashSteps(p, sendDies, step{at: p.SweepAt, do: doResolve, who: "resolver", tag: "resolve"},
				step{at: p.SweepAt + 2*p.PSPLatency, do: doSnap, tag: "swept", shown: p.SweepAt + 2*p.PSPLatency})
		},
		expect: func(p Params, r *Result, c *checks) {
			c.given("after the sweep: the ledger", r.snapshot("swept").Ledger, "SUCCEEDED")
			c.given("answers to the phone", len(r.Answers), 0)
			expectCharge(p, r, c, c.given, p.Network+p.PSPLatency, 2)
			expectMoves(p, r, c.given, p.SweepAt+2*p.PSPLatency, "resolver")
		},
	}}
}

// lateOwners are servers that stand still for longer than their lease.
func lateOwners() []scenario {
	return []scenario{{
		group: "Side traces", id: "3c", title: "A server stands still after the row and wakes after the takeover",
		moral: "Its completion fails, since the owner has changed, and it answers what the record says.",
		needs: wakeNeeds,
		steps: func(p Params) []step {
			// The first deadline is the claim's, the second the run's.
			return crashSteps(p, pauses(p, "set deadline", 2), comesBack(p), woken(p))
		},
		expect: func(p Params, r *Result, c *checks) { expectWake(p, r, c, 1) },
	}, {
		group: "Side traces", id: "3c-called", title: "The same, and the late server still calls the processor",
		moral:  "The processor knows the derived key and replays its answer: still one charge.",
		needs:  wakeNeeds,
		steps:  func(p Params) []step { return crashSteps(p, pauses(p, "psp charge", 1), comesBack(p), woken(p)) },
		expect: func(p Params, r *Result, c *checks) { expectWake(p, r, c, 2) },
	}}
}

// expectation is a checks' given or chosen.
type expectation func(what string, got, want any)

// expectCharge checks one charge and its credit and notification.
func expectCharge(p Params, r *Result, c *checks, check expectation, at time.Duration, asked int) {
	check("charges", chargeList(r.Charges), fmt.Sprintf("ch_1 (pay_7:charge) %s at %s", amount(p.Amount), Seconds(at)))
	check("charged in total", r.ChargedTotal, p.Amount)
	check("requests with the charge's key", requests(r), asked)
	c.chosen("the auditor's verdict", r.Harm, "none")
	c.chosen("credits", creditList(r.Credits), fmt.Sprintf("%s to m1 for ev_7", amount(p.Amount)))
	c.chosen("m1 at the end", r.Balances[merchant], p.Opening+p.Amount)
	c.chosen("notifications shown, alerts", fmt.Sprint(r.Notifications), fmt.Sprint(Notifications{1, 1}))
}

// expectCrash also checks that the phone's retry was told the truth.
func expectCrash(p Params, r *Result, c *checks, check expectation, at time.Duration, asked int) {
	expectCharge(p, r, c, check, at, asked)
	check("A2, the phone's retry", r.answer("A2"), fmt.Sprintf("201 SUCCEEDED at %s", Seconds(p.ClientTimeout)))
}

func expectMoves(p Params, r *Result, check expectation, settled time.Duration, by string) {
	check("the payment's moves", moveList(r.payment("pay_7").Moves), moveList([]Move{
		{At: Seconds(p.Network), To: "PENDING", By: "A1"}, {At: Seconds(settled), To: "SUCCEEDED", By: by}}))
}

// expectWake checks a server that woke too late.
func expectWake(p Params, r *Result, c *checks, requests int) {
	expectCrash(p, r, c, c.given, takenOver(p)-p.PSPLatency, requests)
	expectMoves(p, r, c.given, takenOver(p), "A2")
	c.given("A1, when it wakes", r.answer("A1"), fmt.Sprintf("201 SUCCEEDED at %s", Seconds(p.WakeAt)))
	from := "key record"
	if takenOver(p)+p.KeyWindow < p.WakeAt {
		from = "ledger row"
	}
	c.given("A1 is answered from", r.answer("A1").From, from)
	c.given("writes that failed because the owner had changed", r.Fenced, 1)
}
