package payments_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

// case 17: the webhook of a charge whose own call is still running settles it, and
// the call answers from the record.
func TestAWebhookBeforeTheAnswerSettles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		c, err := next(ctx, r)
		for _, payload := range w.webhooks() {
			wantWebhook(t, w.post(payload), "moves")
		}
		return c, err
	})
	first := w.send(ask{key: keyK1})
	want(t, first, http.StatusCreated, "")
	wantSame(t, w.send(ask{key: keyK1}), first)
	if c := w.recorded("u1", keyK1).Claim; c == nil || c.Answer == nil {
		t.Errorf("the claim: got %+v, want the final answer", c)
	}
	w.wantOutbox(1)
	w.deliver()
	w.wantBalance(15_000)
}

func TestAWebhookOfADeclineIsFinalToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fault(pspemulator.Fault{Do: pspemulator.Decline, DeclineCode: "lost_card"})
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	for _, payload := range w.webhooks() {
		wantWebhook(t, w.post(payload), "moves")
	}
	if p := w.wantState(keyK1, effect.Failed); p.DeclineCode != "lost_card" {
		t.Errorf("decline code: got %q, want lost_card", p.DeclineCode)
	}
	want(t, w.send(ask{key: keyK1}), http.StatusPaymentRequired, "")
	w.wantOutbox(0)
}

func TestAWebhookThatDisagreesMovesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, from, to string }{
		{"amount", `"amount":3000`, `"amount":2900`}, {"currency", `"currency":"usd"`, `"currency":"eur"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
			want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
			payload := w.webhooks()[0]
			wrong := bytes.Replace(payload, []byte(c.from), []byte(c.to), 1)
			if bytes.Equal(wrong, payload) {
				t.Fatalf("%s is not in %s", c.from, payload)
			}
			wantWebhook(t, w.post(wrong), "conflict")
			wantWebhook(t, w.post(wrong), "repeats dropped") // case 25: told once
			w.wantMetric("retryproof_psp_conflicts_total ", 1)
			w.wantState(keyK1, effect.Unknown)
			w.wantOutbox(0)
			if w.log.lines("a person must look") == 0 {
				t.Error("nobody was told")
			}
			w.resolve(1) // the processor's own word still counts
			w.wantState(keyK1, effect.Succeeded)
		})
	}
}

func TestOnlyTheProcessorIsBelieved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	payload := w.webhooks()[0]
	sign := func(secret string, at time.Time) string { return pspemulator.Sign(secret, payload, at) }
	for name, signature := range map[string]string{
		"another secret": sign("whsec_other", w.clock.Now()), "none": "", "too old": sign(pspemulator.DefaultWebhookSecret, start.Add(-6*time.Minute)),
		"from the future": sign(pspemulator.DefaultWebhookSecret, start.Add(6*time.Minute)), "garbage": "t=1,v1=zz",
	} {
		if got := w.postSigned(payload, signature); got.status != http.StatusBadRequest {
			t.Errorf("%s: got %d %s, want 400", name, got.status, got.body)
		}
	}
	w.wantState(keyK1, effect.Unknown)
	w.wantMetric("retryproof_webhooks_total what=refused", 5)
	want(t, w.post(bytes.Repeat([]byte("x"), 1<<20+1)), http.StatusRequestEntityTooLarge, retryproof.CodeTooLarge)
	wantWebhook(t, w.post(payload), "moves")
}

// A message that is genuine and not ours ends 2xx, or it would come for days.
func TestAGenuineWebhookIsNeverRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.psp.Direct.Charge(t.Context(), psp.ChargeRequest{Key: "k", Reference: "pay_elsewhere", Amount: 5, Currency: "USD", Method: "pm_1"}); err != nil {
		t.Fatal(err)
	}
	wantWebhook(t, w.post(w.webhooks()[0]), "unknown payment")
	if got := w.post([]byte(`{"id":"evt_x","type":"customer.created","created":1,"data":{"object":{}}}`)); got.status != http.StatusNoContent {
		t.Errorf("another kind of message: got %d, want 204", got.status)
	}
	w.wantNothing()
}

// brokenInbox fails to note anything.
type brokenInbox struct{ inbox.Store }

func (brokenInbox) Apply(context.Context, inbox.Apply) (bool, error) {
	return false, errors.New("the inbox is away")
}

func TestAWebhookThatCannotBeRecordedComesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	w.fault(pspemulator.Fault{Do: pspemulator.Processing, By: time.Minute})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	payload := w.webhooks()[0] // "processing": noted, moves nothing
	broken := w.deps
	broken.Store.Inbox = brokenInbox{w.deps.Store.Inbox}
	broken.Store.Effects = effects{Store: w.deps.Store.Effects, before: func(string) error {
		return retryproof.Refused(retryproof.CodeReadOnly, "read-only", nil)
	}}
	well := w.system
	w.system = w.process(broken)
	if got := w.post(payload); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503 with Retry-After", got.status, got.body)
	}
	w.clock.Advance(time.Minute)
	final := w.webhooks()[0]
	if got := w.post(final); got.status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s, want 503", got.status, got.body)
	}
	w.system = well
	wantWebhook(t, w.post(payload), "no move")
	wantWebhook(t, w.post(final), "moves")
	w.wantState(keyK1, effect.Succeeded)
}

// bodyThatBreaks is a request body whose sender goes away.
type bodyThatBreaks struct{}

func (bodyThatBreaks) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestACutWebhookIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec := httptest.NewRecorder()
	w.system.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/webhooks/psp", bodyThatBreaks{}))
	if rec.Code/100 != 4 {
		t.Errorf("got %d, want 4xx", rec.Code)
	}
}

// case 17: webhook twice, two resolvers and the API settle one payment at once,
// 200 times; every delivery is 2xx, and there is one event.
func TestManySettlersSettleOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.config.ResolveRate, w.config.PSPRate = 1e6, 1e7 })
	other := w.process(w.deps)
	const rounds = 200
	for round := range rounds {
		settleAtOnce(t, w, other, fmt.Sprintf("key-%d", round), round%2 == 0)
	}
	a := w.audit()
	if a.ByState[effect.Succeeded] != rounds || len(a.ByState) != 1 || a.OutboxWaiting != rounds || a.SucceededSum != rounds*3000 {
		t.Errorf("got %+v, want %d payments, each with one event", a, rounds)
	}
	w.wantCharges(rounds)
	w.deliver()
	w.wantBalance(12_000 + rounds*3000)
	if a := w.audit(); a.Credits != rounds || a.IntentsSent != rounds || a.Unbalanced != 0 || a.ClaimsInProgress != 0 {
		t.Errorf("got %+v, want %d credits and notifications", a, rounds)
	}
}

// settleAtOnce lets everybody who can settle a payment do it at the same time:
// while the first request still runs, or after its reply was lost.
func settleAtOnce(t *testing.T, w *world, other *payments.System, key string, running bool) {
	t.Helper()
	var settlers sync.WaitGroup
	launch := func() {
		for _, payload := range w.webhooks() {
			for range 2 {
				settlers.Go(func() {
					if got := w.post(payload); got.status/100 != 2 {
						t.Errorf("webhook: got %d %s, want 2xx", got.status, got.body)
					}
				})
			}
		}
		for _, s := range []*payments.System{w.system, other} {
			settlers.Go(func() {
				if _, err := s.ResolveOnce(t.Context()); err != nil {
					t.Errorf("resolver: %v", err)
				}
			})
		}
	}
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		c, err := next(ctx, r)
		if running {
			launch()
			return c, err
		}
		return psp.Charge{}, errNoAnswer
	})
	first := w.send(ask{key: key})
	w.psp.set(nil)
	if !running {
		want(t, first, http.StatusAccepted, "")
		launch()
	} else {
		want(t, first, http.StatusCreated, "")
	}
	settlers.Go(func() {
		if got := w.send(ask{key: key}); got.status != http.StatusCreated && got.status != http.StatusAccepted {
			t.Errorf("the phone: got %d %s, want 201 or 202", got.status, got.body)
		}
	})
	settlers.Wait()
	want(t, w.send(ask{key: key}), http.StatusCreated, "")
	w.wantState(key, effect.Succeeded)
	w.clock.Advance(time.Second)
}
