package payments_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

func (w *world) askRefund(key string) answer {
	w.t.Helper()
	return w.send(ask{path: refundsPath() + "/resolve", key: key, body: " "})
}

// The question about a refund's key tells the truth or makes sure that it never runs, as
// the one about a payment's does (mission C2).
func TestTheKeyOfARefundIsToldOrVoided(t *testing.T) {
	t.Parallel()
	w := paid(t)
	voided := w.askRefund(keyRa)
	want(t, voided, http.StatusOK, "")
	if !strings.Contains(voided.body, `"state":"VOID"`) || strings.Contains(voided.body, "amount") {
		t.Errorf("got %s, want VOID and nothing of an amount", voided.body)
	}
	want(t, w.refund(keyRa, 1000), http.StatusConflict, retryproof.CodeVoid) // the late original
	w.wantRefunds(0, map[effect.State]int64{effect.Void: 1})

	w.refundFault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.refund(keyRb, 1000), http.StatusAccepted, "")
	unknown := w.askRefund(keyRb)
	want(t, unknown, http.StatusAccepted, "")
	if unknown.header.Get("Retry-After") == "" || unknown.header.Get("Location") != refundsPath() {
		t.Errorf("got %v, want Retry-After and a Location", unknown.header)
	}
	w.resolve(1)
	told := w.askRefund(keyRb)
	want(t, told, http.StatusOK, "")
	if !strings.Contains(told.body, `"state":"SUCCEEDED"`) || !strings.Contains(told.body, `"amount":1000`) {
		t.Errorf("got %s, want the refund", told.body)
	}
	want(t, w.send(ask{path: refundsPath() + "/resolve", body: " "}), http.StatusBadRequest, retryproof.CodeKeyMissing)
	want(t, w.send(ask{path: refundsPath() + "/resolve", key: keyRb, body: " ", token: "t-u2"}), http.StatusNotFound, retryproof.CodeNotFound)
}

// What a key became is told as it is now: with what went back.
func TestTheQuestionAboutAPaymentShowsWhatWasRefunded(t *testing.T) {
	t.Parallel()
	w := paid(t)
	want(t, w.cancel(), http.StatusCreated, "")
	got := w.send(ask{path: "/payments/resolve", key: keyK1, body: "{}"})
	want(t, got, http.StatusOK, "")
	if !strings.Contains(got.body, `"refunded":3000`) {
		t.Errorf("got %s, want refunded 3000", got.body)
	}
	over := w.refund(keyRa, 1)
	want(t, over, http.StatusUnprocessableEntity, retryproof.CodeExceeds)
	if !strings.Contains(over.body, "as another part") {
		t.Errorf("got %s, want a hint", over.body)
	}
}
