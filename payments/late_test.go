package payments_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

// whileAsked lets something happen between the sending of the next charge and its
// landing, when the lease of whoever sends it is long over.
func (w *world) whileAsked(do func()) {
	w.psp.set(func(_ context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		w.psp.set(nil)
		w.clock.Advance(17 * time.Second)
		do()
		return next(context.Background(), r)
	})
}

// wantTold checks that a contradiction was kept and a person told, once.
func (w *world) wantTold(got []string, name string) {
	w.t.Helper()
	found := 0
	for _, n := range got {
		if n == name {
			found++
		}
	}
	if found != 1 {
		w.t.Errorf("evidence: got %q, want %q among it", got, name)
	}
	w.wantMetric("retryproof_psp_conflicts_total ", 1)
	if got := w.log.lines("a person must look"); got != 1 {
		w.t.Errorf("told: got %d times, want once", got)
	}
}

func (w *world) evidenceNames() []string {
	var names []string
	for _, e := range w.shownToOperator().Evidence {
		names = append(names, e.Name)
	}
	return names
}

// A person has said that it never ran; the question that was under way makes it run. The
// verdict stands, and the person is told (case 25).
func TestAChargeThatLandsAfterAVerdictIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseRequest})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	w.whileAsked(func() {
		want(t, w.verdict("", "VOID", "", "they said so"), http.StatusOK, "")
	})
	w.resolve(0)
	w.wantState(keyK1, effect.Void)
	w.wantCharges(1)
	w.wantTold(w.evidenceNames(), "conflict "+w.core.Charges()[0].Intent+" succeeded although VOID")
	want(t, w.send(ask{key: keyK1}), http.StatusConflict, retryproof.CodeVoid)
}

// The same with the request itself: its server stood still, a resolver made the payment
// UNKNOWN, and a person decided.
func TestAnAttemptThatFindsAVerdictIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	w.whileAsked(func() {
		w.psp.set(func(context.Context, psp.ChargeRequest, charging) (psp.Charge, error) {
			return psp.Charge{}, errNoAnswer
		})
		w.resolve(0)
		w.psp.set(nil)
		want(t, w.verdict("", "FAILED", "", "they said so"), http.StatusOK, "")
	})
	want(t, w.send(ask{key: keyK1}), http.StatusPaymentRequired, "")
	w.wantState(keyK1, effect.Failed)
	w.wantCharges(1)
	w.wantTold(w.evidenceNames(), "conflict "+w.core.Charges()[0].Intent+" succeeded although FAILED")
}

// While somebody asks, only a success can be decided.
func TestNobodyDecidesAgainstAQuestionThatIsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseRequest})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		for _, state := range []string{"VOID", "FAILED"} {
			got := w.verdict("", state, "", "they said so")
			want(t, got, http.StatusConflict, retryproof.CodeInProgress)
			if got.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
		return next(ctx, r)
	})
	w.resolve(1)
	w.wantState(keyK1, effect.Succeeded)
}

// Evidence says that something was done: a refusal that says otherwise frees no key.
func TestEvidenceKeepsAKeyFromBeingFreed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		other := r
		other.Key, other.Amount = "by hand", 2900
		if _, err := next(ctx, other); err != nil {
			return psp.Charge{}, err
		}
		wantWebhook(t, w.post(w.webhooks()[0]), "conflict")
		return psp.Charge{}, retryproof.Refused(retryproof.CodeTooMany, "slow down", nil)
	})
	if got := w.send(ask{key: keyK1}); got.status/100 == 2 && got.status != http.StatusAccepted {
		t.Errorf("got %d %s, want nothing final", got.status, got.body)
	}
	w.wantState(keyK1, effect.Unknown)
	w.wantTold(w.evidenceNames(), "conflict "+w.core.Charges()[0].Intent)
	want(t, w.send(ask{path: "/payments/resolve", key: keyK1, body: "{}"}), http.StatusAccepted, "")
}

// A genuine message of money that was moved, about a payment that is not here, is for a
// person.
func TestMoneyThatNobodyHereKnowsOfIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	if _, err := w.psp.Direct.Charge(t.Context(), psp.ChargeRequest{Key: "by hand", Reference: "pay_nobody", Amount: 3000, Currency: "USD", Method: "pm_1"}); err != nil {
		t.Fatal(err)
	}
	wantWebhook(t, w.post(w.webhooks()[0]), "unknown payment")
	w.wantMetric("retryproof_psp_conflicts_total ", 1)
	if w.log.lines("a person must look") != 1 {
		t.Error("nobody was told")
	}
}

// The server stood still with the answer in its hand, and a resolver that learned nothing
// made the payment UNKNOWN meanwhile: the answer settles it.
func TestALateAnswerSettlesWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	w.psp.set(func(_ context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		c, err := next(context.Background(), r)
		w.clock.Advance(17 * time.Second)
		w.psp.set(func(context.Context, psp.ChargeRequest, charging) (psp.Charge, error) {
			return psp.Charge{}, errNoAnswer
		})
		w.fault(pspemulator.Fault{Operation: pspemulator.OperationSearch, Do: pspemulator.LoseReply})
		w.resolve(0)
		w.psp.set(nil)
		return c, err
	})
	if got := w.send(ask{key: keyK1}); got.status/100 != 2 {
		t.Errorf("got %d %s, want 2xx", got.status, got.body)
	}
	w.wantState(keyK1, effect.Succeeded)
	w.wantCharges(1)
	if c := w.recorded("u1", keyK1).Claim; c == nil || c.Answer == nil || c.Answer.Status != http.StatusCreated {
		t.Errorf("the claim: got %+v, want the final answer", c)
	}
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	want(t, w.verdict("", "FAILED", "", "they said so"), http.StatusConflict, retryproof.CodeMoved)
}

// A person's typing error in the processor's id is noticed by the question that follows.
func TestASuccessUnderAnotherNameIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseRequest})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		want(t, w.verdict("", "SUCCEEDED", "ch_typo", "seen in the dashboard"), http.StatusOK, "")
		return next(ctx, r)
	})
	w.resolve(0)
	w.wantState(keyK1, effect.Succeeded)
	w.wantTold(w.evidenceNames(), "conflict "+w.core.Charges()[0].Intent+" beside ch_typo")
}
