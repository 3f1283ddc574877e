package emulator

import (
	"strconv"
	"time"

	"github.com/retryproof/retryproof"
)

func parseCreate(c *Core, k *call) (*form, *failure) {
	f, fail := k.parse(createParams)
	if fail != nil {
		return nil, fail
	}
	if _, fail := f.amount(c.cfg.MaxAmount, true); fail != nil {
		return nil, fail
	}
	if _, fail := f.currency(); fail != nil {
		return nil, fail
	}
	confirm, fail := f.flag("confirm")
	if fail != nil {
		return nil, fail
	}
	method := f.values["payment_method"]
	if confirm && method == "" {
		return nil, invalid("parameter_missing", "payment_method", "A PaymentIntent that is confirmed needs a payment_method.")
	}
	return f, c.knowsMethod(method)
}

func parseConfirm(c *Core, k *call) (*form, *failure) {
	f, fail := parseForm(k.Form, confirmParams...)
	if fail != nil {
		return nil, fail
	}
	if c.intents[k.route.id] == nil {
		return nil, missing("payment_intent", k.route.id, "intent")
	}
	return f, c.knowsMethod(f.values["payment_method"])
}

func (c *Core) knowsMethod(method string) *failure {
	if known, _ := c.methodAnswer(method); !known && method != "" {
		f := missing("PaymentMethod", method, "payment_method")
		f.status = 400
		return f
	}
	return nil
}

// own marks a PaymentIntent as changing and returns a copy to change.
func (c *Core) own(k *call) (*intent, *failure) {
	if c.busy[k.route.id] {
		return nil, &failure{429, errorJSON{Type: "invalid_request_error", Code: "lock_timeout", Message: "Another request is changing this object. Try again."}}
	}
	c.busy[k.route.id], k.busy = true, k.route.id
	i := *c.intents[k.route.id]
	return &i, nil
}

func executeCreate(c *Core, k *call, w *writeRecord, now time.Time) ([]string, *failure) {
	amount, _ := k.form.amount(c.cfg.MaxAmount, true) // parseCreate has checked these
	currency, _ := k.form.currency()
	confirm, _ := k.form.flag("confirm")
	seq := c.nextSeq()
	i := &intent{
		ID: newID("pi", k.Key, k.life, seq, now), Seq: seq, Amount: amount, Currency: currency,
		Method: k.form.values["payment_method"], Description: k.form.values["description"],
		Metadata: k.form.metadata, Created: now, Status: statusNeedsConfirm,
	}
	if i.Method == "" {
		i.Status = statusNeedsMethod
	}
	w.Intent = i
	if !confirm {
		w.Status, w.Body = 200, encode(i.render(now, k.form.wantsCharge()))
		return nil, nil
	}
	return c.confirm(k, w, now), nil
}

func executeConfirm(c *Core, k *call, w *writeRecord, now time.Time) ([]string, *failure) {
	i, fail := c.own(k)
	if fail != nil {
		return nil, fail
	}
	if m := k.form.values["payment_method"]; m != "" {
		i.Method = m
	}
	if i.Status != statusNeedsMethod && i.Status != statusNeedsConfirm {
		f := invalid("payment_intent_unexpected_state", "", "A PaymentIntent with the status "+i.status(now)+" cannot be confirmed.")
		f.PaymentIntent = i.render(now, false)
		w.Status, w.Body = f.status, f.body()
		return nil, nil
	}
	if i.Method == "" || (i.Refused != nil && k.form.values["payment_method"] == "") {
		f := invalid("payment_intent_unexpected_state", "payment_method", "The PaymentIntent has no payment method: give one.")
		f.PaymentIntent = i.render(now, false)
		w.Status, w.Body = f.status, f.body()
		return nil, nil
	}
	w.Intent = i
	return c.confirm(k, w, now), nil
}

// confirm asks the issuer and writes down the answer. w.Intent is ours to change.
func (c *Core) confirm(k *call, w *writeRecord, now time.Time) []string {
	i := w.Intent
	i.Attempts++
	_, reason := c.methodAnswer(i.Method)
	if fault := c.take(k.route.operation, Decline, ""); fault != nil {
		reason = fault.DeclineCode
		if reason == "" {
			reason = defaultDecline
		}
	}
	if reason != "" {
		i.Status, i.Refused = statusNeedsMethod, declineOf(i.Method, reason)
		f := &failure{402, *i.Refused.render()}
		f.PaymentIntent = i.render(now, false)
		w.Status, w.said = f.status, f
		return c.announce(k, w, "payment_intent.payment_failed", f.PaymentIntent, now)
	}
	i.Status, i.Refused = statusSucceeded, nil
	i.ChargeID = string(retryproof.Derive("ch", i.ID, strconv.Itoa(i.Attempts)))
	i.ChargeKey, i.ChargedAt = k.Key, now
	var early []string
	if fault := c.take(k.route.operation, Processing, ""); fault != nil {
		i.ChargedAt = now.Add(fault.By)
		early = c.announce(k, w, "payment_intent.processing", i.render(now, false), now)
	}
	answered := i.render(now, k.form.wantsCharge())
	w.Status, w.said = 200, answered
	announced := answered
	if k.form.wantsCharge() || !i.ChargedAt.Equal(now) {
		announced = i.render(i.ChargedAt, false)
	}
	return append(early, c.announce(k, w, "payment_intent.succeeded", announced, i.ChargedAt)...)
}
