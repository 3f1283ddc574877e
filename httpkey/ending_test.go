package httpkey_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

// forwarding is a gateway's handler: it says that it has begun, and forwards.
func forwarding(t *testing.T, service http.Handler) http.HandlerFunc {
	t.Helper()
	srv := httptest.NewServer(service)
	t.Cleanup(srv.Close)
	at, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	return func(rw http.ResponseWriter, r *http.Request) {
		effect.FromContext(r.Context()).Begin()
		proxy.ServeHTTP(rw, r)
	}
}

// case 27
func TestAcceptedIsNotTheLastWord(t *testing.T) {
	t.Parallel()
	asked := 0
	service := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			rw.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(rw, `{"state":"UNKNOWN"}`)
			return
		}
		rw.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(rw, `{"state":"FAILED"}`)
	})
	w := newWorldOn(t, memory.New().Effects(), effect.Config{Rerun: effect.RerunAlways}, httpkey.Config{}, forwarding(t, service))
	for n, want := range []int{202, 202, 402, 402} {
		w.clock.Advance(time.Minute)
		resp := w.send(ask{key: "K1"})
		if got := resp.Header.Get(httpkey.HeaderExpires) != ""; resp.StatusCode != want || got != (want == 402) {
			t.Errorf("%d: got %d, stored %v, want %d", n, resp.StatusCode, got, want)
		}
	}
	if asked != 3 {
		t.Errorf("the service was asked %d times, want 3", asked)
	}
	plain := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusAccepted) })
	for range 2 {
		wantAnswer(t, plain.send(ask{key: "K1"}), 202, "")
	}
	if seen := plain.recorded(scopeOf("POST /payments", "u1", "K1")); seen.Guard == nil || seen.Guard.State != effect.Unknown {
		t.Errorf("guard: got %+v, want UNKNOWN", seen.Guard)
	}
	plain.wantRuns(1)
}

func TestAHandlerWhoseSuccessIsA202OrARedirectSaysDone(t *testing.T) {
	t.Parallel()
	for _, status := range []int{202, 303} {
		w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
			httpkey.Done(r.Context())
			rw.Header().Set("Location", "/jobs/7")
			rw.WriteHeader(status)
		})
		for range 2 {
			resp := w.send(ask{key: "K1"})
			if resp.StatusCode != status || resp.Header.Get("Location") != "/jobs/7" || resp.Header.Get(httpkey.HeaderExpires) == "" {
				t.Errorf("got %d %v, want %d, stored", resp.StatusCode, resp.Header, status)
			}
		}
		w.wantRuns(1)
	}
}

// case 5
func TestARefusalThatIsNotTheLastWordIsNotStored(t *testing.T) {
	t.Parallel()
	inProgress := func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Type", httpkey.ProblemType)
		rw.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(rw, `{"code":"in-progress"}`)
	}
	later := func(status int) func(http.ResponseWriter) {
		return func(rw http.ResponseWriter) {
			rw.Header().Set("Retry-After", "3")
			rw.WriteHeader(status)
		}
	}
	for name, c := range map[string]struct {
		leave func(http.ResponseWriter)
		want  int
		state effect.State
	}{
		"in progress":      {inProgress, 202, effect.Unknown},
		"conflict, later":  {later(409), 202, effect.Unknown},
		"locked, later":    {later(423), 202, effect.Unknown},
		"not found, later": {later(404), 202, effect.Unknown},
		"down, later":      {later(503), 503, effect.Unknown},
		"too many, later":  {later(429), 429, ""},
		"too early, later": {later(425), 425, ""},
		"conflict": {func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", httpkey.ProblemType)
			rw.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(rw, `{"code":"moved"}`)
		}, 409, effect.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) { c.leave(rw) })
			if got := w.send(ask{key: "K1"}).StatusCode; got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
			got := effect.State("")
			if g := w.recorded(scopeOf("POST /payments", "u1", "K1")).Guard; g != nil {
				got = g.State
			}
			if got != c.state {
				t.Errorf("state: got %q, want %q", got, c.state)
			}
		})
	}
}

