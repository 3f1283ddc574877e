package payments_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

// withOperators lets alice and bob in.
func withOperators(w *world) {
	w.deps.Operator = func(token string) (string, bool) {
		name, ok := map[string]string{"op-alice": "alice", "op-bob": "bob"}[token]
		return name, ok
	}
}

func operatorPath() string { return "/operator/payments/" + string(idOf("u1", keyK1)) }

// shownToOperator is what an operator sees of a payment.
type shownToOperator struct {
	State    string          `json:"state"`
	Caller   string          `json:"caller"`
	ChargeID string          `json:"charge_id"`
	Refunded int64           `json:"refunded"`
	Evidence []shownEvidence `json:"evidence"`
	Refunds  []struct {
		ID       string          `json:"id"`
		State    string          `json:"state"`
		RefundID string          `json:"refund_id"`
		Evidence []shownEvidence `json:"evidence"`
	} `json:"refunds"`
}

type shownEvidence struct {
	At                   time.Time
	Kind, Name, By, Seen string
}

func (w *world) asOperator(a ask) answer {
	w.t.Helper()
	a.token = "op-alice"
	return w.send(a)
}

func (w *world) shownToOperator() shownToOperator {
	w.t.Helper()
	got := w.asOperator(ask{method: http.MethodGet, path: operatorPath()})
	want(w.t, got, http.StatusOK, "")
	var out shownToOperator
	if err := json.Unmarshal([]byte(got.body), &out); err != nil {
		w.t.Fatal(err)
	}
	for _, secret := range []string{keyK1, keyK2, keyRa, keyRb, "t-u1", "op-alice"} {
		if strings.Contains(got.body, secret) {
			w.t.Errorf("an operator is shown %s: %s", secret, got.body)
		}
	}
	return out
}

// verdict gives one about K1's payment, or about a refund of it.
func (w *world) verdict(refund, state, reference, reason string) answer {
	w.t.Helper()
	path := operatorPath()
	if refund != "" {
		path += "/refunds/" + refund
	}
	body, err := json.Marshal(map[string]string{"state": state, "reference": reference, "reason": reason})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.asOperator(ask{path: path + "/verdict", body: string(body)})
}

// unknown is a world in which nobody knows what became of K1.
func unknown(t *testing.T, tune ...func(*world)) *world {
	t.Helper()
	w := newWorld(t, append(tune, withOperators)...)
	stuck(t, w)
	return w
}

func TestOnlyOperatorsMayOperate(t *testing.T) {
	t.Parallel()
	w := unknown(t)
	nobody := newWorld(t) // without Deps.Operator nobody may
	body := `{"state":"FAILED","reason":"x"}`
	for _, a := range []ask{
		{method: http.MethodGet, path: "/operator/unknown"}, {method: http.MethodGet, path: operatorPath()},
		{path: operatorPath() + "/verdict", body: body}, {path: operatorPath() + "/refunds/ref_1/verdict", body: body},
		{path: "/operator/reconciliations", body: `{"from":"2026-03-01T00:00:00Z","to":"2026-03-02T00:00:00Z"}`},
	} {
		for _, token := range []string{"t-u1", "none", "alice"} {
			a.token = token
			want(t, w.send(a), http.StatusUnauthorized, retryproof.CodeUnauthorized)
		}
		a.token = "op-alice"
		want(t, nobody.send(a), http.StatusUnauthorized, retryproof.CodeUnauthorized)
	}
	w.wantState(keyK1, effect.Unknown)
}

// case 22: a person's verdict of each kind reaches the key, is kept as evidence, and
// what follows from it goes the usual way.
func TestAnOperatorsVerdictReachesTheKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, reference string
		status           int
		code             retryproof.Code
		balance          int64
	}{
		{"SUCCEEDED", "ch_by_hand", http.StatusCreated, "", 15_000},
		{"FAILED", "", http.StatusPaymentRequired, "", 12_000},
		{"VOID", "", http.StatusConflict, retryproof.CodeVoid, 12_000},
	} {
		t.Run(c.state, func(t *testing.T) {
			t.Parallel()
			w := unknown(t)
			want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
			w.clock.Advance(time.Hour)
			want(t, w.verdict("", c.state, c.reference, "seen in the dashboard"), http.StatusOK, "")
			for range 2 {
				want(t, w.send(ask{key: keyK1}), c.status, c.code)
				w.clock.Advance(48 * time.Hour) // the key store forgets it
			}
			wantBodyState(t, w.ask(keyK1), http.StatusOK, c.state)
			w.resolveFor(time.Hour)
			w.deliver()
			w.wantBalance(c.balance)
			shown := w.shownToOperator()
			if len(shown.Evidence) != 1 || shown.State != c.state || shown.ChargeID != c.reference {
				t.Fatalf("got %+v, want %s with one evidence", shown, c.state)
			}
			if e := shown.Evidence[0]; e.Kind != "verdict" || e.By != "operator alice" || e.Seen != "seen in the dashboard" || !e.At.Equal(start.Add(time.Hour)) {
				t.Errorf("got %+v, want who, when and why", e)
			}
			if a := w.audit(); a.Unbalanced != 0 || a.WrongBalance != 0 {
				t.Errorf("got %+v", a)
			}
			want(t, w.send(ask{key: keyK2}), http.StatusCreated, "") // another intent
		})
	}
}

