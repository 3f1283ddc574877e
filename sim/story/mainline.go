package story

import (
	"fmt"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/sim"
)

// The faults of the main line.
var (
	loseReply       = sim.ScriptedFault{Node: "api-1", Op: "psp charge", Do: "lose"}
	relayDies       = sim.ScriptedFault{Node: "relay", Op: "queue send", Do: "crash-after"}
	workerDiesAfter = sim.ScriptedFault{Node: "w1", Op: "push send", Do: "crash-after"}
)

// graySteps are events 1 to 9: the processor charges and its reply is lost.
func graySteps(p Params) []step {
	return []step{
		{at: 0, do: doTap, who: "api-1", tag: "A1", amount: p.Amount, lost: true, faults: []sim.ScriptedFault{loseReply}},
		{at: p.CopyAt, do: doCopy, who: "api-2", tag: "A1′", amount: p.Amount},
		{at: p.CopyAt, do: doSnap, tag: "P1", shown: p.CopyAt},
		{at: p.ClientTimeout, do: doTap, who: "api-2", tag: "A2", amount: p.Amount},
		{at: p.ClientTimeout + 2*p.Network, do: doSnap, tag: "P2", shown: p.ClientTimeout},
	}
}

// tailSteps are events 10 to 19: from the resolver to the third send.
func tailSteps(p Params) []step {
	return []step{
		{at: p.ResolveAt, do: doResolve, who: "resolver", tag: "resolve"},
		{at: p.RelayAt, do: doRelay, who: "relay", tag: "relay 1", faults: []sim.ScriptedFault{relayDies}},
		{at: p.RelayAgainAt, do: doRelay, who: "relay", tag: "relay 2", faults: []sim.ScriptedFault{relayDies}},
		{at: p.RelayAgainAt, do: doSnap, tag: "P3", shown: p.RelayAgainAt},
		{at: p.WorkAt, do: doWork, who: "w1", tag: "work 1", faults: []sim.ScriptedFault{workerDiesAfter}},
		{at: p.WorkAt + p.Visibility, do: doDrain, who: "w2", tag: "work 2"},
		{at: p.WorkAt + p.Visibility, do: doSnap, tag: "P4", shown: p.WorkAt + p.Visibility},
		{at: p.RelayLastAt, do: doRelay, who: "relay", tag: "relay 3"},
		{at: p.RelayLastAt, do: doDrain, who: "w2", tag: "work 3"},
		{at: p.RelayLastAt, do: doSnap, tag: "after 19", shown: p.RelayLastAt},
	}
}

// mainSteps is the whole main line.
func mainSteps(p Params) []step {
	return append(append(graySteps(p), tailSteps(p)...), []step{
		{at: p.RetryAt, do: doTap, who: "api-1", tag: "A3", amount: p.Amount},
		{at: p.RetryAt + 2*p.Network + 2*p.PSPLatency, do: doSnap, tag: "P6", shown: p.RetryAt},
	}...)
}

// mainNumbers are the numbers of the story's main line.
var mainNumbers = []number{
	{n: 1, tag: "A1", ops: []string{"tap"}},
	{n: 2, tag: "A1", ops: []string{"claim"}, where: "api-1"},
	{n: 3, tag: "A1", ops: []string{"row"}},
	{n: 4, ops: []string{"charge"}},
	{n: 5, tag: "A1′", where: "api-2"},
	{n: 6, ops: []string{"lost"}},
	{n: 8, tag: "A1", ops: []string{"complete", "answer"}},
	{n: 7, tag: "A1", ops: []string{"settle", "deadline"}},
	{n: 9, tag: "A2", where: "api-2"},
	{n: 10, ops: []string{"adopt", "replay"}},
	{n: 11, tag: "resolver"}, {n: 11, tag: "resolve"},
	{n: 12, tag: "relay 1"}, {n: 13, tag: "webhook"}, {n: 14, tag: "relay 2"},
	{n: 15, tag: "work 1", ops: []string{"receive"}},
	{n: 16, tag: "work 1", ops: []string{"inbox"}},
	{n: 17, tag: "work 1"},
	{n: 18, tag: "work 2"},
	{n: 19, tag: "relay 3"}, {n: 19, tag: "work 3"},
	{n: 20, tag: "A3", where: "api-1"},
}