// case 5: the gateway's first forward was cut and still runs at the service.
func TestAServiceThatIsStillAtWorkIsNoDecline(t *testing.T) {
	t.Parallel()
	var service *world
	var gateway http.Handler
	service = newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rec := httptest.NewRecorder()
		gateway.ServeHTTP(rec, ask{key: "K1"}.request()) // meanwhile
		if rec.Code != http.StatusAccepted || rec.Header().Get(httpkey.HeaderExpires) != "" {
			t.Errorf("meanwhile: got %d %v, want 202, not stored", rec.Code, rec.Header())
		}
		rw.WriteHeader(http.StatusCreated)
	})
	w := newWorldOn(t, memory.New().Effects(), effect.Config{Rerun: effect.RerunAlways}, httpkey.Config{}, forwarding(t, service.next))
	gateway = w.next
	wantAnswer(t, service.send(ask{key: "K1"}), 201, "")
	w.clock.Advance(time.Minute)
	wantAnswer(t, w.send(ask{key: "K1"}), 201, "")
	service.wantRuns(1)
}

func TestALoginPageIsNotTheAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{300, 301, 302, 303} {
		for _, begun := range []bool{false, true} {
			w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
				if begun {
					effect.FromContext(r.Context()).Begin()
				}
				rw.Header().Set("Location", "/next")
				rw.WriteHeader(status)
			})
			first, again := w.send(ask{key: "K1"}), w.send(ask{key: "K1"})
			if got := first.Header.Get("Location"); first.StatusCode != status || got != "/next" {
				t.Errorf("%d: got %d %q, want the handler's own", status, first.StatusCode, got)
			}
			want := http.StatusAccepted
			if begun {
				want = status
			}
			if stored := first.Header.Get(httpkey.HeaderExpires) != ""; again.StatusCode != want || stored != begun {
				t.Errorf("%d begun %v: repeat: got %d, stored %v, want %d", status, begun, again.StatusCode, stored, want)
			}
			w.wantRuns(1)
		}
	}
	login := true
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		if login {
			httpkey.NotDone(r.Context())
			http.Redirect(rw, r, "/login", http.StatusFound)
		}
	})
	wantAnswer(t, w.send(ask{key: "K1"}), 302, "")
	login = false
	wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
}

func TestARouteThatIsWrappedTwiceRunsOnce(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(context.Context) bool{"done": httpkey.Done, "unknown": httpkey.Unknown} {
		w := newWorld(t, httpkey.Config{}, nil)
		runs := 0
		inner, err := httpkey.New(engineOf(t, w), httpkey.Config{Caller: bearer, Read: func(*http.Request, []byte) (httpkey.Meaning, error) {
			return httpkey.Meaning{Fingerprint: retryproof.FingerprintOf(retryproof.Text("a", "b")), Value: "inner"}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		outer, err := httpkey.New(engineOf(t, w), httpkey.Config{Caller: bearer})
		if err != nil {
			t.Fatal(err)
		}
		w.next = outer.Handler(outer.Handler(inner.Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			runs++
			if got := httpkey.ValueFrom(r.Context()); got != "inner" {
				t.Errorf("value: got %v, want the one of the inner Read", got)
			}
			body, _ := io.ReadAll(r.Body)
			say(r.Context())
			_, _ = rw.Write(body)
		}))))
		want := http.StatusOK
		if name == "unknown" {
			want = http.StatusAccepted
		}
		for range 2 {
			resp := w.send(ask{key: "K1"})
			if got := bodyOf(t, resp); resp.StatusCode != want || name == "done" && got != `{"order_id":"42","amount":3000}` {
				t.Errorf("%s: got %d %q, want %d", name, resp.StatusCode, got, want)
			}
		}
		if runs != 1 {
			t.Errorf("%s: runs: got %d, want 1", name, runs)
		}
	}
}

// engineOf is the one engine of a world for several middlewares.
func engineOf(t *testing.T, w *world) *effect.Engine {
	t.Helper()
	engine, ok := engines.Load(w)
	if !ok {
		made, err := effect.New(w.store, effect.Config{Clock: w.clock})
		if err != nil {
			t.Fatal(err)
		}
		engine, _ = engines.LoadOrStore(w, made)
	}
	return engine.(*effect.Engine)
}

var engines sync.Map

