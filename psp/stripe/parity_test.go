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
	if got, want := emulator.CodeNoAnswer, stripe.CodeNoAnswer; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
