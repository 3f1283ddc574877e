package payments_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

// telling runs something at the moment when a person is told of a contradiction.
type telling struct {
	*counts
	then func()
}

func (m *telling) Add(name string, n float64, labels ...string) {
	m.counts.Add(name, n, labels...)
	if then := m.then; then != nil && name == "retryproof_psp_conflicts_total" {
		m.then = nil
		then()
	}
}

// contradicted is a world whose payment of 3,000 is UNKNOWN, and a message about 2,900.
func contradicted(t *testing.T) (*world, *telling, []byte) {
	t.Helper()
	m := &telling{}
	w := newWorld(t, withOperators, func(w *world) { m.counts = w.seen; w.deps.Metrics = m })
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	return w, m, about(t, w.webhooks()[0], `"amount":3000`, `"amount":2900`)
}

func (w *world) wantToldOnce() {
	w.t.Helper()
	w.wantConflicts(1)
	w.wantMetric("retryproof_psp_conflicts_total ", 1)
	if got := w.log.lines("does not match ours"); got != 1 {
		w.t.Errorf("alerts: got %d, want 1", got)
	}
}

// case 25: two deliveries at the same time: one tells, the other comes again and finds
// that it was told.
func TestTwoDeliveriesAtOnceAlertOnce(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"the same message", "another message"} {
		t.Run(other, func(t *testing.T) {
			t.Parallel()
			w, m, wrong := contradicted(t)
			second := wrong
			if other != "the same message" {
				second = about(t, wrong, eventID(t, wrong), "evt_10")
			}
			m.then = func() {
				w.clock.Advance(time.Millisecond)
				want(t, w.post(second), http.StatusServiceUnavailable, retryproof.CodeUnavailable)
			}
			wantWebhook(t, w.post(wrong), "conflict")
			w.wantToldOnce()
			for _, again := range [][]byte{second, wrong} {
				wantWebhook(t, w.post(again), "repeats dropped")
			}
			w.wantToldOnce()
			w.wantState(keyK1, effect.Unknown)
		})
	}
}

// case 25: a process that dies between the note and the alert: the message's repeat tells.
func TestAContradictionThatWasKeptAndNotToldIsTold(t *testing.T) {
	t.Parallel()
	w, _, wrong := contradicted(t)
	deps, well := w.deps, w.system
	deps.Metrics = payments.Metrics(&dying{counts: w.seen})
	w.system = w.process(deps)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the process did not die")
			}
		}()
		w.post(wrong)
	}()
	w.wantConflicts(1)
	w.system = well
	w.clock.Advance(time.Second)
	want(t, w.post(wrong), http.StatusServiceUnavailable, retryproof.CodeUnavailable) // it may still live
	w.clock.Advance(6 * time.Second)
	for range 2 {
		wantWebhook(t, w.post(wrong), "repeats dropped")
		w.wantToldOnce()
	}
}

// dying is a process that ends when a person is to be told.
type dying struct{ *counts }

func (m *dying) Add(name string, n float64, labels ...string) {
	if name == "retryproof_psp_conflicts_total" {
		panic("killed")
	}
	m.counts.Add(name, n, labels...)
}

// case 25: the message was recorded when it said nothing definite, or by an earlier
// version, and what it says is kept and told all the same.
func TestARepeatWhoseContradictionWasNotKeptIsKept(t *testing.T) {
	t.Parallel()
	w, _, wrong := contradicted(t)
	key := retryproof.InboxKey{Consumer: "psp-webhook", Source: "psp", EventID: eventID(t, wrong)}
	if first, err := w.deps.Store.Inbox.Apply(t.Context(), inbox.Apply{Key: key, Now: w.clock.Now()}); err != nil || !first {
		t.Fatalf("got %v %v, want the first", first, err)
	}
	for range 2 {
		wantWebhook(t, w.post(wrong), "repeats dropped")
		w.wantToldOnce()
	}
}

