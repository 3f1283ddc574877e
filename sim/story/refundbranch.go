package story

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/reconcile"
	"github.com/retryproof/retryproof/sim"
)

// What the product's resolver does by default: how long one question may take, and
// how long the pauses between questions become.
const (
	questionTakes  = 15 * time.Second
	firstPause     = 2 * time.Second
	longestPause   = 15 * time.Minute
	maxRetryBudget = 8
)

// recordedRefunds notes what becomes of refunds.
type recordedRefunds struct {
	effect.Store
	st *stage
}

func (e recordedRefunds) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	st := e.st
	tag := st.tag()
	st.owners[b.Owner] = tag
	seen, err := e.Store.Begin(ctx, b)
	if g := seen.Guard; err == nil && g != nil && g.Owner == b.Owner && !slices.Contains(st.refunds, g.ID) {
		st.refunds = append(st.refunds, g.ID)
		st.moves[g.ID] = append(st.moves[g.ID], Move{At: Seconds(st.w.Now()), To: string(g.State), By: tag})
		st.say("ledger", tag, "row", st.names.show(string(g.ID))+" PENDING, before any call")
	}
	return seen, err
}

func (e recordedRefunds) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	st := e.st
	seen, err := e.Store.Adopt(ctx, a)
	if g := seen.Guard; err == nil && g != nil && g.Owner == a.Owner {
		name := st.names.show(string(g.ID))
		st.say(st.w.Running(), st.tag(), "adopt", "picks up "+name+", "+string(g.State)+", and asks the PSP again with "+name+":refund")
	}
	return seen, err
}

func (e recordedRefunds) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	st := e.st
	last := Move{}
	if moves := st.moves[s.ID]; len(moves) > 0 {
		last = moves[len(moves)-1]
	}
	out, err := e.Store.Settle(ctx, s)
	if err != nil || !out.Moved {
		return out, err
	}
	tag, name := st.by(s.By), st.names.show(string(s.ID))
	if last.To == string(s.To) {
		st.say("ledger", st.tag(), "unknown", name+" stays "+string(s.To))
		return out, nil
	}
	st.moves[s.ID] = append(st.moves[s.ID], Move{At: Seconds(st.w.Now()), From: last.To, To: string(s.To), By: tag})
	what := fmt.Sprintf("%s %s → %s", name, last.To, s.To)
	for _, event := range s.Events {
		what += ", journal entries, outbox row " + st.names.show(event.ID)
	}
	if s.Evidence != nil {
		what += "; evidence: " + st.names.show(s.Evidence.Seen)
	}
	st.say("ledger", st.tag(), "settle", what)
	return out, nil
}

// refunded says what the processor did at a moment.
func (st *stage) refunded(at time.Duration) (op, what string) {
	for _, r := range st.w.Core().Refunds() {
		if r.At.Sub(sim.Epoch) == at {
			return "charge", fmt.Sprintf("gives back %s, %s, key %s", st.names.refund(r.ID), amount(r.Amount), st.names.show(r.Key))
		}
	}
	return "replay", "knows the key: replays its answer, gives nothing back"
}

// refundRows are the rows of refunds with the processor's records of them.
func (st *stage) refundRows() []Refund {
	var out []Refund
	for _, id := range st.refunds {
		r := Refund{ID: st.names.show(string(id)), State: st.refundState(id), Moves: st.moves[id]}
		for _, made := range st.w.Core().Refunds() {
			if made.Reference == string(id) {
				r.PSPID, r.Key = st.names.refund(made.ID), st.names.show(made.Key)
				r.Amount, r.At, r.Requests = made.Amount, at(made.At), made.Requests
			}
		}
		out = append(out, r)
	}
	return out
}

func (st *stage) refundState(id retryproof.ID) string {
	for _, paid := range st.ids {
		list, err := st.store.Payments().Ledger.Refunds(background, paid)
		st.note(err)
		for _, r := range list {
			if r.ID == id {
				return string(r.State)
			}
		}
	}
	return "no row"
}

// reconcile compares everything so far with the processor's list and settles what is
// unknown here and definite there.
func (st *stage) reconcile(ctx context.Context, n *sim.Node) (int, error) {
	st.say(n.Name, st.tags[n.Name], "reconcile", "compares the ledger with the PSP's list of charges and refunds")
	got, err := n.System.Reconcile(ctx, sim.Epoch, sim.Epoch.Add(st.w.Now()), reconcile.Config{Settle: true})
	st.ends = append(st.ends, End{"unknown refunds that the reconciliation settled", fmt.Sprint(got.Refunds.Settled)},
		End{"unknown payments that the reconciliation settled", fmt.Sprint(got.Payments.Settled)})
	return got.Refunds.Settled + got.Payments.Settled, err
}

// looks are when the resolver looks: as often as it may before a person is told, and
// once more.
func looks(p Params) []time.Duration {
	var out []time.Duration
	for i := range p.RetryBudget + 1 {
		out = append(out, p.CancelAt+time.Duration(i+1)*p.AskEvery)
	}
	return out
}

