package payments_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/payments"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
	pushemulator "github.com/retryproof/retryproof/push/emulator"
	queuememory "github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/store/memory"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const (
	keyK1 = "0192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e07"
	keyK2 = "0192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e08"
)

// world is the system with everything around it, in memory and virtual time.
type world struct {
	t      testing.TB
	clock  *clocktest.Clock
	store  *memory.Store
	core   *pspemulator.Core
	psp    *processor
	phones *pushemulator.Emulator
	queue  *queuememory.Queue
	mail   *mailbox
	seen   *counts
	log    *logText
	tokens *tokens
	deps   payments.Deps
	config payments.Config
	system *payments.System
}

// newWorld composes the system; tune may change what it is composed of. The
// merchant m1 opens with 12,000.
func newWorld(t testing.TB, tune ...func(*world)) *world {
	t.Helper()
	w := &world{t: t, clock: clocktest.New(start), store: memory.New(), mail: &mailbox{}, seen: &counts{n: map[string]float64{}}, log: &logText{},
		tokens: &tokens{caller: map[string]string{"t-u1": "u1", "t-u2": "u2", "t-u1:x": "u1:x"}}}
	var err error
	if w.core, err = pspemulator.New(t.Context(), pspemulator.Config{Clock: w.clock, Deliverer: w.mail}); err != nil {
		t.Fatal(err)
	}
	if w.phones, err = pushemulator.New(t.Context(), pushemulator.Config{Clock: w.clock}); err != nil {
		t.Fatal(err)
	}
	if w.queue, err = queuememory.New(w.clock, queuememory.Config{}); err != nil {
		t.Fatal(err)
	}
	w.psp = &processor{Direct: pspemulator.Direct{Core: w.core}, calls: map[string]int{}}
	w.deps = payments.Deps{Store: w.store.Payments(), Queue: w.queue, PSP: w.psp, Push: w.phones, Authenticate: w.tokens.authenticate,
		Clock: w.clock, Log: slog.New(slog.NewTextHandler(w.log, nil)), Metrics: w.seen}
	for _, f := range tune {
		f(w)
	}
	w.system = w.process(w.deps)
	if err := w.system.OpenMerchant(t.Context(), "m1", "USD", 12_000); err != nil {
		t.Fatal(err)
	}
	return w
}

// process is one more process on the same stores and queue.
func (w *world) process(deps payments.Deps) *payments.System {
	w.t.Helper()
	s, err := payments.New(deps, w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// at moves the clock to a second of the story; it never goes back.
func (w *world) at(seconds float64) {
	w.t.Helper()
	d := start.Add(time.Duration(seconds * float64(time.Second))).Sub(w.clock.Now())
	if d < 0 {
		w.t.Fatalf("the clock is past %v s already: %v", seconds, w.clock.Now().Sub(start))
	}
	w.clock.Advance(d)
}

func (w *world) wantTime(seconds float64) {
	w.t.Helper()
	if got := w.clock.Now().Sub(start).Seconds(); got != seconds {
		w.t.Errorf("time: got %v s, want %v s", got, seconds)
	}
}

// tokens maps bearer tokens to callers, and can take one back.
type tokens struct {
	mu     sync.Mutex
	caller map[string]string
}

func (k *tokens) authenticate(token string) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	caller, ok := k.caller[token]
	return caller, ok
}

func (k *tokens) set(token, caller string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.caller, token)
	if caller != "" {
		k.caller[token] = caller
	}
}

// counts is payments.Metrics.
type counts struct {
	mu sync.Mutex
	n  map[string]float64
}

func (c *counts) Add(name string, n float64, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[name+" "+strings.Join(labels, "=")] += n
}

