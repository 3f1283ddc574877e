package payments_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/queue"
)

// case 28: with the ledger read-only or away nothing is charged, and nothing is in
// the way when it is back.
func TestWithoutALedgerNothingIsCharged(t *testing.T) {
	t.Parallel()
	readOnly := retryproof.Refused(retryproof.CodeReadOnly, "read-only", nil)
	away := retryproof.Refused(retryproof.CodeUnavailable, "connection refused", nil)
	for _, c := range []struct {
		name string
		deps func(w *world, broken *bool)
	}{
		{"read-only", onEffects(func(string) error { return readOnly }, nil)},
		{"away", onEffects(func(string) error { return away }, nil)},
		{"locked", onEffects(func(string) error { return retryproof.Refused(retryproof.CodeConflict, "locked", nil) }, nil)},
		{"its answers are lost, except to a release", onEffects(nil, func(op string) error {
			if op == "release" {
				return nil
			}
			return errors.New("connection reset")
		})},
		{"read-only, the key store is another and is up", func(w *world, broken *bool) {
			w.deps.Store.Effects = effect.Split(w.store.Keys(), guards{w.store.PaymentGuards(), func() error {
				if *broken {
					return readOnly
				}
				return nil
			}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broken := true
			w := newWorld(t, func(w *world) { c.deps(w, &broken) })
			for range 21 {
				got := w.send(ask{key: keyK1})
				if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
					t.Fatalf("got %d %s, want 503 with Retry-After", got.status, got.body)
				}
				w.clock.Advance(time.Second)
			}
			w.wantNothing()
			broken = false
			want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
			w.wantCalls(1)
			w.wantCharges(1)
		})
	}
}

// onEffects puts hooks around the store of effects while it is broken.
func onEffects(before, after func(op string) error) func(*world, *bool) {
	return func(w *world, broken *bool) {
		when := func(hook func(string) error) func(string) error {
			return func(op string) error {
				if hook == nil || !*broken {
					return nil
				}
				return hook(op)
			}
		}
		w.deps.Store.Effects = effects{Store: w.deps.Store.Effects, before: when(before), after: when(after)}
	}
}

// TestWithoutAKeyStoreThePaymentDecides is the story's branch key-store-down.
func TestWithoutAKeyStoreThePaymentDecides(t *testing.T) {
	t.Parallel()
	down := true
	w := newWorld(t, func(w *world) {
		w.deps.Store.Effects = effect.Split(keys{w.store.Keys(), func() error {
			if down {
				return retryproof.Refused(retryproof.CodeUnavailable, "the key store is away", nil)
			}
			return nil
		}}, w.store.PaymentGuards())
	})
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		want(t, w.send(ask{key: keyK1}), http.StatusConflict, retryproof.CodeInProgress)
		return next(ctx, r)
	})
	first := w.send(ask{key: keyK1})
	want(t, first, http.StatusCreated, "")
	wantSame(t, w.send(ask{key: keyK1}), first)
	want(t, w.send(ask{key: keyK1, amount: 3500}), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
	w.psp.set(nil)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: keyK2}), http.StatusAccepted, "")
	want(t, w.send(ask{key: keyK2}), http.StatusAccepted, "")
	w.resolve(1)
	want(t, w.send(ask{key: keyK2}), http.StatusCreated, "")
	down = false
	wantSame(t, w.send(ask{key: keyK1}), first)
	if c := w.recorded("u1", keyK1).Claim; c == nil || c.Answer == nil {
		t.Errorf("the claim: got %+v, want the answer again", c)
	}
	w.wantCharges(2)
	w.wantCalls(3)
}

// case 36: five deliveries of one event, the delete calls failing: one credit, one
// notification, every copy deleted.
func TestARepeatedDeliveryIsFinished(t *testing.T) {
	t.Parallel()
	var q *flakyQueue
	w := newWorld(t, func(w *world) {
		q = &flakyQueue{Queue: w.queue, finishesToFail: 4}
		w.deps.Queue = q
	})
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	if _, err := w.system.RelayOnce(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		n, err := w.system.WorkOnce(t.Context())
		if last := i == 4; (err == nil) != last || (n == 1) != last {
			t.Errorf("delivery %d: got %d, %v", i+1, n, err)
		}
		w.clock.Advance(30 * time.Second)
	}
	if got := w.queue.Stats(); q.received != 5 || got.Depth != 0 {
		t.Errorf("got %d deliveries, %+v, want 5 and an empty queue", q.received, got)
	}
	w.wantBalance(15_000)
	w.wantScreen(1, 1)
	w.wantMetric("retryproof_inbox_total what=applied", 1)
	w.wantMetric("retryproof_inbox_total what=repeat", 4)
	w.wantMetric("retryproof_notifications_total what=skipped", 4)
}

// inboxAway is an inbox that fails at first.
type inboxAway struct {
	inbox.Store
	failures int
}

func (i *inboxAway) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	if i.failures > 0 {
		i.failures--
		return false, retryproof.Refused(retryproof.CodeUnavailable, "the ledger is away", nil)
	}
	return i.Store.Apply(ctx, a)
}

