package emulator

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retryproof/retryproof/psp"
)

// A caller in this process hands in its parameters, and takes answers and webhooks,
// without their text. The judgement is the same: parameters go through the same
// checks and have the same fingerprint, and what is at hand is what the text says.

// typedForm is a form whose names are known, in their order.
type typedForm []typedParam

type typedParam struct {
	name  string
	param param
	value string
}

// chargeForm are the parameters of a charge that is confirmed at once.
func chargeForm(r psp.ChargeRequest) *typedForm {
	return &typedForm{
		{"amount", param{base: "amount"}, strconv.FormatInt(r.Amount, 10)},
		{"automatic_payment_methods[allow_redirects]", param{"automatic_payment_methods", "allow_redirects", true}, "never"},
		{"automatic_payment_methods[enabled]", param{"automatic_payment_methods", "enabled", true}, "true"},
		{"confirm", param{base: "confirm"}, "true"},
		{"currency", param{base: "currency"}, strings.ToLower(r.Currency)},
		{"error_on_requires_action", param{base: "error_on_requires_action"}, "true"},
		{"metadata[" + referenceKey + "]", param{"metadata", referenceKey, true}, r.Reference},
		{"payment_method", param{base: "payment_method"}, r.Method},
	}
}

// refundForm are the parameters of a refund.
func refundForm(r psp.RefundRequest) *typedForm {
	return &typedForm{
		{"amount", param{base: "amount"}, strconv.FormatInt(r.Amount, 10)},
		{"metadata[" + referenceKey + "]", param{"metadata", referenceKey, true}, r.Payment},
		{"metadata[" + refundKey + "]", param{"metadata", refundKey, true}, r.Reference},
		{"payment_intent", param{base: "payment_intent"}, r.ChargeID},
	}
}

// encoded is what url.Values.Encode gives.
func (t typedForm) encoded() string {
	b := make([]byte, 0, 320)
	for i, p := range t {
		if i > 0 {
			b = append(b, '&')
		}
		b = append(b, url.QueryEscape(p.name)...)
		b = append(b, '=')
		b = append(b, url.QueryEscape(p.value)...)
	}
	return string(b)
}

// parse reads the parameters, which may be allowed ones only.
func (k *call) parse(allowed []string) (*form, *failure) {
	if k.typed == nil {
		return parseForm(k.Form, allowed...)
	}
	f := &form{values: make(map[string]string, len(*k.typed)), metadata: map[string]string{}}
	for _, p := range *k.typed {
		if fail := f.put(p.name, p.param, p.value); fail != nil {
			return nil, fail
		}
	}
	return f, nil
}

// heard is what a webhook says to psp's nouns, nil when its object has another form.
func heard(e eventJSON) *psp.WebhookEvent {
	out := &psp.WebhookEvent{ID: e.ID, Type: e.Type, At: time.Unix(e.Created, 0).UTC()}
	switch object := e.Data.Object.(type) {
	case *intentJSON:
		if slices.Contains(chargeEvents, e.Type) && object.Metadata[referenceKey] != "" {
			out.Charge = object.brief().charge(false)
		}
	case *refundJSON:
		if slices.Contains(refundEvents, e.Type) {
			out.Refund = object.brief().refund(false)
		}
	case *chargeJSON: // names no refund
	default:
		return nil
	}
	return out
}

func (r *refundJSON) brief() *briefObject {
	return &briefObject{FailureReason: r.FailureReason, PaymentIntent: r.PaymentIntent, briefIntent: briefIntent{
		ID: r.ID, Amount: r.Amount, Created: r.Created, Currency: r.Currency, Metadata: r.Metadata, Status: r.Status}}
}

// pending is what a payload says that is a webhook of ours, not delivered yet, to
// the byte; nil for any other.
func (c *Core) pending(payload []byte) *psp.WebhookEvent {
	rest, ours := bytes.CutPrefix(payload, []byte(`{"id":"`))
	id, _, found := bytes.Cut(rest, []byte{'"'})
	if !ours || !found {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.events[string(id)]; e != nil && bytes.Equal(e.Payload, payload) {
		return e.said
	}
	return nil
}
