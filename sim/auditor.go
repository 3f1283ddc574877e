package sim

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/push"
	"github.com/retryproof/retryproof/queue"
)

// The harms, as the auditor names them.
const (
	HarmDoubleCharge   = "double-charge"
	HarmDoubleCredit   = "double-credit"
	HarmLostEffect     = "lost-effect"
	HarmWrongAmount    = "wrong-amount"
	HarmCrossCaller    = "cross-caller-answer"
	HarmContradictory  = "contradictory-answer"
	HarmVoidedRan      = "voided-ran"
	HarmStacked        = "stacked-notification"
	HarmMissingNotice  = "missing-notification"
	HarmLostEvent      = "lost-event"
	HarmStuck          = "stuck"
	HarmUnbalancedBook = "unbalanced"
)

// Violation is a harm that was seen.
type Violation struct {
	Seed uint64 `json:"seed"`
	// Rule is the harm's name.
	Rule string `json:"rule"`
	// What says what happened, AtSeconds when.
	What      string  `json:"what"`
	AtSeconds float64 `json:"at"`
}

// String is the violation as one line.
func (v Violation) String() string {
	return fmt.Sprintf("seed %d: %s at %.6f s: %s", v.Seed, v.Rule, v.AtSeconds, v.What)
}

// facts are what is true of one payment, outside our databases.
type facts struct {
	id       string
	charges  []string
	amount   int64
	credits  int
	credited int64
	sent     int
	pushes   int
	// confirmed: a worker was told that the push was taken, and lived on.
	confirmed bool
	// settledAs is the first final state that was committed.
	settledAs effect.State
	events    int
	// saved500: the processor keeps a 500 for the payment's key. Without a charge
	// nobody can ever prove what became of it: it stays UNKNOWN, rightly.
	saved500 bool
}

// said is what a caller was told under a key.
type said struct {
	final string
	id    string
}

// auditor watches where the truth is. It is told of every effect as it happens and
// stops the run at the first harm.
type auditor struct {
	w        *World
	payments []*facts
	byID     map[string]*facts
	intents  []*Intent
	byOrder  map[string]*Intent
	// orders are the charges of one intent, over all payment ids.
	orders map[string][]string
	// counted is how many of the processor's charges were looked at.
	counted int
	told    map[string]*said
	// fresh is the payment whose push a process was last told of.
	fresh     map[*Process]*facts
	violation *Violation
}

func newAuditor(w *World) *auditor {
	return &auditor{w: w, byID: map[string]*facts{}, byOrder: map[string]*Intent{}, orders: map[string][]string{}, told: map[string]*said{}, fresh: map[*Process]*facts{}}
}

func (a *auditor) harm(rule, format string, args ...any) {
	if a.violation == nil {
		a.violation = &Violation{Seed: a.w.options.Seed, Rule: rule, What: fmt.Sprintf(format, args...), AtSeconds: a.w.now.Seconds()}
		a.w.trace.add(a.w.now, "auditor", rule, "harm", a.violation.What)
	}
}

func (a *auditor) watch(i *Intent) {
	a.intents = append(a.intents, i)
	a.byOrder[i.Order] = i
}

func (a *auditor) of(id string) *facts {
	f := a.byID[id]
	if f == nil {
		f = &facts{id: id}
		a.byID[id] = f
		a.payments = append(a.payments, f)
	}
	return f
}

// charged: the processor charged a card.
func (a *auditor) charged(r emulator.ChargeRecord) {
	c := r
	f := a.of(r.Reference)
	f.charges = append(f.charges, c.ID)
	f.amount += c.Amount
	if len(f.charges) > 1 {
		a.harm(HarmDoubleCharge, "payment %s was charged %d times: %v", r.Reference, len(f.charges), f.charges)
	}
	p, err := a.w.stores.Ledger.Payment(background, retryproof.ID(r.Reference))
	if err != nil {
		return // no row: if it stays so, the charge is lost, which the end shows
	}
	a.orders[p.OrderID] = append(a.orders[p.OrderID], c.ID)
	if len(a.orders[p.OrderID]) > 1 {
		a.harm(HarmDoubleCharge, "order %s was charged %d times: %v", p.OrderID, len(a.orders[p.OrderID]), a.orders[p.OrderID])
	}
	if i := a.byOrder[p.OrderID]; i != nil && c.Amount != i.Amount {
		a.harm(HarmWrongAmount, "order %s of %d was charged %d", p.OrderID, i.Amount, c.Amount)
	}
}

