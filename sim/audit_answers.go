package sim

import (
	"net/http"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// answered: the API answered a request that its handler saw at the given time.
func (a *auditor) answered(m Message, r Reply, seen time.Duration) {
	switch {
	case m.Method == http.MethodGet:
	case m.Path == "/payments":
		a.answeredPayment(m, r, seen)
	case m.Path == "/payments/resolve" && (r.Status == http.StatusOK || r.Status == http.StatusAccepted):
		a.answeredQuestion(m, r, seen)
	case strings.HasSuffix(m.Path, "/refunds"), strings.HasSuffix(m.Path, "/cancel"):
		a.answeredRefund(m, r, seen)
	}
}

// isOutcome reports an answer that says what a payment or a refund is.
func isOutcome(status int) bool {
	return status == http.StatusCreated || status == http.StatusAccepted || status == http.StatusPaymentRequired
}

func (a *auditor) answeredPayment(m Message, r Reply, seen time.Duration) {
	if says(r, retryproof.CodeVoid) {
		a.w.counts.VoidMet++
		a.contradicts(m, string(derivedID(m.Token, m.Key)), "VOID", seen)
	}
	if !isOutcome(r.Status) {
		return
	}
	asked := a.askedFor(m)
	p, ok := readPayment(r.Body)
	if !ok {
		a.harm(HarmContradictory, "%s was answered %d with a body that is no payment", m.Label, r.Status)
		return
	}
	a.othersAnswer(m, p)
	if p.Amount != asked.Amount {
		a.harm(HarmWrongAmount, "order %s of %d was answered with %d", asked.OrderID, asked.Amount, p.Amount)
	}
	a.contradicts(m, p.ID, p.State, seen)
}

// askedFor reads what a request asks for.
func (a *auditor) askedFor(m Message) *paymentText {
	asked := a.asked[string(m.Body)]
	if asked == nil {
		read, ok := readPayment(m.Body)
		asked = &read
		a.asked[string(m.Body)] = asked
		if len(m.Body) > 0 && !ok {
			a.harm(HarmContradictory, "%s asked with a body that nobody can read", m.Label)
		}
	}
	return asked
}

// othersAnswer checks that an answer is about what its asker asked about.
func (a *auditor) othersAnswer(m Message, p paymentText) {
	name, _, _ := strings.Cut(m.Label, " ")
	if i := a.byName[name]; i != nil && p.OrderID != i.Order && p.OrderID != "" {
		a.harm(HarmCrossCaller, "%s asked about order %s and was told of order %s", m.Token, i.Order, p.OrderID)
	}
	if caller, ok := a.callerOf(p.ID); ok && caller != m.Token {
		a.harm(HarmCrossCaller, "%s asked about %s and was told of the payment %s of %s", m.Token, m.Label, p.ID, caller)
	}
}

// callerOf is whose a payment is, which never changes; false while it is not there.
func (a *auditor) callerOf(id string) (string, bool) {
	f := a.byID[id]
	if f != nil && f.caller != "" {
		return f.caller, true
	}
	p, err := a.w.stores.Ledger.Payment(background, idOf(id))
	if err != nil {
		return "", false
	}
	if f != nil {
		f.caller = p.Caller
	}
	return p.Caller, true
}

// answeredQuestion: somebody was told what became of a key.
func (a *auditor) answeredQuestion(m Message, r Reply, seen time.Duration) {
	p, ok := readPayment(r.Body)
	if !ok {
		a.harm(HarmContradictory, "%s was answered %d with a body that is no payment", m.Label, r.Status)
		return
	}
	a.othersAnswer(m, p)
	a.contradicts(m, p.ID, p.State, seen)
}

// answeredRefund: somebody was told of a refund. What has succeeded was made.
func (a *auditor) answeredRefund(m Message, r Reply, seen time.Duration) {
	id, _, _ := strings.Cut(strings.TrimPrefix(m.Path, "/payments/"), "/")
	if f := a.byID[id]; f != nil && f.settledAs == effect.Succeeded && f.settledAt < seen && says(r, retryproof.CodeMoved) {
		a.harm(HarmContradictory, "%s was SUCCEEDED and its refund was refused, since it is not", id)
	}
	if !isOutcome(r.Status) {
		return
	}
	p, ok := readPayment(r.Body)
	if !ok || p.PaymentID == "" {
		a.harm(HarmContradictory, "%s was answered %d with a body that is no refund", m.Label, r.Status)
		return
	}
	if caller, ok := a.callerOf(p.PaymentID); ok && caller != m.Token {
		a.harm(HarmCrossCaller, "%s asked for a refund and was told of one of %s", m.Token, caller)
	}
	if asked := a.askedFor(m); asked.Amount != 0 && asked.Amount != p.Amount {
		a.harm(HarmWrongAmount, "refund %s of %d was answered with %d", p.ID, asked.Amount, p.Amount)
	}
	f := a.ofRefund(p.ID, p.PaymentID)
	if p.State == string(effect.Succeeded) && len(f.charges) == 0 {
		a.harm(HarmLostEffect, "refund %s was answered SUCCEEDED and was never made", p.ID)
	}
	m.Key = m.Path + " " + m.Key
	a.contradicts(m, p.ID, p.State, seen)
}

// contradicts checks an answer against what was said before under the same key,
// and against what the payment was when the request was seen. An answer that was
// written earlier may arrive later; this is told when it is written.
func (a *auditor) contradicts(m Message, id, state string, seen time.Duration) {
	at := m.Token + " " + m.Key
	before := a.told[at]
	if before == nil {
		before = &said{id: id}
		a.told[at] = before
	}
	if before.id != id {
		a.harm(HarmContradictory, "%s was told of %s and then of %s under one key", m.Token, before.id, id)
	}
	f := a.byID[id]
	switch {
	case effect.State(state).Final():
		if before.final != "" && before.final != state {
			a.harm(HarmContradictory, "%s was told %s and then %s", m.Token, before.final, state)
		}
		if before.final == "" {
			before.final, before.finalAt = state, a.w.now
		}
		if state == string(effect.Void) {
			f = a.of(id)
			f.voided = true
			a.ranVoid(f)
		}
	case before.final != "" && before.finalAt < seen:
		a.harm(HarmContradictory, "%s was told %s, asked again and was told %s", m.Token, before.final, state)
	case f != nil && f.settledAs != "" && f.settledAt < seen:
		a.harm(HarmContradictory, "%s asked about %s, which was %s, and was told %s", m.Token, id, f.settledAs, state)
	}
}