// What is final by now is not decided again: 409 says what it is. The same verdict of
// the same person again is not another.
func TestAVerdictOnWhatMovedChangesNothing(t *testing.T) {
	t.Parallel()
	w := unknown(t)
	first := w.verdict("", "SUCCEEDED", "ch_1", "seen")
	want(t, first, http.StatusOK, "")
	want(t, w.verdict("", "SUCCEEDED", "ch_1", "seen"), http.StatusOK, "")
	refused := func(got answer, words string) {
		t.Helper()
		want(t, got, http.StatusConflict, retryproof.CodeMoved)
		if !strings.Contains(got.body, words) {
			t.Errorf("got %s, want %q", got.body, words)
		}
	}
	refused(w.verdict("", "FAILED", "", "no"), "it is SUCCEEDED by now")
	refused(w.verdict("", "VOID", "", "no"), "it is SUCCEEDED by now")
	refused(w.verdict("", "SUCCEEDED", "ch_2", "seen again"), "it is SUCCEEDED as ch_1 by now")
	refused(w.send(ask{path: operatorPath() + "/verdict", token: "op-bob", body: `{"state":"SUCCEEDED","reference":"ch_1","reason":"me too"}`}), "it is SUCCEEDED by now")
	w.deliver()
	w.wantBalance(15_000)
	w.wantMetric("retryproof_resolver_total what=decided", 1)

	void := newWorld(t, withOperators) // voided before an order came
	wantBodyState(t, void.ask(keyK1), http.StatusOK, "VOID")
	for _, state := range []string{"SUCCEEDED", "FAILED"} {
		refused(void.verdict("", state, map[bool]string{true: "ch_1"}[state == "SUCCEEDED"], "x"), "it is VOID by now")
	}
	none := newWorld(t, withOperators)
	want(t, none.verdict("", "FAILED", "", "x"), http.StatusNotFound, retryproof.CodeNotFound)
	want(t, none.asOperator(ask{method: http.MethodGet, path: operatorPath()}), http.StatusNotFound, retryproof.CodeNotFound)
}

func TestABadVerdictSaysEveryProblem(t *testing.T) {
	t.Parallel()
	w := unknown(t)
	long := strings.Repeat("x", 1001)
	for _, c := range []struct {
		body string
		want []string
	}{
		{" ", nil}, {"null", nil}, {"[]", nil}, {`{"state":"FAILED","reason":"x"}{}`, nil}, {`{"state":"FAILED","state":"VOID","reason":"x"}`, nil},
		{"{\"state\":\"FAILED\",\"reason\":\"\xff\"}", nil},
		{`{}`, []string{`not ""`, "needs a reason"}},
		{`{"state":"SUCCEEDED"}`, []string{"needs the reference", "needs a reason"}},
		{`{"state":"UNKNOWN","reference":"ch é","reason":"` + long + `","why":1}`, []string{`not "UNKNOWN"`, "visible ASCII", "1 to 1000 bytes", `no "why"`}},
		{`{"state":1,"reason":true,"reference":[]}`, []string{"state must be a string", "reason must be a string", "reference must be a string"}},
		{`{"state":"VOID","reference":"ch_1","reason":"x"}`, []string{"has no reference"}},
		{`{"state":"FAILED","reason":"a\u0000b"}`, []string{"control characters"}},
		{`{"state":"FAILED","reference":"` + long + `","reason":"x"}`, []string{"up to 200"}},
	} {
		got := w.asOperator(ask{path: operatorPath() + "/verdict", body: c.body})
		want(t, got, http.StatusBadRequest, retryproof.CodeInvalid)
		var problem struct{ Detail string }
		if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(problem.Detail, want) {
				t.Errorf("%s: got %q, want %q", c.body, problem.Detail, want)
			}
		}
	}
	huge := `{"state":"FAILED","reason":"` + strings.Repeat("x", 20<<10) + `"}`
	want(t, w.asOperator(ask{path: operatorPath() + "/verdict", body: huge}), http.StatusRequestEntityTooLarge, retryproof.CodeTooLarge)
	w.wantState(keyK1, effect.Unknown)
	if e := w.shownToOperator().Evidence; len(e) != 0 {
		t.Errorf("got evidence %+v, want none", e)
	}
}

