package payments_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

// case 7: a decline is final for its key, whatever changes later.
func TestADeclineIsFinalForItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storyConfig)
	if err := w.core.SetMethod(t.Context(), "pm_1", "insufficient_funds"); err != nil {
		t.Fatal(err)
	}
	first := w.send(ask{key: keyK1})
	want(t, first, http.StatusPaymentRequired, "")
	if !strings.Contains(first.body, `"state":"FAILED"`) || !strings.Contains(first.body, `"decline_code":"insufficient_funds"`) {
		t.Errorf("got %s, want FAILED, insufficient_funds", first.body)
	}
	if err := w.core.SetMethod(t.Context(), "pm_1", ""); err != nil { // funds arrive
		t.Fatal(err)
	}
	w.at(20)
	wantSame(t, w.send(ask{key: keyK1}), first)
	w.at(7200) // the answer has expired; the payment answers
	wantSame(t, w.send(ask{key: keyK1}), first)
	w.resolve(0)
	w.wantCalls(1)
	w.wantCharges(0)
	w.wantOutbox(0)
	want(t, w.send(ask{key: keyK2}), http.StatusCreated, "")
	w.wantCalls(2)
	w.wantCharges(1)
}

// TestWhatTheProcessorSaysDecides is the table of a first attempt's endings; what
// is not definite is UNKNOWN and settled later.
func TestWhatTheProcessorSaysDecides(t *testing.T) {
	t.Parallel()
	answers := func(c psp.Charge, err error) func(*world) {
		return func(w *world) {
			w.psp.set(func(context.Context, psp.ChargeRequest, charging) (psp.Charge, error) { return c, err })
		}
	}
	fault := func(f pspemulator.Fault) func(*world) { return func(w *world) { w.fault(f) } }
	for _, c := range []struct {
		name   string
		go_    func(*world)
		status int
		state  effect.State
	}{
		{"invalid: it cannot ever be charged", answers(psp.Charge{}, retryproof.Refused(retryproof.CodeInvalid, "no", nil)), 402, effect.Failed},
		{"permanent refusal", answers(psp.Charge{}, retryproof.Refused(retryproof.CodePermanent, "no", nil)), 402, effect.Failed},
		{"invalid but unknown", answers(psp.Charge{}, &retryproof.Error{Code: retryproof.CodeInvalid, Message: "?"}), 202, effect.Unknown},
		{"connection refused", answers(psp.Charge{}, retryproof.Refused(retryproof.CodeUnavailable, "refused", nil)), 503, ""},
		{"unauthorized: our own key is wrong", answers(psp.Charge{}, retryproof.Refused(retryproof.CodeUnauthorized, "no", nil)), 503, ""},
		{"an error without a class", answers(psp.Charge{}, errors.New("reset by peer")), 202, effect.Unknown},
		{"a charge of another amount", answers(psp.Charge{ID: "x", Reference: string(idOf("u1", keyK1)), Amount: 1, Currency: "USD", State: psp.Succeeded}, nil), 202, effect.Unknown},
		{"a charge of somebody else", answers(psp.Charge{ID: "x", Reference: "pay_other", Amount: 3000, Currency: "USD", State: psp.Succeeded}, nil), 202, effect.Unknown},
		{"a state nobody knows", answers(psp.Charge{ID: "x", State: "REVIEW"}, nil), 202, effect.Unknown},
		{"429", fault(pspemulator.Fault{Do: pspemulator.RateLimited}), 503, ""},
		{"request lost", fault(pspemulator.Fault{Do: pspemulator.LoseRequest}), 202, effect.Unknown},
		{"reply lost", fault(pspemulator.Fault{Do: pspemulator.LoseReply}), 202, effect.Unknown},
		{"500, saved, after the charge", fault(pspemulator.Fault{Do: pspemulator.Error500, When: pspemulator.AfterEffect}), 202, effect.Unknown},
		{"declined", fault(pspemulator.Fault{Do: pspemulator.Decline}), 402, effect.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.go_(w)
			first := w.send(ask{key: keyK1})
			if c.state == "" { // certainly nothing happened: the key is free again
				want(t, first, c.status, retryproof.CodeUnavailable)
				if seen := w.recorded("u1", keyK1); seen.Claim != nil || seen.Guard != nil {
					t.Errorf("got %+v, want nothing recorded", seen)
				}
				w.psp.set(nil)
				w.resolve(0)
				want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
				w.wantCharges(1)
				return
			}
			want(t, first, c.status, "")
			w.wantState(keyK1, c.state)
			w.psp.set(nil)
			w.resolve(map[effect.State]int{effect.Unknown: 1}[c.state])
			if c.state == effect.Unknown {
				w.wantState(keyK1, effect.Succeeded)
				w.wantCharges(1)
				want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
				return
			}
			wantSame(t, w.send(ask{key: keyK1}), first)
			w.wantCalls(1)
			w.wantCharges(0)
			w.wantOutbox(0)
		})
	}
}

