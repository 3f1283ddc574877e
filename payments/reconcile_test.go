package payments_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/reconcile"
)

func withLister(w *world) { w.deps.Lister = w.psp.Direct }

// byHand makes a charge at the processor that no request of ours made.
func (w *world) byHand(reference retryproof.ID, amount int64) {
	w.t.Helper()
	key := fmt.Sprintf("by hand %d", len(w.core.Charges()))
	if _, err := w.psp.Direct.Charge(w.t.Context(), psp.ChargeRequest{Key: key, Reference: string(reference), Amount: amount, Currency: "USD", Method: "pm_1"}); err != nil {
		w.t.Fatal(err)
	}
}

// open leaves a payment of an order of its own UNKNOWN and without a charge.
func (w *world) open(key string) retryproof.ID {
	w.t.Helper()
	w.fault(pspemulator.Fault{Do: pspemulator.Error500, When: pspemulator.BeforeEffect})
	want(w.t, w.send(ask{key: key, body: strings.Replace(order(3000), `"42"`, `"`+key+`"`, 1)}), http.StatusAccepted, "")
	return idOf("u1", key)
}

// reconcile compares everything and returns the differences as "kind reference", the
// closed ones with a "closed" behind.
func (w *world) reconcile(settle bool) (charges, refunds []string) {
	w.t.Helper()
	r, err := w.system.Reconcile(w.t.Context(), start.Add(-time.Hour), w.clock.Now().Add(time.Hour), reconcile.Config{Settle: settle})
	if err != nil {
		w.t.Fatal(err)
	}
	words := func(r reconcile.Report) (out []string) {
		for _, d := range r.Differences {
			reference := ""
			if d.There != nil {
				reference = d.There.Reference
			}
			if d.Here != nil {
				reference = d.Here.Reference
			}
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.Kind, reference, map[bool]string{true: "closed"}[d.Settled])))
		}
		slices.Sort(out)
		return out
	}
	return words(r.Payments), words(r.Refunds)
}

func wantList(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// case 22, mission C4: reconciliation finds every difference, closes only what is
// unknown here and definite there, and has the last word.
func TestReconciliationHasTheLastWord(t *testing.T) {
	t.Parallel()
	w := paid(t, withOperators, withLister)
	closable := w.open("closable")
	w.byHand(closable, 3000)
	unproved := w.open("unproved")
	amount := w.open("amount")
	w.byHand(amount, 2900)
	twice := w.open("twice")
	w.byHand(twice, 3000)
	w.byHand(twice, 3000)
	late := w.open("late")
	w.fault(pspemulator.Fault{Do: pspemulator.Decline})
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: "declined"}), http.StatusAccepted, "")
	declined := idOf("u1", "declined")
	missing := w.open("missing")
	want(t, w.asOperator(ask{path: "/operator/payments/" + string(missing) + "/verdict", body: `{"state":"SUCCEEDED","reference":"ch_nobody","reason":"they said so"}`}), http.StatusOK, "")
	w.byHand("pay_elsewhere", 700)
	void := idOf("u1", "void")
	wantBodyState(t, w.ask("void"), http.StatusOK, "VOID")
	w.byHand(void, 3000)
	process, die := w.mortal()
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		_, _ = next(ctx, r)
		die()
		return psp.Charge{}, nil
	})
	dies(w, func() { sendTo(t, process, ask{key: "pending"}) })
	w.psp.set(nil)
	pending := idOf("u1", "pending")
	w.clock.Advance(2 * time.Minute)
	w.byHand(late, 3000)
	// Refunds: one that is known there, one of which nothing is known, one by hand.
	w.refundFault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.refund(keyRa, 1000), http.StatusAccepted, "")
	w.refundFault(pspemulator.Fault{Do: pspemulator.LoseRequest})
	want(t, w.refund(keyRb, 500), http.StatusAccepted, "")
	var ra, rb string
	for _, r := range w.shownRefunds().Refunds {
		if r.Amount == 1000 {
			ra = r.ID
		} else {
			rb = r.ID
		}
	}

	open := []string{
		"unproved " + string(unproved), "other-amount " + string(amount), "several " + string(twice), "missing-there " + string(missing),
		"missing-here pay_elsewhere", "other-outcome " + string(void), "closable " + string(pending), "settled-late " + string(late),
	}
	before := w.audit()
	charges, refunds := w.reconcile(false)
	wantList(t, "charges", charges, append(open, "closable "+string(closable), "closable "+string(late), "closable "+string(declined))...)
	wantList(t, "refunds", refunds, "closable "+ra, "unproved "+rb)
	if after := w.audit(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("comparing changed %+v to %+v", before, after)
	}

	charges, refunds = w.reconcile(true)
	wantList(t, "charges", charges, append(open, "closable "+string(closable)+" closed", "closable "+string(late)+" closed", "closable "+string(declined)+" closed")...)
	wantList(t, "refunds", refunds, "closable "+ra+" closed", "unproved "+rb)
	want(t, w.send(ask{key: "closable", body: strings.Replace(order(3000), `"42"`, `"closable"`, 1)}), http.StatusCreated, "")
	want(t, w.send(ask{key: "declined"}), http.StatusPaymentRequired, "")
	want(t, w.refund(keyRa, 1000), http.StatusCreated, "")
	charges, refunds = w.reconcile(true) // again: the closed ones agree now
	wantList(t, "charges", charges, open...)
	wantList(t, "refunds", refunds, "unproved "+rb)
	w.deliver()
	w.wantBalance(12_000 + 3000 + 3*3000 - 1000) // K1, closable, late, missing; the refund
	kept, err := w.deps.Store.Due.Evidence(t.Context(), closable)
	if err != nil || len(kept) != 1 || kept[0].By != "reconciliation" || !strings.Contains(kept[0].Seen, "the processor lists ") || !strings.Contains(kept[0].Seen, "SUCCEEDED, 3000 USD, made 2026-03-04T05:06:07Z") {
		t.Errorf("got %+v, %v, want the listed entry as evidence", kept, err)
	}
	if a := w.audit(); a.Unbalanced != 0 || a.WrongBalance != 0 || a.WrongRefunded != 0 {
		t.Errorf("got %+v", a)
	}
	w.clock.Advance(10 * time.Second)
	w.resolve(2) // what was pending, and the unproved refund, whose repeat gives the money back at last
	w.wantState(keyK1, effect.Succeeded)
}

func TestReconciliationReadsMoreThanAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withLister)
	const many = 1100
	for i := range many {
		want(t, w.send(ask{key: fmt.Sprintf("key-%d", i), amount: int64(i + 1)}), http.StatusCreated, "")
		if i%3 == 0 {
			w.clock.Advance(time.Second)
		}
	}
	last := w.open("last") // which no list of theirs leads to
	r, err := w.system.Reconcile(t.Context(), start, w.clock.Now().Add(time.Second), reconcile.Config{})
	if err != nil || r.Payments.Here != many+1 || r.Payments.There != many || len(r.Payments.Differences) != 1 || r.Refunds.Open() {
		t.Fatalf("got %d and %d, %d differences, %v, want %d each and the last", r.Payments.Here, r.Payments.There, len(r.Payments.Differences), err, many)
	}
	if d := r.Payments.Differences[0]; d.Kind != reconcile.Unproved || d.Here.Reference != string(last) {
		t.Errorf("got %+v, want the last one unproved", d)
	}
}

func TestAnOperatorReconciles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators, withLister)
	id := w.open("closable")
	w.byHand(id, 3000)
	const path = "/operator/reconciliations"
	for _, body := range []string{
		" ", "{}", `{"from":"2026-03-04T00:00:00Z"}`, `{"from":"2026-03-05T00:00:00Z","to":"2026-03-04T00:00:00Z"}`, `{"from":"2026-03-04T00:00:00Z","to":"2026-03-04T00:00:00Z"}`,
		`{"from":"2026-03-01T00:00:00Z","to":"2026-05-01T00:00:00Z"}`, `{"from":"today","to":"2026-03-05T00:00:00Z"}`, `{"from":"2026-03-04T00:00:00Z","to":"2026-03-05T00:00:00Z","fix":true}`,
	} {
		want(t, w.asOperator(ask{path: path, body: body}), http.StatusBadRequest, retryproof.CodeInvalid)
	}
	got := w.asOperator(ask{path: path, body: `{"from":"2026-03-04T00:00:00Z","to":"2026-03-05T00:00:00Z","settle":true}`})
	want(t, got, http.StatusOK, "")
	var r struct{ Payments, Refunds reconcile.Report }
	if err := json.Unmarshal([]byte(got.body), &r); err != nil || r.Payments.Settled != 1 || r.Refunds.Settled != 0 || r.Payments.Open() {
		t.Errorf("got %s, %v, want the unknown closed", got.body, err)
	}
	without := newWorld(t, withOperators)
	want(t, without.asOperator(ask{path: path, body: `{"from":"2026-03-04T00:00:00Z","to":"2026-03-05T00:00:00Z"}`}), http.StatusBadRequest, retryproof.CodeInvalid)
}

// One that is refused for good keeps no other open, and the operator reads which and why.
func TestASettlementThatFailsReachesTheOperatorInTheReport(t *testing.T) {
	t.Parallel()
	refuse := false
	w := newWorld(t, withOperators, withLister, func(w *world) {
		w.deps.Store.Effects = effects{Store: w.deps.Store.Effects, before: func(op string) error {
			if op == "settle" && refuse {
				refuse = false
				return retryproof.Refused(retryproof.CodeInvalid, "no row like this", nil)
			}
			return nil
		}}
	})
	w.byHand(w.open("a"), 3000)
	w.byHand(w.open("b"), 3000)
	refuse = true
	got := w.asOperator(ask{path: "/operator/reconciliations", body: `{"from":"2026-03-04T00:00:00Z","to":"2026-03-05T00:00:00Z","settle":true}`})
	want(t, got, http.StatusOK, "")
	var r payments.Reconciliation
	if err := json.Unmarshal([]byte(got.body), &r); err != nil || r.Payments.Settled != 1 || r.Payments.Failed != 1 || !r.Payments.Open() {
		t.Fatalf("got %s, %v, want one closed and one that could not be", got.body, err)
	}
	if d := r.Payments.Differences; len(d) != 2 || d[0].Settled || !strings.Contains(d[0].Error, "no row like this") || !d[1].Settled || d[1].Error != "" {
		t.Errorf("got %s, want the error at the first one", got.body)
	}
	if w.log.lines("settled=1 failed=1") != 1 {
		t.Error("the log does not count it")
	}
}
