package stripe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	stripesdk "github.com/stripe/stripe-go/v85"

	"github.com/retryproof/retryproof/psp/emulator"
)

func create(key string, change func(*stripesdk.PaymentIntentCreateParams)) *stripesdk.PaymentIntentCreateParams {
	p := &stripesdk.PaymentIntentCreateParams{
		Amount: stripesdk.Int64(3000), Currency: stripesdk.String("usd"), PaymentMethod: stripesdk.String("pm_card_visa"),
		Confirm: stripesdk.Bool(true), Metadata: map[string]string{"payment_id": "pay_7"},
	}
	p.SetIdempotencyKey(key)
	if change != nil {
		change(p)
	}
	return p
}

func TestStripesOwnClientPaysLooksUpAndRefunds(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	sdk := w.sdk(0)
	paid, err := sdk.V1PaymentIntents.Create(ctx, create("k", func(p *stripesdk.PaymentIntentCreateParams) { p.AddExpand("latest_charge") }))
	if err != nil || paid.Status != stripesdk.PaymentIntentStatusSucceeded || paid.LatestCharge == nil || !paid.LatestCharge.Paid || paid.LatestCharge.Amount != 3000 {
		t.Fatalf("create and confirm: got %+v %v", paid, err)
	}
	made, err := sdk.V1PaymentIntents.Create(ctx, create("k2", func(p *stripesdk.PaymentIntentCreateParams) { p.Confirm = nil }))
	if err != nil || made.Status != stripesdk.PaymentIntentStatusRequiresConfirmation {
		t.Fatalf("create: got %+v %v", made, err)
	}
	confirmed, err := sdk.V1PaymentIntents.Confirm(ctx, made.ID, nil)
	if err != nil || confirmed.Status != stripesdk.PaymentIntentStatusSucceeded || confirmed.ID != made.ID {
		t.Errorf("confirm: got %+v %v", confirmed, err)
	}
	w.restart()
	back, err := sdk.V1PaymentIntents.Retrieve(ctx, paid.ID, nil)
	if err != nil || back.Amount != 3000 || back.Metadata["payment_id"] != "pay_7" || back.LatestCharge.ID != paid.LatestCharge.ID {
		t.Errorf("retrieve: got %+v %v", back, err)
	}
	search := &stripesdk.PaymentIntentSearchParams{}
	search.Query, search.Limit = "metadata['payment_id']:'pay_7'", stripesdk.Int64(1)
	var found, listed []string
	for i, err := range sdk.V1PaymentIntents.Search(ctx, search).All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, i.ID)
	}
	list := &stripesdk.PaymentIntentListParams{}
	list.Limit = stripesdk.Int64(1)
	for i, err := range sdk.V1PaymentIntents.List(ctx, list).All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, i.ID)
	}
	if len(found) != 2 || len(listed) != 2 || found[1] != paid.ID || listed[1] != paid.ID {
		t.Errorf("search: got %v, list: got %v, want both payments, newest first", found, listed)
	}
	refunds(t, w, paid)
}

func refunds(t *testing.T, w *world, paid *stripesdk.PaymentIntent) {
	t.Helper()
	ctx, sdk := context.Background(), w.sdk(0)
	p := &stripesdk.RefundCreateParams{PaymentIntent: stripesdk.String(paid.ID), Amount: stripesdk.Int64(1000)}
	p.SetIdempotencyKey("refund")
	made, err := sdk.V1Refunds.Create(ctx, p)
	if err != nil || made.Amount != 1000 || made.Status != stripesdk.RefundStatusSucceeded || made.PaymentIntent.ID != paid.ID {
		t.Fatalf("refund: got %+v %v", made, err)
	}
	w.restart()
	again, err := sdk.V1Refunds.Create(ctx, p)
	if err != nil || again.ID != made.ID || again.LastResponse.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("refund again: got %+v %v, want %s replayed", again, err, made.ID)
	}
	back, err := sdk.V1Refunds.Retrieve(ctx, made.ID, nil)
	if err != nil || back.Amount != 1000 {
		t.Errorf("retrieve the refund: got %+v %v", back, err)
	}
	n := 0
	for r, err := range sdk.V1Refunds.List(ctx, &stripesdk.RefundListParams{PaymentIntent: stripesdk.String(paid.ID)}).All(ctx) {
		if err != nil || r.ID != made.ID {
			t.Errorf("list: got %+v %v", r, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("refunds: got %d, want 1", n)
	}
}

func TestStripesOwnRetryAfterALostReplyGetsTheSameCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.LoseReply})
	got, err := w.sdk(0).V1PaymentIntents.Create(context.Background(), create("k", nil))
	if err == nil {
		t.Fatalf("the reply was not lost: %+v", got)
	}
	got, err = w.sdk(0).V1PaymentIntents.Create(context.Background(), create("k", nil))
	if err != nil || len(w.charges()) != 1 || got.ID != w.charges()[0].Intent {
		t.Errorf("got %v %v and %d charges, want the one charge", got, err, len(w.charges()))
	}
}

