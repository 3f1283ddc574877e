package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// served is a server in this process.
type served struct {
	t      *testing.T
	url    string
	ready  string
	ctrlC  context.CancelFunc
	ended  chan int
	stderr *lockedText
}

type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var readyLine = regexp.MustCompile(`^retryproof is ready: (http://127\.0\.0\.1:\d+) .*Ctrl-C`)

// serve starts a server on a free port and waits for its ready line.
func serve(t *testing.T, data string, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stdout, in := io.Pipe()
	s := &served{t: t, ctrlC: cancel, ended: make(chan int, 1), stderr: &lockedText{}}
	go func() {
		s.ended <- run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data}, args...), in, s.stderr)
		_ = in.Close()
	}()
	lines := bufio.NewReader(stdout)
	var err error
	if s.ready, err = lines.ReadString('\n'); err != nil {
		cancel()
		t.Fatalf("no ready line: exit code %d, %s", <-s.ended, s.stderr)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	m := readyLine.FindStringSubmatch(s.ready)
	if m == nil {
		t.Fatalf("ready line: got %q", s.ready)
	}
	s.url = m[1]
	t.Cleanup(cancel)
	return s
}

// stop presses Ctrl-C and waits for the end.
func (s *served) stop() {
	s.t.Helper()
	s.ctrlC()
	if code := <-s.ended; code != exitOK {
		s.t.Errorf("exit code: got %d, want 0: %s", code, s.stderr)
	}
}

type reply struct {
	status   int
	replayed bool
	body     string
}

func (s *served) do(method, path, token, key, body string) reply {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+cmp.Or(token, "demo-u1"))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header.Get("Idempotency-Replayed") == "true", string(text)}
}

func (s *served) get(path string) reply { s.t.Helper(); return s.do(http.MethodGet, path, "", "", "") }

func (s *served) pay(key string, amount int) reply {
	s.t.Helper()
	return s.do(http.MethodPost, "/payments", "", key,
		fmt.Sprintf(`{"order_id":"42","amount":%d,"currency":"USD","payment_method":"pm_1","merchant_id":"m1"}`, amount))
}

// eventually asks until the answer has the text; the loops work meanwhile.
func (s *served) eventually(path, text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got := s.get(path)
		if strings.Contains(got.body, text) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("GET %s: got %d %s, want %s in it", path, got.status, got.body, text)
		}
	}
}

// charges are counted where the processor keeps them.
func (s *served) wantCharges(want int) {
	s.t.Helper()
	var got struct{ Charges []json.RawMessage }
	if err := json.Unmarshal([]byte(s.get("/outside/psp/_emulator/charges").body), &got); err != nil {
		s.t.Fatal(err)
	}
	if len(got.Charges) != want {
		s.t.Errorf("charges: got %d, want %d", len(got.Charges), want)
	}
}

func TestServePrintsTheAddressAndStopsOnCtrlC(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serve(t, data, "--store", "memory", "--queue", "memory")
	if !strings.Contains(s.ready, data) {
		t.Errorf("the ready line does not say where the data are: %q", s.ready)
	}
	for path, text := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/": "<html", "/js/retryproof.js": "function"} {
		if got := s.get(path); got.status != http.StatusOK || !strings.Contains(got.body, text) {
			t.Errorf("GET %s: got %d, want 200 with %q", path, got.status, text)
		}
	}
	s.stop()
	if !strings.Contains(s.stderr.String(), "stopping") {
		t.Errorf("log: got %q, want a word about the end", s.stderr)
	}
}

func TestARestartOnTheSameDataKeepsEverything(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serve(t, data)
	first := s.pay("key-1", 3000)
	if first.status != http.StatusCreated || first.replayed {
		t.Fatalf("got %+v, want a fresh 201", first)
	}
	if again := s.pay("key-1", 3000); again != (reply{http.StatusCreated, true, first.body}) {
		t.Errorf("the repeat: got %+v, want %s", again, first.body)
	}
	if got := s.pay("key-1", 3500); got.status != http.StatusUnprocessableEntity {
		t.Errorf("another amount: got %d, want 422", got.status)
	}
	s.eventually("/merchants/m1/balance", `"balance":15000`)
	s.eventually("/phone/screen?to=u1", "USD 30.00 for order 42")
	s.wantCharges(1)
	s.stop()

	store := "sqlite:" + filepath.Join(data, "ledger.db")
	code, stdout, stderr := runHere(t, "audit", "--store", store, "--format", "json")
	var audit auditReport
	if err := json.Unmarshal([]byte(stdout), &audit); err != nil || code != exitOK {
		t.Fatalf("audit: got %d, %v, %s", code, err, stderr)
	}
	if audit.Payments.Succeeded != 1 || audit.Credits != 1 || audit.CreditSum != 3000 || audit.IntentsSent != 1 || audit.OutboxWaiting != 0 || len(audit.Disagreements) != 0 {
		t.Errorf("audit: got %+v", audit)
	}
	code, stdout, _ = runHere(t, "audit", "--store", store)
	if code != exitOK || !regexp.MustCompile(`payments SUCCEEDED +1\n`).MatchString(stdout) {
		t.Errorf("audit: got %d, %s", code, stdout)
	}

	s = serve(t, data)
	if again := s.pay("key-1", 3000); again != (reply{http.StatusCreated, true, first.body}) {
		t.Errorf("after the restart: got %+v, want %s", again, first.body)
	}
	s.wantCharges(1)
	s.eventually("/merchants/m1/balance", `"balance":15000`)
	s.eventually("/phone/screen?to=u1", "USD 30.00 for order 42")
	var payment struct{ ID string }
	if err := json.Unmarshal([]byte(first.body), &payment); err != nil {
		t.Fatal(err)
	}
	s.eventually("/payments/"+payment.ID+"/hops", `"first requests":1`)
	if got := s.do(http.MethodGet, "/payments/"+payment.ID, "demo-u2", "", ""); got.status != http.StatusNotFound {
		t.Errorf("somebody else's payment: got %d, want 404", got.status)
	}
	s.stop()
}