// mainNeeds keep the steps of the main line in an order that means something.
func mainNeeds(p Params) []need {
	return []need{
		{p.CopyAt > p.Network, "network < copy_at: a copy cannot arrive before its original"},
		{p.ClientTimeout > p.CopyAt, "copy_at < client_timeout"},
		{p.ClientTimeout != p.Deadline && p.CopyAt != p.Network+p.Deadline, "client_timeout ≠ deadline and copy_at ≠ network + deadline: what is due at one moment has no order"},
		{p.Deadline > p.PSPLatency, "psp_latency < deadline: else nothing is charged before the deadline"},
		{p.RelayAt < p.RelayAgainAt && p.RelayAgainAt < p.RelayLastAt, "relay_at < relay_again_at < relay_last_at"},
		{p.WorkAt > 0 && p.WorkAt < p.RelayLastAt, "work_at < relay_last_at"},
		{p.WebhookAt > 2*p.Network+p.PSPLatency, "2·network + psp_latency < webhook_at: the webhook follows the charge"},
		{p.Network+p.Deadline != p.ResolveAt && p.Network+p.Deadline < p.WebhookAt, "network + deadline < webhook_at, and not resolve_at itself"},
		{p.RetryAt > p.RelayLastAt || p.RetryAt > p.ResolveAt, "resolve_at < retry_at"},
		{2*p.PSPLatency < 5*time.Second, "2·psp_latency < 5: the resolver hears the PSP"},
		{p.RetryAt < 24*time.Hour, "retry_at < 24 h"},
		untied(p, p.ClientTimeout, "client_timeout"), untied(p, p.RetryAt, "retry_at"),
	}
}

// untied refuses a request that arrives at the very moment of the settlement.
func untied(p Params, sent time.Duration, what string) need {
	return need{sent+p.Network != predict(p, byID).settledAt, what + " + network ≠ the moment of the settlement: what is due at one moment has no order"}
}

func mainBranches() []scenario {
	return []scenario{{
		group: "Main line", id: "main", title: "One payment, retried at every hop",
		moral:   "The answer is lost at almost every hop, and still there is one charge, one credit and one notification.",
		needs:   mainNeeds,
		steps:   mainSteps,
		numbers: mainNumbers,
		expect: func(p Params, r *Result, c *checks) {
			expectGray(p, r, c, predict(p, byID))
			expectKeys(p, r, c, predict(p, byID))
			expectTail(p, r, c, predict(p, byID))
			hook := map[bool]string{true: "late", false: "moves"}[predict(p, byID).settledBy == "resolver"]
			c.given("the webhook", fmt.Sprint(r.Webhooks), fmt.Sprint([]Webhook{{Seconds(p.WebhookAt), hook}}))
			expectLate(p, r, c, predict(p, byID))
		},
	}}
}

// expectGray checks events 1 to 11: one charge, and an honest answer to everybody.
func expectGray(p Params, r *Result, c *checks, q predicted) {
	c.given("charges", chargeList(r.Charges), fmt.Sprintf("ch_1 (pay_7:charge) %s at %s", amount(p.Amount), Seconds(q.chargedAt)))
	c.given("charged in total", r.ChargedTotal, p.Amount)
	c.given("A1′, the network's copy", r.answer("A1′"), fmt.Sprintf("%s at %s", q.copyAnswer(p), Seconds(p.CopyAt)))
	c.given("A2, the phone's retry", r.answer("A2"), fmt.Sprintf("%s at %s", q.retryAnswer(p), Seconds(p.ClientTimeout)))
	p1, p2 := r.snapshot("P1"), r.snapshot("P2")
	if p.CopyAt < q.leaseEnd {
		c.given("P1: the ledger", p1.Ledger, "PENDING")
		c.given("P1: what the phone knows", p1.PhoneKnows, "nothing")
	}
	c.given("P1: charges", p1.Charges, before([]time.Duration{q.chargedAt}, p.CopyAt))
	if done := p.ClientTimeout + p.Network; done > q.leaseEnd && done < min(p.ResolveAt, p.WebhookAt) {
		c.given("P2: the ledger", p2.Ledger, "UNKNOWN")
		c.given("P2: requests at the PSP", p2.PSPRequests, 1)
	}
	moves := r.payment("pay_7").Moves
	c.given("the payment's moves", moveList(moves), moveWant(q))
	c.given("requests with the charge's key", requests(r), q.pspRequests)
	c.given("P1: requests at the PSP", p1.PSPRequests, before([]time.Duration{q.chargedAt}, p.CopyAt))
	if q.pspRequests == 2 {
		c.given("the resolver picks it up", moments(r.moments("adopt")), moments([]time.Duration{p.ResolveAt}))
	}
	c.given("pay_7 is derived from the scope", r.id("pay_7"), retryproof.Of("pay", scopeK1))
	c.chosen("the auditor's verdict", r.Harm, "none")
}

func requests(r *Result) int {
	n := 0
	for _, charge := range r.Charges {
		n += charge.Requests
	}
	return n
}

// moveList writes moves as "PENDING at 0.02 by A1, …".
func moveList(moves []Move) string {
	text := ""
	for i, m := range moves {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s at %s by %s", m.To, m.At, m.By)
	}
	return text
}

// moveWant is how the payment must move: pending, unknown at the deadline, settled.
func moveWant(q predicted) string {
	moves := []Move{{At: Seconds(q.arrived), To: "PENDING", By: "A1"}}
	if q.leaseEnd < q.settledAt {
		moves = append(moves, Move{At: Seconds(q.leaseEnd), To: "UNKNOWN", By: "A1"})
	}
	return moveList(append(moves, Move{At: Seconds(q.settledAt), To: "SUCCEEDED", By: q.settledBy}))
}