func TestStripesOwnClientReadsEveryError(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	sdk := w.sdk(0)
	if _, err := sdk.V1PaymentIntents.Create(ctx, create("k", nil)); err != nil {
		t.Fatal(err)
	}
	wrong := stripesdk.NewClient("sk_wrong", stripesdk.WithBackends(stripesdk.NewBackendsWithConfig(&stripesdk.BackendConfig{
		URL: stripesdk.String(w.server.URL), MaxNetworkRetries: stripesdk.Int64(0), LeveledLogger: &stripesdk.LeveledLogger{},
	})))
	for name, c := range map[string]struct {
		run    func() error
		status int
		kind   stripesdk.ErrorType
		code   stripesdk.ErrorCode
	}{
		"other parameters": {func() error {
			_, err := sdk.V1PaymentIntents.Create(ctx, create("k", func(p *stripesdk.PaymentIntentCreateParams) { p.Amount = stripesdk.Int64(3500) }))
			return err
		}, 400, stripesdk.ErrorTypeIdempotency, ""},
		"no amount": {func() error {
			_, err := sdk.V1PaymentIntents.Create(ctx, create("", func(p *stripesdk.PaymentIntentCreateParams) { p.Amount = nil }))
			return err
		}, 400, stripesdk.ErrorTypeInvalidRequest, stripesdk.ErrorCodeParameterMissing},
		"decline": {func() error {
			_, err := sdk.V1PaymentIntents.Create(ctx, create("", func(p *stripesdk.PaymentIntentCreateParams) { p.PaymentMethod = stripesdk.String("pm_declined") }))
			return err
		}, 402, stripesdk.ErrorTypeCard, stripesdk.ErrorCodeCardDeclined},
		"unknown method": {func() error {
			_, err := sdk.V1PaymentIntents.Create(ctx, create("", func(p *stripesdk.PaymentIntentCreateParams) { p.PaymentMethod = stripesdk.String("x") }))
			return err
		}, 400, stripesdk.ErrorTypeInvalidRequest, stripesdk.ErrorCodeResourceMissing},
		"unknown id": {func() error {
			_, err := sdk.V1PaymentIntents.Retrieve(ctx, "pi_none", nil)
			return err
		}, 404, stripesdk.ErrorTypeInvalidRequest, stripesdk.ErrorCodeResourceMissing},
		"unknown endpoint": {func() error {
			_, err := sdk.V1Customers.Create(ctx, nil)
			return err
		}, 404, stripesdk.ErrorTypeInvalidRequest, ""},
		"wrong key": {func() error {
			_, err := wrong.V1PaymentIntents.Create(ctx, create("", nil))
			return err
		}, 401, stripesdk.ErrorTypeInvalidRequest, ""},
	} {
		var got *stripesdk.Error
		if err := c.run(); !errors.As(err, &got) || got.HTTPStatusCode != c.status || got.Type != c.kind || got.Code != c.code {
			t.Errorf("%s: got %v, want %d %s %s", name, err, c.status, c.kind, c.code)
		}
	}
}

func TestStripesOwnClientVerifiesTheWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.now = time.Now() // the library asks the machine's clock
	paid, err := w.sdk(0).V1PaymentIntents.Create(context.Background(), create("k", nil))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.core.RunOnce(context.Background()); n != 1 || err != nil {
		t.Fatalf("got %d %v, want one delivery", n, err)
	}
	e, err := stripesdk.ConstructEvent(w.hooks.payloads[0], w.hooks.headers[0].Get("Stripe-Signature"), webhookSecret)
	if err != nil || e.Type != stripesdk.EventTypePaymentIntentSucceeded || e.GetObjectValue("id") != paid.ID || e.Request.IdempotencyKey != "k" {
		t.Errorf("got %+v %v, want payment_intent.succeeded about %s", e, err, paid.ID)
	}
	if _, err := stripesdk.ConstructEvent(w.hooks.payloads[0], w.hooks.headers[0].Get("Stripe-Signature"), "other"); err == nil {
		t.Error("another secret verified it")
	}
}
