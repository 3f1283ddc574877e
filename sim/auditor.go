package sim

import (
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
	HarmNoEvidence     = "no-evidence"
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

// facts are what is true of one payment, outside our databases; or of one refund: its
// charges are then what the processor gave back, its credits what the merchant was
// debited.
type facts struct {
	id string
	// of is the payment of a refund, "" for a payment. returned is how much of a payment
	// the processor gave back, but for what will fail.
	of       string
	returned int64
	// failing: what the processor made of the refund is undecided and going to fail;
	// reversed: it has succeeded, and the bank sends it back.
	failing, reversed bool
	// voided: somebody was told that it is void.
	voided bool
	// byOther: a final state was committed by somebody who acts on evidence.
	byOther bool
	// caller is whose payment it is, once the ledger was asked; order is the buyer and
	// the order's name, once it was charged.
	caller  string
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
	// state is the ledger's, due when a resolver may ask.
	state effect.State
	due   time.Time
	// saved500: the processor keeps a 500, or a refund's refusal, for its key. Without
	// a charge nobody can ever prove what became of it: it stays UNKNOWN, rightly.
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
	refunds  []*facts
	// unfinished have no final state in the ledger.
	unfinished []*facts
	byID       map[string]*facts
	intents    []*Intent
	byName     map[string]*Intent
	// byOrder and orders are by the buyer and the order's name; orders are the
	// charges, over all payment ids.
	byOrder map[string]*Intent
	orders  map[string][]string
	// counted is how many of the processor's charges were looked at, countedRefunds
	// how many refunds.
	counted, countedRefunds int
	told                    map[string]*said
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
		told: map[string]*said{}, asked: map[string]*paymentText{}, late: map[*Process]*facts{}}
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

// ofRefund is of for a refund; its payment may not be known yet.
func (a *auditor) ofRefund(id, payment string) *facts {
	f := a.byID[id]
	if f == nil {
		f = &facts{id: id}
		a.byID[id] = f
		a.refunds = append(a.refunds, f)
	}
	if f.of == "" {
		f.of = payment
	}
	return f
}

// about finds what an event is about: its id is the subject's, then ":SUCCEEDED".
func (a *auditor) about(event string) *facts {
	id, _, _ := strings.Cut(event, ":SUCCEEDED")
	if payment, cancel := strings.CutSuffix(id, ":cancel"); cancel {
		return a.ofRefund(id, payment)
	}
	if strings.HasPrefix(id, "ref_") {
		return a.ofRefund(id, "")
	}
	return a.of(id)
}

// charged: the processor charged a card.
func (a *auditor) charged(r emulator.ChargeRecord) {
	f := a.of(r.Reference)
	f.charges = append(f.charges, r.ID)
	f.amount += r.Amount
	if len(f.charges) > 1 {
		a.harm(HarmDoubleCharge, "payment %s was charged %d times: %v", r.Reference, len(f.charges), f.charges)
	}
	a.ranVoid(f)
	a.attribute(f)
}

// ranVoid: what somebody was told is void never runs, before or after.
func (a *auditor) ranVoid(f *facts) {
	if f.voided && len(f.charges) > 0 {
		a.harm(HarmVoidedRan, "%s is void, as somebody was told, and ran: %v", f.id, f.charges)
	}
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
	f.caller, f.order = p.Caller, p.Caller+" "+p.OrderID
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

// gaveBack: the processor may have given money back. A refund of ours is made once,
// whatever it is asked, and all refunds of a payment are at most its charge.
func (a *auditor) gaveBack(fate emulator.Action) {
	for _, r := range a.w.core.RefundsAfter(a.countedRefunds) {
		a.countedRefunds++
		a.w.counts.Refunds++
		f, p := a.ofRefund(r.Reference, r.Payment), a.of(r.Payment)
		f.charges = append(f.charges, r.ID)
		f.amount += r.Amount
		f.failing, f.reversed = fate == emulator.FailPending, fate == emulator.FailLater
		if len(f.charges) > 1 {
			a.harm(HarmWrongAmount, "refund %s of %d was made %d times", r.Reference, r.Amount, len(f.charges))
		}
		if !f.failing && !f.reversed {
			p.returned += r.Amount
		}
		if p.returned > p.amount {
			a.harm(HarmWrongAmount, "payment %s of %d was refunded %d", p.id, p.amount, p.returned)
		}
		a.ranVoid(f)
	}
}

// settled: a settlement was committed.
func (a *auditor) settled(f *facts, s effect.Settle, out effect.Settled) {
	if f.of == "" {
		a.attribute(f)
	}
	a.guarded(f, out.Guard)
	if out.Moved {
		a.w.stored(s)
	}
	switch {
	case out.Moved && s.To.Final():
		f.events += len(s.Events)
		f.byOther = s.Claim == nil
		a.becomes(f, s.To)
	case out.Moved && f.settledAs != "" && !a.blind:
		a.harm(HarmContradictory, "%s was %s and became %s", s.ID, f.settledAs, s.To)
	}
}

// becomes: a final state was committed.
func (a *auditor) becomes(f *facts, state effect.State) {
	switch {
	case f.settledAs == "":
		f.settledAs, f.settledAt = state, a.w.now
	case f.settledAs != state && !a.blind:
		a.harm(HarmContradictory, "%s was %s and became %s", f.id, f.settledAs, state)
	}
}

// factsOf are the facts of a guard.
func (a *auditor) factsOf(g *effect.Guard, refund bool) *facts {
	if !refund {
		return a.of(string(g.ID))
	}
	r, _ := g.Row.(payments.Refund)
	return a.ofRefund(string(g.ID), string(r.PaymentID))
}

// sent: an event was handed to the queue. What it is about must have been settled:
// what is announced was committed before.
func (a *auditor) sent(m queue.Message) {
	f := a.about(m.ID)
	f.sent++
	if f.settledAs != effect.Succeeded {
		a.harm(HarmContradictory, "event %s was sent and what it is about is %q", m.ID, f.settledAs)
	}
}

// applied: a worker's transaction was committed.
func (a *auditor) applied(in inbox.Apply, first bool) {
	if !first {
		return
	}
	for _, p := range in.Postings {
		if strings.HasPrefix(p.Account, "merchant:") {
			a.credited(a.about(in.Key.EventID), p.Amount)
		}
	}
}

// credited: the merchant got the money of a payment, or gave that of a refund.
func (a *auditor) credited(f *facts, amount int64) {
	how := "credited"
	if f.of != "" {
		how, amount = "debited", -amount
	}
	f.credits++
	f.credited += amount
	if f.credits > 1 {
		a.harm(HarmDoubleCredit, "%s was %s %d times", f.id, how, f.credits)
	}
	if f.credited > f.amount || amount < 0 {
		a.harm(HarmWrongAmount, "%s was %s %d; the processor moved %d", f.id, how, f.credited, f.amount)
	}
}

// received: a process received an event. One whose push was marked as sent before
// leaves nothing to push.
func (a *auditor) received(p *Process, d queue.Delivery) {
	delete(a.late, p)
	if f := a.about(d.ID); f.marked {
		a.late[p] = f
	}
}

// marked: it was recorded that the provider took the push of an event.
func (a *auditor) marked(k notify.Key) { a.about(k.EventID).marked = true }

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
		return a.about(n.ReplaceID)
	}
	_, order, _ := strings.Cut(n.Body, " for order ")
	order = n.To + " " + order
	if strings.HasPrefix(n.Title, "Refund") {
		return a.announcedRefund(order)
	}
	for _, f := range a.payments {
		if len(f.charges) > 0 && f.order == order {
			return f
		}
	}
	return a.of("")
}

// announcedRefund finds a refund of an order, one that was not announced if there is one.
func (a *auditor) announcedRefund(order string) *facts {
	var found *facts
	for _, f := range a.refunds {
		if f.settledAs == effect.Succeeded && a.of(f.of).order == order && (found == nil || found.pushes > 0) {
			found = f
		}
	}
	if found == nil {
		return a.of("")
	}
	return found
}

func idOf(id string) retryproof.ID { return retryproof.ID(id) }
