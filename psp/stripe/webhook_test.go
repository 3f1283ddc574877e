package stripe_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	stripesdk "github.com/stripe/stripe-go/v85"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/psp/stripe"
)

func TestWebhooksSurviveARestartAndAreRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.adapter()
	paid, err := c.Charge(context.Background(), request("k1"))
	if err != nil {
		t.Fatal(err)
	}
	r := request("k2")
	r.Method, r.Reference = "pm_declined", "pay_8"
	if _, err := c.Charge(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if n, err := w.core.RunOnce(context.Background()); n != 2 || err != nil {
		t.Fatalf("got %d %v, want two deliveries", n, err)
	}
	for i, want := range []psp.Charge{
		paid,
		{Reference: "pay_8", Amount: 3000, Currency: "USD", State: psp.Declined, DeclineCode: "generic_decline", Created: paid.Created},
	} {
		got, err := c.Webhook(w.hooks.payloads[i], w.hooks.headers[i], w.clock.Now())
		if want.ID == "" {
			want.ID = got.Charge.ID
		}
		if err != nil || got.Charge != want || got.ID == "" || !got.At.Equal(w.clock.Now()) || stripe.Ignored(got) {
			t.Errorf("%d: got %+v %v, want %+v", i, got, err, want)
		}
	}
	later := w.clock.Now().Add(5*time.Minute + time.Second)
	_, err = c.Webhook(w.hooks.payloads[0], w.hooks.headers[0], later)
	wantError(t, "too old", err, retryproof.NotDone, retryproof.CodeUnauthorized)
}

func TestOnlyAGoodSignatureOpensAWebhook(t *testing.T) {
	t.Parallel()
	c := newWorld(t).adapter()
	now := time.Unix(1_700_000_000, 0)
	body := []byte(`{"id":"evt_1","object":"event","type":"charge.refunded"}`)
	good := emulator.Sign(webhookSecret, body, now)
	ok := func(h http.Header, at time.Time) bool {
		_, err := c.Webhook(body, h, at)
		return err == nil
	}
	for what, c := range map[string]struct {
		header http.Header
		at     time.Time
		want   bool
	}{
		"good":             {http.Header{"Stripe-Signature": {good}}, now, true},
		"at the tolerance": {http.Header{"Stripe-Signature": {good}}, now.Add(5 * time.Minute), true},
		"rolled secret":    {http.Header{"Stripe-Signature": {good + ",v1=00ff,v0=1"}}, now, true},
		"from later":       {http.Header{"Stripe-Signature": {good}}, now.Add(-6 * time.Minute), false},
		"two times":        {http.Header{"Stripe-Signature": {"t=1," + good}}, now, false},
		"two headers":      {http.Header{"Stripe-Signature": {good, good}}, now, false},
		"no header":        {http.Header{}, now, false},
		"no time":          {http.Header{"Stripe-Signature": {"v1=00"}}, now, false},
		"other secret":     {http.Header{"Stripe-Signature": {emulator.Sign("x", body, now)}}, now, false},
	} {
		if got := ok(c.header, c.at); got != c.want {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
	none, err := stripe.New(stripe.Config{APIKey: apiKey})
	if err != nil {
		t.Fatal(err)
	}
	_, err = none.Webhook(body, http.Header{"Stripe-Signature": {emulator.Sign("", body, now)}}, now)
	wantError(t, "no secret configured", err, retryproof.NotDone, retryproof.CodeUnauthorized)
}

func TestWhatIsNotOursIsIgnoredAndNeverAnError(t *testing.T) {
	t.Parallel()
	c := newWorld(t).adapter()
	now := time.Unix(1_700_000_000, 0)
	intent := func(kind, status, metadata string) string {
		return fmt.Sprintf(`{"id":"evt_1","object":"event","type":%q,"created":1,"data":{"object":{"id":"pi_1","status":%q,"metadata":{%s}}}}`, kind, status, metadata)
	}
	for body, want := range map[string]psp.State{
		intent("payment_intent.succeeded", "succeeded", `"payment_id":"pay_7"`):                    psp.Succeeded,
		intent("payment_intent.processing", "processing", `"payment_id":"pay_7"`):                  psp.Processing,
		intent("payment_intent.canceled", "canceled", `"payment_id":"pay_7"`):                      psp.Declined,
		intent("payment_intent.succeeded", "succeeded", ``):                                        "",
		intent("payment_intent.created", "requires_confirmation", `"payment_id":"pay_7"`):          "",
		`{"id":"evt_1","type":"customer.created","created":1,"data":{"object":{"id":"cus_1"}}}`:    "",
		`{"id":"evt_1","object":"v2.core.event","type":"v2.new","created":"2026-01-02T03:04:05Z"}`: "",
	} {
		header := http.Header{"Stripe-Signature": {emulator.Sign(webhookSecret, []byte(body), now)}}
		got, err := c.Webhook([]byte(body), header, now)
		if err != nil || got.Charge.State != want || stripe.Ignored(got) != (want == "") || got.ID != "evt_1" {
			t.Errorf("%s: got %+v %v, want %q", body, got, err, want)
		}
	}
	for _, body := range []string{``, `{}`, `x`, `{"id":"evt_1","type":"payment_intent.succeeded"}`} {
		header := http.Header{"Stripe-Signature": {emulator.Sign(webhookSecret, []byte(body), now)}}
		_, err := c.Webhook([]byte(body), header, now)
		wantError(t, body, err, retryproof.NotDone, retryproof.CodeInvalid)
	}
}

func TestAWebhookAboutARefundNamesItAndACharge(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	c := w.adapter()
	charge := paid(t, c)
	w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: emulator.FailLater, By: time.Minute})
	made, err := c.Refund(ctx, refundRequest(charge.ID, "r"))
	if err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Minute)
	if _, err := w.core.RunOnce(ctx); err != nil {
		t.Fatal(err)
	}
	failed := made
	failed.State, failed.FailureCode = psp.Failed, "expired_or_canceled_card"
	for i, want := range []psp.WebhookEvent{
		{Type: "payment_intent.succeeded", Charge: charge}, {Type: "refund.created", Refund: made},
		{Type: "charge.refunded"}, {Type: "refund.failed", Refund: failed},
	} {
		got, err := c.Webhook(w.hooks.payloads[i], w.hooks.headers[i], w.clock.Now())
		want.ID, want.At = got.ID, got.At
		if err != nil || got != want || got.ID == "" || stripe.Ignored(got) != (want.Type == "charge.refunded") {
			t.Errorf("%d: got %+v %v, want %+v", i, got, err, want)
		}
	}
}

