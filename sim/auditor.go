package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
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
	id string
	// order is the buyer and the order's name, once it was charged.
	order   string
	charges []string
	amount  int64
	// attributed is how many of the charges were counted for the order.
	attributed int
	credits    int
	credited   int64
	sent       int
	pushes     int
	// marked: that the provider took the push was recorded.
	marked bool
	// settledAs is the first final state that was committed, settledAt when.
	settledAs effect.State
	settledAt time.Duration
	events    int
	// saved500: the processor keeps a 500 for the payment's key. Without a charge
	// nobody can ever prove what became of it: it stays UNKNOWN, rightly.
	saved500 bool
}

// said is what a caller was told under a key.
type said struct {
	id      string
	final   string
	finalAt time.Duration
}

// auditor watches where the truth is. It is told of every effect as it happens and
// stops the run at the first harm.
type auditor struct {
	w        *World
	payments []*facts
	byID     map[string]*facts
	intents  []*Intent
	byName   map[string]*Intent
	// byOrder and orders are by the buyer and the order's name; orders are the
	// charges, over all payment ids.
	byOrder map[string]*Intent
	orders  map[string][]string
	// counted is how many of the processor's charges were looked at, countedRefunds
	// how many refunds.
	counted, countedRefunds int
	// refunded counts the processor's refunds by our reference.
	refunded map[string]int
	told     map[string]*said
	// asked is what bodies ask for, by the body: tries repeat it.
	asked map[string]*paymentText
	// late is the last payment whose event a process received when its push had
	// been marked as sent before.
	late map[*Process]*facts
	// blind: with a rule switched off the ledger is not believed. What it does is
	// judged by what it leads to outside.
	blind     bool
	violation *Violation
}

func newAuditor(w *World) *auditor {
	a := &auditor{w: w, byID: map[string]*facts{}, byName: map[string]*Intent{}, byOrder: map[string]*Intent{}, orders: map[string][]string{},
		told: map[string]*said{}, refunded: map[string]int{}, asked: map[string]*paymentText{}, late: map[*Process]*facts{}}
	for _, t := range w.options.Twins {
		a.blind = a.blind || slices.Contains(Rules(), t.Rule)
	}
	return a
}

func (a *auditor) harm(rule, format string, args ...any) {
	if a.violation == nil {
		a.violation = &Violation{Seed: a.w.options.Seed, Rule: rule, What: fmt.Sprintf(format, args...), AtSeconds: a.w.now.Seconds()}
		a.w.trace.add(a.w.now, "auditor", rule, "harm", a.violation.What)
	}
}

func (a *auditor) watch(i *Intent) {
	a.intents = append(a.intents, i)
	a.byName[i.Name] = i
	a.byOrder[i.order()] = i
}

// order names the intent's order over all buyers.
func (i *Intent) order() string { return i.Buyer + " " + i.Order }

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
	f := a.of(r.Reference)
	f.charges = append(f.charges, r.ID)
	f.amount += r.Amount
	if len(f.charges) > 1 {
		a.harm(HarmDoubleCharge, "payment %s was charged %d times: %v", r.Reference, len(f.charges), f.charges)
	}
	a.attribute(f)
}

// attribute finds the orders of a payment's charges. A charge whose payment has no
// row waits for one; if none comes, the charge is lost, which the end shows.
func (a *auditor) attribute(f *facts) {
	if len(f.charges) == f.attributed {
		return
	}
	p, err := a.w.stores.Ledger.Payment(background, idOf(f.id))
	if err != nil {
		return
	}
	f.order = p.Caller + " " + p.OrderID
	fresh := f.charges[f.attributed:]
	f.attributed = len(f.charges)
	a.orders[f.order] = append(a.orders[f.order], fresh...)
	if len(a.orders[f.order]) > 1 {
		a.harm(HarmDoubleCharge, "order %s was charged %d times: %v", f.order, len(a.orders[f.order]), a.orders[f.order])
	}
	if i := a.byOrder[f.order]; i != nil && f.amount != i.Amount && f.amount != i.Edited {
		a.harm(HarmWrongAmount, "order %s of %d was charged %d", f.order, i.Amount, f.amount)
	}
}

// refunds: the processor may have given money back. A refund of ours is made once,
// whatever it is asked, and all refunds of a payment are at most its charge.
func (a *auditor) refunds() {
	for _, r := range a.w.core.RefundsAfter(a.countedRefunds) {
		a.countedRefunds++
		a.refunded[r.Reference]++
		if n := a.refunded[r.Reference]; n > 1 {
			a.harm(HarmWrongAmount, "refund %s of %d was made %d times", r.Reference, r.Amount, n)
		}
	}
}