// The emulator's own "no such payment method" takes the same way as the table's.
func TestAPaymentMethodThatDoesNotExistFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.send(ask{key: keyK1, body: strings.Replace(order(3000), "pm_1", "card of my aunt", 1)})
	want(t, got, http.StatusPaymentRequired, "")
	if !strings.Contains(got.body, `"decline_code":"invalid_request"`) {
		t.Errorf("got %s, want invalid_request", got.body)
	}
}

// The refusal of a repeat says nothing about the first charge: the card may have
// been charged before the account was closed.
func TestTheRefusalOfARepeatFailsNoPayment(t *testing.T) {
	t.Parallel()
	refuse := func(context.Context, psp.ChargeRequest, charging) (psp.Charge, error) {
		return psp.Charge{}, retryproof.Refused(retryproof.CodeInvalid, "the account is closed", nil)
	}
	t.Run("by the resolver, charged", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.psp.set(w.silence)
		want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
		w.psp.set(refuse)
		w.resolve(1) // looked up
		w.wantState(keyK1, effect.Succeeded)
	})
	t.Run("by the resolver, not found", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(pspemulator.Fault{Do: pspemulator.LoseRequest})
		want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
		w.psp.set(refuse)
		w.resolve(0)
		w.wantState(keyK1, effect.Unknown)
	})
	t.Run("after a takeover", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		process, die := w.mortal()
		w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
			_, _ = next(ctx, r)
			die()
			return psp.Charge{}, nil
		})
		dies(w, func() { sendTo(t, process, ask{key: keyK1}) })
		w.psp.set(refuse)
		w.at(7)
		want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
		w.resolve(1)
		w.wantState(keyK1, effect.Succeeded)
		w.wantCharges(1)
	})
}

// While the processor has not decided, its saved answer says "processing" for
// ever: the charge itself is read.
func TestAProcessingChargeIsReadUntilItIsDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fault(pspemulator.Fault{Do: pspemulator.Processing, By: time.Minute})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	w.resolve(0)
	w.wantState(keyK1, effect.Unknown)
	w.at(61)
	w.fault(pspemulator.Fault{Operation: pspemulator.OperationRetrieve, Do: pspemulator.LoseReply})
	w.resolve(1) // the reply is lost: it is looked up
	w.wantState(keyK1, effect.Succeeded)
	w.wantCharges(1)
	if got := w.psp.count("retrieve"); got != 2 {
		t.Errorf("retrieve calls: got %d, want 2", got)
	}
}