// settled: a settlement was committed.
func (a *auditor) settled(s effect.Settle, out effect.Settled) {
	f := a.of(string(s.ID))
	switch {
	case out.Moved && s.To.Final():
		a.w.poke("relay")
		f.events += len(s.Events)
		if f.settledAs != "" && f.settledAs != s.To {
			a.harm(HarmContradictory, "payment %s was %s and became %s", s.ID, f.settledAs, s.To)
		}
		f.settledAs = s.To
	case out.Moved && f.settledAs != "":
		a.harm(HarmContradictory, "payment %s was %s and became %s", s.ID, f.settledAs, s.To)
	case out.Moved && s.To == effect.Unknown:
		a.w.poke("resolver")
	}
}

// sent: an event was handed to the queue. Its payment must have been settled: what
// is announced was committed before.
func (a *auditor) sent(m queue.Message) {
	f := a.of(strings.SplitN(m.ID, ":", 2)[0])
	f.sent++
	if f.settledAs != effect.Succeeded {
		a.harm(HarmContradictory, "event %s was sent and its payment is %q", m.ID, f.settledAs)
	}
	a.w.poke("worker")
}

// applied: a worker's transaction was committed.
func (a *auditor) applied(in inbox.Apply, first bool) {
	if !first {
		return
	}
	for _, p := range in.Postings {
		if strings.HasPrefix(p.Account, "merchant:") {
			a.credited(strings.SplitN(in.Key.EventID, ":", 2)[0], p.Amount)
		}
	}
}

func (a *auditor) credited(paymentID string, amount int64) {
	f := a.of(paymentID)
	f.credits++
	f.credited += amount
	if f.credits > 1 {
		a.harm(HarmDoubleCredit, "payment %s was credited %d times", f.id, f.credits)
	}
	if f.credited > f.amount {
		a.harm(HarmWrongAmount, "payment %s was credited %d and charged %d", f.id, f.credited, f.amount)
	}
}

// pushed: the provider took a notification.
func (a *auditor) pushed(n push.Notification) {
	id := n.ReplaceID
	if id == "" {
		id = n.Title // twins without a replace id put the payment there
	}
	f := a.of(id)
	f.pushes++
	if f.confirmed {
		a.harm(HarmStacked, "payment %s alerted again after its notification was marked as sent", f.id)
	}
	shown := 0
	for _, s := range a.w.phones.Screen(n.To) {
		if s.ReplaceID == n.ReplaceID && s.Title == n.Title && s.Body == n.Body {
			shown++
		}
	}
	if shown > 1 {
		a.harm(HarmStacked, "payment %s shows %d notifications", f.id, shown)
	}
}

// pushConfirmed: a worker was told so. It counts when the worker's next call
// through the seam, the mark, was confirmed too.
func (a *auditor) pushConfirmed(p *Process, n push.Notification) {
	a.fresh[p] = a.of(n.ReplaceID)
}

// finished: a worker deleted a message. Whoever deletes it has marked the push.
func (a *auditor) finished(p *Process, d queue.Delivery, err error) {
	if f := a.fresh[p]; f != nil && err == nil && strings.HasPrefix(d.ID, f.id+":") {
		f.confirmed = true
	}
}

// answered: the API answered a caller.
func (a *auditor) answered(m Message, r Reply, err error) {
	if err != nil || m.Key == "" || (r.Status != 201 && r.Status != 202 && r.Status != 402) {
		return
	}
	var p struct {
		ID, State string
		OrderID   string `json:"order_id"`
		Amount    int64
	}
	if json.Unmarshal(r.Body, &p) != nil {
		a.harm(HarmContradictory, "%s was answered %d with a body that is no payment", m.Label, r.Status)
		return
	}
	if i := a.byOrder[m.Label]; i != nil && (p.OrderID != i.Order || i.Buyer != m.Token) {
		a.harm(HarmCrossCaller, "%s asked about order %s and was told of order %s", m.Token, i.Order, p.OrderID)
	}
	if i := a.byOrder[m.Label]; i != nil && p.Amount != i.Amount {
		a.harm(HarmWrongAmount, "order %s of %d was answered with %d", i.Order, i.Amount, p.Amount)
	}
	a.contradicts(m, p.ID, p.State)
}

// contradicts checks an answer against what was said before under the same key. An
// answer that was written earlier may arrive later; this is told when it is
// written.
func (a *auditor) contradicts(m Message, id, state string) {
	at := m.Token + " " + m.Key
	before := a.told[at]
	if before == nil {
		before = &said{id: id}
		a.told[at] = before
	}
	if before.id != id {
		a.harm(HarmContradictory, "%s was told of payment %s and then of %s under one key", m.Token, before.id, id)
	}
	if state == "SUCCEEDED" || state == "FAILED" {
		if before.final != "" && before.final != state {
			a.harm(HarmContradictory, "%s was told %s and then %s", m.Token, before.final, state)
		}
		before.final = state
	}
}

func idOf(id string) retryproof.ID { return retryproof.ID(id) }