func (w *world) wantMetric(name string, want float64) {
	w.t.Helper()
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	if got := w.seen.n[name]; got != want {
		w.t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

// logText keeps the log.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) lines(with string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), with)
}

// ask is one request; empty fields get defaults: a payment of 3000 by u1.
type ask struct {
	method, path, token, key, body string
	amount                         int64
	ctx                            context.Context
	header                         http.Header
}

func order(amount int64) string {
	return fmt.Sprintf(`{"order_id":"42","amount":%d,"currency":"USD","payment_method":"pm_1","merchant_id":"m1"}`, amount)
}

func (a ask) request() *http.Request {
	body := cmp.Or(a.body, order(cmp.Or(a.amount, 3000)))
	method := cmp.Or(a.method, http.MethodPost)
	if method == http.MethodGet {
		body = ""
	}
	r := httptest.NewRequest(method, cmp.Or(a.path, "/payments"), strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+cmp.Or(a.token, "t-u1"))
	if a.key != "" {
		r.Header.Set(httpkey.HeaderKey, a.key)
	}
	for name, values := range a.header {
		r.Header[name] = values
	}
	if a.ctx != nil {
		r = r.WithContext(a.ctx)
	}
	return r
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
	code   retryproof.Code
}

func (w *world) send(a ask) answer {
	w.t.Helper()
	return sendTo(w.t, w.system, a)
}

func sendTo(t testing.TB, s *payments.System, a ask) answer {
	t.Helper()
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, a.request())
	return read(t, rec.Result())
}

func read(t testing.TB, resp *http.Response) answer {
	t.Helper()
	problem, _ := httpkey.ReadProblem(resp)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("the body: %v", err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: string(text), code: problem.Code}
}

func (w *world) get(path string) answer {
	w.t.Helper()
	return w.send(ask{method: http.MethodGet, path: path})
}

// want checks status and problem code.
func want(t testing.TB, got answer, status int, code retryproof.Code) {
	t.Helper()
	if got.status != status || got.code != code {
		t.Errorf("got %d %q, want %d %q: %s", got.status, got.code, status, code, got.body)
	}
}

// wantSame checks that a repeat is the first answer again, marked.
func wantSame(t testing.TB, got, first answer) {
	t.Helper()
	if got.status != first.status || got.body != first.body {
		t.Errorf("the repeat: got %d %s, want %d %s", got.status, got.body, first.status, first.body)
	}
	if got := got.header.Get(httpkey.HeaderReplayed); got != "true" {
		t.Errorf("%s: got %q, want true", httpkey.HeaderReplayed, got)
	}
}

func scopeOf(caller, key string) retryproof.Scope {
	return retryproof.Scope{Endpoint: "payments", Caller: caller, Key: retryproof.Key(key)}
}

func idOf(caller, key string) retryproof.ID { return retryproof.Of("pay", scopeOf(caller, key)) }

// recorded is what the key store and the payments table hold.
func (w *world) recorded(caller, key string) effect.Seen {
	w.t.Helper()
	seen, err := w.store.Payments().Effects.Look(w.t.Context(), effect.Look{Scope: scopeOf(caller, key), GuardID: idOf(caller, key), Now: w.clock.Now()})
	if err != nil {
		w.t.Fatal(err)
	}
	return seen
}

func (w *world) wantState(key string, state effect.State) payments.Payment {
	w.t.Helper()
	p, err := w.store.Payments().Ledger.Payment(w.t.Context(), idOf("u1", key))
	if err != nil {
		w.t.Fatal(err)
	}
	if p.State != state {
		w.t.Errorf("state: got %s, want %s", p.State, state)
	}
	return p
}

