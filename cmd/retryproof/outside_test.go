package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/stripe"
)

// Environment variables belong to the process: this test starts itself again with them.
func TestASecondProcessPaysThroughTheFirstOnesProcessor(t *testing.T) {
	const child = "RETRYPROOF_TEST_SECOND"
	if os.Getenv(child) == "" {
		t.Parallel()
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), child+"=1", "STRIPE_API_KEY=sk_test_shared", "STRIPE_WEBHOOK_SECRET=whsec_shared")
		if text, err := c.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS: "+t.Name()) {
			t.Errorf("%v:\n%s", err, text)
		}
		return
	}
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	writeFile(t, tokens, `{"0123456789abcdef":"u1"}`)
	for _, flags := range [][]string{nil, {"--tokens", tokens}} {
		data := t.TempDir()
		first := serve(t, data, flags...)
		for _, path := range []string{"/outside/psp", "", "/"} {
			second := serve(t, t.TempDir(), "--store", "sqlite:"+filepath.Join(data, "ledger.db"), "--psp", first.url+path)
			if got := second.pay("key-1"+path, 3000); got.status != http.StatusCreated {
				t.Errorf("--psp …%s: got %+v, want 201", path, got)
			}
			declined := second.do("POST", "/payments", "", "key-2"+path,
				`{"order_id":"42","amount":5,"currency":"USD","payment_method":"pm_declined","merchant_id":"m1"}`)
			if declined.status != http.StatusPaymentRequired {
				t.Errorf("--psp …%s: got %+v, want 402", path, declined)
			}
			got := second.do("POST", "/operator/reconciliations", "demo-operator", "",
				`{"from":"`+time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)+`","to":"`+time.Now().UTC().Add(time.Hour).Format(time.RFC3339)+`"}`)
			if got.status != http.StatusOK || !strings.Contains(got.body, `"payments":{`) || strings.Contains(got.body, `"kind"`) {
				t.Errorf("--psp …%s: a reconciliation: got %+v, want 200 without a difference", path, got)
			}
			second.stop()
		}
		first.stop()
	}
}

func TestAnotherKeyIsNotLetInAtTheProcessor(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--store", "memory", "--queue", "memory")
	for _, base := range []string{s.url, s.url + "/outside/psp"} {
		client, err := stripe.New(stripe.Config{BaseURL: base, APIKey: "sk_test_wrong"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := client.Charge(t.Context(), psp.ChargeRequest{Key: "k", Reference: "r", Amount: 5, Currency: "USD", Method: "pm_1"}); err == nil {
			t.Errorf("%s: got %+v, want a refusal", base, got)
		}
	}
	s.stop()
}

func TestWhileACompanyReadsItsFileNothingIsDone(t *testing.T) {
	t.Parallel()
	read := make(chan error)
	c, stop := wake(t.Context(), func(ctx context.Context) (string, error) {
		select {
		case err := <-read:
			return "hello", err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	serving := func(asleep http.HandlerFunc) http.Handler {
		return c.handler(func(text string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
		}, asleep)
	}
	ask := func(h http.Handler) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w
	}
	if err := c.wait(time.After(0)); err != nil {
		t.Errorf("got %v, want to go on without it", err)
	}
	ours, theirs := serving(stillReading), serving(stillReadingStripe)
	if got := ask(ours); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v, want 503 with Retry-After", got.Code, got.Header())
	}
	if got := ask(theirs); got.Code != http.StatusTooManyRequests || !json.Valid(got.Body.Bytes()) {
		t.Errorf("got %d %s, want Stripe's 429", got.Code, got.Body)
	}
	read <- nil
	if err := c.wait(nil); err != nil {
		t.Error(err)
	}
	if got := ask(ours); got.Code != http.StatusOK || got.Body.String() != "hello" {
		t.Errorf("got %d %s, want it awake", got.Code, got.Body)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	broken, stop := wake(t.Context(), func(context.Context) (string, error) { return "", errors.New("a broken record") })
	if err := broken.wait(nil); err == nil {
		t.Error("a broken file: got no error")
	}
	if _, ok := broken.awake(); ok {
		t.Error("a broken file: it is awake")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A processor whose file takes long is asleep, and its 429 means that nothing was done:
// the payment is refused, and its key is free.
func TestASleepingProcessorLeavesTheKeyFree(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(stillReadingStripe))
	t.Cleanup(s.Close)
	client, err := stripe.New(stripe.Config{BaseURL: s.URL, APIKey: "sk_test_1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Charge(t.Context(), psp.ChargeRequest{Key: "k", Reference: "r", Amount: 5, Currency: "USD", Method: "pm_1"})
	if got := retryproof.OutcomeOf(err); err == nil || got != retryproof.NotDone {
		t.Errorf("got %v (%v), want NotDone", got, err)
	}
}