// expectKeys checks the key record.
func expectKeys(p Params, r *Result, c *checks, q predicted) {
	if p.CopyAt < q.leaseEnd {
		c.given("P1: the key record", r.snapshot("P1").KeyRecord, KeyRecord{State: "IN_PROGRESS", Owner: "A1", Until: Seconds(q.leaseEnd)})
	}
	if done := p.ClientTimeout + p.Network; done > q.leaseEnd && done < min(p.ResolveAt, p.WebhookAt) {
		c.given("P2: the key record", r.snapshot("P2").KeyRecord, KeyRecord{State: "COMPLETE", Holds: "pointer", ExpiresAt: Seconds(q.expires)})
	}
}

// expectTail checks events 12 to 19: one credit, one notification.
func expectTail(p Params, r *Result, c *checks, q predicted) {
	p3, p4, last := r.snapshot("P3"), r.snapshot("P4"), r.snapshot("after 19")
	sent, stored := before(q.sends, p.RelayAgainAt), before(q.stored, p.RelayAgainAt)
	c.given("P3: sends and messages", fmt.Sprint(p3.Queue.Sends, " ", p3.Queue.Stored), fmt.Sprint(sent, " ", stored))
	c.given("P3: outbox rows", p3.OutboxRows, waiting(q, p.RelayAgainAt))
	work := p.WorkAt + p.Visibility
	if work < p.RelayLastAt {
		c.given("P4: m1", p4.Balances[merchant], p.Opening+p.Amount*credits(q, work))
		c.given("P4: notifications shown, alerts", fmt.Sprint(p4.Notifications.Shown, " ", p4.Notifications.Alerts), fmt.Sprint(min(1, before(q.alerts, work)), " ", before(q.alerts, work)))
		c.given("P4: outbox rows", p4.OutboxRows, waiting(q, work))
		c.given("P4: the intent", p4.Intent, map[bool]string{true: "SENT", false: "none"}[credits(q, work) == 1])
	}
	c.given("after 19: sends and messages", fmt.Sprint(last.Queue.Sends, " ", last.Queue.Stored), fmt.Sprint(len(q.sends), " ", len(q.stored)))
	rows := waiting(q, p.RelayLastAt)
	if n := len(q.sends); n > 0 && q.sends[n-1] == p.RelayLastAt {
		rows = 0 // the one send after which the relay lives
	}
	c.given("after 19: outbox rows", last.OutboxRows, rows)
	c.given("deliveries", moments(r.moments("receive")), moments(q.deliveries))
	c.given("pushes", moments(r.moments("push")), moments(q.alerts))
	c.given("the screen", fmt.Sprint(r.Screen), fmt.Sprint([]Shown{{ReplaceID: "pay_7", Body: fmt.Sprintf("USD %d.%02d for order %s", p.Amount/100, p.Amount%100, order)}}))
	expectEnd(p, r, c)
}

// expectEnd is the final count: one credit, one notification.
func expectEnd(p Params, r *Result, c *checks) {
	c.given("credits", creditList(r.Credits), fmt.Sprintf("%s to m1 for ev_7", amount(p.Amount)))
	c.given("m1 at the end", r.Balances[merchant], p.Opening+p.Amount)
	c.given("notifications on the screen", r.Notifications.Shown, 1)
}

func creditList(list []Credit) string {
	text := ""
	for i, credit := range list {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s to %s for %s", amount(credit.Amount), credit.Merchant, credit.Event)
	}
	if text == "" {
		return "none"
	}
	return text
}

// waiting is how many outbox rows there must be: from the settlement to the third
// send.
func waiting(q predicted, at time.Duration) int {
	if q.settledAt <= at {
		return 1
	}
	return 0
}

func credits(q predicted, at time.Duration) int64 {
	if q.credited > 0 && q.credited <= at {
		return 1
	}
	return 0
}

// expectLate checks event 20: the buyer comes back.
func expectLate(p Params, r *Result, c *checks, q predicted) {
	arrival := p.RetryAt + p.Network
	c.given("A3, hours later", r.answer("A3"), fmt.Sprintf("%s at %s", q.later(arrival), Seconds(p.RetryAt)))
	c.given("A3 is answered from", r.answer("A3").From, q.lateFrom(p))
	expires := Seconds(arrival + p.KeyWindow)
	if q.remembers(arrival) {
		expires = Seconds(q.expires)
	}
	if arrival >= q.settledAt && q.settledBy == "resolver" {
		c.given("P6: the key record", r.snapshot("P6").KeyRecord, KeyRecord{State: "COMPLETE", Holds: "final answer", ExpiresAt: expires})
	}
	c.given("P6: requests at the PSP", r.snapshot("P6").PSPRequests, q.pspRequests)
	c.given("P6: charges", r.snapshot("P6").Charges, 1)
}
