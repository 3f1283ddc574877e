package payments_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/resolve"
)

// Whatever goes wrong, no key and no token is in a log, a metric or evidence.
func TestKeysAndTokensStayOutOfLogsMetricsAndEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators, withLister, func(w *world) {
		w.deps.Log = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	const keyK5, keyVoid = "5192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e11", "key-of-a-void"
	want(t, w.send(ask{key: keyK5}), http.StatusCreated, "")
	w.clock.Advance(time.Second)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	hooks := w.webhooks()
	wantWebhook(t, w.post(about(t, hooks[len(hooks)-1], `"amount":3000`, `"amount":2900`)), "conflict")
	w.resolve(1)
	w.fault(pspemulator.Fault{Do: pspemulator.Error500})
	want(t, w.send(ask{key: keyK2}), http.StatusAccepted, "")
	w.resolveFor(12 * time.Hour) // to the alert
	want(t, w.asOperator(ask{path: "/operator/payments/" + string(idOf("u1", keyK2)) + "/verdict", body: `{"state":"FAILED","reason":"gone"}`}), http.StatusOK, "")
	w.refundFault(pspemulator.Fault{Do: pspemulator.LoseRequest, Always: true})
	want(t, w.refund(keyRa, 1000), http.StatusAccepted, "")
	w.resolveFor(12 * time.Hour)
	want(t, w.ask(keyVoid), http.StatusOK, "")
	want(t, w.send(ask{key: keyVoid}), http.StatusConflict, retryproof.CodeVoid)
	want(t, w.send(ask{key: keyK1, amount: 1}), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
	w.reconcile(true)
	w.deliver()

	secrets := []string{keyK1, keyK2, keyK5, keyRa, keyVoid, "t-u1", "op-alice"}
	check := func(what, text string) {
		t.Helper()
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %s: %.300s", what, secret, text)
			}
		}
	}
	check("the log", w.log.text.String())
	check("a metric", fmt.Sprint(w.seen.n))
	kept := 0
	for _, of := range []struct {
		store resolve.Store
		id    retryproof.ID
	}{
		{w.deps.Store.Due, idOf("u1", keyK1)}, {w.deps.Store.Due, idOf("u1", keyK2)}, {w.deps.Store.Due, idOf("u1", keyK5)},
		{w.deps.Store.DueRefunds, retryproof.ID(w.shownRefunds().Refunds[0].ID)},
	} {
		evidence, err := of.store.Evidence(t.Context(), of.id)
		if err != nil {
			t.Fatal(err)
		}
		kept += len(evidence)
		check("evidence", fmt.Sprintf("%+v", evidence))
	}
	if kept < 6 || w.log.lines("must look") < 4 {
		t.Errorf("got %d evidence and %d alerts, want every kind of them", kept, w.log.lines("must look"))
	}
	w.wantState(keyK2, effect.Failed)
}