// resolveFor lets the resolver ask for a while, as often as it wants.
func (w *world) resolveFor(d time.Duration) {
	w.t.Helper()
	for until := w.clock.Now().Add(d); w.clock.Now().Before(until); w.clock.Advance(time.Minute) {
		if _, err := w.system.ResolveOnce(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// stuck makes a payment whose key answers 500 forever, without a charge.
func stuck(t *testing.T, w *world) {
	t.Helper()
	w.fault(pspemulator.Fault{Do: pspemulator.Error500, When: pspemulator.BeforeEffect})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
}

func TestNotFoundIsNoProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stuck(t, w)
	w.resolveFor(48 * time.Hour)
	w.wantState(keyK1, effect.Unknown)
	w.wantMetric("retryproof_unknown_alerts_total ", 1)
	if got := w.log.lines("stays UNKNOWN"); got != 1 {
		t.Errorf("alerts: got %d, want 1", got)
	}
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	// Late evidence still settles it.
	if _, err := w.psp.Direct.Charge(t.Context(), psp.ChargeRequest{Key: "by hand", Reference: string(idOf("u1", keyK1)), Amount: 3000, Currency: "USD", Method: "pm_1"}); err != nil {
		t.Fatal(err)
	}
	w.resolveFor(time.Hour)
	w.wantState(keyK1, effect.Succeeded)
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
}

func TestTwoChargesAreForAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stuck(t, w)
	for _, key := range []string{"a", "b"} {
		if _, err := w.psp.Direct.Charge(t.Context(), psp.ChargeRequest{Key: key, Reference: string(idOf("u1", keyK1)), Amount: 3000, Currency: "USD", Method: "pm_1"}); err != nil {
			t.Fatal(err)
		}
	}
	w.resolveFor(12 * time.Hour)
	w.wantState(keyK1, effect.Unknown)
	w.wantMetric("retryproof_unknown_alerts_total ", 1)
	if w.log.lines("holds 2 of them") == 0 {
		t.Error("nobody was told of two charges")
	}
}

func TestAChargeThatIsFoundMustMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stuck(t, w)
	if _, err := w.psp.Direct.Charge(t.Context(), psp.ChargeRequest{Key: "a", Reference: string(idOf("u1", keyK1)), Amount: 2900, Currency: "USD", Method: "pm_1"}); err != nil {
		t.Fatal(err)
	}
	w.resolve(0)
	w.wantState(keyK1, effect.Unknown)
	w.wantMetric("retryproof_psp_conflicts_total ", 1)
}

// The processor forgets keys after 24 h: from an hour before that the charge is
// looked up, and its key never sent again.
func TestAKeyIsNotRepeatedWhenTheProcessorMayHaveForgottenIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		after time.Duration
		calls int
	}{
		{"inside the window", 23*time.Hour - time.Second, 2}, {"at its end", 23 * time.Hour, 1}, {"long after", 200 * time.Hour, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
			want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
			w.clock.Advance(c.after)
			w.resolve(1)
			w.wantState(keyK1, effect.Succeeded)
			w.wantCalls(c.calls)
			w.wantCharges(1)
		})
	}
}

func TestOutsideTheWindowALookUpWithoutAResultProvesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseRequest})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	w.clock.Advance(25 * time.Hour)
	w.fault(pspemulator.Fault{Operation: pspemulator.OperationSearch, Do: pspemulator.LoseReply})
	w.resolveFor(24 * time.Hour)
	w.wantState(keyK1, effect.Unknown)
	w.wantCalls(1)
	w.wantCharges(0)
}

// A takeover after the processor's memory of the key does not charge either.
func TestATakeoverAfterTheWindowLooksTheChargeUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.config.ResolveUnknownOnly = true })
	process, die := w.mortal()
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		_, _ = next(ctx, r)
		die()
		return psp.Charge{}, nil
	})
	dies(w, func() { sendTo(t, process, ask{key: keyK1}) })
	w.psp.set(nil)
	w.clock.Advance(25 * time.Hour)
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	w.wantCalls(1)
	w.resolve(1)
	w.wantCharges(1)
	w.wantState(keyK1, effect.Succeeded)
}

// A search that finds nothing yet, because it lags, is asked again.
func TestAnOutageOfTheProcessorEndsInOneCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.core.AddFaults(
		pspemulator.Fault{Operation: pspemulator.OperationCharge, Do: pspemulator.LoseReply, Always: true},
		pspemulator.Fault{Operation: pspemulator.OperationSearch, Do: pspemulator.LoseRequest, Always: true},
	); err != nil {
		t.Fatal(err)
	}
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	w.resolveFor(6 * time.Hour)
	w.wantState(keyK1, effect.Unknown)
	w.wantMetric("retryproof_unknown_alerts_total ", 1)
	w.core.ClearFaults()
	w.resolveFor(time.Hour)
	w.wantState(keyK1, effect.Succeeded)
	w.wantCharges(1)
	w.deliver()
	w.wantBalance(15_000)
}
