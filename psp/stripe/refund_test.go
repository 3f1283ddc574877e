package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/psp/stripe"
)

func refundRequest(chargeID, key string) psp.RefundRequest {
	return psp.RefundRequest{Key: key, Reference: "ref_" + key, ChargeID: chargeID, Payment: "pay_7", Amount: 1000, Currency: "USD"}
}

func paid(t *testing.T, c *stripe.Client) psp.Charge {
	t.Helper()
	charge, err := c.Charge(context.Background(), request("k"))
	if err != nil {
		t.Fatal(err)
	}
	return charge
}

// case 23
func TestARefundAndItsRepeatsAreOneRefund(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	c := w.adapter()
	charge := paid(t, c)
	w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: emulator.LoseReply})
	_, err := c.Refund(ctx, refundRequest(charge.ID, "a"))
	wantError(t, "lost reply", err, retryproof.Unknown, stripe.CodeNoAnswer)
	other, err := c.Refund(ctx, refundRequest(charge.ID, "b"))
	if err != nil || other.Replayed {
		t.Fatalf("another refund: got %+v %v", other, err)
	}
	w.restart()
	got, err := c.Refund(ctx, refundRequest(charge.ID, "a"))
	want := psp.Refund{
		ID: got.ID, Reference: "ref_a", Payment: "pay_7", ChargeID: charge.ID, Amount: 1000, Currency: "USD",
		State: psp.Succeeded, Created: w.clock.Now(), Replayed: true,
	}
	if err != nil || got != want || got.ID == "" || got.ID == other.ID {
		t.Errorf("repeat: got %+v %v, want %+v", got, err, want)
	}
	want.Replayed = false
	if back, err := c.RetrieveRefund(ctx, got.ID); err != nil || back != want {
		t.Errorf("retrieve: got %+v %v, want %+v", back, err, want)
	}
	if found, err := c.FindRefunds(ctx, "ref_a", charge.ID); err != nil || len(found) != 1 || found[0] != want {
		t.Errorf("find: got %+v %v, want %+v", found, err, want)
	}
	if got := w.charges()[0].Refunded; got != 2000 {
		t.Errorf("refunded: got %d, want 2000", got)
	}
}

func TestARefundIsDefinitelyRefusedOnlyByStripe(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	c := w.adapter()
	charge := paid(t, c)
	ask := func(key string, amount int64) error {
		r := refundRequest(charge.ID, key)
		r.Amount = amount
		_, err := c.Refund(ctx, r)
		return err
	}
	wantError(t, "more than is left", ask("a", 3001), retryproof.NotDone, retryproof.CodePermanent)
	if err := ask("b", 3000); err != nil {
		t.Fatal(err)
	}
	wantError(t, "all refunded", ask("c", 1), retryproof.NotDone, retryproof.CodePermanent)
	wantError(t, "the key with another amount", ask("b", 2000), retryproof.Unknown, retryproof.CodeKeyReused)
	_, err := c.Refund(ctx, refundRequest("pi_none", "d"))
	wantError(t, "no such charge", err, retryproof.NotDone, retryproof.CodeNotFound)
	for do, want := range map[emulator.Action]struct {
		outcome retryproof.Outcome
		code    retryproof.Code
	}{
		emulator.RateLimited: {retryproof.NotDone, retryproof.CodeTooMany},
		emulator.Error500:    {retryproof.Unknown, retryproof.CodeUnknown},
		emulator.LoseRequest: {retryproof.Unknown, stripe.CodeNoAnswer},
	} {
		w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: do})
		wantError(t, string(do), ask("e"+string(do), 1), want.outcome, want.code)
	}
	dead, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("shutting down"))
	_, err = c.Refund(dead, refundRequest(charge.ID, "f"))
	wantError(t, "dead context", err, retryproof.NotDone, retryproof.CodeTooLate)
	_, err = c.Refund(ctx, psp.RefundRequest{})
	wantError(t, "empty", err, retryproof.NotDone, retryproof.CodeInvalid)
	_, err = c.FindRefunds(ctx, "ref_a", "pi_none")
	wantError(t, "refunds of no charge", err, retryproof.Unknown, retryproof.CodeNotFound)
	_, err = c.RetrieveRefund(ctx, "re_none")
	wantError(t, "no such refund", err, retryproof.Unknown, retryproof.CodeNotFound)
	if got := w.core.Refunds(); len(got) != 1 {
		t.Errorf("refunds: got %+v, want the one of b", got)
	}
}

func TestARefundUnderWayIsNotTakenForARefusal(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	c := w.adapter()
	charge := paid(t, c)
	w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: emulator.Delay, By: time.Second})
	var during error
	w.clock.onSleep = func() { _, during = c.Refund(ctx, refundRequest(charge.ID, "r")) }
	if _, err := c.Refund(ctx, refundRequest(charge.ID, "r")); err != nil {
		t.Fatal(err)
	}
	wantError(t, "in use", during, retryproof.Unknown, retryproof.CodeInProgress)
	if got := len(w.core.Refunds()); got != 1 {
		t.Errorf("refunds: got %d, want 1", got)
	}
}