func TestARefundByHandIsToldWithoutAReferenceOfOurs(t *testing.T) {
	t.Parallel()
	c := newWorld(t).adapter()
	now := time.Unix(1_700_000_000, 0)
	read := func(body string) (psp.WebhookEvent, error) {
		header := http.Header{"Stripe-Signature": {emulator.Sign(webhookSecret, []byte(body), now)}}
		return c.Webhook([]byte(body), header, now)
	}
	for _, kind := range []string{"refund.created", "refund.updated", "refund.failed", "charge.refund.updated"} {
		got, err := read(fmt.Sprintf(`{"id":"evt_1","type":%q,"created":1,"data":{"object":{"id":"re_1","amount":5,"currency":"usd","payment_intent":"pi_1","status":"succeeded","metadata":{}}}}`, kind))
		if err != nil || got.Refund.ID != "re_1" || got.Refund.Reference != "" || got.Refund.ChargeID != "pi_1" || got.Charge != (psp.Charge{}) || stripe.Ignored(got) {
			t.Errorf("%s: got %+v %v, want re_1 of pi_1 without a reference", kind, got, err)
		}
	}
	for _, body := range []string{`{"id":"evt_1","type":"refund.created"}`, `{"id":"evt_1","type":"refund.failed","data":{"object":{}}}`, `{"id":"evt_1","type":"refund.failed","data":{"object":7}}`} {
		_, err := read(body)
		wantError(t, body, err, retryproof.NotDone, retryproof.CodeInvalid)
	}
}

// FuzzWebhook: what our reading of the signature takes, Stripe's takes too, and
// nothing without the secret.
func FuzzWebhook(f *testing.F) {
	now := time.Unix(1_700_000_000, 0)
	c, err := stripe.New(stripe.Config{APIKey: apiKey, WebhookSecret: webhookSecret})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("t=1700000000,v1=00", []byte(`{"id":"evt_1","type":"a"}`))
	f.Add("v1=00", []byte(`{"id":"evt_1","type":"refund.failed","data":{"object":{"id":"re_1","payment_intent":"pi_1","status":"failed"}}}`))
	f.Add("t=1700000000,t=1,v1=", []byte(`{"id":"evt_1","type":"payment_intent.succeeded","data":{"object":{"id":"pi_1"}}}`))
	f.Fuzz(func(t *testing.T, extra string, body []byte) {
		if _, err := c.Webhook(body, http.Header{"Stripe-Signature": {extra}}, now); err == nil {
			t.Errorf("%q was taken", extra)
		}
		signed := emulator.Sign(webhookSecret, body, now)
		e, err := c.Webhook(body, http.Header{"Stripe-Signature": {signed}}, now)
		if retryproof.CodeOf(err) == retryproof.CodeUnauthorized {
			t.Errorf("a good signature: %v", err)
		}
		if (e.Refund.ID == "") != (e.Refund.State == "") || (e.Charge.State != "" && e.Charge.Reference == "") {
			t.Errorf("half an event: %+v", e)
		}
		both := signed + "," + extra
		_, err = c.Webhook(body, http.Header{"Stripe-Signature": {both}}, now)
		theirs := stripesdk.ValidatePayload(body, both, webhookSecret, stripesdk.WithIgnoreTolerance())
		if retryproof.CodeOf(err) != retryproof.CodeUnauthorized && theirs != nil {
			t.Errorf("%q: taken here, refused by the library: %v", both, theirs)
		}
	})
}
