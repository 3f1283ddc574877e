package payments_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

const keyRa, keyRb = "refund-a-0001", "refund-b-0001"

// paid is a world with a payment of 3000 under K1 that has succeeded and was credited.
func paid(t testing.TB, tune ...func(*world)) *world {
	t.Helper()
	w := newWorld(t, tune...)
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.deliver()
	w.webhooks()
	w.wantBalance(15_000)
	return w
}

func refundsPath() string { return "/payments/" + string(idOf("u1", keyK1)) + "/refunds" }

func cancelPath() string { return "/payments/" + string(idOf("u1", keyK1)) + "/cancel" }

// refund asks for a refund of K1's payment; cancel cancels it, without a key.
func (w *world) refund(key string, amount int64) answer {
	w.t.Helper()
	return w.send(ask{path: refundsPath(), key: key, body: fmt.Sprintf(`{"amount":%d}`, amount)})
}

func (w *world) cancel() answer {
	w.t.Helper()
	return w.send(ask{path: cancelPath(), body: " "})
}

// wantRefunds checks what is recorded: how much is refunded or on its way, and the
// refunds in each state; the books must agree.
func (w *world) wantRefunds(refunded int64, states map[effect.State]int64) {
	w.t.Helper()
	if p := w.wantState(keyK1, effect.Succeeded); p.Refunded != refunded {
		w.t.Errorf("refunded: got %d, want %d", p.Refunded, refunded)
	}
	a := w.audit()
	if fmt.Sprint(a.RefundsByState) != fmt.Sprint(states) || a.WrongRefunded != 0 || a.Unbalanced != 0 || a.WrongBalance != 0 {
		w.t.Errorf("got %v, %+v, want refunds %v", a.RefundsByState, a, states)
	}
}

