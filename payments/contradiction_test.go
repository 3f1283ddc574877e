package payments_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

// about is a message of the processor with some words changed.
func about(t *testing.T, payload []byte, fromTo ...string) []byte {
	t.Helper()
	for i := 0; i < len(fromTo); i += 2 {
		changed := bytes.ReplaceAll(payload, []byte(fromTo[i]), []byte(fromTo[i+1]))
		if bytes.Equal(changed, payload) {
			t.Fatalf("%s is not in %s", fromTo[i], payload)
		}
		payload = changed
	}
	return payload
}

func eventID(t *testing.T, payload []byte) string {
	t.Helper()
	_, rest, _ := bytes.Cut(payload, []byte(`"id":"`))
	id, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		t.Fatalf("no id in %s", payload)
	}
	return string(id)
}

func (w *world) wantConflicts(want int) []effect.Evidence {
	w.t.Helper()
	kept, err := w.deps.Store.Due.Evidence(w.t.Context(), idOf("u1", keyK1))
	if err != nil {
		w.t.Fatal(err)
	}
	var conflicts []effect.Evidence
	for _, e := range kept {
		if e.Kind == effect.EvidenceConflict {
			conflicts = append(conflicts, e)
		}
		if strings.Contains(e.Name+e.By+e.Seen, keyK1) || strings.Contains(e.Name+e.By+e.Seen, "t-u1") {
			w.t.Errorf("evidence holds a key: %+v", e)
		}
	}
	if len(conflicts) != want {
		w.t.Errorf("conflicts: got %+v, want %d", conflicts, want)
	}
	return conflicts
}

// case 25: a message says 2,900 for 3,000 and is delivered twice, in every state of the
// payment: nothing moves, and exactly one evidence and one alert stay.
func TestAConflictingMessageLeavesOneTrace(t *testing.T) {
	t.Parallel()
	for _, state := range []effect.State{effect.Unknown, effect.Succeeded, effect.Failed} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withOperators)
			w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
			want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
			payload := w.webhooks()[0]
			if state != effect.Unknown {
				reference := map[bool]string{true: chargeID(t, w)}[state == effect.Succeeded]
				want(t, w.verdict("", string(state), reference, "seen"), http.StatusOK, "")
			}
			evt9 := about(t, payload, eventID(t, payload), "evt_9", `"amount":3000`, `"amount":2900`)
			before, balance := w.audit(), w.audit().OutboxWaiting
			wantWebhook(t, w.post(evt9), "conflict")
			wantWebhook(t, w.post(evt9), "repeats dropped")
			// Another message with the same words is the same contradiction.
			wantWebhook(t, w.post(about(t, evt9, "evt_9", "evt_10")), "conflict")
			w.wantState(keyK1, state)
			e := w.wantConflicts(1)[0]
			if e.By != "webhook-evt_9" || !strings.Contains(e.Seen, chargeID(t, w)) {
				t.Errorf("got %+v, want who and what", e)
			}
			w.wantMetric("retryproof_psp_conflicts_total ", 1)
			if got := w.log.lines("does not match ours"); got != 1 {
				t.Errorf("alerts: got %d, want 1", got)
			}
			if after := w.audit(); fmt.Sprint(after) != fmt.Sprint(before) || after.OutboxWaiting != balance {
				t.Errorf("got %+v, want %+v", after, before)
			}
		})
	}
}

func chargeID(t *testing.T, w *world) string {
	t.Helper()
	found, err := w.psp.Direct.Find(t.Context(), string(idOf("u1", keyK1)))
	if err != nil || len(found) != 1 {
		t.Fatalf("got %+v, %v, want one charge", found, err)
	}
	return found[0].ID
}

// case 25: a second contradiction about the same charge is not hidden by the first.
func TestAnotherContradictionIsAnotherTrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	payload := w.webhooks()[0]
	wantWebhook(t, w.post(about(t, payload, eventID(t, payload), "evt_9", `"amount":3000`, `"amount":2900`)), "conflict")
	want(t, w.verdict("", "FAILED", "", "not found"), http.StatusOK, "")
	wantWebhook(t, w.post(payload), "conflict") // it succeeded, and is FAILED here
	w.wantConflicts(2)
	w.wantMetric("retryproof_psp_conflicts_total ", 2)
	if w.log.lines("it succeeded there and is FAILED here") != 1 {
		t.Error("nobody was told that it succeeded")
	}
	w.wantState(keyK1, effect.Failed)
	w.wantOutbox(0)
}

// What succeeded elsewhere under a voided key, or as another charge, is told.
func TestASuccessThatIsNotOursToMoveIsTold(t *testing.T) {
	t.Parallel()
	t.Run("voided", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		wantBodyState(t, w.ask(keyK1), http.StatusOK, "VOID")
		if _, err := w.psp.Direct.Charge(t.Context(), psp.ChargeRequest{Key: "k", Reference: string(idOf("u1", keyK1)), Amount: 3000, Currency: "USD", Method: "pm_1"}); err != nil {
			t.Fatal(err)
		}
		wantWebhook(t, w.post(w.webhooks()[0]), "conflict")
		if e := w.wantConflicts(1); !strings.Contains(e[0].Seen, "it succeeded there and is VOID here") {
			t.Errorf("got %+v", e)
		}
		w.wantState(keyK1, effect.Void)
	})
	t.Run("another charge", func(t *testing.T) {
		t.Parallel()
		w := paid(t)
		if _, err := w.psp.Direct.Charge(t.Context(), psp.ChargeRequest{Key: "k", Reference: string(idOf("u1", keyK1)), Amount: 3000, Currency: "USD", Method: "pm_1"}); err != nil {
			t.Fatal(err)
		}
		wantWebhook(t, w.post(w.webhooks()[0]), "conflict")
		w.wantConflicts(1)
		w.wantMetric("retryproof_psp_conflicts_total ", 1)
	})
}

