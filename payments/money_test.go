package payments_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
)

// pausing is a clock of a process that stands still for a while before it sets the
// timeout of an outside call.
type pausing struct {
	*clocktest.Clock
	pause time.Duration
}

func (p *pausing) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := p.Clock.WithTimeout(ctx, d)
	if p.pause > 0 {
		p.Clock.Advance(p.pause)
		p.pause = 0
	}
	return ctx, cancel
}

// A process that stands still between the claim and the call does not call when its
// time is up: whoever has taken over may be calling.
func TestNoCallStartsWhenTheTimeIsUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pause time.Duration
		calls int
	}{{4900 * time.Millisecond, 1}, {5 * time.Second, 0}, {time.Minute, 0}} {
		t.Run(c.pause.String(), func(t *testing.T) {
			t.Parallel()
			slow := func(w *world, arm func(effects) effects) *pausing {
				clock := &pausing{Clock: w.clock}
				deps := w.deps
				deps.Clock = clock
				deps.Store.Effects, deps.Store.Refunds = arm(effects{Store: deps.Store.Effects}), arm(effects{Store: deps.Store.Refunds})
				w.system = w.process(deps)
				return clock
			}
			var clock *pausing
			arm := func(e effects) effects {
				e.after = func(op string) error {
					if op == "begin" {
						clock.pause = c.pause
					}
					return nil
				}
				return e
			}
			w := newWorld(t)
			clock = slow(w, arm)
			got := w.send(ask{key: keyK1})
			w.wantCalls(c.calls)
			if wanted := map[int]int{0: http.StatusAccepted, 1: http.StatusCreated}[c.calls]; got.status != wanted {
				t.Errorf("a payment: got %d %s, want %d", got.status, got.body, wanted)
			}
			w = paid(t)
			clock = slow(w, arm)
			got = w.refund(keyRa, 1000)
			if calls := w.psp.count("refund"); calls != c.calls {
				t.Errorf("refund calls: got %d, want %d", calls, c.calls)
			}
			if wanted := map[int]int{0: http.StatusAccepted, 1: http.StatusCreated}[c.calls]; got.status != wanted {
				t.Errorf("a refund: got %d %s, want %d", got.status, got.body, wanted)
			}
		})
	}
}

// A takeover repeats the key only while the processor certainly remembers it: an hour
// before it may forget, the takeover leaves it to a look-up.
func TestATakeoverRepeatsTheKeyInsideTheWindowOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after time.Duration
		calls int
	}{{23*time.Hour - time.Second, 2}, {23 * time.Hour, 1}, {24*time.Hour - time.Second, 1}, {25 * time.Hour, 1}} {
		t.Run(c.after.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(w *world) { w.config.ResolveUnknownOnly = true })
			process, die := w.mortal()
			w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
				_, _ = next(ctx, r)
				die()
				return psp.Charge{}, nil
			})
			dies(w, func() { sendTo(t, process, ask{key: keyK1}) })
			w.psp.set(nil)
			w.clock.Advance(c.after)
			w.send(ask{key: keyK1})
			w.wantCalls(c.calls)
			w.resolveFor(time.Hour)
			w.wantCharges(1)
			w.wantState(keyK1, effect.Succeeded)

			w = refundedByTheDead(t)
			w.clock.Advance(c.after)
			w.refund(keyRa, 1000)
			if got := w.psp.count("refund"); got != c.calls {
				t.Errorf("refund calls: got %d, want %d", got, c.calls)
			}
			w.resolveFor(time.Hour)
			w.wantRefundedThere(1000)
			w.wantRefunds(1000, map[effect.State]int64{effect.Succeeded: 1})
		})
	}
}

// refundedByTheDead is a world whose process died when the processor had given 1,000
// back under keyRa.
func refundedByTheDead(t *testing.T) *world {
	t.Helper()
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
	return w
}

// A refusal after a takeover fails no refund: "already refunded" may be the echo of the
// dead owner's call.
func TestTheRefusalOfATakeoverFailsNoRefund(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"for good":     retryproof.Refused(retryproof.CodePermanent, "charge_already_refunded", nil),
		"for the time": retryproof.Refused(retryproof.CodeUnavailable, "the processor cannot be reached", nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := refundedByTheDead(t)
			w.clock.Advance(7 * time.Second)
			w.psp.setRefund(func(context.Context, psp.RefundRequest, refunding) (psp.Refund, error) { return psp.Refund{}, refusal })
			want(t, w.refund(keyRa, 1000), http.StatusAccepted, "")
			w.wantRefunds(1000, map[effect.State]int64{effect.Unknown: 1})
			w.psp.setRefund(nil)
			w.resolveFor(time.Hour)
			w.wantRefunds(1000, map[effect.State]int64{effect.Succeeded: 1})
			w.wantRefundedThere(1000)
		})
	}
}