// wantRefundedThere sums what the processor has given back.
func (w *world) wantRefundedThere(want int64) {
	w.t.Helper()
	list, _, err := w.psp.Direct.ListRefunds(w.t.Context(), start.Add(-time.Hour), w.clock.Now().Add(time.Hour), "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	got := int64(0)
	for _, r := range list {
		if r.State == psp.Succeeded {
			got += r.Amount
		}
	}
	if got != want {
		w.t.Errorf("refunded at the processor: got %d, want %d", got, want)
	}
}

func (w *world) refundFault(f pspemulator.Fault) {
	w.t.Helper()
	f.Operation = pspemulator.OperationRefund
	w.fault(f)
}

func TestARefundGivesMoneyBackOnce(t *testing.T) {
	t.Parallel()
	w := paid(t)
	first := w.refund(keyRa, 1000)
	want(t, first, http.StatusCreated, "")
	if got := first.header.Get("Location"); got != refundsPath() {
		t.Errorf("Location: got %q, want %q", got, refundsPath())
	}
	wantSame(t, w.refund(keyRa, 1000), first)
	w.clock.Advance(48 * time.Hour) // the answer has expired; the refund answers
	wantSame(t, w.refund(keyRa, 1000), first)
	want(t, w.refund(keyRa, 1001), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
	w.wantRefunds(1000, map[effect.State]int64{effect.Succeeded: 1})
	w.wantRefundedThere(1000)
	if got := w.psp.count("refund"); got != 1 {
		t.Errorf("refund calls: got %d, want 1", got)
	}
	w.wantBalance(15_000)
	w.deliver()
	w.deliver()
	w.wantBalance(14_000)
	w.wantScreen(2, 2) // the payment's and the refund's, each once
	if got := w.phones.Screen("u1")[0]; got.ReplaceID != w.shownRefunds().Refunds[0].ID || got.Title != "Refund sent" || got.Body != "USD 10.00 for order 42" {
		t.Errorf("got %+v, want the refund's notification under the refund's id", got)
	}
	if a := w.audit(); a.Debits != 1 || a.DebitSum != 1000 || a.Credits != 1 || a.RefundedSum != 1000 || a.ClaimsInProgress != 0 {
		t.Errorf("got %+v, want one debit of 1000", a)
	}
	if got := w.get("/payments/" + string(idOf("u1", keyK1))); !strings.Contains(got.body, `"refunded":1000`) {
		t.Errorf("the payment: got %s, want refunded 1000", got.body)
	}
	// What K1 was answered never changes.
	if got := w.send(ask{key: keyK1}); got.status != http.StatusCreated || strings.Contains(got.body, "refunded") {
		t.Errorf("K1: got %d %s, want the first answer", got.status, got.body)
	}
	if err := w.system.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := hopsOf(t, w, keyK1)["worker"].Saw["credits"]; got != 1 {
		t.Errorf("credits in the hop table: got %d, want 1", got)
	}
}

// shownRefunds is GET /payments/{id}/refunds.
type shownRefunds struct {
	PaymentID string `json:"payment_id"`
	Refunded  int64  `json:"refunded"`
	Refunds   []struct {
		ID, State, Currency string
		Amount              int64
		FailureCode         string `json:"failure_code"`
	} `json:"refunds"`
}

func (w *world) shownRefunds() shownRefunds {
	w.t.Helper()
	var out shownRefunds
	got := w.get(refundsPath())
	want(w.t, got, http.StatusOK, "")
	if err := json.Unmarshal([]byte(got.body), &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// case 23: a retry of a refund carries the first one's key, whatever other refunds were
// made in between.
func TestARefundsRetryCarriesItsFirstKey(t *testing.T) {
	t.Parallel()
	w := paid(t)
	w.refundFault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.refund(keyRa, 1000), http.StatusAccepted, "")
	w.clock.Advance(time.Second)
	want(t, w.refund(keyRb, 1000), http.StatusCreated, "")
	want(t, w.refund(keyRa, 1000), http.StatusAccepted, "") // a repeat calls nobody
	w.wantRefunds(2000, map[effect.State]int64{effect.Succeeded: 1, effect.Unknown: 1})
	w.resolve(1)
	want(t, w.refund(keyRa, 1000), http.StatusCreated, "")
	asked := w.psp.refundRequests()
	if len(asked) != 3 || asked[2] != asked[0] || asked[1].Key == asked[0].Key {
		t.Errorf("asked: got %+v, want the third to be the first", asked)
	}
	w.wantRefunds(2000, map[effect.State]int64{effect.Succeeded: 2})
	w.wantRefundedThere(2000)
	if got := w.shownRefunds(); got.Refunded != 2000 || len(got.Refunds) != 2 || got.Refunds[0].State != "SUCCEEDED" || got.Refunds[0].Amount != 1000 {
		t.Errorf("got %+v, want two refunds", got)
	}
	w.deliver()
	w.wantBalance(13_000)
}

// case 23: the owner of a refund dies after the call; the retry takes over and carries
// the same key.
func TestARefundsTakeoverCarriesItsKey(t *testing.T) {
	t.Parallel()
	w := paid(t, func(w *world) { w.config.ResolveUnknownOnly = true })
	w.psp.setRefund(func(ctx context.Context, r psp.RefundRequest, next refunding) (psp.Refund, error) {
		_, _ = next(ctx, r)
		panic(crash{})
	})
	deps := w.deps
	deps.Store.Refunds = effects{Store: deps.Store.Refunds, before: func(op string) error {
		if op == "settle" {
			return retryproof.Refused(retryproof.CodeUnavailable, "this process is dead", nil)
		}
		return nil
	}}
	process := w.process(deps)
	dies(w, func() { sendTo(t, process, ask{path: refundsPath(), key: keyRa, body: `{"amount":1000}`}) })
	w.psp.setRefund(nil)
	want(t, w.refund(keyRa, 1000), http.StatusConflict, retryproof.CodeInProgress)
	w.clock.Advance(7 * time.Second)
	want(t, w.refund(keyRa, 1000), http.StatusCreated, "")
	if asked := w.psp.refundRequests(); len(asked) != 2 || asked[0] != asked[1] {
		t.Errorf("asked: got %+v, want the same twice", asked)
	}
	w.wantRefundedThere(1000)
}

// case 24: two refunds at once, together more than was charged: one gets its money.
func TestRefundsTogetherNeverExceedTheCharge(t *testing.T) {
	t.Parallel()
	for round := range 50 {
		w := paid(t)
		answers := make([]answer, 2)
		var both sync.WaitGroup
		for i, key := range []string{keyRa, keyRb} {
			both.Go(func() { answers[i] = w.refund(key, 2000) })
		}
		both.Wait()
		if answers[0].status > answers[1].status {
			answers[0], answers[1] = answers[1], answers[0]
		}
		want(t, answers[0], http.StatusCreated, "")
		want(t, answers[1], http.StatusUnprocessableEntity, retryproof.CodeExceeds)
		w.wantRefunds(2000, map[effect.State]int64{effect.Succeeded: 1})
		w.wantRefundedThere(2000)
		// The rest can still be refunded, under the refused key too: a refusal is not stored.
		for i, key := range []string{keyRa, keyRb} {
			if got := w.refund(key, 1000); got.code != retryproof.CodeKeyReused {
				want(t, got, http.StatusCreated, "")
			} else if i == 1 && w.psp.count("refund") != 2 {
				t.Errorf("round %d: nobody could refund the rest", round)
			}
		}
		w.wantRefunds(3000, map[effect.State]int64{effect.Succeeded: 2})
		want(t, w.refund("refund-c-0001", 1), http.StatusUnprocessableEntity, retryproof.CodeExceeds)
	}
}

// A cancel refunds the whole payment once, however often and at once it is sent, and
// with whatever key.
func TestACancelIsOneRefund(t *testing.T) {
	t.Parallel()
	w := paid(t)
	const many = 20
	answers := make([]answer, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			answers[i] = w.send(ask{path: cancelPath(), key: map[bool]string{true: fmt.Sprintf("cancel-%d", i)}[i%2 == 0], body: " "})
		})
	}
	all.Wait()
	for i, got := range answers {
		if got.status != http.StatusCreated && got.code != retryproof.CodeInProgress {
			t.Errorf("cancel %d: got %d %s, want 201 or in progress", i, got.status, got.body)
		}
	}
	first := w.cancel()
	want(t, first, http.StatusCreated, "")
	w.clock.Advance(48 * time.Hour)
	wantSame(t, w.cancel(), first)
	id := string(idOf("u1", keyK1))
	if asked := w.psp.refundRequests(); len(asked) != 1 || asked[0].Key != id+":cancel:refund" || asked[0].Amount != 3000 || asked[0].Reference != id+":cancel" {
		t.Errorf("asked: got %+v, want one with the cancel's key", asked)
	}
	w.wantRefunds(3000, map[effect.State]int64{effect.Succeeded: 1})
	w.deliver()
	w.wantBalance(12_000)
	want(t, w.refund(keyRa, 1), http.StatusUnprocessableEntity, retryproof.CodeExceeds)
}

func TestACancelAfterAPartialRefundExceeds(t *testing.T) {
	t.Parallel()
	w := paid(t)
	want(t, w.refund(keyRa, 1000), http.StatusCreated, "")
	for range 2 {
		want(t, w.cancel(), http.StatusUnprocessableEntity, retryproof.CodeExceeds)
	}
	want(t, w.refund(keyRb, 2000), http.StatusCreated, "")
	w.wantRefunds(3000, map[effect.State]int64{effect.Succeeded: 2})
}

// case 11: a client's key that reads "cancel" is a refund of its own, and does not
// meet the cancel.
func TestAKeyCalledCancelIsNoCancel(t *testing.T) {
	t.Parallel()
	w := paid(t)
	want(t, w.refund("cancel", 1000), http.StatusCreated, "")
	want(t, w.cancel(), http.StatusUnprocessableEntity, retryproof.CodeExceeds)
	w = paid(t)
	first := w.cancel()
	want(t, first, http.StatusCreated, "")
	want(t, w.refund("cancel", 3000), http.StatusUnprocessableEntity, retryproof.CodeExceeds)
	wantSame(t, w.cancel(), first)
	w.wantRefunds(3000, map[effect.State]int64{effect.Succeeded: 1})
}

// story refund: the call times out; past the retry budget a person is told, once, and
// the refund stays UNKNOWN; it is repeated with the cancel's key only.
func TestAnUnknownRefundIsAskedAboutWithItsKey(t *testing.T) {
	t.Parallel()
	w := paid(t)
	w.psp.setRefund(func(ctx context.Context, r psp.RefundRequest, next refunding) (psp.Refund, error) {
		if _, err := next(ctx, r); err != nil {
			return psp.Refund{}, err
		}
		return psp.Refund{}, w.hang(ctx)
	})
	w.fault(pspemulator.Fault{Operation: pspemulator.OperationRetrieve, Do: pspemulator.LoseRequest, Always: true})
	want(t, w.cancel(), http.StatusAccepted, "")
	w.resolveFor(12 * time.Hour)
	w.wantRefunds(3000, map[effect.State]int64{effect.Unknown: 1})
	w.wantMetric("retryproof_unknown_alerts_total ", 1)
	if got := w.log.lines("stays UNKNOWN"); got != 1 {
		t.Errorf("alerts: got %d, want 1", got)
	}
	want(t, w.cancel(), http.StatusAccepted, "")
	w.psp.setRefund(nil)
	w.core.ClearFaults()
	w.resolveFor(time.Hour)
	want(t, w.cancel(), http.StatusCreated, "")
	for _, r := range w.psp.refundRequests() {
		if want := string(idOf("u1", keyK1)) + ":cancel:refund"; r.Key != want {
			t.Errorf("key: got %s, want %s", r.Key, want)
		}
	}
	w.wantRefundedThere(3000)
	w.wantRefunds(3000, map[effect.State]int64{effect.Succeeded: 1})
	w.deliver()
	w.wantBalance(12_000)
}

// What the processor says of a first refund decides; a definite refusal gives the
// amount back, so that another refund can have it.
func TestARefundThatDefinitelyFailedGivesItsAmountBack(t *testing.T) {
	t.Parallel()
	says := func(err error) func(*world) {
		return func(w *world) {
			w.psp.setRefund(func(context.Context, psp.RefundRequest, refunding) (psp.Refund, error) { return psp.Refund{}, err })
		}
	}
	fault := func(f pspemulator.Fault) func(*world) { return func(w *world) { w.refundFault(f) } }
	for _, c := range []struct {
		name   string
		do     func(*world)
		status int
		state  effect.State
		code   string
	}{
		{"refused", fault(pspemulator.Fault{Do: pspemulator.Decline}), 402, effect.Failed, "refused"},
		{"permanent", says(retryproof.Refused(retryproof.CodePermanent, "no", nil)), 402, effect.Failed, "refused"},
		{"invalid", says(retryproof.Refused(retryproof.CodeInvalid, "no", nil)), 402, effect.Failed, "refused"},
		{"429", fault(pspemulator.Fault{Do: pspemulator.RateLimited}), 503, "", ""},
		{"our own key is wrong", says(retryproof.Refused(retryproof.CodeUnauthorized, "no", nil)), 503, "", ""},
		{"permanent but unknown", says(&retryproof.Error{Code: retryproof.CodePermanent}), 202, effect.Unknown, ""},
		{"500", fault(pspemulator.Fault{Do: pspemulator.Error500}), 202, effect.Unknown, ""},
		{"undecided", fault(pspemulator.Fault{Do: pspemulator.Processing, By: time.Hour}), 202, effect.Unknown, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := paid(t)
			c.do(w)
			first := w.refund(keyRa, 3000)
			if c.state == "" { // certainly nothing happened: nothing is reserved, the key is free
				want(t, first, c.status, retryproof.CodeUnavailable)
				w.wantRefunds(0, map[effect.State]int64{})
				w.psp.setRefund(nil)
				want(t, w.refund(keyRa, 3000), http.StatusCreated, "")
				return
			}
			want(t, first, c.status, "")
			w.psp.setRefund(nil)
			if c.state == effect.Unknown {
				w.wantRefunds(3000, map[effect.State]int64{effect.Unknown: 1})
				want(t, w.refund(keyRb, 1), http.StatusUnprocessableEntity, retryproof.CodeExceeds)
				w.wantOutbox(0)
				return
			}
			w.wantRefunds(0, map[effect.State]int64{effect.Failed: 1})
			wantSame(t, w.refund(keyRa, 3000), first)
			if got := w.shownRefunds(); got.Refunds[0].FailureCode != c.code {
				t.Errorf("got %+v, want %s", got, c.code)
			}
			want(t, w.refund(keyRb, 3000), http.StatusCreated, "")
			w.deliver()
			w.wantBalance(12_000)
		})
	}
}