// A verdict about a refund: given back, or on its way for good.
func TestAVerdictAboutARefund(t *testing.T) {
	t.Parallel()
	for state, refunded := range map[string]int64{"SUCCEEDED": 3000, "FAILED": 0, "VOID": 0} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			w := paid(t, withOperators)
			w.refundFault(pspemulator.Fault{Do: pspemulator.LoseRequest})
			want(t, w.cancel(), http.StatusAccepted, "")
			id := string(idOf("u1", keyK1)) + ":cancel"
			reference := map[bool]string{true: "re_by_hand"}[state == "SUCCEEDED"]
			want(t, w.verdict("ref_nobody", state, reference, "x"), http.StatusNotFound, retryproof.CodeNotFound)
			for range 2 {
				want(t, w.verdict(id, state, reference, "seen in the dashboard"), http.StatusOK, "")
			}
			w.wantRefunds(refunded, map[effect.State]int64{effect.State(state): 1})
			shown := w.shownToOperator()
			if len(shown.Refunds) != 1 || shown.Refunds[0].State != state || len(shown.Refunds[0].Evidence) != 1 || shown.Refunds[0].Evidence[0].By != "operator alice" || shown.Refunded != refunded {
				t.Errorf("got %+v, want the refund with its evidence", shown)
			}
			want(t, w.verdict(id, map[bool]string{true: "FAILED", false: "VOID"}[state != "FAILED"], "", "no"), http.StatusConflict, retryproof.CodeMoved)
			w.deliver()
			w.wantBalance(15_000 - refunded)
			if refunded == 0 {
				want(t, w.refund(keyRa, 3000), http.StatusCreated, "") // the amount is there again
			}
		})
	}
}

func TestAnOperatorSeesWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := paid(t, withOperators)
	w.refundFault(pspemulator.Fault{Do: pspemulator.LoseRequest})
	want(t, w.refund(keyRa, 1000), http.StatusAccepted, "")
	w.fault(pspemulator.Fault{Do: pspemulator.Error500})
	want(t, w.send(ask{key: keyK2, amount: 500}), http.StatusAccepted, "")
	w.resolveFor(2 * time.Hour)
	got := w.asOperator(ask{method: http.MethodGet, path: "/operator/unknown"})
	want(t, got, http.StatusOK, "")
	var list struct {
		Unknown []struct {
			ID        string `json:"id"`
			PaymentID string `json:"payment_id"`
			Kind      string `json:"kind"`
			State     string `json:"state"`
			Amount    int64  `json:"amount"`
			Tries     int    `json:"tries"`
			NextAt    string `json:"next_at"`
		} `json:"unknown"`
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Unknown) != 1 { // the refund was repeated and is done
		t.Fatalf("got %+v, want the payment", list)
	}
	if o := list.Unknown[0]; o.ID != string(idOf("u1", keyK2)) || o.PaymentID != o.ID || o.Kind != "payment" || o.State != "UNKNOWN" || o.Amount != 500 || o.Tries < 2 || o.NextAt == "" {
		t.Errorf("got %+v, want K2's payment", o)
	}
	w.refundFault(pspemulator.Fault{Do: pspemulator.LoseRequest})
	want(t, w.refund(keyRb, 700), http.StatusAccepted, "")
	got = w.asOperator(ask{method: http.MethodGet, path: "/operator/unknown"})
	if want := fmt.Sprintf(`"payment_id":"%s","kind":"refund","state":"UNKNOWN","amount":700`, idOf("u1", keyK1)); !strings.Contains(got.body, want) {
		t.Errorf("got %s, want %s", got.body, want)
	}
	if strings.Contains(got.body, keyK2) || strings.Contains(got.body, keyRb) {
		t.Errorf("got %s, with a client's key", got.body)
	}
}

// A verdict and the resolver's answer at once: one moves it.
func TestAVerdictMeetsTheResolver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	w.fault(pspemulator.Fault{Do: pspemulator.LoseReply})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	w.resolve(1)
	want(t, w.verdict("", "FAILED", "", "too late"), http.StatusConflict, retryproof.CodeMoved)
	w.wantState(keyK1, effect.Succeeded)
	shown := w.shownToOperator()
	if len(shown.Evidence) != 1 || !strings.HasPrefix(shown.Evidence[0].By, "resolver-") || !strings.Contains(shown.Evidence[0].Seen, "a repeat with the same key gave "+shown.ChargeID) {
		t.Errorf("got %+v, want the resolver's evidence", shown.Evidence)
	}
}
