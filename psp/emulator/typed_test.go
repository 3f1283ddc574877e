package emulator

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/psp"
)

func FuzzTypedFormIsTheTextOfItsValues(f *testing.F) {
	f.Add("pay_7", int64(3000), "USD", "pm_1")
	f.Add("a b&c=é", int64(-1), "", "pm card")
	f.Add("\xff", int64(0), "\xff", strings.Repeat("x", 501))
	f.Fuzz(func(t *testing.T, reference string, amount int64, currency, method string) {
		r := psp.ChargeRequest{Key: "k", Reference: reference, Amount: amount, Currency: currency, Method: method}
		values := url.Values{
			"amount": {strconv.FormatInt(amount, 10)}, "currency": {strings.ToLower(currency)}, "payment_method": {method},
			"confirm": {"true"}, "error_on_requires_action": {"true"}, "metadata[payment_id]": {reference},
			"automatic_payment_methods[enabled]": {"true"}, "automatic_payment_methods[allow_redirects]": {"never"},
		}
		if got, want := chargeForm(r).encoded(), values.Encode(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		got, gotFail := (&call{Request: Request{typed: chargeForm(r)}}).parse(createParams)
		want, wantFail := parseForm(values, createParams...)
		if (gotFail == nil) != (wantFail == nil) || wantFail != nil && !reflect.DeepEqual(gotFail, wantFail) {
			t.Errorf("got %+v, want %+v", gotFail, wantFail)
		}
		if wantFail == nil && (!reflect.DeepEqual(got.values, want.values) || !reflect.DeepEqual(got.metadata, want.metadata)) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestAPendingWebhookSaysWhatItsTextSays(t *testing.T) {
	t.Parallel()
	c, err := New(context.Background(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := Direct{Core: c}
	if err := c.AddFaults(Fault{Operation: OperationCharge, Do: Processing, By: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"pm_1", "pm_2", "pm_declined"} {
		if _, err := d.Charge(context.Background(), psp.ChargeRequest{Key: method, Reference: "pay_" + method, Amount: 30, Currency: "USD", Method: method}); err != nil {
			t.Fatal(err)
		}
	}
	charge, err := d.Charge(context.Background(), psp.ChargeRequest{Key: "k", Reference: "pay_k", Amount: 30, Currency: "USD", Method: "pm_1"})
	if err != nil {
		t.Fatal(err)
	}
	for i, do := range []Action{FailLater, Processing, ""} {
		if do != "" {
			if err := c.AddFaults(Fault{Operation: OperationRefund, Do: do, By: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		r := psp.RefundRequest{Key: string(do) + "r", Reference: "refund_k" + string(do), Payment: "pay_k", ChargeID: charge.ID, Amount: int64(1 + i), Currency: "USD"}
		if _, err := d.Refund(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		values := url.Values{"payment_intent": {r.ChargeID}, "amount": {strconv.FormatInt(r.Amount, 10)},
			"metadata[" + refundKey + "]": {r.Reference}, "metadata[" + referenceKey + "]": {r.Payment}}
		if got, want := refundForm(r).encoded(), values.Encode(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	now := c.clock.Now()
	for _, n := range c.eventOrder {
		payload := c.events[n.id].Payload
		header := http.Header{SignatureHeader: {Sign(DefaultWebhookSecret, payload, now)}}
		if c.pending(payload) == nil {
			t.Errorf("%s is not at hand", payload)
		}
		got, err := d.Webhook(payload, header, now)
		if err != nil {
			t.Fatal(err)
		}
		text := append(bytes.Clone(payload), ' ') // another text with the same meaning
		if c.pending(text) != nil {
			t.Error("another text is at hand")
		}
		want, err := d.Webhook(text, http.Header{SignatureHeader: {Sign(DefaultWebhookSecret, text, now)}}, now)
		if err != nil || !reflect.DeepEqual(got, want) || got.Charge.Reference == "" && got.Refund.Reference == "" && got.Type != "charge.refunded" {
			t.Errorf("got %+v, want %+v, %v", got, want, err)
		}
	}
}