// The refusal of a repeat fails no refund: what came before it may have been the refund.
func TestTheRefusalOfARepeatFailsNoRefund(t *testing.T) {
	t.Parallel()
	w := paid(t)
	w.refundFault(pspemulator.Fault{Do: pspemulator.LoseRequest})
	want(t, w.refund(keyRa, 1000), http.StatusAccepted, "")
	w.psp.setRefund(func(context.Context, psp.RefundRequest, refunding) (psp.Refund, error) {
		return psp.Refund{}, retryproof.Refused(retryproof.CodePermanent, "charge_already_refunded", nil)
	})
	w.resolveFor(48 * time.Hour) // inside the window and after it
	w.wantRefunds(1000, map[effect.State]int64{effect.Unknown: 1})
	w.wantMetric("retryproof_unknown_alerts_total ", 1)
}

// A refund that the processor is undecided about is looked at until it is decided.
func TestAProcessingRefundIsReadUntilItIsDecided(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do       pspemulator.Action
		state    effect.State
		refunded int64
		status   int
	}{
		"succeeds": {pspemulator.Processing, effect.Succeeded, 1000, http.StatusCreated},
		"fails":    {pspemulator.FailPending, effect.Failed, 0, http.StatusPaymentRequired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := paid(t)
			w.refundFault(pspemulator.Fault{Do: c.do, By: time.Hour})
			want(t, w.refund(keyRa, 1000), http.StatusAccepted, "")
			w.resolve(0)
			w.wantRefunds(1000, map[effect.State]int64{effect.Unknown: 1})
			w.clock.Advance(time.Hour + time.Second)
			w.resolve(1)
			w.wantRefunds(c.refunded, map[effect.State]int64{c.state: 1})
			want(t, w.refund(keyRa, 1000), c.status, "")
		})
	}
}

