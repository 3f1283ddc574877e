package payments_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

func TestOnlyASucceededPaymentIsRefunded(t *testing.T) {
	t.Parallel()
	moved := func(w *world) {
		w.t.Helper()
		want(w.t, w.refund(keyRa, 1000), http.StatusConflict, retryproof.CodeMoved)
		want(w.t, w.cancel(), http.StatusConflict, retryproof.CodeMoved)
		if a := w.audit(); len(a.RefundsByState) != 0 || w.psp.count("refund") != 0 {
			w.t.Errorf("got %+v, want no refund", a)
		}
	}
	t.Run("PENDING, then UNKNOWN", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
			moved(w)
			_, _ = next(ctx, r)
			return psp.Charge{}, errNoAnswer
		})
		want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
		moved(w)
		w.psp.set(nil)
		w.resolve(1)
		want(t, w.cancel(), http.StatusCreated, "") // the refusals were not stored
	})
	t.Run("FAILED", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(pspemulator.Fault{Do: pspemulator.Decline})
		want(t, w.send(ask{key: keyK1}), http.StatusPaymentRequired, "")
		moved(w)
	})
	t.Run("VOID", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		want(t, w.ask(keyK1), http.StatusOK, "")
		moved(w)
	})
}

func TestWhoMayRefundAndSee(t *testing.T) {
	t.Parallel()
	w := paid(t)
	for _, c := range []struct {
		token  string
		status int
		code   retryproof.Code
	}{{"t-u2", http.StatusNotFound, retryproof.CodeNotFound}, {"t-nobody", http.StatusUnauthorized, retryproof.CodeUnauthorized}} {
		want(t, w.send(ask{path: refundsPath(), token: c.token, key: keyRa, body: `{"amount":1000}`}), c.status, c.code)
		want(t, w.send(ask{path: cancelPath(), token: c.token, body: " "}), c.status, c.code)
		want(t, w.send(ask{method: http.MethodGet, path: refundsPath(), token: c.token}), c.status, c.code)
	}
	want(t, w.send(ask{path: "/payments/pay_nobody/refunds", key: keyRa, body: `{"amount":1000}`}), http.StatusNotFound, retryproof.CodeNotFound)
	want(t, w.send(ask{path: "/payments/pay_nobody/cancel", body: " "}), http.StatusNotFound, retryproof.CodeNotFound)
	w.wantRefunds(0, map[effect.State]int64{})
	if got := w.shownRefunds(); got.Refunded != 0 || got.Refunds == nil || len(got.Refunds) != 0 {
		t.Errorf("got %+v, want an empty list", got)
	}
}

func TestBadRefundsAreRefused(t *testing.T) {
	t.Parallel()
	w := paid(t)
	for _, body := range []string{
		" ", "null", "[]", "1000", "{}", `{"amount":0}`, `{"amount":-1}`, `{"amount":-0}`, `{"amount":"1000"}`, `{"amount":1e3}`, `{"amount":1000.0}`,
		`{"amount":100000000}`, `{"amount":9223372036854775808}`, `{"amount":1000,"amount":1000}`, `{"amount":1000}x`, `{"amount":null}`, `{"amount":true}`, "{\"a\":\"\xff\",\"amount\":1}",
	} {
		want(t, w.send(ask{path: refundsPath(), key: keyRa, body: body}), http.StatusBadRequest, retryproof.CodeInvalid)
	}
	want(t, w.send(ask{path: refundsPath(), body: `{"amount":1000}`}), http.StatusBadRequest, retryproof.CodeKeyMissing)
	want(t, w.send(ask{path: refundsPath() + "?dry=1", key: keyRa, body: `{"amount":1000}`}), http.StatusBadRequest, retryproof.CodeInvalid)
	want(t, w.send(ask{path: cancelPath() + "?dry=1", body: " "}), http.StatusBadRequest, retryproof.CodeInvalid)
	want(t, w.refund(keyRa, 3001), http.StatusUnprocessableEntity, retryproof.CodeExceeds)
	w.wantRefunds(0, map[effect.State]int64{})
	if got := w.psp.count("refund"); got != 0 {
		t.Errorf("refund calls: got %d, want 0", got)
	}
	want(t, w.refund(keyRa, 3000), http.StatusCreated, "") // what was refused is not stored
}

// ledgerAway cannot read payments.
type ledgerAway struct{ payments.Ledger }

func (ledgerAway) Payment(context.Context, retryproof.ID) (payments.Payment, error) {
	return payments.Payment{}, context.DeadlineExceeded
}

// case 28: a ledger that cannot be read is not the client's mistake.
func TestWithoutALedgerARefundIsUnavailable(t *testing.T) {
	t.Parallel()
	w := paid(t)
	away := w.deps
	away.Store.Ledger = ledgerAway{away.Store.Ledger}
	s := w.process(away)
	for _, a := range []ask{{path: refundsPath(), key: keyRa, body: `{"amount":1000}`}, {path: cancelPath(), body: " "}, {method: http.MethodGet, path: refundsPath()}} {
		if got := sendTo(t, s, a); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: got %d %s, want 503 with Retry-After", a.path, got.status, got.body)
		}
	}
	if got := w.psp.count("refund"); got != 0 {
		t.Errorf("refund calls: got %d, want 0", got)
	}
}
