package emulator_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
)

func TestListingsAndSearchesPageThroughEverythingNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string
	for range 25 {
		want = append(want, read(t, w.do(charge(""))).ID)
		w.clock.advance(time.Second)
	}
	slices.Reverse(want)
	w.restart()
	var listed, searched []string
	for after := ""; ; after = listed[len(listed)-1] {
		r := get("/v1/payment_intents", "limit", "10")
		if after != "" {
			r.Form.Set("starting_after", after)
		}
		o := read(t, w.do(r))
		for _, d := range o.Data {
			listed = append(listed, d.ID)
		}
		if !o.HasMore {
			break
		}
	}
	r := get("/v1/payment_intents/search", "query", "status:'succeeded' AND metadata['payment_id']:'pay_7'")
	for {
		o := read(t, w.do(r))
		for _, d := range o.Data {
			searched = append(searched, d.ID)
		}
		if o.NextPage == nil {
			break
		}
		r.Form.Set("page", *o.NextPage)
	}
	if !slices.Equal(listed, want) || !slices.Equal(searched, want) {
		t.Errorf("got %d listed, %d searched, want the same %d", len(listed), len(searched), len(want))
	}
	before := read(t, w.do(get("/v1/payment_intents", "ending_before", want[5], "limit", "3")))
	if got := before.Data; len(got) != 3 || got[0].ID != want[2] || !before.HasMore {
		t.Errorf("ending_before: got %v, want %v", got, want[2:5])
	}
}

func TestSearchLagsBehindAndRetrieveDoesNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.SearchLag = time.Minute
	w.restart()
	d := emulator.Direct{Core: w.core}
	made, err := d.Charge(context.Background(), psp.ChargeRequest{Key: "k", Reference: "it's \\ 7", Amount: 1, Currency: "USD", Method: "pm_1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{0, 1} {
		found, err := d.Find(context.Background(), "it's \\ 7")
		if err != nil || len(found) != want {
			t.Errorf("got %v %v, want %d", found, err, want)
		}
		w.clock.advance(time.Minute)
	}
	if got, err := d.Retrieve(context.Background(), made.ID); err != nil || got.ID != made.ID {
		t.Errorf("got %v %v, want %s", got, err, made.ID)
	}
}

func TestDirectCallsSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := emulator.Direct{Core: w.core}
	ask := psp.ChargeRequest{Key: "k", Reference: "pay_7", Amount: 3000, Currency: "USD", Method: "pm_1"}
	for _, c := range []struct {
		do   emulator.Action
		out  retryproof.Outcome
		code retryproof.Code
	}{
		{emulator.RateLimited, retryproof.NotDone, retryproof.CodeTooMany},
		{emulator.LoseRequest, retryproof.Unknown, emulator.CodeNoAnswer},
		{emulator.LoseReply, retryproof.Unknown, emulator.CodeNoAnswer},
	} {
		w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: c.do})
		_, err := d.Charge(context.Background(), ask)
		if retryproof.OutcomeOf(err) != c.out || retryproof.CodeOf(err) != c.code {
			t.Errorf("%s: got %v %s, want %v %s", c.do, retryproof.OutcomeOf(err), retryproof.CodeOf(err), c.out, c.code)
		}
	}
	got, err := d.Charge(context.Background(), ask)
	if err != nil || !got.Replayed || got.State != psp.Succeeded || got.Currency != "USD" || got.Reference != "pay_7" {
		t.Errorf("got %+v %v, want a replayed success", got, err)
	}
	ask.Amount = 1
	if _, err := d.Charge(context.Background(), ask); retryproof.OutcomeOf(err) != retryproof.Unknown || retryproof.CodeOf(err) != retryproof.CodeKeyReused {
		t.Errorf("other amount: got %v, want Unknown key-reused", err)
	}
	if _, err := d.Retrieve(context.Background(), "pi_none"); retryproof.OutcomeOf(err) != retryproof.Unknown || retryproof.CodeOf(err) != retryproof.CodeNotFound {
		t.Errorf("lookup: got %v, want Unknown not-found", err)
	}
	if _, err := d.Webhook([]byte("{}"), http.Header{}, w.clock.Now()); retryproof.CodeOf(err) != retryproof.CodeUnauthorized {
		t.Errorf("unsigned webhook: got %v, want unauthorized", err)
	}
}