// case 25: the payment becomes FAILED between the message's look and its settlement.
func TestAContradictionAfterARaceIsKeptAndTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	payload, well := w.webhooks()[0], w.system
	deps, raced := w.deps, false
	deps.Store.Effects = effects{Store: deps.Store.Effects, before: func(op string) error {
		if op == "settle" && !raced {
			raced = true
			w.system = well
			want(t, w.verdict("", "FAILED", "", "the processor says that there is none"), http.StatusOK, "")
		}
		return nil
	}}
	w.system = w.process(deps)
	wantWebhook(t, w.post(payload), "late")
	if !raced {
		t.Error("nothing came in between")
	}
	w.wantState(keyK1, effect.Failed)
	w.wantToldOnce()
	w.wantOutbox(0)
}

// A message about money that we know nothing of is told once, however often it comes.
func TestASuccessThatIsNotHereIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.psp.Direct.Charge(t.Context(), psp.ChargeRequest{Key: "k", Reference: "pay_elsewhere", Amount: 5, Currency: "USD", Method: "pm_1"}); err != nil {
		t.Fatal(err)
	}
	payload := w.webhooks()[0]
	for range 3 {
		wantWebhook(t, w.post(payload), "unknown payment")
		w.wantMetric("retryproof_psp_conflicts_total ", 1)
	}
	if got := w.log.lines("it is not here"); got != 1 {
		t.Errorf("alerts: got %d, want 1", got)
	}
}

// A message that came before its payment was here, from a backup that was too old
// perhaps, settles it when it comes again.
func TestAMessageThatCameTooEarlyStillSettles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := string(idOf("u1", keyK1))
	if _, err := w.psp.Direct.Charge(t.Context(), psp.ChargeRequest{Key: id + ":charge", Reference: id, Amount: 3000, Currency: "USD", Method: "pm_1"}); err != nil {
		t.Fatal(err)
	}
	payload := w.webhooks()[0]
	wantWebhook(t, w.post(payload), "unknown payment")
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	wantWebhook(t, w.post(payload), "moves")
	w.wantState(keyK1, effect.Succeeded)
}

// A genuine message that cannot be read is not called a forgery.
func TestASignedMessageThatCannotBeReadIsSaidToBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unreadable := []string{
		`[`, `{"id":"evt_1","type":"refund.created","created":1,"data":{"object":{}}}`,
		`{"id":"evt_\u0000","type":"payment_intent.succeeded","created":1,"data":{"object":{"id":"pi_1","status":"succeeded","metadata":{"payment_id":"pay_1"}}}}`,
	}
	for _, payload := range unreadable {
		if got := w.post([]byte(payload)); got.status != http.StatusBadRequest || !strings.Contains(got.body, "signed by the processor and cannot be read") {
			t.Errorf("%s: got %d %s, want 400 that says so", payload, got.status, got.body)
		}
	}
	w.wantMetric("retryproof_webhooks_total what=unreadable", float64(len(unreadable)))
	w.wantMetric("retryproof_webhooks_total what=refused", 0)
	if got := w.log.lines("has signed cannot be read"); got != len(unreadable) {
		t.Errorf("log: got %d lines, want one for each", got)
	}
	// A name that no store can keep is no payment of ours.
	foreign := `{"id":"evt_2","type":"payment_intent.succeeded","created":1,"data":{"object":{"id":"pi_1","status":"succeeded","metadata":{"payment_id":"pay_\u0000"}}}}`
	if got := w.post([]byte(foreign)); got.status != http.StatusNoContent {
		t.Errorf("a reference with a NUL: got %d %s, want 204", got.status, got.body)
	}
}

func TestAMessageThatIsCutOffIsNotTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec := httptest.NewRecorder()
	w.system.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/webhooks/psp", iotest.ErrReader(io.ErrUnexpectedEOF)))
	want(t, read(t, rec.Result()), http.StatusBadRequest, retryproof.CodeInvalid)
}