func TestARefundsRepeatKeepsTheFirstAnswerAndRetrieveTellsTheLast(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	c := w.adapter()
	charge := paid(t, c)
	for do, want := range map[emulator.Action][2]psp.State{
		emulator.Processing:  {psp.Processing, psp.Succeeded},
		emulator.FailPending: {psp.Processing, psp.Failed},
		emulator.FailLater:   {psp.Succeeded, psp.Failed},
	} {
		w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: do, By: time.Hour})
		first, err := c.Refund(ctx, refundRequest(charge.ID, string(do)))
		if err != nil || first.State != want[0] || first.FailureCode != "" {
			t.Errorf("%s: got %+v %v, want %s", do, first, err, want[0])
		}
		w.clock.advance(time.Hour)
		again, err := c.Refund(ctx, refundRequest(charge.ID, string(do)))
		if err != nil || again.State != want[0] || !again.Replayed {
			t.Errorf("%s, repeat: got %+v %v, want %s", do, again, err, want[0])
		}
		now, err := c.RetrieveRefund(ctx, first.ID)
		if err != nil || now.State != want[1] || (now.FailureCode != "") != (want[1] == psp.Failed) {
			t.Errorf("%s, retrieve: got %+v %v, want %s", do, now, err, want[1])
		}
	}
}

func TestEveryRefundAnswerIsClassified(t *testing.T) {
	t.Parallel()
	problem := func(code, param string) string {
		return fmt.Sprintf(`{"error":{"type":"invalid_request_error","code":%q,"param":%q,"message":"m"}}`, code, param)
	}
	for _, c := range []struct {
		status  int
		body    string
		outcome retryproof.Outcome
		code    retryproof.Code
	}{
		{400, problem("charge_already_refunded", ""), retryproof.NotDone, retryproof.CodePermanent},
		{400, problem("charge_disputed", ""), retryproof.NotDone, retryproof.CodePermanent},
		{400, problem("", "amount"), retryproof.NotDone, retryproof.CodePermanent},
		{400, problem("balance_insufficient", ""), retryproof.NotDone, retryproof.CodeInvalid},
		{400, `{"error":{"type":"idempotency_error","param":"amount"}}`, retryproof.Unknown, retryproof.CodeKeyReused},
		{402, problem("charge_disputed", ""), retryproof.Unknown, retryproof.CodeUnknown},
		{409, problem("charge_already_refunded", ""), retryproof.Unknown, retryproof.CodeUnknown},
		{429, problem("lock_timeout", ""), retryproof.Unknown, retryproof.CodeConflict},
		{500, problem("charge_already_refunded", ""), retryproof.Unknown, retryproof.CodeUnknown},
		{200, `{"id":"re_1"`, retryproof.Unknown, stripe.CodeNoAnswer},
	} {
		var sends atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			sends.Add(1)
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		client, err := stripe.New(stripe.Config{BaseURL: s.URL, APIKey: apiKey})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Refund(context.Background(), refundRequest("pi_1", "k"))
		wantError(t, fmt.Sprintf("%d %s", c.status, c.body), err, c.outcome, c.code)
		if got := sends.Load(); got != 1 {
			t.Errorf("%s: sends: got %d, want 1", c.body, got)
		}
		for what, ask := range map[string]func() error{
			"retrieve": func() error { _, err := client.RetrieveRefund(context.Background(), "re_1"); return err },
			"find":     func() error { _, err := client.FindRefunds(context.Background(), "ref", "pi_1"); return err },
			"list": func() error {
				_, _, err := client.ListRefunds(context.Background(), time.Unix(1, 0), time.Unix(9, 0), "", 0)
				return err
			},
		} {
			if err := ask(); err == nil || retryproof.OutcomeOf(err) != retryproof.Unknown {
				t.Errorf("%s, %s: got %v, want Unknown", c.body, what, err)
			}
		}
		s.Close()
	}
}

func TestEveryRefundStatusIsRead(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]psp.Refund{
		`"succeeded"`: {State: psp.Succeeded},
		`"pending","pending_reason":"charge_pending"`: {State: psp.Processing},
		`"requires_action"`:                           {State: psp.Processing},
		`"something_new"`:                             {State: psp.Processing},
		`null`:                                        {State: psp.Processing},
		`"failed","failure_reason":"lost_or_stolen_card"`: {State: psp.Failed, FailureCode: "lost_or_stolen_card"},
		`"failed"`:   {State: psp.Failed, FailureCode: "failed"},
		`"canceled"`: {State: psp.Failed, FailureCode: "canceled"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"id":"re_1","amount":5,"currency":"usd","created":1,"payment_intent":{"id":"pi_1"},"status":%s}`, status)
		}))
		c, err := stripe.New(stripe.Config{BaseURL: s.URL, APIKey: apiKey})
		if err != nil {
			t.Fatal(err)
		}
		want.ID, want.Amount, want.Currency, want.ChargeID, want.Created = "re_1", 5, "USD", "pi_1", time.Unix(1, 0).UTC()
		if got, err := c.RetrieveRefund(context.Background(), "re_1"); err != nil || got != want {
			t.Errorf("%s: got %+v %v, want %+v", status, got, err, want)
		}
		s.Close()
	}
}
