package emulator_test

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
)

func refundOf(intent, key, amount string) emulator.Request {
	return emulator.Request{Method: "POST", Path: "/v1/refunds", Key: key, Form: url.Values{
		"payment_intent": {intent}, "amount": {amount}, "metadata[refund_id]": {"ref_" + key}, "metadata[payment_id]": {"pay_7"},
	}}
}

// case 23
func TestARefundsRetryUnderItsOwnKeyGivesNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	intent := read(t, w.do(charge("k"))).ID
	w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: emulator.LoseReply})
	if _, err := w.core.Do(context.Background(), refundOf(intent, "a", "1000")); err == nil {
		t.Fatal("the reply was not lost")
	}
	w.do(refundOf(intent, "b", "1000"))
	w.restart()
	if got := w.do(refundOf(intent, "a", "1000")); got.Status != 200 || !got.Replayed {
		t.Errorf("retry: got %d replayed %v, want the saved 200", got.Status, got.Replayed)
	}
	if got := w.do(refundOf(intent, "a", "1500")).Status; got != 400 {
		t.Errorf("retry of another amount: got %d, want 400", got)
	}
	if got := w.core.Charges()[0].Refunded; got != 2000 {
		t.Errorf("refunded: got %d, want 2000", got)
	}
	book := w.core.Refunds()
	if len(book) != 2 || book[0].Key != "a" || book[0].Reference != "ref_a" || book[0].Payment != "pay_7" || book[0].Amount != 1000 ||
		book[0].Requests != 2 || book[0].Replays != 1 || book[0].Status != "succeeded" {
		t.Errorf("got %+v, want the refunds a and b", book)
	}
	if got := w.core.RefundsAfter(1); len(got) != 1 || got[0].Key != "b" {
		t.Errorf("after the first: got %+v, want b", got)
	}
}

func TestARefundSettlesLaterAndAFailedOneGivesNothing(t *testing.T) {
	t.Parallel()
	for do, want := range map[emulator.Action]struct {
		first, last, failure string
		refunded             []int64 // at once, and after the settling
		events               []string
	}{
		emulator.Processing:  {"pending", "succeeded", "", []int64{1000, 1000}, []string{"refund.created", "charge.refunded", "refund.updated"}},
		emulator.FailPending: {"pending", "failed", "expired_or_canceled_card", []int64{1000, 0}, []string{"refund.created", "charge.refunded", "refund.failed"}},
		emulator.FailLater:   {"succeeded", "failed", "expired_or_canceled_card", []int64{1000, 0}, []string{"refund.created", "charge.refunded", "refund.failed"}},
	} {
		w := newWorld(t)
		intent := read(t, w.do(charge("k"))).ID
		w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: do, By: time.Hour})
		made := read(t, w.do(refundOf(intent, "r", "1000")))
		var got []int64
		look := func(status string) {
			w.restart()
			if s := read(t, w.do(get("/v1/refunds/"+made.ID))).Status; s != status {
				t.Errorf("%s: got %s, want %s", do, s, status)
			}
			got = append(got, w.core.Charges()[0].Refunded)
			if _, err := w.core.RunOnce(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		look(want.first)
		w.clock.advance(time.Hour - time.Microsecond)
		if s := w.core.Refunds()[0].Status; s != want.first {
			t.Errorf("%s: just before: got %s, want %s", do, s, want.first)
		}
		w.clock.advance(time.Microsecond)
		look(want.last)
		if !slices.Equal(got, want.refunded) || !slices.Equal(w.mail.got[1:], want.events) {
			t.Errorf("%s: got %v and %v, want %v and %v", do, got, w.mail.got[1:], want.refunded, want.events)
		}
		if again := read(t, w.do(refundOf(intent, "r", "1000"))); again.Status != want.first {
			t.Errorf("%s: a repeat: got %s, want the saved %s", do, again.Status, want.first)
		}
		body := string(w.do(get("/v1/refunds/" + made.ID)).Body)
		if strings.Contains(body, `"failure_reason":"`+want.failure+`"`) != (want.failure != "") {
			t.Errorf("%s: got %s, want the reason %q", do, body, want.failure)
		}
	}
}

func TestWhatFailedCanBeRefundedOnceMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	intent := read(t, w.do(charge("k"))).ID
	w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: emulator.FailLater, By: time.Hour})
	w.do(refundOf(intent, "a", "3000"))
	if got := read(t, w.do(refundOf(intent, "b", "1"))).Error.Code; got != "charge_already_refunded" {
		t.Errorf("before it failed: got %q, want charge_already_refunded", got)
	}
	w.clock.advance(time.Hour)
	w.restart()
	if got := w.do(refundOf(intent, "c", "3000")).Status; got != 200 {
		t.Errorf("after it failed: got %d, want 200", got)
	}
	if got := read(t, w.do(refundOf(intent, "d", "1"))).Error.Code; got != "charge_already_refunded" {
		t.Errorf("got %q, want charge_already_refunded", got)
	}
	if got := w.core.Charges()[0].Refunded; got != 3000 {
		t.Errorf("refunded: got %d, want 3000", got)
	}
}