func TestThePhonePageCanCutTheProcessorsReply(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--store", "memory", "--queue", "memory")
	const off, on = `{"lose_psp_reply":false,"slow":false}` + "\n", `{"lose_psp_reply":true,"slow":false}` + "\n"
	if got := s.get("/phone/faults"); got.body != off {
		t.Errorf("got %s, want %s", got.body, off)
	}
	if got := s.do(http.MethodPost, "/phone/faults", "", "", `{"smoke":true}`); got.status != http.StatusBadRequest {
		t.Errorf("an unknown switch: got %d, want 400", got.status)
	}
	if got := s.do(http.MethodPost, "/phone/faults", "", "", on); got.body != on {
		t.Errorf("got %s, want %s", got.body, on)
	}
	first := s.pay("key-1", 3000)
	if first.status != http.StatusAccepted || !strings.Contains(first.body, `"state":"PROCESSING"`) {
		t.Errorf("got %+v, want 202 PROCESSING", first)
	}
	if got := s.do(http.MethodPost, "/phone/faults", "", "", `{"slow":true}`); !strings.Contains(got.body, `"slow":true`) {
		t.Errorf("got %s, want slow", got.body)
	}
	if got := s.do(http.MethodPost, "/phone/faults", "", "", off); got.body != off {
		t.Errorf("got %s, want %s", got.body, off)
	}
	s.eventually("/merchants/m1/balance", `"balance":15000`) // the webhook or the resolver settled it
	if got := s.pay("key-1", 3000); got.status != http.StatusCreated || !got.replayed {
		t.Errorf("got %+v, want the final 201", got)
	}
	s.wantCharges(1)
	metrics := s.get("/metrics").body
	for _, name := range []string{
		`retryproof_effects_total{what="first"} 1`, `retryproof_effects_total{what="unknown"} 1`, `retryproof_outbox_total{what="sent"} 1`,
		`retryproof_inbox_total{what="applied"} 1`, "retryproof_outbox_waiting 0", "retryproof_outbox_parked 0", "retryproof_webhooks_total", "go_goroutines",
	} {
		if !strings.Contains(metrics, name) {
			t.Errorf("%s is not in /metrics", name)
		}
	}
	if strings.Contains(metrics, "key-1") {
		t.Error("a key is in /metrics")
	}
	s.stop()
}

func TestOwnTokensHideTheDemonstration(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	writeFile(t, tokens, `{"0123456789abcdef":"ann"}`)
	s := serve(t, t.TempDir(), "--store", "memory", "--queue", "memory", "--tokens", tokens)
	if got := s.pay("key-1", 3000); got.status != http.StatusUnauthorized {
		t.Errorf("a demo token: got %d, want 401", got.status)
	}
	got := s.do(http.MethodPost, "/payments", "0123456789abcdef", "key-1", `{"order_id":"1","amount":5,"currency":"USD","payment_method":"pm_1","merchant_id":"any"}`)
	if got.status != http.StatusCreated {
		t.Errorf("got %+v, want 201", got)
	}
	for _, path := range []string{"/", "/phone/faults", "/phone/screen?to=ann", "/outside/psp/_emulator/charges", "/outside/push/totals"} {
		if got := s.get(path); got.status != http.StatusNotFound {
			t.Errorf("GET %s: got %d, want 404", path, got.status)
		}
	}
	s.stop()
}

func TestAPortThatIsTakenIsAClearError(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--store", "memory", "--queue", "memory")
	code, _, stderr := runHere(t, "serve", "--listen", strings.TrimPrefix(s.url, "http://"), "--data", t.TempDir())
	if code != exitFailure || !strings.Contains(stderr, "another port") {
		t.Errorf("got %d, %q, want 1 and a hint", code, stderr)
	}
	s.stop()
}
