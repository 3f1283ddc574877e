package payments_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/queue"
)

// parkedList is what an operator sees of what was set aside.
type parkedList struct {
	Parked []struct {
		Hop, ID, Group, Type, Reason string
		Bytes, Attempts              int
		ParkedAt                     time.Time `json:"parked_at"`
	}
	Limit int
}

func (w *world) parkedList() parkedList {
	w.t.Helper()
	got := w.asOperator(ask{method: http.MethodGet, path: "/operator/parked"})
	want(w.t, got, http.StatusOK, "")
	var out parkedList
	if err := json.Unmarshal([]byte(got.body), &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) redrive(hop, id string) answer {
	w.t.Helper()
	return w.asOperator(ask{path: "/operator/parked/" + hop + "/" + id + "/redrive"})
}

// case 32
func TestAnOperatorSeesAnEventThatWasSetAsideAndPutsItBack(t *testing.T) {
	t.Parallel()
	var q *flakyQueue
	w := newWorld(t, withOperators, func(w *world) {
		q = &flakyQueue{Queue: w.queue, failSend: retryproof.Refused(retryproof.CodePermanent, "too large", nil)}
		w.deps.Queue = q
	})
	if got := w.parkedList(); len(got.Parked) != 0 {
		t.Errorf("before: got %+v, want nothing", got)
	}
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.deliver()
	id := idOf("u1", keyK1).Sub("SUCCEEDED")
	got := w.parkedList().Parked
	if len(got) != 1 || got[0].Hop != "outbox" || got[0].ID != id || got[0].Group != "m1" || got[0].Type != payments.EventSucceeded ||
		got[0].Bytes == 0 || got[0].Attempts != 1 || !strings.Contains(got[0].Reason, "too large") || !got[0].ParkedAt.Equal(w.clock.Now()) {
		t.Errorf("got %+v, want the event and why", got)
	}
	if n := w.log.lines("a message was set aside"); n != 1 {
		t.Errorf("got %d lines in the log, want 1", n)
	}
	q.failSend = nil
	want(t, w.redrive("outbox", id), http.StatusOK, "")
	want(t, w.redrive("outbox", id), http.StatusNotFound, retryproof.CodeNotFound)
	w.deliver()
	w.wantBalance(15_000)
	if got := w.parkedList(); len(got.Parked) != 0 {
		t.Errorf("after: got %+v, want nothing", got)
	}
	w.wantMetric("retryproof_redrives_total hop=outbox", 1)
	if n := w.log.lines("by=alice"); n != 1 {
		t.Errorf("got %d lines that name the operator, want 1", n)
	}
}

// A message that no version of the worker understands must not hold back its merchant
// forever, and must not be lost either.
func TestAMessageThatCannotBeAppliedIsSetAsideAndItsMerchantGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	junk := queue.Message{ID: "pay_x:SUCCEEDED", Group: "m1", Type: payments.EventSucceeded, Body: []byte(`{"amount":`)}
	if err := w.queue.Send(t.Context(), junk); err != nil {
		t.Fatal(err)
	}
	deliver := func() { // as worker.Run does: an error of one message stops nobody
		for range 50 {
			_, _ = w.system.RelayOnce(t.Context(), 0)
			if n, _ := w.system.WorkOnce(t.Context()); n == 0 {
				return
			}
		}
	}
	for minute := range 20 { // another merchant's payments show that the system works
		key := strings.Repeat("k", 20+minute)
		body := strings.Replace(order(100), `"m1"`, `"m2"`, 1)
		want(t, w.send(ask{key: key, body: body}), http.StatusCreated, "")
		if minute == 3 {
			want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
		}
		for range 60 {
			w.clock.Advance(time.Second)
			deliver()
		}
		if minute == 5 {
			w.wantBalance(12_000) // it waits behind the junk
		}
	}
	w.wantBalance(15_000)
	got := w.parkedList().Parked
	if len(got) != 1 || got[0].Hop != "inbox" || got[0].ID != junk.ID || got[0].Attempts != 20 || !strings.Contains(got[0].Reason, "not its JSON") {
		t.Errorf("got %+v, want the message and why", got)
	}
	if a := w.audit(); a.MessagesParked != 1 || a.ByState[effect.Succeeded] != 21 || a.Credits != 21 {
		t.Errorf("got %+v, want one set aside and every payment credited", a)
	}
	w.wantMetric("retryproof_inbox_total what=parked", 1)
	again := w.redrive("inbox", junk.ID)
	if again.status < 400 || len(w.parkedList().Parked) != 1 {
		t.Errorf("a redrive of what is still broken: got %d %s, want a refusal that loses nothing", again.status, again.body)
	}
}

func TestAPutBackMessageIsAppliedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	if _, err := w.system.RelayOnce(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	d, err := w.queue.Receive(t.Context(), 1)
	if err != nil || len(d) != 1 {
		t.Fatalf("got %v, %v", d, err)
	}
	_, err = w.deps.Store.ParkedMessages.Park(t.Context(), inbox.Parked{Consumer: "merchant-credit", Message: d[0].Message, SentAt: d[0].SentAt,
		Attempts: 20, Reason: "a fault of an old version", ParkedAt: w.clock.Now()})
	if err != nil {
		t.Fatal(err)
	}
	w.wantBalance(12_000)
	want(t, w.redrive("inbox", d[0].ID), http.StatusOK, "")
	w.wantBalance(15_000)
	want(t, w.redrive("inbox", d[0].ID), http.StatusNotFound, retryproof.CodeNotFound)
	if got := len(w.phones.Screen("u1")); got != 1 {
		t.Errorf("got %d notifications, want 1", got)
	}
}

func TestOnlyAnOperatorMayLookAtWhatWasSetAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	want(t, w.get("/operator/parked"), http.StatusUnauthorized, retryproof.CodeUnauthorized)
	want(t, w.send(ask{path: "/operator/parked/inbox/ev_7/redrive"}), http.StatusUnauthorized, retryproof.CodeUnauthorized)
	want(t, w.redrive("inbox", "ev_7"), http.StatusNotFound, retryproof.CodeNotFound)
	want(t, w.redrive("moon", "ev_7"), http.StatusNotFound, retryproof.CodeNotFound)
}
