package payments_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
)

// oneWay is the network between the API and the processor.
const oneWay = 260 * time.Millisecond

// roundTrip charges over the network.
func (w *world) roundTrip(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
	w.clock.Advance(oneWay)
	c, err := next(ctx, r)
	w.clock.Advance(oneWay)
	return c, err
}

func storyConfig(w *world) { w.config.AnswerTTL = time.Hour }

// seconds is a moment of the story.
func seconds(at time.Time) float64 { return at.Sub(start).Seconds() }

// lostReply plays the story up to 5.02 s: the card is charged at 0.28, a network
// copy is refused at 0.45, the reply never comes.
func lostReply(t *testing.T, w *world) {
	t.Helper()
	w.at(0.02)
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		w.clock.Advance(oneWay)
		if _, err := next(ctx, r); err != nil {
			t.Error(err)
		}
		w.wantTime(0.28)
		w.at(0.45)
		busy := w.send(ask{key: keyK1})
		want(t, busy, http.StatusConflict, retryproof.CodeInProgress)
		if got, want := busy.header.Get("Retry-After"), "6"; got != want { // 6.02 − 0.45, rounded up
			t.Errorf("Retry-After: got %s, want %s", got, want)
		}
		want(t, w.send(ask{key: keyK1, amount: 3500}), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
		// P1: charged, PENDING, and the phone knows nothing.
		w.wantState(keyK1, effect.Pending)
		w.wantCharges(1)
		if c := w.recorded("u1", keyK1).Claim; c == nil || c.State != effect.InProgress || seconds(c.Until) != 5.02 {
			t.Errorf("claim at P1: got %+v, want IN_PROGRESS until 5.02", c)
		}
		return psp.Charge{}, w.hang(ctx)
	})
	first := w.send(ask{key: keyK1})
	w.wantTime(5.02)
	want(t, first, http.StatusAccepted, "")
	if got, want := first.header.Get("Location"), "/payments/"+string(idOf("u1", keyK1)); got != want {
		t.Errorf("Location: got %q, want %q", got, want)
	}
	w.psp.set(w.roundTrip)
}

func TestALostReplyIsSettledByAskingAgainWithTheSameKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storyConfig)
	lostReply(t, w)
	w.at(10)
	pointer := w.send(ask{key: keyK1})
	want(t, pointer, http.StatusAccepted, "")
	if got := pointer.header.Get(httpkey.HeaderReplayed); got != "" {
		t.Errorf("%s on a pointer: got %q, want none", httpkey.HeaderReplayed, got)
	}
	// case 15, 3d: another amount is refused in every state.
	want(t, w.send(ask{key: keyK1, amount: 3500}), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
	reordered := `{"client_time":"10:00","merchant_id":"m1","payment_method":"pm_1","currency":"USD","amount":3000,"order_id":"42"}`
	want(t, w.send(ask{key: keyK1, body: reordered}), http.StatusAccepted, "")
	// P2
	w.wantCalls(1)
	w.wantState(keyK1, effect.Unknown)
	if c := w.recorded("u1", keyK1).Claim; c == nil || c.State != effect.Complete || c.Answer != nil || seconds(c.ExpiresAt) != 3605.02 {
		t.Errorf("claim at P2: got %+v, want a pointer until 3605.02", c)
	}

	w.at(11)
	w.resolve(1)
	w.wantTime(11.52)
	w.wantState(keyK1, effect.Succeeded)
	w.wantCalls(2)
	w.wantCharges(1)
	w.wantOutbox(1)
	if asked := w.psp.requests(); asked[0] != asked[1] {
		t.Errorf("the repeat differs: %+v, then %+v", asked[0], asked[1])
	}
	if c := w.recorded("u1", keyK1).Claim; c == nil || c.Answer == nil || c.Answer.Status != http.StatusCreated || seconds(c.ExpiresAt) != 3605.02 {
		t.Errorf("claim after the settlement: got %+v, want the final 201 until 3605.02", c)
	}
	final := w.send(ask{key: keyK1})
	want(t, final, http.StatusCreated, "")
	wantSame(t, w.send(ask{key: keyK1}), final)
	w.at(60)
	w.resolve(0)
	w.deliver()
	w.wantBalance(15_000)
	w.wantScreen(1, 1)
	if got := w.queue.Stats().Sent; got != 1 {
		t.Errorf("events: got %d, want 1", got)
	}
	w.wantCalls(2)
}