// settled: a settlement was committed.
func (a *auditor) settled(s effect.Settle, out effect.Settled) {
	f := a.of(string(out.Guard.ID))
	a.attribute(f)
	switch {
	case out.Moved && s.To.Final():
		a.w.poke("relay")
		f.events += len(s.Events)
		if f.settledAs != "" && f.settledAs != s.To && !a.blind {
			a.harm(HarmContradictory, "payment %s was %s and became %s", s.ID, f.settledAs, s.To)
		}
		if f.settledAs == "" {
			f.settledAs, f.settledAt = s.To, a.w.now
		}
	case out.Moved && f.settledAs != "" && !a.blind:
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

// received: a process received an event. One whose push was marked as sent before
// leaves nothing to push.
func (a *auditor) received(p *Process, d queue.Delivery) {
	delete(a.late, p)
	if f := a.byID[strings.SplitN(d.ID, ":", 2)[0]]; f != nil && f.marked {
		a.late[p] = f
	}
}

// marked: it was recorded that the provider took the push of an event.
func (a *auditor) marked(k notify.Key) {
	a.of(strings.SplitN(k.EventID, ":", 2)[0]).marked = true
}

// pushed: the provider took a notification of a process.
func (a *auditor) pushed(p *Process, n push.Notification) {
	f := a.announced(n)
	f.pushes++
	if a.late[p] == f {
		a.harm(HarmStacked, "payment %s alerted again for an event that came after its push was marked as sent", f.id)
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

// announced finds the payment that a notification is about, as a person would: by
// the order that it names. A notification without a replace id still names it.
func (a *auditor) announced(n push.Notification) *facts {
	if n.ReplaceID != "" {
		return a.of(n.ReplaceID)
	}
	for _, f := range a.payments {
		if _, order, ok := strings.Cut(n.Body, " for order "); ok && len(f.charges) > 0 && f.order == n.To+" "+order {
			return f
		}
	}
	return a.of("")
}

// answered: the API answered a request that had arrived at the given time.
func (a *auditor) answered(m Message, r Reply, arrived time.Duration) {
	if m.Key == "" || (r.Status != 201 && r.Status != 202 && r.Status != 402) {
		return
	}
	asked := a.asked[string(m.Body)]
	var p paymentText
	if asked == nil {
		asked = &paymentText{}
		a.asked[string(m.Body)] = asked
		if json.Unmarshal(m.Body, asked) != nil {
			a.harm(HarmContradictory, "%s was answered %d and had asked for no payment", m.Label, r.Status)
			return
		}
	}
	if json.Unmarshal(r.Body, &p) != nil {
		a.harm(HarmContradictory, "%s was answered %d with a body that is no payment", m.Label, r.Status)
		return
	}
	i := a.byName[m.Label]
	if i != nil && p.OrderID != i.Order {
		a.harm(HarmCrossCaller, "%s asked about order %s and was told of order %s", m.Token, i.Order, p.OrderID)
	}
	if about, err := a.w.stores.Ledger.Payment(background, idOf(p.ID)); err == nil && about.Caller != m.Token {
		a.harm(HarmCrossCaller, "%s asked about order %s and was told of the payment %s of %s", m.Token, asked.OrderID, p.ID, about.Caller)
	}
	if p.Amount != asked.Amount {
		a.harm(HarmWrongAmount, "order %s of %d was answered with %d", asked.OrderID, asked.Amount, p.Amount)
	}
	a.contradicts(m, p.ID, p.State, arrived)
}

// paymentText is what requests and answers say of a payment.
type paymentText struct {
	ID, State string
	OrderID   string `json:"order_id"`
	Amount    int64
}

// contradicts checks an answer against what was said before under the same key,
// and against what the payment was when the request arrived. An answer that was
// written earlier may arrive later; this is told when it is written.
func (a *auditor) contradicts(m Message, id, state string, arrived time.Duration) {
	at := m.Token + " " + m.Key
	before := a.told[at]
	if before == nil {
		before = &said{id: id}
		a.told[at] = before
	}
	if before.id != id {
		a.harm(HarmContradictory, "%s was told of payment %s and then of %s under one key", m.Token, before.id, id)
	}
	f := a.byID[id]
	switch {
	case state == "SUCCEEDED" || state == "FAILED":
		if before.final != "" && before.final != state {
			a.harm(HarmContradictory, "%s was told %s and then %s", m.Token, before.final, state)
		}
		if before.final == "" {
			before.final, before.finalAt = state, a.w.now
		}
	case before.final != "" && before.finalAt < arrived:
		a.harm(HarmContradictory, "%s was told %s, asked again and was told %s", m.Token, before.final, state)
	case f != nil && f.settledAs != "" && f.settledAt < arrived:
		a.harm(HarmContradictory, "%s asked about payment %s, which was %s, and was told %s", m.Token, id, f.settledAs, state)
	}
}

// unprovable reports that nobody can ever prove what became of an UNKNOWN payment
// that was not charged, so that it stays UNKNOWN, rightly: the processor keeps a 500
// for its key, or may have forgotten the key by now.
func (a *auditor) unprovable(f *facts, p payments.Payment) bool {
	if p.State != effect.Unknown || len(f.charges) > 0 {
		return false
	}
	c := a.w.options.Config
	forgotten := c.PSPWindow > 0 && Epoch.Add(a.w.now).Sub(p.CreatedAt) > c.PSPWindow-c.PSPWindowMargin-2*a.w.chaos.Skew
	return f.saved500 || forgotten
}

func idOf(id string) retryproof.ID { return retryproof.ID(id) }
