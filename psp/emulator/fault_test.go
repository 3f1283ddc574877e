package emulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
)

func TestALostRequestDoesNothingAndALostReplyEverything(t *testing.T) {
	t.Parallel()
	for do, c := range map[emulator.Action]struct {
		err     error
		charges int
	}{
		emulator.LoseRequest: {emulator.ErrRequestLost, 0},
		emulator.LoseReply:   {emulator.ErrReplyLost, 1},
	} {
		w := newWorld(t)
		w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: do, Count: 2})
		for range 2 {
			if _, err := w.core.Do(context.Background(), charge("k")); !errors.Is(err, c.err) {
				t.Errorf("%s: got %v, want %v", do, err, c.err)
			}
		}
		if got := len(w.core.Charges()); got != c.charges {
			t.Errorf("%s: charges: got %d, want %d", do, got, c.charges)
		}
		w.restart()
		if resp := w.do(charge("k")); resp.Status != 200 || len(w.core.Charges()) != 1 {
			t.Errorf("%s: repeat: got %d and %d charges, want 200 and 1", do, resp.Status, len(w.core.Charges()))
		}
	}
}

func TestAReplayDoesNotUseUpAnEffectFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(charge("k"))
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.Decline, DeclineCode: "lost_card"})
	w.do(charge("k"))
	if got := len(w.core.Faults()); got != 1 {
		t.Fatalf("faults left: got %d, want 1", got)
	}
	if got := read(t, w.do(charge("k2"))).Error.DeclineCode; got != "lost_card" {
		t.Errorf("got %q, want lost_card", got)
	}
	if got := w.do(charge("k3")).Status; got != 200 {
		t.Errorf("after the script: got %d, want 200", got)
	}
}

func TestADelayMovesTheEffectOrOnlyTheAnswer(t *testing.T) {
	t.Parallel()
	for when, shift := range map[emulator.When]time.Duration{emulator.BeforeEffect: time.Minute, emulator.AfterEffect: 0} {
		w := newWorld(t)
		start := w.clock.Now()
		w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.Delay, By: time.Minute, When: when})
		w.do(charge("k"))
		if got, want := w.core.Charges()[0].At.Sub(start), shift; got != want {
			t.Errorf("%s: charged after %s, want %s", when, got, want)
		}
		if got := w.clock.Now().Sub(start); got != time.Minute {
			t.Errorf("%s: answered after %s, want 1 min", when, got)
		}
	}
}

func TestAProcessingChargeSettlesLaterAndItsSavedAnswerDoesNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.Processing, By: time.Hour})
	d := emulator.Direct{Core: w.core}
	ask := psp.ChargeRequest{Key: "k", Reference: "pay_7", Amount: 3000, Currency: "USD", Method: "pm_1"}
	made, err := d.Charge(context.Background(), ask)
	if err != nil || made.State != psp.Processing || len(w.core.Charges()) != 0 {
		t.Fatalf("got %+v %v, want processing and no charge yet", made, err)
	}
	w.clock.advance(time.Hour)
	w.restart()
	d.Core = w.core
	again, _ := d.Charge(context.Background(), ask)
	now, _ := d.Retrieve(context.Background(), made.ID)
	if again.State != psp.Processing || now.State != psp.Succeeded || len(w.core.Charges()) != 1 {
		t.Errorf("got %s replayed, %s retrieved; want processing and succeeded", again.State, now.State)
	}
	if _, err := w.core.RunOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got, want := w.mail.got, []string{"payment_intent.processing", "payment_intent.succeeded"}; !slices.Equal(got, want) {
		t.Errorf("webhooks: got %v, want %v", got, want)
	}
}

func TestWebhookFaultsMoveRepeatAndDropThem(t *testing.T) {
	t.Parallel()
	for do, want := range map[emulator.Action][]int{ // deliveries: before the answer, at once, after 1 min, after 2 min
		"":                    {0, 1, 1, 1},
		emulator.WebhookEarly: {1, 1, 1, 1},
		emulator.WebhookLate:  {0, 0, 1, 1},
		emulator.WebhookTwice: {0, 1, 2, 2},
		emulator.WebhookNever: {0, 0, 0, 0},
	} {
		w := newWorld(t)
		f := emulator.Fault{Operation: emulator.OperationCharge, Do: do}
		if do == emulator.WebhookLate || do == emulator.WebhookTwice {
			f.By = time.Minute
		}
		if do != "" {
			w.faults(f)
		}
		w.do(charge("k"))
		got := []int{len(w.mail.got)}
		for range 3 {
			w.restart() // nothing that is owed may depend on the process
			if _, err := w.core.RunOnce(context.Background()); err != nil {
				t.Fatal(err)
			}
			got = append(got, len(w.mail.got))
			w.clock.advance(time.Minute)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", do, got, want)
		}
	}
}