func TestARefusedRefundAndASaved500ComeBackForTheirKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   emulator.Fault
		status  int
		code    string
		refunds int
	}{
		"refused":    {emulator.Fault{Do: emulator.Decline}, 400, "charge_disputed", 0},
		"other code": {emulator.Fault{Do: emulator.Decline, DeclineCode: "charge_not_refundable"}, 400, "charge_not_refundable", 0},
		"500 before": {emulator.Fault{Do: emulator.Error500}, 500, "", 0},
		"500 after":  {emulator.Fault{Do: emulator.Error500, When: emulator.AfterEffect}, 500, "", 1},
	} {
		w := newWorld(t)
		intent := read(t, w.do(charge("k"))).ID
		c.fault.Operation = emulator.OperationRefund
		w.faults(c.fault)
		first := w.do(refundOf(intent, "r", "1000"))
		w.restart()
		again := w.do(refundOf(intent, "r", "1000"))
		if first.Status != c.status || read(t, first).Error.Code != c.code || !again.Replayed || string(again.Body) != string(first.Body) {
			t.Errorf("%s: got %d %s, then %s replayed %v", name, first.Status, first.Body, again.Body, again.Replayed)
		}
		found, err := emulator.Direct{Core: w.core}.FindRefunds(context.Background(), "ref_r", intent)
		if err != nil || len(found) != c.refunds || len(w.core.Refunds()) != c.refunds {
			t.Errorf("%s: found %v %v, want %d", name, found, err, c.refunds)
		}
	}
}

func TestAWebhookFaultMeetsTheMessageThatNamesTheRefund(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	intent := read(t, w.do(charge("k"))).ID
	w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: emulator.WebhookNever})
	w.do(refundOf(intent, "r", "1000"))
	if _, err := w.core.RunOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got, want := w.mail.got, []string{"payment_intent.succeeded", "charge.refunded"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFaultsOfRefundsAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, bad := range []emulator.Fault{
		{Operation: emulator.OperationCharge, Do: emulator.FailLater, By: time.Second},
		{Operation: emulator.OperationRefund, Do: emulator.FailPending},
		{Operation: emulator.OperationRefund, Do: emulator.Processing, By: time.Second, DeclineCode: "x"},
	} {
		if err := w.core.AddFaults(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: emulator.FailLater, By: time.Second, DeclineCode: "lost_or_stolen_card"})
}

// A record of the first version of this program has none of the newer fields.
func TestARefundInAnOldJournalHasSucceeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, record := range []string{
		`{"v":1,"at":"2026-01-02T03:04:05Z","write":{"key":"k","first_use":"2026-01-02T03:04:05Z","status":200,"intent":{"id":"pi_1","seq":1,"amount":3000,"currency":"usd","created":"2026-01-02T03:04:05Z","status":"succeeded","charge_id":"ch_1","charged_at":"2026-01-02T03:04:05Z","refunded":1000}}}`,
		`{"v":1,"at":"2026-01-02T03:04:05Z","write":{"key":"r","first_use":"2026-01-02T03:04:05Z","status":200,"refund":{"id":"re_1","seq":2,"intent":"pi_1","charge":"ch_1","amount":1000,"currency":"usd","created":"2026-01-02T03:04:05Z"}}}`,
	} {
		if err := w.journal.Append(context.Background(), []byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	w.restart()
	if got := read(t, w.do(get("/v1/refunds", "payment_intent", "pi_1"))).Data; len(got) != 1 || got[0].ID != "re_1" {
		t.Errorf("got %v, want re_1", got)
	}
	if got := w.core.Refunds()[0].Status; got != "succeeded" || w.core.Charges()[0].Refunded != 1000 {
		t.Errorf("got %s and %d, want succeeded and 1000", got, w.core.Charges()[0].Refunded)
	}
}

func TestARestartForgetsNoRefund(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	intent := read(t, w.do(charge("k"))).ID
	w.faults(emulator.Fault{Operation: emulator.OperationRefund, Do: emulator.FailPending, By: time.Minute, DeclineCode: "lost_or_stolen_card"})
	w.do(refundOf(intent, "a", "1000"))
	w.do(refundOf(intent, "b", "500"))
	w.clock.advance(time.Hour)
	state := func() string {
		book := w.core.Refunds()
		for i := range book {
			book[i].Requests, book[i].Replays = 0, 0
		}
		b, err := json.Marshal([]any{book, w.core.Charges()[0].Refunded, w.core.Webhooks(), string(w.do(get("/v1/refunds")).Body)})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := state()
	w.restart()
	if got := state(); got != want || !strings.Contains(got, "lost_or_stolen_card") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRefundsOfWhatIsNotThereAreAnErrorAndNotAnEmptyList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, param := range []string{"payment_intent", "charge"} {
		if got := w.do(get("/v1/refunds", param, "x_none")).Status; got != 404 {
			t.Errorf("%s: got %d, want 404", param, got)
		}
	}
	d := emulator.Direct{Core: w.core}
	for _, ask := range [][2]string{{"", "pi_1"}, {"ref", ""}, {"ref", "pi_1"}} {
		if found, err := d.FindRefunds(context.Background(), ask[0], ask[1]); err == nil || found != nil {
			t.Errorf("%v: got %v %v, want an error", ask, found, err)
		}
	}
	if _, err := d.RetrieveRefund(context.Background(), ""); err == nil {
		t.Error("a refund without an id was found")
	}
	if _, err := d.Refund(context.Background(), psp.RefundRequest{}); err == nil {
		t.Error("an empty refund was made")
	}
}

func TestTheBookOfRefundsIsShownOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := serve(t, w, emulator.HandlerConfig{})
	w.do(refundOf(read(t, w.do(charge("k"))).ID, "r", "1000"))
	status, book := send(t, "GET", address+"/_emulator/refunds", "")
	for _, want := range []string{`"key":"r"`, `"amount":1000`, `"reference":"ref_r"`, `"payment":"pay_7"`, `"requests":1`, `"status":"succeeded"`} {
		if status != 200 || !strings.Contains(book, want) {
			t.Errorf("got %d %s, want %s", status, book, want)
		}
	}
}
