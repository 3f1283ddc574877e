package stripe_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/psp/stripe"
)

// caller is what the simulator's direct calls and the adapter share.
type caller interface {
	Charge(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error)
	Find(ctx context.Context, reference string) ([]psp.Charge, error)
	Retrieve(ctx context.Context, id string) (psp.Charge, error)
	Webhook(payload []byte, header http.Header, now time.Time) (psp.WebhookEvent, error)
	Refund(ctx context.Context, r psp.RefundRequest) (psp.Refund, error)
	RetrieveRefund(ctx context.Context, id string) (psp.Refund, error)
	FindRefunds(ctx context.Context, reference, chargeID string) ([]psp.Refund, error)
	List(ctx context.Context, from, to time.Time, after string, limit int) ([]psp.Charge, string, error)
	ListRefunds(ctx context.Context, from, to time.Time, after string, limit int) ([]psp.Refund, string, error)
}

// The simulator proves something about production only if both say the same.
func TestDirectCallsAndTheAdapterSayTheSame(t *testing.T) {
	t.Parallel()
	run := func(pick func(*world) caller) []any {
		w := newWorld(t)
		c := pick(w)
		var said []any
		note := func(charge psp.Charge, err error) {
			said = append(said, charge, retryproof.OutcomeOf(err), retryproof.CodeOf(err))
		}
		ask := func(key, method string) { // a key, a method, and a look at what is there
			r := request(key)
			r.Method = method
			note(c.Charge(context.Background(), r))
			found, err := c.Find(context.Background(), "pay_7")
			said = append(said, len(found), retryproof.CodeOf(err))
		}
		for _, f := range []emulator.Fault{
			{Do: emulator.LoseRequest}, {Do: emulator.LoseReply}, {Do: emulator.RateLimited}, {Do: emulator.Error500},
			{Do: emulator.Error500, When: emulator.AfterEffect}, {Do: emulator.Decline, DeclineCode: "lost_card"},
			{Do: emulator.Processing, By: time.Minute}, {Do: emulator.Delay, By: time.Second},
		} {
			f.Operation = emulator.OperationCharge
			w.faults(f)
			key := string(f.Do) + string(f.When)
			ask(key, "pm_1")
			ask(key, "pm_1")
			ask(key, "pm_2")
		}
		ask("declined", "pm_declined")
		ask("nonsense", "nonsense")
		note(c.Retrieve(context.Background(), "pi_none"))
		for _, do := range []emulator.Action{emulator.LoseReply, emulator.RateLimited, emulator.Error500} {
			w.faults(emulator.Fault{Operation: emulator.OperationRetrieve, Do: do}, emulator.Fault{Operation: emulator.OperationSearch, Do: do})
			note(c.Retrieve(context.Background(), "pi_none"))
			found, err := c.Find(context.Background(), "pay_7")
			said = append(said, len(found), retryproof.OutcomeOf(err), retryproof.CodeOf(err))
		}
		for _, made := range w.charges() {
			note(c.Retrieve(context.Background(), made.Intent))
		}
		return said
	}
	sameWords(t, run)
	if got, want := emulator.CodeNoAnswer, stripe.CodeNoAnswer; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// sameWords runs the same calls directly and through the adapter and compares what
// was said.
func sameWords(t *testing.T, run func(pick func(*world) caller) []any) {
	t.Helper()
	direct := run(func(w *world) caller { return emulator.Direct{Core: w.core} })
	adapter := run(func(w *world) caller {
		// Without reused connections, on which net/http repeats a broken lookup.
		return w.adapterWith(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})
	})
	if len(direct) != len(adapter) {
		t.Fatalf("got %d and %d answers", len(direct), len(adapter))
	}
	for i := range direct {
		if got, want := direct[i], adapter[i]; got != want {
			t.Errorf("%d: directly %+v, adapter %+v", i, got, want)
		}
	}
}

