package payments_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

// traffic is a clock on which buyers pay while somebody else sleeps.
type traffic struct {
	*clocktest.Clock
	every time.Duration
	next  time.Time
	pay   func()
	live  bool // a buyer's request runs
}

func (c *traffic) Sleep(ctx context.Context, d time.Duration) error {
	for until := c.Now().Add(d); !c.live && c.pay != nil && !c.next.After(until); {
		if err := c.Clock.Sleep(ctx, c.next.Sub(c.Now())); err != nil {
			return err
		}
		d = until.Sub(c.Now())
		c.next = c.next.Add(c.every)
		c.live = true
		c.pay()
		c.live = false
	}
	return c.Clock.Sleep(ctx, d)
}

// anHour is what is seen of an outage.
type anHour struct {
	w        *world
	clock    *traffic
	down     bool
	paid     int
	statuses map[int]int
	// live are calls of buyers' requests; asked is when the resolver asked.
	live, calls int
	asked       []time.Time
}

func newHour(t *testing.T) *anHour {
	h := &anHour{statuses: map[int]int{}}
	h.w = newWorld(t, func(w *world) {
		h.clock = &traffic{Clock: w.clock, every: 4 * time.Second, next: w.clock.Now()}
		w.deps.Clock = h.clock
	})
	h.clock.pay = func() {
		h.paid++
		name := fmt.Sprintf("order-%d", h.paid)
		h.statuses[h.w.send(ask{key: name, body: strings.Replace(order(3000), `"42"`, `"`+name+`"`, 1)}).status]++
	}
	h.w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		if h.calls++; h.clock.live {
			h.live++
		} else {
			h.asked = append(h.asked, h.clock.Now())
		}
		switch {
		case !h.down:
			return next(ctx, r)
		case h.calls%2 == 0: // the charge is made and nobody hears of it
			_, _ = next(ctx, r)
		}
		return psp.Charge{}, errNoAnswer
	})
	return h
}

// pass lets time pass, with the resolver looking for work twice a second, and returns
// what buyers were answered.
func (h *anHour) pass(d time.Duration) map[int]int {
	h.w.t.Helper()
	h.statuses = map[int]int{}
	for until := h.clock.Now().Add(d); h.clock.Now().Before(until); {
		if _, err := h.w.system.ResolveOnce(h.w.t.Context()); err != nil {
			h.w.t.Fatal(err)
		}
		if err := h.clock.Sleep(h.w.t.Context(), 500*time.Millisecond); err != nil {
			h.w.t.Fatal(err)
		}
		if h.paid%100 == 0 {
			if a := h.w.audit(); a.ByState[effect.Failed]+a.ByState[effect.Void] != 0 {
				h.w.t.Fatalf("at %v: got %v, want nothing guessed", h.clock.Now(), a.ByState)
			}
		}
	}
	return h.statuses
}

// case 22, mission C4: the processor is away for an hour while buyers pay. The resolver
// keeps to its rate, guesses nothing, and takes no call from the buyers; afterwards
// everything is settled, each by one charge.
func TestAnHourWithoutTheProcessor(t *testing.T) {
	t.Parallel()
	h := newHour(t)
	w := h.w
	if got := h.pass(5 * time.Minute); got[http.StatusCreated] != h.paid {
		t.Errorf("before: got %v of %d, want all 201", got, h.paid)
	}
	h.down = true
	if err := w.core.AddFaults(pspemulator.Fault{Operation: pspemulator.OperationSearch, Do: pspemulator.LoseRequest, Always: true}); err != nil {
		t.Fatal(err)
	}
	before := h.paid
	if got := h.pass(time.Hour); got[http.StatusAccepted] != h.paid-before || len(got) != 1 {
		t.Errorf("during: got %v of %d, want all 202", got, h.paid-before)
	}
	if n := h.paid - before; n < 895 || n > 905 {
		t.Errorf("during: %d buyers paid, want 900: they waited for the resolver", n)
	}
	if a := w.audit(); a.ByState[effect.Unknown] != int64(h.paid-before) || len(h.asked) < 3600 {
		t.Errorf("got %v after %d questions, want all of the hour UNKNOWN and asked about", a.ByState, len(h.asked))
	}
	h.down = false
	w.core.ClearFaults()
	before = h.paid
	if got := h.pass(time.Hour); got[http.StatusCreated] != h.paid-before || len(got) != 1 {
		t.Errorf("after: got %v of %d, want all 201 at once", got, h.paid-before)
	}
	h.checkRate(t)
	if h.live != h.paid {
		t.Errorf("buyers' calls: got %d, want one for each of %d payments", h.live, h.paid)
	}
	if a := w.audit(); a.ByState[effect.Succeeded] != int64(h.paid) || len(a.ByState) != 1 || a.ClaimsInProgress != 0 {
		t.Errorf("got %v, want %d SUCCEEDED", a.ByState, h.paid)
	}
	w.wantCharges(h.paid)
	w.deliver()
	w.wantBalance(12_000 + int64(h.paid)*3000)
}

// checkRate checks that any two questions are a fifth of a second apart, over all runs.
func (h *anHour) checkRate(t *testing.T) {
	t.Helper()
	for i := 1; i < len(h.asked); i++ {
		if gap := h.asked[i].Sub(h.asked[i-1]); gap < 200*time.Millisecond {
			t.Errorf("question %d came %v after another, want 200ms", i, gap)
			return
		}
	}
}
