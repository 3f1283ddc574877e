package story

import (
	"fmt"
	"slices"
	"time"

	"github.com/retryproof/retryproof/sim"
)

// shortly is how long after another event a question that only looks comes.
const shortly = 450 * time.Millisecond

func storeBranches() []scenario {
	return []scenario{{
		group: "Side traces", id: "3d", title: "The key comes back with another amount, and with the same meaning in other words",
		moral: "Another meaning is refused and nothing runs; another order of the fields is the same request.",
		needs: func(p Params) []need {
			return append(mainNeeds(p), untied(p, p.ClientTimeout+shortly, "client_timeout + 0.45"))
		},
		steps: func(p Params) []step {
			steps := graySteps(p)
			steps[3].amount = p.OtherAmount
			steps = append(steps, step{at: p.ClientTimeout + shortly, do: doTap, who: "api-2", tag: "A2b", body: fmt.Sprintf(
				`{"client_time":"10:00:10","merchant_id":%q,"payment_method":%q,"currency":%q,"amount":%d,"order_id":%q}`, merchant, method, currency, p.Amount, order)},
				step{at: p.ResolveAt, do: doResolve, who: "resolver", tag: "resolve"})
			return append(steps, quietTail(p, predict(p, byID).settledAt)...)
		},
		expect: expectOther,
	}, {
		group: "Side traces", id: "key-store-down", title: "The key store cannot be reached",
		moral:   "The ledger row alone decides, and there are never two charges.",
		needs:   mainNeeds,
		world:   func(Params) setting { return setting{split: true, keysDown: true} },
		steps:   mainSteps,
		numbers: nil,
		expect: func(p Params, r *Result, c *checks) {
			q := predict(p, byID)
			expectGray(p, r, c, q)
			expectTail(p, r, c, q)
			c.given("A3, hours later", r.answer("A3"), fmt.Sprintf("%s at %s", q.later(p.RetryAt+p.Network), Seconds(p.RetryAt)))
			c.given("A3 is answered from", r.answer("A3").From, "ledger row")
			c.chosen("P6: the key record", r.snapshot("P6").KeyRecord, "unreachable")
		},
	}, {
		group: "Side traces", id: "X", title: "No durable guard, and payment ids at random",
		moral:  "The key record forgot the key, so the same payment looks new, has a new id and a new key at the processor, and is charged again.",
		needs:  mainNeeds,
		world:  func(p Params) setting { return setting{twins: []sim.Twin{forgetful()}} },
		steps:  mainSteps,
		expect: expectForgetful,
	}, {
		group: "Side traces", id: "W", title: "The processor's webhook is faster than the resolver",
		moral:    "Whoever comes first makes the move; the other finds it made. The pointer shows the final state without being rewritten.",
		defaults: func(p *Params) { p.WebhookAt = 10_500 * time.Millisecond },
		needs: func(p Params) []need {
			return append(mainNeeds(p), untied(p, p.ResolveAt+shortly, "resolve_at + 0.45"), need{p.WebhookAgainAt > p.WebhookAt+2*p.Network, "webhook_at + 2·network < webhook_again_at"})
		},
		steps: func(p Params) []step {
			return append(mainSteps(p),
				step{at: p.ResolveAt + shortly, do: doTap, who: "api-1", tag: "A2b", amount: p.Amount},
				step{at: p.ResolveAt + 2*shortly - time.Millisecond, do: doSnap, tag: "after 11", shown: p.ResolveAt + shortly})
		},
		expect: expectWebhookFirst,
	}}
}

