package emulator_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/retryproof/retryproof/psp/emulator"
)

const secretKey = "sk_test_do_not_tell"

// serve puts a world behind HTTP.
func serve(t *testing.T, w *world, cfg emulator.HandlerConfig) string {
	t.Helper()
	cfg.APIKey = secretKey
	s := httptest.NewServer(emulator.NewHandler(w.core, cfg))
	t.Cleanup(s.Close)
	return s.URL
}

// send returns the status and the body, or 0 when the connection was cut.
func send(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.GetBody = nil // no silent repeats by net/http
	req.SetBasicAuth(secretKey, "")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close() //nolint:errcheck // a test
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

const formType = "application/x-www-form-urlencoded"

func TestOnlyTheKeyOpensTheDoorAndNobodyRepeatsIt(t *testing.T) {
	t.Parallel()
	url := serve(t, newWorld(t), emulator.HandlerConfig{})
	for _, path := range []string{"/v1/payment_intents", "/_emulator/charges"} {
		for auth, want := range map[string]int{"Bearer " + secretKey: 200, "bearer " + secretKey: 200, "Bearer nope": 401, "": 401, secretKey: 401} {
			got, body := send(t, "GET", url+path, "", "Authorization", auth)
			if got != want || strings.Contains(body, secretKey) || strings.Contains(body, "nope") {
				t.Errorf("%s with %q: got %d %s, want %d without the key", path, auth, got, body, want)
			}
		}
		if got, _ := send(t, "GET", url+path, ""); got != 200 {
			t.Errorf("%s with Basic: got %d, want 200", path, got)
		}
	}
	open := serve(t, newWorld(t), emulator.HandlerConfig{ControlWithoutKey: true})
	if got, _ := send(t, "GET", open+"/_emulator/charges", "", "Authorization", ""); got != 200 {
		t.Errorf("open control: got %d, want 200", got)
	}
	if got, _ := send(t, "GET", open+"/v1/payment_intents", "", "Authorization", ""); got != 401 {
		t.Errorf("the API behind open control: got %d, want 401", got)
	}
}

func TestTheScriptIsSetShownAndClearedOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := serve(t, w, emulator.HandlerConfig{}) + "/_emulator/faults"
	got, body := send(t, "POST", url, `[{"operation":"charge","do":"lose_reply","count":2},{"operation":"refund","do":"delay","by":"1.5s","when":"after","always":true}]`)
	want := `{"faults":[{"operation":"charge","do":"lose_reply","count":2},{"operation":"refund","do":"delay","always":true,"by":"1.5s","when":"after"}]}`
	if got != 200 || body != want {
		t.Errorf("got %d %s, want %s", got, body, want)
	}
	for _, bad := range []string{
		`{}`, `[{"operation":"charge"}]`, `[{"operation":"pay","do":"delay","by":"1s"}]`, `[{"operation":"charge","do":"explode"}]`,
		`[{"operation":"charge","do":"lose_reply","cuont":2}]`, `[{"operation":"charge","do":"lose_reply","count":0}]`,
		`[{"operation":"charge","do":"lose_reply","count":1,"always":true}]`, `[{"operation":"charge","do":"delay"}]`,
		`[{"operation":"charge","do":"delay","by":"soon"}]`, `[{"operation":"charge","do":"delay","by":"-1s"}]`,
		`[{"operation":"search","do":"decline"}]`, `[{"operation":"charge","do":"decline","when":"after"}]`,
		`[{"operation":"charge","do":"lose_reply"},{"operation":"charge","do":"explode"}]`, `[] []`, ``,
	} {
		if got, body := send(t, "POST", url, bad); got != 400 || !strings.Contains(body, "emulator: ") {
			t.Errorf("%s: got %d %s, want a 400 that says why", bad, got, body)
		}
	}
	if got := len(w.core.Faults()); got != 2 {
		t.Errorf("faults: got %d, want 2: a bad list adds none", got)
	}
	if got, body := send(t, "DELETE", url, ""); got != 200 || body != `{"faults":[]}` {
		t.Errorf("got %d %s, want an empty list", got, body)
	}
}

