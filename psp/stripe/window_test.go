package stripe_test

import (
	"context"
	"testing"
	"time"

	stripesdk "github.com/stripe/stripe-go/v85"

	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
)

// keyMemory is how long Stripe is known to remember a key.
const keyMemory = 24 * time.Hour

func wasReplayed(r *stripesdk.APIResponse) bool {
	return r != nil && r.Header.Get("Idempotent-Replayed") == "true"
}

// Stripe's own client, unmodified: repeat inside the window, look up after it.
func TestALostChargeIsRepeatedInsideTheWindowAndLookedUpAfterIt(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	sdk, start := w.sdk(0), w.clock.Now()
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.LoseReply})
	if got, err := sdk.V1PaymentIntents.Create(ctx, create("pay_7:charge", nil)); err == nil {
		t.Fatalf("the reply was not lost: %+v", got)
	}

	w.clock.advance(keyMemory - time.Second)
	w.restart()
	again, err := sdk.V1PaymentIntents.Create(ctx, create("pay_7:charge", nil))
	if err != nil || !wasReplayed(again.LastResponse) || len(w.charges()) != 1 || again.ID != w.charges()[0].Intent {
		t.Fatalf("inside the window: got %+v %v and %d charges, want the first one replayed", again, err, len(w.charges()))
	}

	w.clock.advance(time.Second)
	w.restart()
	found, err := w.adapter().Find(ctx, "pay_7")
	if err != nil || len(found) != 1 || found[0].ID != again.ID || found[0].State != psp.Succeeded || found[0].Amount != 3000 {
		t.Errorf("searched after the window: got %+v %v, want the one charge", found, err)
	}
	search := &stripesdk.PaymentIntentSearchParams{}
	search.Query = "metadata['payment_id']:'pay_7'"
	var searched []string
	for i, err := range sdk.V1PaymentIntents.Search(ctx, search).All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		searched = append(searched, i.ID)
	}
	listed, _, err := w.adapter().List(ctx, start, start.Add(time.Minute), "", 0)
	if err != nil || len(searched) != 1 || searched[0] != again.ID || len(listed) != 1 || listed[0].ID != again.ID {
		t.Errorf("by Stripe's client: %v, listed: %v %v; want the one charge", searched, listed, err)
	}
	if got := len(w.charges()); got != 1 {
		t.Errorf("charges: got %d, want 1: a look changes nothing", got)
	}

	// What the look-up is for: a repeat now is a new request.
	second, err := sdk.V1PaymentIntents.Create(ctx, create("pay_7:charge", nil))
	if err != nil || wasReplayed(second.LastResponse) || second.ID == again.ID || len(w.charges()) != 2 {
		t.Errorf("repeated after the window: got %+v %v and %d charges, want a second charge", second, err, len(w.charges()))
	}
}

func TestALostRefundIsRepeatedInsideTheWindowAndLookedUpAfterIt(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	sdk := w.sdk(0)
	charge := paid(t, w.adapter())
	repeat := func() (*stripesdk.Refund, error) {
		p := &stripesdk.RefundCreateParams{
			PaymentIntent: stripesdk.String(charge.ID), Amount: stripesdk.Int64(1000),
			Metadata: map[string]string{"refund_id": "ref_1", "payment_id": "pay_7"},
		}
		p.SetIdempotencyKey("pay_7:cancel:refund")
		return sdk.V1Refunds.Create(ctx, p)
	}
	w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: emulator.LoseReply})
	if got, err := repeat(); err == nil {
		t.Fatalf("the reply was not lost: %+v", got)
	}

	w.clock.advance(keyMemory - time.Second)
	w.restart()
	again, err := repeat()
	if err != nil || !wasReplayed(again.LastResponse) || len(w.core.Refunds()) != 1 || again.ID != w.core.Refunds()[0].ID {
		t.Fatalf("inside the window: got %+v %v, want the first one replayed", again, err)
	}

	w.clock.advance(time.Second)
	w.restart()
	found, err := w.adapter().FindRefunds(ctx, "ref_1", charge.ID)
	if err != nil || len(found) != 1 || found[0].ID != again.ID || found[0].State != psp.Succeeded || found[0].Amount != 1000 {
		t.Errorf("looked up after the window: got %+v %v, want the one refund", found, err)
	}
	if other, err := w.adapter().FindRefunds(ctx, "ref_2", charge.ID); err != nil || len(other) != 0 {
		t.Errorf("another refund of ours: got %+v %v, want none", other, err)
	}
	if got := w.charges()[0].Refunded; got != 1000 {
		t.Errorf("refunded: got %d, want 1000: a look changes nothing", got)
	}

	// What the look-up is for: a repeat now gives the money a second time.
	second, err := repeat()
	if err != nil || wasReplayed(second.LastResponse) || second.ID == again.ID || w.charges()[0].Refunded != 2000 {
		t.Errorf("repeated after the window: got %+v %v and %d refunded, want a second refund", second, err, w.charges()[0].Refunded)
	}
}

// A repeat after the window may also be refused, as if the refund had never been.
func TestAfterTheWindowARefusalMayBeTheEchoOfTheRefundItself(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	c := w.adapter()
	charge := paid(t, c)
	all := refundRequest(charge.ID, "r")
	all.Amount = 3000
	w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: emulator.LoseReply})
	if _, err := c.Refund(ctx, all); err == nil {
		t.Fatal("the reply was not lost")
	}
	w.clock.advance(keyMemory)
	if got, err := c.Refund(ctx, all); err == nil {
		t.Fatalf("got %+v, want a refusal: nothing is left", got)
	}
	found, err := c.FindRefunds(ctx, all.Reference, charge.ID)
	if err != nil || len(found) != 1 || found[0].State != psp.Succeeded || found[0].Amount != 3000 {
		t.Errorf("got %+v %v, want the refund that was made", found, err)
	}
}

// A refund with a lost reply is found although there are more than a page of others.
func TestARefundIsFoundBehindAPageOfOthers(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	c := w.adapter()
	charge := paid(t, c)
	direct := emulator.Direct{Core: w.core}
	for i := range psp.MaxPage + 2 {
		r := refundRequest(charge.ID, "k"+string(rune('A'+i/26))+string(rune('a'+i%26)))
		r.Amount = 1
		if i == 0 {
			r.Reference = "ref_first"
		}
		if _, err := direct.Refund(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	for name, find := range map[string]func(context.Context, string, string) ([]psp.Refund, error){"adapter": c.FindRefunds, "direct": direct.FindRefunds} {
		if got, err := find(ctx, "ref_first", charge.ID); err != nil || len(got) != 1 {
			t.Errorf("%s: got %v %v, want the first refund", name, got, err)
		}
	}
}