func TestRefundsListingsAndTheirWebhooksAreTheSameDirectlyAndThroughTheAdapter(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	sameWords(t, func(pick func(*world) caller) []any {
		w := newWorld(t)
		c, start := pick(w), w.clock.Now()
		var said []any
		say := func(err error, what ...any) {
			said = append(append(said, what...), retryproof.OutcomeOf(err), retryproof.CodeOf(err))
		}
		many := func(got []psp.Refund, err error) {
			for _, r := range got {
				said = append(said, r)
			}
			say(err, len(got))
		}
		charge, err := c.Charge(ctx, request("k"))
		say(err, charge)
		refund := func(key string, amount int64) {
			r := refundRequest(charge.ID, key)
			r.Amount = amount
			got, err := c.Refund(ctx, r)
			say(err, got)
			many(c.FindRefunds(ctx, r.Reference, charge.ID))
			w.clock.advance(time.Second)
		}
		for _, f := range refundFaults {
			f.Operation = emulator.OperationRefund
			w.faults(f)
			for _, amount := range []int64{100, 100, 200} {
				refund(string(f.Do)+string(f.When), amount)
			}
		}
		refund("", 1)
		refund("none", 0)
		refund("more", 4000)
		refund("rest", 3000-w.charges()[0].Refunded)
		refund("again", 1)
		foreign := refundRequest("pi_none", "foreign")
		got, err := c.Refund(ctx, foreign)
		say(err, got)
		for _, do := range []emulator.Action{"", emulator.LoseReply, emulator.RateLimited, emulator.Error500} {
			for _, ask := range []func(){
				func() { many(c.FindRefunds(ctx, "ref_none", charge.ID)) },
				func() { many(c.FindRefunds(ctx, "ref_none", "pi_none")) },
				func() { many(c.FindRefunds(ctx, "", charge.ID)) },
				func() { many(c.FindRefunds(ctx, "ref_none", "")) },
				func() { got, err := c.RetrieveRefund(ctx, "re_none"); say(err, got) },
				func() { got, err := c.RetrieveRefund(ctx, ""); say(err, got) },
				func() { _, next, err := c.List(ctx, start, start.Add(time.Hour), "pi_none", 1); say(err, next) },
				func() { _, next, err := c.List(ctx, start, start.Add(time.Hour), "", -1); say(err, next) },
			} {
				if do != "" {
					w.core.ClearFaults()
					w.faults(emulator.Fault{Operation: emulator.OperationRetrieve, Do: do})
				}
				ask()
			}
			w.core.ClearFaults()
		}
		after := ""
		for range 9 {
			page, next, err := c.ListRefunds(ctx, start.Add(time.Second), start.Add(40*time.Second), after, 3)
			many(page, err)
			said = append(said, next)
			if after = next; after == "" {
				break
			}
		}
		charges, next, err := c.List(ctx, start, start.Add(time.Second), "", 0)
		say(err, len(charges), charges[0], next)
		w.clock.advance(24 * time.Hour)
		for _, r := range w.core.Refunds() {
			got, err := c.RetrieveRefund(ctx, r.ID)
			say(err, got)
		}
		if _, err := w.core.RunOnce(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range w.hooks.payloads {
			e, err := c.Webhook(w.hooks.payloads[i], w.hooks.headers[i], w.clock.Now())
			say(err, e)
		}
		if len(w.hooks.payloads) < 20 {
			t.Errorf("webhooks: got %d, want more: the test compares little", len(w.hooks.payloads))
		}
		return said
	})
}

var refundFaults = []emulator.Fault{
	{Do: emulator.LoseRequest}, {Do: emulator.LoseReply}, {Do: emulator.RateLimited}, {Do: emulator.Error500},
	{Do: emulator.Error500, When: emulator.AfterEffect}, {Do: emulator.Decline}, {Do: emulator.Decline, DeclineCode: "refund_disputed_payment"},
	{Do: emulator.Processing, By: time.Minute}, {Do: emulator.FailPending, By: time.Minute}, {Do: emulator.FailLater, By: time.Minute},
	{Do: emulator.Delay, By: time.Second}, {Do: emulator.Decline, DeclineCode: "balance_insufficient"},
}