// TestTheStory follows the relay, the webhook and the workers through their
// crashes, at the story's times. The relay's lease is 15 s, so that its second
// send is at 30 s.
func TestTheStory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storyConfig)
	lostReply(t, w)
	w.at(11)
	w.resolve(1)
	evt := w.webhooks()

	dying := w.deps
	dying.Store.Outbox = diesBeforeDelete{w.deps.Store.Outbox}
	dying.Store.Notify = diesBeforeMark{w.deps.Store.Notify}
	dying.Queue = dyingQueue{w.deps.Queue}
	w.at(12)
	dies(w, func() { _, _ = w.process(dying).RelayOnce(t.Context(), 0) })
	w.at(12.5)
	wantWebhook(t, w.post(evt[0]), "late")
	w.at(14) // the dead relay's lease is alive
	if n, err := w.process(w.deps).RelayOnce(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("relay at 14: got %d, %v, want nothing to do", n, err)
	}
	w.at(14.5)
	dies(w, func() { _, _ = w.process(dying).WorkOnce(t.Context()) })
	w.wantBalance(15_000)
	w.wantScreen(1, 1)
	if a := w.audit(); a.IntentsPending != 1 {
		t.Errorf("intents: got %+v, want 1 pending", a)
	}
	w.at(30)
	dies(w, func() { _, _ = w.process(dying).RelayOnce(t.Context(), 0) })
	if q := w.queue.Stats(); q.Sent != 1 || q.Dropped != 1 { // P3
		t.Errorf("two sends: got %+v, want one message", q)
	}
	w.at(44.4)
	if n, err := w.system.WorkOnce(t.Context()); n != 0 || err != nil {
		t.Errorf("a delivery is its worker's for 30 s: got %d, %v", n, err)
	}
	w.at(44.5)
	if n, err := w.system.WorkOnce(t.Context()); n != 1 || err != nil {
		t.Errorf("redelivery: got %d, %v", n, err)
	}
	// P4: one credit, one on the screen, two alerts, the row waits for a third send.
	w.wantBalance(15_000)
	w.wantScreen(1, 2)
	w.wantOutbox(1)
	if got := w.queue.Stats().Depth; got != 0 {
		t.Errorf("queue: got %d messages, want 0", got)
	}
	w.at(400)
	w.deliver()
	if q := w.queue.Stats(); q.Sent != 2 || q.Depth != 0 {
		t.Errorf("past the window: got %+v, want a second message, finished", q)
	}
	w.wantOutbox(0)
	w.wantBalance(15_000)
	w.wantScreen(1, 2)
	before := w.send(ask{key: keyK1})

	w.at(7200) // P6: the key store forgot the key an hour ago
	if c := w.recorded("u1", keyK1).Claim; c != nil {
		t.Errorf("the claim: got %+v, want none", c)
	}
	calls := w.psp.count("charge")
	wantSame(t, w.send(ask{key: keyK1}), before)
	w.wantCalls(calls)
	w.wantCharges(1)
	if c := w.recorded("u1", keyK1).Claim; c == nil || c.Answer == nil || seconds(c.ExpiresAt) != 10800 {
		t.Errorf("the claim at 7200: got %+v, want the answer until 10800", c)
	}
	want(t, w.send(ask{key: keyK1, amount: 3500}), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
}

// TestTheWebhookMayBeFaster is story branch W.
func TestTheWebhookMayBeFaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storyConfig)
	lostReply(t, w)
	evt := w.webhooks()
	w.at(10.5)
	wantWebhook(t, w.post(evt[0]), "moves")
	w.wantState(keyK1, effect.Succeeded)
	w.wantOutbox(1)
	w.at(10.9)
	wantWebhook(t, w.post(evt[0]), "repeats dropped")
	w.at(11)
	w.resolve(0)
	w.wantCalls(1)
	if c := w.recorded("u1", keyK1).Claim; c == nil || c.State != effect.Complete || c.Answer != nil {
		t.Errorf("the claim: got %+v, want a pointer still", c)
	}
	final := w.send(ask{key: keyK1})
	want(t, final, http.StatusCreated, "")
	wantSame(t, w.send(ask{key: keyK1}), final)
	w.wantOutbox(1)
	w.deliver()
	w.wantBalance(15_000)
	w.wantScreen(1, 1)
}

// mortal is a process that can die: from then on nothing of it is written.
func (w *world) mortal() (*payments.System, func()) {
	var dead atomic.Bool
	deps := w.deps
	deps.Store.Effects = effects{Store: deps.Store.Effects, before: func(string) error {
		if dead.Load() {
			return retryproof.Refused(retryproof.CodeUnavailable, "this process is dead", nil)
		}
		return nil
	}}
	return w.process(deps), func() { dead.Store(true); panic(crash{}) }
}