// case 25: when the COMMIT of the trace is not answered, the trace stays and is told;
// a process that dies in between tells it again.
func TestATraceSurvivesALostCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	payload := w.webhooks()[0]
	wrong := about(t, payload, `"amount":3000`, `"amount":2900`)
	lost := 1
	deps := w.deps
	deps.Store.Effects = effects{Store: deps.Store.Effects, after: func(op string) error {
		if lost--; op == "settle" && lost >= 0 {
			return errors.New("connection reset after COMMIT")
		}
		return nil
	}}
	well := w.system
	w.system = w.process(deps)
	if got := w.post(wrong); got.status/100 != 2 {
		t.Errorf("got %d %s, want 2xx", got.status, got.body)
	}
	w.wantConflicts(1)
	w.wantMetric("retryproof_psp_conflicts_total ", 1)
	w.system = well
	wantWebhook(t, w.post(wrong), "repeats dropped")
	w.wantMetric("retryproof_psp_conflicts_total ", 1)
}

// case 24: one order paid under two keys: both charges stand, and a person is told,
// once, with the payment's evidence.
func TestAnOrderPaidTwiceIsFlaggedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const keyK5 = "0192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e11"
	want(t, w.send(ask{key: keyK5}), http.StatusCreated, "")
	w.clock.Advance(time.Second)
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	for _, other := range []ask{ // none of these is a duplicate
		{key: "other-order", body: strings.Replace(order(3000), `"42"`, `"43"`, 1)},
		{key: "other-merchant", body: strings.Replace(order(3000), `"m1"`, `"m2"`, 1)},
		{key: "other-buyer", token: "t-u2"},
	} {
		want(t, w.send(other), http.StatusCreated, "")
	}
	w.deliver()
	w.clock.Advance(time.Hour)
	w.deliver()
	w.wantMetric("retryproof_duplicate_orders_total ", 1)
	if got := w.log.lines("an order was paid twice"); got != 1 {
		t.Errorf("alerts: got %d, want 1", got)
	}
	if e := w.wantConflicts(1); len(e) == 1 && (!strings.Contains(e[0].Seen, string(idOf("u1", keyK5))) || e[0].By != "ledger") {
		t.Errorf("got %+v, want the first payment named", e)
	}
	w.wantCharges(5)
	want(t, w.cancel(), http.StatusCreated, "") // which is how it is repaired
}

// case 24: however often the order was tried before, and whichever is settled last.
func TestADuplicateIsFoundAmongManyAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: "first"}), http.StatusAccepted, "") // settled at the end
	w.clock.Advance(time.Millisecond)
	for i := range 120 {
		w.fault(pspemulator.Fault{Do: pspemulator.Decline})
		want(t, w.send(ask{key: fmt.Sprintf("declined-%d", i)}), http.StatusPaymentRequired, "")
		w.clock.Advance(time.Millisecond)
	}
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.deliver()
	w.wantMetric("retryproof_duplicate_orders_total ", 0)
	w.resolve(1)
	w.deliver()
	w.wantMetric("retryproof_duplicate_orders_total ", 1)
	w.wantConflicts(1)
}

// case 24: the flag's COMMIT without an answer: the person is told once, the event is
// applied.
func TestAFlagSurvivesALostCommit(t *testing.T) {
	t.Parallel()
	lost := false
	w := newWorld(t, func(w *world) {
		w.deps.Store.Effects = effects{Store: w.deps.Store.Effects, after: func(op string) error {
			if lost && op == "settle" {
				lost = false
				return errors.New("connection reset after COMMIT")
			}
			return nil
		}}
	})
	want(t, w.send(ask{key: keyK2}), http.StatusCreated, "")
	w.deliver()
	w.clock.Advance(time.Second)
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	lost = true
	w.deliver()
	if lost {
		t.Error("no answer was lost")
	}
	w.wantMetric("retryproof_duplicate_orders_total ", 1)
	w.wantConflicts(1)
	w.wantBalance(18_000)
}

// case 22: a definite decline that the resolver learns renders FAILED for its key, and
// another key may start.
func TestADeclineThatTheResolverLearnsReachesTheKey(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"by the repeat", "by a look-up"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fault(pspemulator.Fault{Do: pspemulator.Decline, DeclineCode: "lost_card"})
			w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
			want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
			want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
			if how == "by a look-up" {
				w.psp.set(func(context.Context, psp.ChargeRequest, charging) (psp.Charge, error) {
					return psp.Charge{}, errNoAnswer
				})
			}
			w.resolve(1)
			w.psp.set(nil)
			for range 2 {
				got := w.send(ask{key: keyK1})
				want(t, got, http.StatusPaymentRequired, "")
				if !strings.Contains(got.body, `"state":"FAILED"`) || !strings.Contains(got.body, "lost_card") {
					t.Errorf("got %s, want FAILED, lost_card", got.body)
				}
				w.clock.Advance(48 * time.Hour)
			}
			w.wantOutbox(0)
			want(t, w.send(ask{key: keyK2}), http.StatusCreated, "")
			w.wantCharges(1)
		})
	}
}

// A definite answer for another amount settles nothing: it is not about this payment.
func TestADeclineOfAnotherAmountIsNoEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.psp.set(func(_ context.Context, r psp.ChargeRequest, _ charging) (psp.Charge, error) {
		return psp.Charge{ID: "ch_x", Reference: r.Reference, Amount: 2900, Currency: "USD", State: psp.Declined}, nil
	})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	w.resolve(0)
	w.wantState(keyK1, effect.Unknown)
	w.wantConflicts(1)
}
