package stripe_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	stripesdk "github.com/stripe/stripe-go/v85"

	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/psp/stripe"
)

const (
	apiKey        = "sk_test_do_not_tell"
	webhookSecret = "whsec_do_not_tell"
)

// testClock stands still until it is moved; Sleep moves it, after the hook ran.
type testClock struct {
	mu      sync.Mutex
	now     time.Time
	onSleep func()
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *testClock) Sleep(_ context.Context, d time.Duration) error {
	c.mu.Lock()
	hook := c.onSleep
	c.onSleep = nil
	c.mu.Unlock()
	if hook != nil {
		hook()
	}
	c.advance(d)
	return nil
}

func (c *testClock) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// world is the emulator behind HTTP, with what a test moves.
type world struct {
	t       *testing.T
	clock   *testClock
	journal *emulator.MemoryJournal
	hooks   *mailbox
	server  *httptest.Server

	mu      sync.Mutex
	core    *emulator.Core
	handler http.Handler
}

// mailbox keeps webhooks as they were sent.
type mailbox struct {
	payloads [][]byte
	headers  []http.Header
}

func (m *mailbox) Deliver(_ context.Context, payload []byte, signature string) error {
	m.payloads = append(m.payloads, payload)
	m.headers = append(m.headers, http.Header{emulator.SignatureHeader: {signature}})
	return nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, clock: &testClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		journal: &emulator.MemoryJournal{}, hooks: &mailbox{},
	}
	w.restart()
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		h := w.handler
		w.mu.Unlock()
		h.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.server.Close)
	return w
}

// restart kills the company and rebuilds it from its journal.
func (w *world) restart() {
	w.t.Helper()
	core, err := emulator.New(context.Background(), emulator.Config{
		Clock: w.clock, Journal: w.journal, Deliverer: w.hooks, WebhookSecret: webhookSecret,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.core, w.handler = core, emulator.NewHandler(core, emulator.HandlerConfig{APIKey: apiKey})
}

func (w *world) faults(f ...emulator.Fault) {
	w.t.Helper()
	if err := w.core.AddFaults(f...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) charges() []emulator.ChargeRecord { return w.core.Charges() }

// adapter is the client under test.
func (w *world) adapter() *stripe.Client { return w.adapterWith(nil) }

func (w *world) adapterWith(hc *http.Client) *stripe.Client {
	w.t.Helper()
	c, err := stripe.New(stripe.Config{BaseURL: w.server.URL, APIKey: apiKey, WebhookSecret: webhookSecret, HTTPClient: hc})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// sdk is Stripe's own client; only its address is set.
func (w *world) sdk(retries int64) *stripesdk.Client {
	return stripesdk.NewClient(apiKey, stripesdk.WithBackends(stripesdk.NewBackendsWithConfig(&stripesdk.BackendConfig{
		URL: stripesdk.String(w.server.URL), MaxNetworkRetries: stripesdk.Int64(retries),
		LeveledLogger: &stripesdk.LeveledLogger{Level: stripesdk.LevelNull},
	})))
}

func request(key string) psp.ChargeRequest {
	return psp.ChargeRequest{Key: key, Reference: "pay_7", Amount: 3000, Currency: "USD", Method: "pm_1"}
}
