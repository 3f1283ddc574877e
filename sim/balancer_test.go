package sim

import (
	"net/http"
	"testing"
	"time"
)

// boot returns a world with one API node that nothing goes wrong in.
func boot(t *testing.T, o Options) (*World, *Node) {
	t.Helper()
	w, err := NewWorld(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	w.Calm()
	n, err := w.Boot("api", "api-1", false)
	if err != nil {
		t.Fatal(err)
	}
	return w, n
}

// send delivers one message and returns the answer.
func send(t *testing.T, w *World, n *Node, m Message) Reply {
	t.Helper()
	var reply Reply
	w.Deliver(n, 0, m, func(r Reply, err error) {
		if err != nil {
			t.Errorf("%s: %v", m.Label, err)
		}
		reply = r
	})
	w.Run(w.Now() + time.Minute)
	return reply
}

func payment(label string) Message {
	i := &Intent{Order: "42", Merchant: "m1", Amount: 3000}
	return Message{Label: label, Path: "/payments", Token: "u1", Key: "k1", Body: body(i, i.Amount)}
}

func TestARequestThatWaitedPastItsDeadlineRunsNothing(t *testing.T) {
	t.Parallel()
	w, n := boot(t, Options{Seed: 1})
	late := payment("A1")
	late.Queued = 12 * time.Second
	if got, want := send(t, w, n, late).Status, http.StatusServiceUnavailable; got != want || len(w.Core().Charges()) > 0 {
		t.Errorf("status: got %d, want %d; charges %v", got, want, w.Core().Charges())
	}
	soon := payment("A2")
	soon.Queued = 4 * time.Second
	if got, want := send(t, w, n, soon).Status, http.StatusCreated; got != want || len(w.Core().Charges()) != 1 {
		t.Errorf("status: got %d, want %d; charges %v", got, want, w.Core().Charges())
	}
}

func TestWithoutAStampALateRequestRuns(t *testing.T) {
	t.Parallel()
	twin, err := TwinOf("deadline")
	if err != nil {
		t.Fatal(err)
	}
	w, n := boot(t, Options{Seed: 1, Twins: []Twin{twin}})
	late := payment("A1")
	late.Queued = 12 * time.Second
	if got, want := send(t, w, n, late).Status, http.StatusCreated; got != want {
		t.Errorf("status: got %d, want %d", got, want)
	}
}

func TestAStampIsTheBalancersOwn(t *testing.T) {
	t.Parallel()
	w, _ := boot(t, Options{Seed: 1})
	var m Message
	w.stamp(&m)
	if got, want := m.stamps[0], "t=1767225600.000000"; got != want || m.remote != balancerAddress {
		t.Errorf("got %s from %s, want %s from %s", got, m.remote, want, balancerAddress)
	}
	seen := map[string]bool{}
	odd, err := NewWorld(Options{Seed: 1, Chaos: Chaos{Stamp: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(odd.Close)
	odd.faulty = true
	for range 200 {
		var m Message
		odd.stamp(&m)
		switch {
		case m.stamps == nil:
			seen["missing"] = true
		case m.remote != balancerAddress:
			seen["untrusted"] = true
		case len(m.stamps) == 2:
			seen["a client's line"] = true
		case len(m.stamps[0]) > 30:
			seen["a client's member"] = true
		case m.stamps[0] == "t=yesterday":
			seen["junk"] = true
		case m.stamps[0] > "t=1767229000":
			seen["future"] = true
		}
	}
	if got, want := len(seen), 6; got != want {
		t.Errorf("kinds of odd stamps: got %v, want %d", seen, want)
	}
}

func TestAKeyThatAQuestionVoidedNeverRuns(t *testing.T) {
	t.Parallel()
	w, n := boot(t, Options{Seed: 1})
	question := Message{Label: "ask", Path: "/payments/resolve", Token: "u1", Key: "k1"}
	if got := send(t, w, n, question); got.Status != http.StatusOK {
		t.Errorf("question: got %d %s, want 200", got.Status, got.Body)
	}
	if got := send(t, w, n, payment("A1")); got.Status != http.StatusConflict || len(w.Core().Charges()) > 0 {
		t.Errorf("original: got %d %s, want 409; charges %v", got.Status, got.Body, w.Core().Charges())
	}
}
