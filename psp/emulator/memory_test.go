package emulator

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/clock"
)

// standing is a clock that is moved by hand.
type standing struct {
	clock.Clock
	now time.Time
}

func (s *standing) Now() time.Time { return s.now }

// refusing is a receiver of webhooks that is down.
type refusing struct{}

func (refusing) Deliver(context.Context, []byte, string) error { return context.DeadlineExceeded }

func TestTheAnswersOfForgottenKeysTakeNoMemory(t *testing.T) {
	t.Parallel()
	at := &standing{clock.System(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	journal := &MemoryJournal{}
	start := func() *Core {
		c, err := New(t.Context(), Config{Clock: at, Journal: journal, KeyMemory: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	core := start()
	pay := func(key string) Response {
		form := url.Values{"amount": {"3000"}, "currency": {"usd"}, "payment_method": {"pm_1"}, "confirm": {"true"}}
		resp, err := core.Do(t.Context(), Request{Method: "POST", Path: "/v1/payment_intents", Key: key, Form: form})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	kept := func() (n int) {
		for _, k := range core.keys { // order: a count
			if k.Body != nil || k.said != nil {
				n++
			}
		}
		return n
	}
	for i := range 10 {
		pay("k" + strconv.Itoa(i))
		at.now = at.now.Add(10 * time.Minute)
	}
	for range 2 {
		if got := kept(); got != 6 {
			t.Errorf("answers kept: got %d, want those of the last hour, 6", got)
		}
		if got := pay("k9"); !got.Replayed || len(got.Body) == 0 {
			t.Errorf("a key that is remembered: got %+v, want its answer", got)
		}
		core = start()
	}
	// A forgotten key is new, also after the clock was set back.
	at.now = at.now.Add(-90 * time.Minute)
	if got := pay("k0"); got.Replayed || got.Status != 200 || core.keys["k0"].Life != 2 {
		t.Errorf("a forgotten key: got %+v, want a new charge in its second life", got)
	}
}

func TestManyFailedDeliveriesAreAShortError(t *testing.T) {
	t.Parallel()
	core, err := New(t.Context(), Config{Deliverer: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"amount": {"3000"}, "currency": {"usd"}, "payment_method": {"pm_1"}, "confirm": {"true"}}
	for range 50 {
		if _, err := core.Do(t.Context(), Request{Method: "POST", Path: "/v1/payment_intents", Form: form}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = core.RunOnce(t.Context())
	if err == nil || !strings.Contains(err.Error(), "47 more deliveries failed") || strings.Count(err.Error(), "\n") > 3 {
		t.Errorf("got %v, want three of them and a count", err)
	}
}