// TestAClaimWithoutAPaymentIsTakenOver is story branch 3a, with two databases: the
// only place where a claim can be without its payment.
func TestAClaimWithoutAPaymentIsTakenOver(t *testing.T) {
	t.Parallel()
	crashing := false
	w := newWorld(t, func(w *world) {
		w.deps.Store.Effects = effect.Split(w.store.Keys(), guards{w.store.PaymentGuards(), func() error {
			if crashing {
				panic(crash{})
			}
			return nil
		}})
	})
	w.at(0.02)
	crashing = true
	dies(w, func() { w.send(ask{key: keyK1}) })
	crashing = false
	w.wantCalls(0)
	w.at(6.02) // case 19: at exactly lease + margin nobody takes over
	want(t, w.send(ask{key: keyK1}), http.StatusConflict, retryproof.CodeInProgress)
	w.clock.Advance(time.Microsecond)
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.wantCalls(1)
	w.wantCharges(1)
}

// TestAPendingPaymentOfADeadOwnerIsSettled is story branch 3b.
func TestAPendingPaymentOfADeadOwnerIsSettled(t *testing.T) {
	t.Parallel()
	for _, unknownOnly := range []bool{true, false} {
		name := map[bool]string{true: "by the phone's retry", false: "by the sweep, though the phone never returns"}[unknownOnly]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, storyConfig, func(w *world) { w.config.ResolveUnknownOnly = unknownOnly })
			w.at(0.02)
			process, die := w.mortal()
			w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
				_, _ = next(ctx, r)
				die()
				return psp.Charge{}, nil
			})
			dies(w, func() { sendTo(t, process, ask{key: keyK1}) })
			w.psp.set(w.roundTrip)
			w.wantState(keyK1, effect.Pending)
			w.at(6.02) // case 19: at exactly lease + margin it is not stale
			w.resolve(0)
			want(t, w.send(ask{key: keyK1}), http.StatusConflict, retryproof.CodeInProgress)
			w.at(7)
			if unknownOnly {
				w.resolve(0)
				w.at(10)
				want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
			} else {
				w.resolve(1)
			}
			w.wantState(keyK1, effect.Succeeded)
			w.wantCalls(2)
			w.wantCharges(1)
			w.deliver()
			w.wantBalance(15_000)
			wantSame(t, w.send(ask{key: keyK1}), w.send(ask{key: keyK1}))
		})
	}
}

// TestAnOwnerThatWakesTooLateChangesNothing is story branch 3c. case 18
func TestAnOwnerThatWakesTooLateChangesNothing(t *testing.T) {
	t.Parallel()
	for _, wakes := range []struct {
		name string
		with func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error)
	}{
		{"with the processor's replay", func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
			return next(ctx, r)
		}},
		{"without an answer", func(context.Context, psp.ChargeRequest, charging) (psp.Charge, error) {
			return psp.Charge{}, errNoAnswer
		}},
		{"refused", func(context.Context, psp.ChargeRequest, charging) (psp.Charge, error) {
			return psp.Charge{}, retryproof.Refused(retryproof.CodeInvalid, "no", nil)
		}},
	} {
		t.Run(wakes.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, storyConfig)
			w.at(0.02)
			var second answer
			w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
				w.psp.set(nil)
				w.at(6.03)
				second = w.send(ask{key: keyK1})
				want(t, second, http.StatusCreated, "")
				return wakes.with(ctx, r, next)
			})
			// Its own answer is no replay, and says what the record says.
			first := w.send(ask{key: keyK1})
			if first.status != second.status || first.body != second.body {
				t.Errorf("the late owner: got %d %s, want %d %s", first.status, first.body, second.status, second.body)
			}
			w.wantState(keyK1, effect.Succeeded)
			w.wantCharges(1)
			w.wantOutbox(1)
			w.wantMetric("retryproof_effects_total what=fenced", 1)
			wantSame(t, w.send(ask{key: keyK1}), second)
		})
	}
}

// case 18: while the one that took over is alive, everybody else is told to wait.
func TestTheSecondOwnerKeepsItsClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storyConfig)
	w.at(0.02)
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		// B takes over; while it is at the processor, A wakes and fails.
		w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
			want(t, w.send(ask{key: keyK1}), http.StatusConflict, retryproof.CodeInProgress)
			return next(ctx, r)
		})
		w.at(6.03)
		want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
		return psp.Charge{}, errNoAnswer
	})
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.wantCharges(1)
}