func TestAWebhookIsRetriedWithBackoffUntilItIsReceived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mail.fail = 3
	w.do(charge("k"))
	start := w.clock.Now()
	var at []time.Duration
	for len(w.mail.got) == 0 && len(at) < 9 {
		next, owed := w.core.NextWebhook()
		if !owed {
			t.Fatal("the webhook is no longer owed")
		}
		w.clock.advance(next.Sub(w.clock.Now()))
		at = append(at, next.Sub(start))
		n, err := w.core.RunOnce(context.Background())
		if (n == 1) != (err == nil) {
			t.Errorf("got %d and %v, want an error for a failure only", n, err)
		}
	}
	if want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("attempts at %v, want %v", at, want)
	}
	if n, err := w.core.RunOnce(context.Background()); n != 0 || err != nil {
		t.Errorf("after it was received: got %d %v, want nothing", n, err)
	}
}

func TestAWebhookWhoseReceiptIsNotRecordedIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(charge("k"))
	w.journal.fail = true
	if n, err := w.core.RunOnce(context.Background()); n != 0 || err == nil {
		t.Errorf("got %d %v, want an error", n, err)
	}
	w.journal.fail = false
	w.restart()
	if n, err := w.core.RunOnce(context.Background()); n != 1 || err != nil || len(w.mail.got) != 2 {
		t.Errorf("got %d %v and %d deliveries, want a second one", n, err, len(w.mail.got))
	}
}

func TestAFailingJournalMeansThatNothingHappened(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		w := newWorld(t)
		w.journal.fail, w.journal.keep = true, keep
		first := w.do(charge("k"))
		if first.Status != 500 || len(w.core.Charges()) != 0 || len(w.core.Webhooks()) != 0 {
			t.Errorf("got %d and %d charges, want 500 and none", first.Status, len(w.core.Charges()))
		}
		w.journal.fail = false
		if again := w.do(charge("k")); again.Status != 200 || again.Replayed {
			t.Errorf("again: got %d replayed %v, want a fresh 200", again.Status, again.Replayed)
		}
		w.restart()
		if got := len(w.core.Charges()); got != 1 {
			t.Errorf("keep %v: after the restart: %d charges, want 1", keep, got)
		}
	}
}

func TestARestartForgetsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(charge("a"))
	w.do(charge("b", "payment_method", "pm_declined"))
	w.clock.advance(time.Second)
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.WebhookLate, By: time.Hour})
	w.do(charge("c"))
	if _, err := w.core.RunOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		charges := w.core.Charges()
		for i := range charges {
			charges[i].Requests, charges[i].Replays = 0, 0
		}
		b, err := json.Marshal([]any{charges, w.core.Webhooks(), string(w.do(get("/v1/payment_intents")).Body)})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := state()
	w.restart()
	if got := state(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestABrokenJournalStopsTheStart(t *testing.T) {
	t.Parallel()
	for _, record := range []string{"nonsense", "{}", `{"v":99,"write":{}}`, `{"v":1}`} {
		j := &emulator.MemoryJournal{}
		_ = j.Append(context.Background(), []byte(record))
		if _, err := emulator.New(context.Background(), emulator.Config{Clock: newClock(), Journal: j}); err == nil {
			t.Errorf("%s: New took it", record)
		}
	}
}

func TestWebhooksAreReadByTheirSignature(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := emulator.Direct{Core: w.core}
	now := w.clock.Now()
	payload := []byte(`{"id":"evt_1","type":"payment_intent.succeeded","created":1,"data":{"object":{"id":"pi_1","amount":3000,"currency":"usd","status":"succeeded","metadata":{"payment_id":"pay_7"}}}}`)
	header := func(s string) http.Header { return http.Header{"Stripe-Signature": {s}} }
	good := emulator.Sign(emulator.DefaultWebhookSecret, payload, now)
	got, err := d.Webhook(payload, header(good), now.Add(5*time.Minute))
	if err != nil || got.Charge.State != psp.Succeeded || got.Charge.Reference != "pay_7" || got.ID != "evt_1" {
		t.Errorf("got %+v %v, want pay_7 succeeded", got, err)
	}
	for name, c := range map[string]struct {
		header http.Header
		now    time.Time
	}{
		"too old":      {header(good), now.Add(5*time.Minute + time.Second)},
		"from later":   {header(good), now.Add(-5*time.Minute - time.Second)},
		"other secret": {header(emulator.Sign("other", payload, now)), now},
		"two times":    {header(good + ",t=1"), now},
		"none":         {http.Header{}, now},
	} {
		if _, err := d.Webhook(payload, c.header, c.now); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}
