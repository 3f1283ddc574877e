package httpkey_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// world is a server with its records and its clock.
type world struct {
	t     testing.TB
	clock *clocktest.Clock
	store effect.Store
	seen  *counts
	runs  atomic.Int64
	mw    *httpkey.Middleware
	next  http.Handler
}

// counts counts what the engine observed.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(o effect.Observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[o.What]++
}

func (c *counts) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

// newWorld runs handler behind the middleware and counts its runs.
func newWorld(t testing.TB, config httpkey.Config, handler http.HandlerFunc) *world {
	t.Helper()
	return newWorldOn(t, memory.New().Effects(), effect.Config{}, config, handler)
}

func newWorldOn(t testing.TB, store effect.Store, engineConfig effect.Config, config httpkey.Config, handler http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t, clock: clocktest.New(start), store: store, seen: &counts{n: map[string]int{}}}
	engineConfig.Clock, engineConfig.Observe = w.clock, w.seen.add
	engine, err := effect.New(store, engineConfig)
	if err != nil {
		t.Fatal(err)
	}
	if config.Caller == nil {
		config.Caller = bearer
	}
	if w.mw, err = httpkey.New(engine, config); err != nil {
		t.Fatal(err)
	}
	w.next = w.mw.Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.runs.Add(1)
		handler(rw, r)
	}))
	return w
}

// bearer takes the caller from a token; "revoked" and none are refused.
func bearer(r *http.Request) (string, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch token {
	case "":
		return "", &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeUnauthorized, Message: "no token"}
	case "revoked":
		return "", &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeForbidden, Message: "revoked"}
	}
	return token, nil
}

// ask is one request; empty fields get defaults.
type ask struct {
	method, url, key, body, user string
	header                       http.Header
	ctx                          context.Context
}

func (a ask) request() *http.Request {
	def := func(s *string, to string) {
		if *s == "" {
			*s = to
		}
	}
	def(&a.method, http.MethodPost)
	def(&a.url, "/payments")
	def(&a.body, `{"order_id":"42","amount":3000}`)
	def(&a.user, "u1")
	if a.body == "-" {
		a.body = ""
	}
	r := httptest.NewRequest(a.method, a.url, strings.NewReader(a.body))
	r.Header.Set("Authorization", "Bearer "+a.user)
	r.Header.Set("Content-Type", "application/json")
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

// send serves one request and returns the answer.
func (w *world) send(a ask) *http.Response {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.next.ServeHTTP(rec, a.request())
	return rec.Result()
}

// sendTo is send for a handler that may panic; it reports the panic.
func (w *world) sendTo(a ask) (resp *http.Response, panicked any) {
	rec := httptest.NewRecorder()
	defer func() { panicked = recover() }()
	w.next.ServeHTTP(rec, a.request())
	return rec.Result(), nil
}

func bodyOf(t testing.TB, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantAnswer checks status and, when given, the problem code.
func wantAnswer(t testing.TB, resp *http.Response, status int, code retryproof.Code) {
	t.Helper()
	p, _ := httpkey.ReadProblem(resp)
	if resp.StatusCode != status || p.Code != code {
		t.Errorf("got %d %q, want %d %q: %s", resp.StatusCode, p.Code, status, code, bodyOf(t, resp))
	}
	if code == "" {
		return
	}
	if got, want := p.Type, httpkey.ProblemBase+string(code); got != want {
		t.Errorf("type: got %q, want %q", got, want)
	}
}

func (w *world) wantRuns(want int64) {
	w.t.Helper()
	if got := w.runs.Load(); got != want {
		w.t.Errorf("handler runs: got %d, want %d", got, want)
	}
}

func scopeOf(endpoint, caller, key string) retryproof.Scope {
	return retryproof.Scope{Endpoint: endpoint, Caller: caller, Key: retryproof.Key(key)}
}

// recorded is what the store holds for a scope.
func (w *world) recorded(s retryproof.Scope) effect.Seen {
	w.t.Helper()
	seen, err := w.store.Look(context.Background(), effect.Look{Scope: s, GuardID: retryproof.Of("effect", s), Now: w.clock.Now()})
	if err != nil {
		w.t.Fatal(err)
	}
	return seen
}

func ok(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}