// A request that outlives its run is no part of it any more.
func TestARunThatIsOverLetsNobodyThrough(t *testing.T) {
	t.Parallel()
	var kept context.Context
	w := newWorld(t, httpkey.Config{}, func(_ http.ResponseWriter, r *http.Request) { kept = r.Context() })
	wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
	resp := w.send(ask{key: "K1", ctx: context.WithoutCancel(kept)})
	if got := resp.Header.Get(httpkey.HeaderReplayed); got != "true" {
		t.Errorf("got %d %v, want a replay", resp.StatusCode, resp.Header)
	}
	w.wantRuns(1)
	if !httpkey.Failed(kept) {
		t.Error("a word that comes too late says that the request was not keyed")
	}
}

// Run with -race: http.TimeoutHandler lets its handler go on when nobody waits for
// it any more.
func TestAHandlerThatOutlivesItsTimeoutIsHarmless(t *testing.T) {
	t.Parallel()
	var late sync.WaitGroup
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		started := make(chan struct{})
		late.Go(func() {
			a := effect.FromContext(r.Context())
			for n := range 1000 {
				_ = a.Key("charge")
				a.Begin()
				httpkey.Unknown(r.Context())
				_, _ = a.Ended()
				if n == 0 {
					close(started)
				}
			}
		})
		<-started
		http.Error(rw, "late", http.StatusServiceUnavailable)
	})
	wantAnswer(t, w.send(ask{key: "K1"}), 503, "")
	late.Wait()
	wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
	w.wantRuns(1)
}

// case 5
func TestAPanicOfClassifyLeavesNoClaimBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{Classify: func(effect.Answer, bool) httpkey.Ending { panic("bug") }}, ok("done"))
	if _, panicked := w.sendTo(ask{key: "K1"}); panicked == nil {
		t.Error("the panic was swallowed")
	}
	wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
	w.wantRuns(1)
}

func TestClassifyGetsTheAnswerAsItWasGiven(t *testing.T) {
	t.Parallel()
	var got effect.Answer
	w := newWorld(t, httpkey.Config{Classify: func(a effect.Answer, begun bool) httpkey.Ending {
		if got = a; begun {
			return httpkey.EndFailed
		}
		return httpkey.EndNotDone
	}}, func(rw http.ResponseWriter, r *http.Request) {
		effect.FromContext(r.Context()).Begin()
		rw.Header().Set("Retry-After", "7")
		_, _ = io.WriteString(rw, "text")
	})
	w.send(ask{key: "K1"})
	if got.Status != 200 || string(got.Body) != "text" || http.Header(got.Header).Get("Retry-After") != "7" {
		t.Errorf("got %+v", got)
	}
	if g := w.recorded(scopeOf("POST /payments", "u1", "K1")).Guard; g == nil || g.State != effect.Failed {
		t.Errorf("got %+v, want FAILED", g)
	}
}

// noRelease is a store that cannot give a claim back.
type noRelease struct{ effect.Store }

func (noRelease) Release(context.Context, effect.Release) (bool, error) {
	return false, errors.New("connection lost")
}

// case 6
func TestARefusalIsToldAlthoughItsKeyCouldNotBeFreed(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, noRelease{memory.New().Effects()}, effect.Config{}, httpkey.Config{},
		func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no amount", http.StatusBadRequest) })
	resp := w.send(ask{key: "K1"})
	if got := bodyOf(t, resp); resp.StatusCode != http.StatusBadRequest || strings.TrimSpace(got) != "no amount" {
		t.Errorf("got %d %q, want the handler's 400", resp.StatusCode, got)
	}
	wantAnswer(t, w.send(ask{key: "K1"}), 409, retryproof.CodeInProgress)
}

// A settled attempt is not made unknown by what its handler does afterwards.
func TestAPanicAfterTheSettlementChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		finish(t, r, effect.Answer{Status: 201})
		panic("the receipt mail failed")
	})
	if _, panicked := w.sendTo(ask{key: "K1"}); panicked == nil {
		t.Error("the panic was swallowed")
	}
	wantAnswer(t, w.send(ask{key: "K1"}), 201, "")
	if got := w.seen.of(effect.SawUnknown) + w.seen.of(effect.SawFenced); got != 0 {
		t.Errorf("got %d observations of doubt, want none", got)
	}
}
