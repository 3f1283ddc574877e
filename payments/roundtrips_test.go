package payments_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/version"
)

// touches notes every call of a store.
type touches struct {
	mu    sync.Mutex
	calls []string
}

func (c *touches) add(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

// take returns the calls since it was asked last.
func (c *touches) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.calls = nil }()
	return strings.Join(c.calls, " ")
}

type touchedEffects struct {
	effect.Store
	*touches
}

func (s touchedEffects) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	s.add("Begin")
	return s.Store.Begin(ctx, b)
}

func (s touchedEffects) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	s.add("Adopt")
	return s.Store.Adopt(ctx, a)
}

func (s touchedEffects) Settle(ctx context.Context, set effect.Settle) (effect.Settled, error) {
	s.add("Settle")
	return s.Store.Settle(ctx, set)
}

func (s touchedEffects) Complete(ctx context.Context, c effect.Completion) (bool, error) {
	s.add("Complete")
	return s.Store.Complete(ctx, c)
}

func (s touchedEffects) Release(ctx context.Context, r effect.Release) (bool, error) {
	s.add("Release")
	return s.Store.Release(ctx, r)
}

func (s touchedEffects) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	s.add("Look")
	return s.Store.Look(ctx, l)
}

// counting is the system on stores whose calls are noted. Those that a payment's request
// has no business with panic.
func (w *world) counting() (*payments.System, *touches) {
	calls := &touches{}
	deps := w.deps
	deps.Store.Effects = touchedEffects{w.deps.Store.Effects, calls}
	deps.Store.Due, deps.Store.DueRefunds = struct{ resolve.Store }{}, struct{ resolve.Store }{}
	deps.Store.Refunds = struct{ effect.Store }{}
	deps.Store.Outbox, deps.Store.Inbox = struct{ outbox.Store }{}, struct{ inbox.Store }{}
	deps.Store.ParkedEvents, deps.Store.ParkedMessages = struct{ outbox.ParkedStore }{}, struct{ inbox.ParkedStore }{}
	deps.Store.Notify, deps.Store.Versions = struct{ notify.Store }{}, struct{ version.Store }{}
	deps.Store.Hops, deps.Store.Janitor = struct{ payments.Hops }{}, struct{ payments.Janitor }{}
	deps.Store.Ledger, deps.Store.RefundList = struct{ payments.Ledger }{}, struct{ payments.RefundList }{}
	return w.process(deps), calls
}

// A first request commits twice, the claim and the settlement; a replay asks once and
// writes nothing.
func TestAFirstPaymentCommitsTwiceAndAReplayAsksOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	system, calls := w.counting()
	for i, want := range []string{"Begin Settle", "Begin", "Begin", "Begin"} {
		if got := sendTo(t, system, ask{key: keyK1}); got.status != http.StatusCreated {
			t.Errorf("request %d: got %d %s, want 201", i, got.status, got.body)
		}
		if touched := calls.take(); touched != want {
			t.Errorf("request %d: got %q, want %q", i, touched, want)
		}
	}
	w.wantCharges(1)
}