func refundSteps(p Params) []step {
	steps := []step{{at: 0, do: doTap, who: "api-1", tag: "A1", amount: p.Amount}}
	steps = append(steps, quietTail(p, p.Network+2*p.PSPLatency)...)
	steps = append(steps, step{at: p.CancelAt, do: doSilence, tag: "psp refund"}, step{at: p.CancelAt, do: doSilence, tag: "psp find refunds"},
		step{at: p.CancelAt, do: doCancel, who: "api-1", tag: "C1"})
	for i, t := range looks(p) {
		steps = append(steps, step{at: t, do: doResolve, who: "resolver", tag: fmt.Sprintf("look %d", i+1)})
	}
	return append(steps,
		step{at: p.ReconcileAt - time.Millisecond, do: doSnap, tag: "at night", shown: p.ReconcileAt},
		step{at: p.ReconcileAt, do: doReconcile, who: "resolver", tag: "reconciliation"},
		step{at: p.ReconcileAt + shortly, do: doRelay, who: "relay", tag: "relay 2"},
		step{at: p.ReconcileAt + 2*shortly, do: doDrain, who: "w1", tag: "work 2"})
}

func refundNeeds(p Params) []need {
	last := looks(Params{CancelAt: p.CancelAt, AskEvery: p.AskEvery, RetryBudget: min(p.RetryBudget, maxRetryBudget)})
	pause := min(longestPause, firstPause<<min(p.RetryBudget+1, 10))
	return []need{
		{p.RetryBudget <= maxRetryBudget, fmt.Sprintf("retry_budget ≤ %d", maxRetryBudget)},
		{2*p.PSPLatency < p.Deadline && p.Deadline <= 30*time.Second, "2·psp_latency < deadline ≤ 30: nobody waits for the PSP longer"},
		{2*p.Network+2*p.PSPLatency < min(p.WebhookAt, p.CancelAt), "2·network + 2·psp_latency < webhook_at and cancel_at: the payment is settled by its request, and before it is cancelled"},
		{max(p.RelayAt, p.Network+2*p.PSPLatency+shortly)+shortly < p.CancelAt && p.WorkAt < p.CancelAt, "relay_at + 0.45 and work_at < cancel_at: the merchant was credited"},
		{p.AskEvery > questionTakes+pause, fmt.Sprintf("ask_every > %s: the resolver's own pause is over", Seconds(questionTakes+pause))},
		{p.AskEvery > p.Network+p.Deadline+p.Margin, "network + deadline + margin < ask_every"},
		{last[len(last)-1]+questionTakes < p.ReconcileAt-time.Millisecond, "the last look < reconcile_at"},
		{last[len(last)-1] < p.KeyMemory-time.Hour, "the last look < key_memory − 1 h: the PSP remembers the key"},
	}
}

func refundBranches() []scenario {
	return []scenario{{
		group: "Side traces", id: "refund", title: "A refund whose call times out",
		moral: "The money went back and nobody heard it: the refund is UNKNOWN, asked about under one key, told to a person, and settled by evidence only.",
		needs: refundNeeds,
		world: func(p Params) setting { return setting{config: payments.Config{AlertAfter: int(p.RetryBudget)}} },
		steps: refundSteps, expect: expectRefund,
	}}
}

func expectRefund(p Params, r *Result, c *checks) {
	arrived := p.CancelAt + p.Network
	asked := looks(p)
	refund := Refund{}
	if len(r.Refunds) > 0 {
		refund = r.Refunds[0]
	}
	c.chosen("A1", r.answer("A1"), "201 SUCCEEDED at 0.00")
	c.chosen("charges", chargeList(r.Charges), fmt.Sprintf("ch_1 (pay_7:charge) %s at %s", amount(p.Amount), Seconds(p.Network+p.PSPLatency)))
	c.given("C1, the cancel: the call timed out", r.answer("C1"), "202 PROCESSING at "+Seconds(p.CancelAt).String())
	c.given("the refund's moves", moveList(refund.Moves), moveList([]Move{{At: Seconds(arrived), To: "PENDING", By: "C1"},
		{At: Seconds(arrived + p.Deadline), To: "UNKNOWN", By: "C1"}, {At: Seconds(p.ReconcileAt), To: "SUCCEEDED", By: "reconciliation"}}))
	c.given("the refund's name and its key at the PSP", refund.ID+", "+refund.Key, "pay_7:cancel, pay_7:cancel:refund")
	c.given("requests with that key: the call and its repeats", refund.Requests, 1+len(asked))
	c.given("refunds that the PSP made", fmt.Sprintf("%s %s at %s", refund.PSPID, amount(refund.Amount), Seconds(refund.At)), fmt.Sprintf("re_1 %s at %s", amount(p.Amount), Seconds(arrived+p.PSPLatency)))
	c.given("a person is told", moments(r.moments("alert")), moments([]time.Duration{asked[p.RetryBudget-1] + questionTakes}))
	var stays []time.Duration
	for _, t := range asked {
		stays = append(stays, t+questionTakes)
	}
	c.given("the state stays UNKNOWN, also after that", moments(r.moments("unknown")), moments(stays))
	c.given("unknown refunds that the reconciliation settled", r.end("unknown refunds that the reconciliation settled"), "1")
	c.chosen("unknown payments that it settled", r.end("unknown payments that the reconciliation settled"), "0")
	c.chosen("m1, credited and debited", creditList(r.Credits), fmt.Sprintf("%s to m1 for ev_7, %s to m1 for pay_7:cancel:SUCCEEDED", amount(p.Amount), amount(-p.Amount)))
	c.chosen("before the reconciliation: m1", r.snapshot("at night").Balances[merchant], p.Opening+p.Amount)
	c.chosen("m1 at the end", r.Balances[merchant], p.Opening)
	c.chosen("notifications shown: of the payment and of the refund", r.Notifications.Shown, 2)
	c.chosen("the auditor's verdict", r.Harm, "none")
}