// case 35: a message whose effect failed is not noted; it is applied when it comes
// again. What is no event of ours is noted never.
func TestAMessageIsNotedWithItsEffectOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.deps.Store.Inbox = &inboxAway{w.deps.Store.Inbox, 2} })
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	if _, err := w.system.RelayOnce(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := w.system.WorkOnce(t.Context()); err == nil {
			t.Errorf("got no error, want a failure")
		}
		w.wantBalance(12_000)
		w.clock.Advance(2 * time.Second)
	}
	w.deliver()
	w.wantBalance(15_000)
	const event = `{"payment_id":"pay_1","caller":"u1","order_id":"42","merchant_id":"m1","amount":3000,"currency":"USD"}`
	for i, m := range []queue.Message{
		{ID: "x", Group: "g1", Type: "payment.succeeded", Body: []byte("{")},
		{ID: "y", Group: "g2", Type: "payment.succeeded", Body: []byte(event)},
		{ID: "pay_1:SUCCEEDED", Group: "g3", Type: "payment.failed", Body: []byte(event)},
	} {
		if err := w.queue.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if _, err := w.system.WorkOnce(t.Context()); err == nil {
			t.Errorf("message %d: got no error, want a refusal", i)
		}
	}
	if a := w.audit(); a.Credits != 1 {
		t.Errorf("credits: got %d, want 1", a.Credits)
	}
}

// cases 30 and 33: an event stays stored until the queue has it for good.
func TestAnEventWaitsForTheQueue(t *testing.T) {
	t.Parallel()
	var q *flakyQueue
	w := newWorld(t, func(w *world) {
		q = &flakyQueue{Queue: w.queue, failSend: errors.New("no answer")}
		w.deps.Queue = q
	})
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	for range 40 { // an outage parks nothing, however long
		if n, err := w.system.RelayOnce(t.Context(), 0); n != 0 {
			t.Fatalf("got %d, %v", n, err)
		}
		w.clock.Advance(30 * time.Second)
	}
	w.wantOutbox(1)
	q.failSend = nil
	w.deliver()
	w.wantOutbox(0)
	w.wantBalance(15_000)
}

// case 32: an event that the queue can never take is parked, holds nobody back,
// and goes out when it is put back.
func TestAnUnsendableEventIsParked(t *testing.T) {
	t.Parallel()
	var q *flakyQueue
	w := newWorld(t, func(w *world) {
		q = &flakyQueue{Queue: w.queue, failSend: retryproof.Refused(retryproof.CodePermanent, "too large", nil)}
		w.deps.Queue = q
	})
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	if n, err := w.system.RelayOnce(t.Context(), 0); n != 1 || err != nil {
		t.Errorf("got %d, %v, want 1 parked", n, err)
	}
	q.failSend = nil
	want(t, w.send(ask{key: keyK2}), http.StatusCreated, "")
	w.deliver()
	w.wantBalance(15_000)
	if a := w.audit(); a.OutboxParked != 1 || a.OutboxWaiting != 0 {
		t.Errorf("got %+v, want 1 parked", a)
	}
	w.wantMetric("retryproof_outbox_total what=parked", 1)
	ok, err := w.deps.Store.Outbox.Redrive(t.Context(), outbox.Redrive{EventID: idOf("u1", keyK1).Sub("SUCCEEDED"), Now: w.clock.Now()})
	if !ok || err != nil {
		t.Errorf("redrive: got %v, %v", ok, err)
	}
	w.deliver()
	w.wantBalance(18_000)
}

// case 31: two relays keep a merchant's order.
func TestEventsOfAMerchantStayInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []string
	for i := range 20 {
		key := fmt.Sprintf("order-%d", i)
		want(t, w.send(ask{key: key}), http.StatusCreated, "")
		ids = append(ids, idOf("u1", key).Sub("SUCCEEDED"))
	}
	for relay := range 2 {
		if _, err := w.system.RelayOnce(t.Context(), relay); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range ids {
		got, err := w.queue.Receive(t.Context(), 10)
		if err != nil || len(got) != 1 || got[0].ID != want {
			t.Fatalf("event %d: got %+v, %v, want %s", i, got, err, want)
		}
		if _, err := w.queue.Finish(t.Context(), got[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// case 34: what was rolled back was never published: a settlement whose postings
// are refused leaves neither the payment's move nor its event.
func TestARolledBackSettlementPublishesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.psp.set(func(context.Context, psp.ChargeRequest, charging) (psp.Charge, error) {
		return psp.Charge{}, errNoAnswer
	})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	_, err := w.deps.Store.Effects.Settle(t.Context(), effect.Settle{ID: idOf("u1", keyK1), From: []effect.State{effect.Unknown}, To: effect.Succeeded,
		By: "x", Now: w.clock.Now(), Events: []retryproof.Event{{ID: "e", Type: "t", Group: "m1", Body: []byte("{}"), At: w.clock.Now()}}, Postings: []ledger.Posting{{Account: "a", Currency: "USD", Amount: 1, Ref: "r"}}})
	if retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("got %v, want NotDone", err)
	}
	w.wantState(keyK1, effect.Unknown)
	w.wantOutbox(0)
}

func TestNotReadyWithoutALedgerThatCanBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.deps.Store.Hops = failingHops{w.deps.Store.Hops} })
	want(t, w.get("/readyz"), http.StatusServiceUnavailable, retryproof.CodeUnavailable)
	want(t, w.get("/healthz"), http.StatusOK, "")
}

func TestTidyingForgetsWhatHasExpiredOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storyConfig)
	first := w.send(ask{key: keyK1})
	w.deliver()
	tidy := func(want int) {
		t.Helper()
		if n, err := w.system.TidyOnce(t.Context()); n != want || err != nil {
			t.Errorf("got %d, %v, want %d", n, err, want)
		}
	}
	w.at(3600)
	tidy(0)
	w.at(3601)
	tidy(1) // the claim
	wantSame(t, w.send(ask{key: keyK1}), first)
	w.at(31 * 24 * 3600)
	tidy(2) // the claim again, and the message's id
	wantSame(t, w.send(ask{key: keyK1}), first)
	w.wantCharges(1)
}