// expectOther checks a key that comes back with another meaning.
func expectOther(p Params, r *Result, c *checks) {
	q := predict(p, byID)
	first, print := "422 key-reused", "H2"
	if p.OtherAmount == p.Amount {
		first, print = q.retryAnswer(p), "H1"
	}
	c.given("A2, with the other amount", r.answer("A2"), fmt.Sprintf("%s at %s", first, Seconds(p.ClientTimeout)))
	c.given("A2's fingerprint", r.answer("A2").Fingerprint, print)
	at := p.ClientTimeout + shortly
	c.given("A2b, other words", r.answer("A2b"), fmt.Sprintf("%s at %s", q.later(at+p.Network), Seconds(at)))
	c.given("A2b's fingerprint", r.answer("A2b").Fingerprint, "H1")
	if done := p.ClientTimeout + p.Network; done > q.leaseEnd && done < min(p.ResolveAt, p.WebhookAt) {
		c.given("after A2: the key record", r.snapshot("P2").KeyRecord, KeyRecord{State: "COMPLETE", Holds: "pointer", ExpiresAt: Seconds(q.expires)})
		c.given("after A2: requests at the PSP", r.snapshot("P2").PSPRequests, 1)
	}
	c.given("charges", chargeList(r.Charges), fmt.Sprintf("ch_1 (pay_7:charge) %s at %s", amount(p.Amount), Seconds(q.chargedAt)))
	c.given("payments in the ledger", len(r.Payments), 1)
	c.chosen("the auditor's verdict", r.Harm, "none")
}

// expectForgetful checks a design whose memory ends with the key record.
func expectForgetful(p Params, r *Result, c *checks) {
	q := predict(p, byID)
	arrival := p.RetryAt + p.Network
	charges := []Charge{{ID: "ch_1", Key: "pay_7:charge", At: Seconds(q.chargedAt), Amount: p.Amount}}
	harm := "none"
	if !q.remembers(arrival) {
		charges = append(charges, Charge{ID: "ch_2", Key: "pay_9:charge", At: Seconds(arrival + p.PSPLatency), Amount: p.Amount})
		harm = "double-charge"
	}
	c.given("charges", chargeList(r.Charges), chargeList(charges))
	c.given("charged in total", r.ChargedTotal, p.Amount*int64(len(charges)))
	told := q.later(arrival)
	if len(charges) == 2 && 2*p.PSPLatency > p.Deadline {
		told = "202 PROCESSING" // the new payment has a deadline too
	}
	c.given("A3, hours later", r.answer("A3"), fmt.Sprintf("%s at %s", told, Seconds(p.RetryAt)))
	c.given("the buyer was told of a success before", r.Notifications.Shown, 1)
	c.chosen("A2, the phone's retry", r.answer("A2"), fmt.Sprintf("%s at %s", q.retryAnswer(p), Seconds(p.ClientTimeout)))
	c.chosen("the auditor's verdict", r.Harm, harm)
}

// expectWebhookFirst checks that the webhook moved the payment.
func expectWebhookFirst(p Params, r *Result, c *checks) {
	q := predict(p, byID)
	expectGray(p, r, c, q)
	want := []Webhook{{Seconds(p.WebhookAt), "moves"}, {Seconds(p.WebhookAgainAt), "dropped"}}
	if q.settledBy != "webhook" {
		want[0].Result = "late"
	}
	c.given("deliveries of evt_1", fmt.Sprint(r.Webhooks), fmt.Sprint(want))
	at := p.ResolveAt + shortly
	if p.RelayAt > at && at > q.settledAt {
		c.given("after 11: the ledger", r.snapshot("after 11").Ledger, "SUCCEEDED")
		c.given("after 11: outbox rows", r.snapshot("after 11").OutboxRows, 1)
	}
	c.given("A2b, after the resolver's look", r.answer("A2b"), fmt.Sprintf("%s at %s", q.later(at+p.Network), Seconds(at)))
	if q.settledBy == "webhook" && q.leaseEnd < min(p.WebhookAt, at) && q.remembers(at+p.Network) {
		c.given("after 11: the key record, not rewritten", r.snapshot("after 11").KeyRecord, KeyRecord{State: "COMPLETE", Holds: "pointer", ExpiresAt: Seconds(q.expires)})
		c.given("A2b is answered from", r.answer("A2b").From, "ledger row")
	}
	expectTail(p, r, c, q)
	expectLate(p, r, c, q)
}

// String is the delivery as text.
func (w Webhook) String() string { return w.Result + " at " + w.At.String() }

// sortCharges orders charges by time and names them in that order.
func sortCharges(list []Charge) []Charge {
	slices.SortStableFunc(list, func(a, b Charge) int { return int(a.At - b.At) })
	for i := range list {
		list[i].ID = fmt.Sprintf("ch_%d", i+1)
	}
	return list
}
