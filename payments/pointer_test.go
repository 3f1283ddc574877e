package payments_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
)

// cases 6 and 28: the key store is away for the first tap and back for the second, and
// the processor takes no request. The next tap pays.
func TestADoubleTapWhileTheKeyStoreComesBackBlocksNoKey(t *testing.T) {
	down := true
	w := newWorld(t, func(w *world) {
		w.deps.Store.Effects = effect.Split(keys{w.store.Keys(), func() error {
			if down {
				return retryproof.Refused(retryproof.CodeUnavailable, "the key store is away", nil)
			}
			return nil
		}}, w.store.PaymentGuards())
	})
	w.psp.set(func(context.Context, psp.ChargeRequest, charging) (psp.Charge, error) {
		down = false
		want(t, w.send(ask{key: keyK1}), http.StatusConflict, retryproof.CodeInProgress)
		return psp.Charge{}, retryproof.Refused(retryproof.CodeUnavailable, "connection refused", nil)
	})
	want(t, w.send(ask{key: keyK1}), http.StatusServiceUnavailable, retryproof.CodeUnavailable)
	w.psp.set(nil)
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
}