// A webhook settles a refund, once; one about a refund that a bank has sent back
// afterwards is for a person.
func TestAWebhookSettlesARefund(t *testing.T) {
	t.Parallel()
	w := paid(t)
	w.refundFault(pspemulator.Fault{Do: pspemulator.FailLater, By: 48 * time.Hour})
	w.refundFault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.refund(keyRa, 1000), http.StatusAccepted, "")
	deliver := func(wants ...string) {
		t.Helper()
		var got []string
		for _, payload := range w.webhooks() {
			a := w.post(payload)
			if a.status/100 != 2 {
				t.Errorf("got %d %s, want 2xx", a.status, a.body)
			}
			var body struct{ Result string }
			if a.status == http.StatusOK {
				_ = json.Unmarshal([]byte(a.body), &body)
				got = append(got, body.Result)
			}
			if again := w.post(payload); again.status/100 != 2 || a.status == http.StatusOK && !strings.Contains(again.body, "repeats dropped") {
				t.Errorf("again: got %d %s", again.status, again.body)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(wants) {
			t.Errorf("webhooks: got %q, want %q", got, wants)
		}
	}
	deliver("moves")
	w.resolve(0)
	w.wantRefunds(1000, map[effect.State]int64{effect.Succeeded: 1})
	want(t, w.refund(keyRa, 1000), http.StatusCreated, "")
	w.deliver()
	w.wantBalance(14_000)
	w.clock.Advance(49 * time.Hour)
	deliver("conflict")
	w.wantMetric("retryproof_psp_conflicts_total ", 1)
	w.wantRefunds(1000, map[effect.State]int64{effect.Succeeded: 1})
}

// A definite answer about another amount is no evidence of the refund: it is for a person.
func TestARefundOfAnotherAmountIsForAPerson(t *testing.T) {
	t.Parallel()
	for _, state := range []psp.State{psp.Succeeded, psp.Failed} {
		for name, change := range map[string]func(*psp.Refund){
			"amount": func(r *psp.Refund) { r.Amount = 900 }, "currency": func(r *psp.Refund) { r.Currency = "EUR" }, "reference": func(r *psp.Refund) { r.Reference = "ref_other" },
		} {
			w := paid(t)
			w.psp.setRefund(func(_ context.Context, r psp.RefundRequest, _ refunding) (psp.Refund, error) {
				got := psp.Refund{ID: "re_x", Reference: r.Reference, Payment: r.Payment, ChargeID: r.ChargeID, Amount: r.Amount, Currency: r.Currency, State: state}
				change(&got)
				return got, nil
			})
			want(t, w.refund(keyRa, 1000), http.StatusAccepted, "")
			w.resolve(0)
			w.wantRefunds(1000, map[effect.State]int64{effect.Unknown: 1})
			w.wantMetric("retryproof_psp_conflicts_total ", 1)
			if w.log.lines("re_x") == 0 {
				t.Errorf("%s, %s: nobody was told of re_x", state, name)
			}
		}
	}
}