func (w *world) audit() payments.Audit {
	w.t.Helper()
	a, err := w.store.Payments().Ledger.Audit(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// wantNothing checks that no refusal left a claim or a payment.
func (w *world) wantNothing() {
	w.t.Helper()
	if a := w.audit(); len(a.ByState) != 0 || a.ClaimsInProgress != 0 || a.OutboxWaiting != 0 {
		w.t.Errorf("got %+v, want no claim and no payment", a)
	}
	w.wantCalls(0)
}

// wantCharges counts charges where the money is taken.
func (w *world) wantCharges(want int) {
	w.t.Helper()
	if got := len(w.core.Charges()); got != want {
		w.t.Errorf("charges: got %d, want %d", got, want)
	}
}

// wantCalls counts charge requests to the processor.
func (w *world) wantCalls(want int) {
	w.t.Helper()
	if got := w.psp.count("charge"); got != want {
		w.t.Errorf("charge calls: got %d, want %d", got, want)
	}
}

func (w *world) wantBalance(want int64) {
	w.t.Helper()
	got, err := w.store.Payments().Ledger.Balance(w.t.Context(), payments.MerchantAccount("m1"), "USD")
	if err != nil {
		w.t.Fatal(err)
	}
	if got != want {
		w.t.Errorf("m1: got %d, want %d", got, want)
	}
}

func (w *world) wantOutbox(waiting int64) {
	w.t.Helper()
	if a := w.audit(); a.OutboxWaiting != waiting {
		w.t.Errorf("outbox: got %d, want %d", a.OutboxWaiting, waiting)
	}
}

func (w *world) wantScreen(shown int, alerts int64) {
	w.t.Helper()
	screen := w.phones.Screen("u1")
	if got := w.phones.Totals().Alerts; len(screen) != shown || got != alerts {
		w.t.Errorf("screen: got %d shown, %d alerts, want %d and %d", len(screen), got, shown, alerts)
	}
}

// deliver relays and applies until nothing is due.
func (w *world) deliver() {
	w.t.Helper()
	for _, step := range []func(context.Context) (int, error){
		func(ctx context.Context) (int, error) { return w.system.RelayOnce(ctx, 0) }, w.system.WorkOnce,
	} {
		for range 10_000 {
			n, err := step(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			if n == 0 {
				break
			}
		}
	}
}

func (w *world) resolve(wantSettled int) {
	w.t.Helper()
	got, err := w.system.ResolveOnce(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if got != wantSettled {
		w.t.Errorf("settled: got %d, want %d", got, wantSettled)
	}
}

func (w *world) fault(f pspemulator.Fault) {
	w.t.Helper()
	if f.Operation == "" {
		f.Operation = pspemulator.OperationCharge
	}
	if err := w.core.AddFaults(f); err != nil {
		w.t.Fatal(err)
	}
}

// webhooks are the messages that the processor has sent since the last call.
func (w *world) webhooks() [][]byte {
	w.t.Helper()
	if _, err := w.core.RunOnce(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return w.mail.take()
}

// post delivers a message of the processor, signed now.
func (w *world) post(payload []byte) answer {
	w.t.Helper()
	return w.postSigned(payload, pspemulator.Sign(pspemulator.DefaultWebhookSecret, payload, w.clock.Now()))
}

func (w *world) postSigned(payload []byte, signature string) answer {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/webhooks/psp", bytes.NewReader(payload))
	r.Header.Set(pspemulator.SignatureHeader, signature)
	rec := httptest.NewRecorder()
	w.system.Handler().ServeHTTP(rec, r)
	return read(w.t, rec.Result())
}

// wantWebhook checks a delivery's answer: 200 and what it did.
func wantWebhook(t testing.TB, got answer, what string) {
	t.Helper()
	if got.status != http.StatusOK || !strings.Contains(got.body, `"result":"`+what+`"`) {
		t.Errorf("webhook: got %d %s, want 200 %q", got.status, got.body, what)
	}
}

// mailbox keeps the processor's messages for the test to deliver.
type mailbox struct {
	mu  sync.Mutex
	got [][]byte
}

func (m *mailbox) Deliver(_ context.Context, payload []byte, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got = append(m.got, slices.Clone(payload))
	return nil
}

func (m *mailbox) take() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	got := m.got
	m.got = nil
	return got
}
