package deadline_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/deadline"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

// through sends a request that waits between the arrivals and the gate.
func (l *lab) through(g deadline.GateConfig, wait time.Duration, r *http.Request) (answer *httptest.ResponseRecorder, ran bool) {
	l.t.Helper()
	g.Clock = l.clock
	g.Observe = func(o deadline.Observation) { l.seen = append(l.seen, o.What) }
	gate, err := deadline.NewGate(g)
	if err != nil {
		l.t.Fatal(err)
	}
	inner := gate.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
	queue := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.clock.Advance(wait)
		inner.ServeHTTP(w, r)
	})
	answer = httptest.NewRecorder()
	l.arrivals.Handler(queue).ServeHTTP(answer, r)
	return answer, ran
}

func TestARequestThatWaitedTooLongIsShedBeforeAnythingRuns(t *testing.T) {
	for name, c := range map[string]struct {
		wait   time.Duration
		stamp  time.Duration
		passes bool
	}{
		"at once":              {0, 0, true},
		"exactly MaxWait":      {2 * time.Second, 0, true},
		"longer":               {2*time.Second + time.Microsecond, 0, false},
		"waited at the proxy":  {0, 2001 * time.Millisecond, false},
		"half here half there": {1500 * time.Millisecond, 1500 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			w, ran := l.through(deadline.GateConfig{Arrived: l.arrivals.Arrived, RetryAfter: 3 * time.Second}, c.wait, request(proxy, requestStart, stamp(c.stamp)))
			if ran != c.passes {
				t.Fatalf("got ran %v, want %v", ran, c.passes)
			}
			if c.passes {
				return
			}
			p, ok := httpkey.ParseProblem(w.Body.Bytes())
			if w.Code != http.StatusServiceUnavailable || !ok || p.Code != retryproof.CodeTooLate || w.Header().Get("Retry-After") != "3" {
				t.Errorf("got %d, %+v, Retry-After %q, want 503 too-late", w.Code, p, w.Header().Get("Retry-After"))
			}
			if got := strings.Join(l.seen, " "); got != "used shed" {
				t.Errorf("saw %q, want used shed", got)
			}
		})
	}
}

func TestARetryOfAForgottenKeyIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		memory time.Duration
		first  string
		status int
		saw    string
	}{
		"off by default":  {0, "Sun, 01 Mar 2020 10:00:00 GMT", 200, "missing"},
		"no header":       {time.Hour, "", 200, "missing"},
		"inside":          {time.Hour, "Sun, 01 Mar 2026 09:00:00 GMT", 200, "missing"},
		"outside":         {time.Hour, "Sun, 01 Mar 2026 08:59:59 GMT", 412, "missing forgotten"},
		"in the future":   {time.Hour, "Sun, 01 Mar 2026 11:00:00 GMT", 200, "missing"},
		"cannot be read":  {time.Hour, "an hour ago", 400, "missing junk"},
		"not read if off": {0, "an hour ago", 200, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			r := request(proxy)
			if c.first != "" {
				r.Header.Set(deadline.HeaderFirstSent, c.first)
			}
			w, ran := l.through(deadline.GateConfig{Memory: c.memory, Arrived: l.arrivals.Arrived}, 0, r)
			if w.Code != c.status || ran != (c.status == 200) {
				t.Errorf("got %d, ran %v, want %d", w.Code, ran, c.status)
			}
			if got := strings.Join(l.seen, " "); got != c.saw {
				t.Errorf("saw %q, want %q", got, c.saw)
			}
			if c.status != 200 && w.Header().Get("Repeatability-Result") != "rejected" {
				t.Error("the answer does not say rejected")
			}
		})
	}
}

// The client may not take the refusal of a forgotten key for a proof: an earlier send
// may have had its effect.
func TestAForgottenKeyIsNoProofForTheClient(t *testing.T) {
	l := newLab(t)
	r := request(proxy, deadline.HeaderFirstSent, "Sun, 01 Mar 2020 10:00:00 GMT")
	w, _ := l.through(deadline.GateConfig{Memory: time.Hour}, 0, r)
	p, ok := httpkey.ParseProblem(w.Body.Bytes())
	if !ok || p.Code != deadline.CodeForgotten {
		t.Errorf("got %+v, want forgotten", p)
	}
	if got := httpkey.DefaultFate(w.Result(), p); got != httpkey.FateRefused { // which keeps a key whose other sends are in doubt
		t.Errorf("got fate %v, want %v", got, httpkey.FateRefused)
	}
}

func TestAGateThatWouldRefuseNothingIsRefused(t *testing.T) {
	t.Parallel()
	_, err := deadline.NewGate(deadline.GateConfig{MaxWait: -1})
	for _, want := range []string{"must not be negative", "refuses nothing"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The story's D-deadline: A1 was stamped by the balancer and waited until 12.00.
func TestALateOriginalIsRefusedBeforeAnyClaim(t *testing.T) {
	l := newLab(t)
	store := memory.New()
	engine, err := effect.New(store.Effects(), effect.Config{Clock: l.clock})
	if err != nil {
		t.Fatal(err)
	}
	keyed, err := httpkey.New(engine, httpkey.Config{Caller: func(*http.Request) (string, error) { return "u1", nil }, Arrived: l.arrivals.Arrived})
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	handler := keyed.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }))
	send := func() int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request(proxy, httpkey.HeaderKey, "K1", requestStart, stamp(-20*time.Millisecond)))
		return w.Code
	}
	l.clock.Advance(12 * time.Second)
	if got := send(); got != http.StatusServiceUnavailable || runs != 0 {
		t.Errorf("got %d and %d runs, want 503 and none", got, runs)
	}
	if got := strings.Join(l.seen, " "); got != "used" {
		t.Errorf("saw %q, want used", got)
	}
}