func TestALostReplyCutsTheConnectionAndTheChargeIsInTheBook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := serve(t, w, emulator.HandlerConfig{})
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.LoseReply})
	body := charge("").Form.Encode()
	if got, text := send(t, "POST", url+"/v1/payment_intents", body, "Idempotency-Key", "k", "Content-Type", formType); got != 0 {
		t.Errorf("got %d %s, want a cut connection", got, text)
	}
	if got, _ := send(t, "POST", url+"/v1/payment_intents", body, "Idempotency-Key", "k", "Content-Type", formType); got != 200 {
		t.Errorf("got %d, want 200", got)
	}
	_, book := send(t, "GET", url+"/_emulator/charges", "")
	for _, want := range []string{`"key":"k"`, `"amount":3000`, `"requests":2`, `"replays":1`, `"reference":"pay_7"`} {
		if !strings.Contains(book, want) || strings.Count(book, `"id"`) != 1 {
			t.Errorf("got %s, want one charge with %s", book, want)
		}
	}
	if _, hooks := send(t, "GET", url+"/_emulator/webhooks", ""); !strings.Contains(hooks, `"type":"payment_intent.succeeded"`) {
		t.Errorf("got %s, want the webhook", hooks)
	}
}

func TestBadHTTPIsRefusedClearly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := serve(t, w, emulator.HandlerConfig{})
	form := charge("").Form.Encode()
	for name, c := range map[string]struct {
		path, body, kind string
		want             int
	}{
		"json":        {"/v1/payment_intents", `{"amount":3000}`, "application/json", 400},
		"query":       {"/v1/payment_intents?amount=1", form, formType, 400},
		"broken form": {"/v1/payment_intents", "%zz", formType, 400},
		"too large":   {"/v1/payment_intents", strings.Repeat("x", 1<<20+1), formType, 413},
		"no endpoint": {"/v1/nothing", "", formType, 404},
		"no control":  {"/_emulator/nothing", "", formType, 404},
	} {
		if got, body := send(t, "POST", url+c.path, c.body, "Content-Type", c.kind); got != c.want {
			t.Errorf("%s: got %d %s, want %d", name, got, body, c.want)
		}
	}
	if got := len(w.core.Charges()); got != 0 {
		t.Errorf("charges: got %d, want 0", got)
	}
}

func TestFundsArriveOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := serve(t, w, emulator.HandlerConfig{})
	if got, _ := send(t, "POST", url+"/_emulator/methods", `{"method":"pm_declined","decline_code":""}`); got != 200 {
		t.Errorf("got %d, want 200", got)
	}
	if got := w.do(charge("k", "payment_method", "pm_declined")).Status; got != 200 {
		t.Errorf("got %d, want 200", got)
	}
	for _, bad := range []string{`{}`, `{"method":"pm_1","code":"x"}`, `x`} {
		if got, _ := send(t, "POST", url+"/_emulator/methods", bad); got != 400 {
			t.Errorf("%s: got %d, want 400", bad, got)
		}
	}
}

func TestAWebhookGoesOverHTTPUntilTheReceiverSaysYes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var status, calls int
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		calls++
		if r.Header.Get(emulator.SignatureHeader) == "" || r.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("got the headers %v", r.Header)
		}
		rw.Header().Set("Location", "/elsewhere")
		rw.WriteHeader(status)
	}))
	t.Cleanup(receiver.Close)
	w.cfg.Deliverer = emulator.HTTPDeliverer{URL: receiver.URL}
	w.restart()
	w.do(charge("k"))
	for _, status = range []int{500, 302, 404, 204} {
		n, err := w.core.RunOnce(t.Context())
		if want := status == 204; (n == 1) != want || (err == nil) != want {
			t.Errorf("%d: got %d %v", status, n, err)
		}
		w.clock.advance(w.cfg.WebhookMaxBackoff + 60e9)
	}
	if calls != 4 {
		t.Errorf("calls: got %d, want 4", calls)
	}
}

// case 16
func TestFiftyAtOnceWithOneKeyChargeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := serve(t, w, emulator.HandlerConfig{})
	body := charge("").Form.Encode()
	status := make([]int, 50)
	var all sync.WaitGroup
	for i := range status {
		all.Go(func() {
			status[i], _ = send(t, "POST", url+"/v1/payment_intents", body, "Idempotency-Key", "k", "Content-Type", formType)
		})
	}
	all.Wait()
	paid := 0
	for _, s := range status {
		if s == 200 {
			paid++
		} else if s != 409 {
			t.Errorf("got %d, want 200 or 409", s)
		}
	}
	if got := w.core.Charges(); len(got) != 1 || paid == 0 || got[0].Requests != 50 || got[0].Replays != paid-1 {
		t.Errorf("got %+v and %d times 200, want one charge and replays for the rest", got, paid)
	}
}
