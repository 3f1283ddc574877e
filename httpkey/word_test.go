package httpkey_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

func TestHandlersWordCountsMoreThanItsStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		say           func(r *http.Request)
		status        int
		first, repeat int
		runs          int64
	}{
		{"not done after begun", func(r *http.Request) { effect.FromContext(r.Context()).Begin(); httpkey.NotDone(r.Context()) }, 503, 503, 503, 2},
		{"done with 500", func(r *http.Request) { httpkey.Done(r.Context()) }, 500, 500, 500, 1},
		{"failed with 400", func(r *http.Request) { httpkey.Failed(r.Context()) }, 400, 400, 400, 1},
		{"unknown with 200", func(r *http.Request) { httpkey.Unknown(r.Context()) }, 200, 202, 202, 1},
		{"unknown with 202", func(r *http.Request) { httpkey.Unknown(r.Context()) }, 202, 202, 202, 1},
		{"begun and 400", func(r *http.Request) { effect.FromContext(r.Context()).Begin() }, 400, 202, 202, 1},
		{"last word", func(r *http.Request) { httpkey.Unknown(r.Context()); httpkey.Done(r.Context()) }, 200, 200, 200, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
				c.say(r)
				rw.WriteHeader(c.status)
			})
			wantAnswer(t, w.send(ask{key: "K1"}), c.first, "")
			wantAnswer(t, w.send(ask{key: "K1"}), c.repeat, "")
			w.wantRuns(c.runs)
		})
	}
}

func TestEveryStatusIsClassifiedByTheWrittenRule(t *testing.T) {
	t.Parallel()
	type rule struct {
		list                     string
		fresh, begun, comesAgain httpkey.Ending // comesAgain: with a Retry-After, not begun
	}
	const unknown, free, done, failed = httpkey.EndUnknown, httpkey.EndNotDone, httpkey.EndSucceeded, httpkey.EndFailed
	rules := []rule{
		{"200 201 203 204 205 206 207 208 226 299 304", done, done, done},
		{"300 301 302 303", unknown, done, unknown},
		{"402 404 409 410 412 416 422 423 451", failed, failed, unknown},
		{"424", failed, unknown, unknown},
		{"307 308 400 401 403 405 406 411 413 414 415 417 421 425 426 428 429 431", free, unknown, free},
	}
	header := map[string][]string{"Retry-After": {"1"}}
	for status := 100; status < 1000; status++ {
		expect := rule{fresh: unknown, begun: unknown, comesAgain: unknown}
		if status != 202 && status/100 == 2 {
			expect = rules[0]
		}
		for _, r := range rules {
			if slices.Contains(strings.Fields(r.list), itoa(status)) {
				expect = r
			}
		}
		if got := httpkey.DefaultClassify(effect.Answer{Status: status}, false); got != expect.fresh {
			t.Errorf("%d: got %d, want %d", status, got, expect.fresh)
		}
		if got := httpkey.DefaultClassify(effect.Answer{Status: status}, true); got != expect.begun {
			t.Errorf("%d after begun: got %d, want %d", status, got, expect.begun)
		}
		if got := httpkey.DefaultClassify(effect.Answer{Status: status, Header: header}, false); got != expect.comesAgain {
			t.Errorf("%d with Retry-After: got %d, want %d", status, got, expect.comesAgain)
		}
	}
}

func itoa(n int) string {
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

func TestHandlerMaySettleItself(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"answer settled": func(rw http.ResponseWriter, r *http.Request) {
			finish(t, r, effect.Answer{Status: 201, Header: map[string][]string{"Location": {"/7"}}, Body: []byte("settled")})
		},
		"settled counts more than written": func(rw http.ResponseWriter, r *http.Request) {
			finish(t, r, effect.Answer{Status: 201, Header: map[string][]string{"Location": {"/7"}}, Body: []byte("settled")})
			http.Error(rw, "the receipt mail failed", http.StatusInternalServerError)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, httpkey.Config{}, handler)
			for _, replayed := range []string{"", "true"} {
				resp := w.send(ask{key: "K1"})
				if got := bodyOf(t, resp); resp.StatusCode != http.StatusCreated || got != "settled" || resp.Header.Get("Location") != "/7" {
					t.Errorf("got %d %q, want 201 settled", resp.StatusCode, got)
				}
				if got := resp.Header.Get(httpkey.HeaderReplayed); got != replayed {
					t.Errorf("%s: got %q, want %q", httpkey.HeaderReplayed, got, replayed)
				}
				if resp.Header.Get(httpkey.HeaderExpires) == "" {
					t.Error("it is not said how long the key is honoured")
				}
			}
			w.wantRuns(1)
		})
	}
}

func finish(t *testing.T, r *http.Request, a effect.Answer) {
	t.Helper()
	if _, err := effect.FromContext(r.Context()).Finish(r.Context(), effect.Finish{State: effect.Succeeded, Answer: a}); err != nil {
		t.Error(err)
	}
}

func TestHandlerMayEndTheAttemptWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, httpkey.Config{}, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = effect.FromContext(r.Context()).Unknown(r.Context())
		})
		wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
		wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
		w.wantRuns(1)
	})
	t.Run("released", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, httpkey.Config{}, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = effect.FromContext(r.Context()).Release(r.Context())
		})
		wantAnswer(t, w.send(ask{key: "K1"}), 503, retryproof.CodeUnavailable)
		w.send(ask{key: "K1"})
		w.wantRuns(2)
	})
	t.Run("settled without an answer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
			finish(t, r, effect.Answer{})
			_, _ = io.WriteString(rw, "written")
		})
		if got := bodyOf(t, w.send(ask{key: "K1"})); got != "written" {
			t.Errorf("got %q, want written", got)
		}
		wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
		w.wantRuns(1)
	})
}

// case 18, as HTTP shows it
func TestOvertakenHandlerAnswersFromTheRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		leave  http.HandlerFunc
		status int
		code   retryproof.Code
	}{
		{ok("the first owner's answer"), 200, ""},
		{func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadRequest) }, 200, ""},
		{func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) }, 200, ""},
	} {
		var w *world
		overtaken := false
		w = newWorldOn(t, memory.New().Effects(), effect.Config{Rerun: effect.RerunPending}, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
			if overtaken {
				_, _ = io.WriteString(rw, "the second owner's answer")
				return
			}
			overtaken = true
			w.clock.Advance(6*time.Second + time.Microsecond) // past lease + margin
			wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
			c.leave(rw, r)
		})
		resp := w.send(ask{key: "K1"})
		wantAnswer(t, resp, c.status, c.code)
		if got := bodyOf(t, resp); c.status == 200 && got != "the second owner's answer" {
			t.Errorf("got %q, want what the record says", got)
		}
		if got := bodyOf(t, w.send(ask{key: "K1"})); got != "the second owner's answer" {
			t.Errorf("repeat: got %q", got)
		}
		w.wantRuns(2)
	}
}

func TestWithoutAKeyOptionalRoutesRunUnprotected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{Optional: true}, ok("done"))
	for range 2 {
		wantAnswer(t, w.send(ask{}), 200, "")
	}
	w.wantRuns(2)
	r := ask{}.request()
	r.Header.Set(httpkey.HeaderKey, "") // a client that meant to send one
	rec := httptest.NewRecorder()
	w.next.ServeHTTP(rec, r)
	wantAnswer(t, rec.Result(), 400, retryproof.CodeKeyMissing)
	w.wantRuns(2)
}

func TestReadsPassThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, ok("done"))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		for range 2 {
			wantAnswer(t, w.send(ask{method: method, key: "K1"}), 200, "")
		}
	}
	w.wantRuns(10)
}

func TestValueReachesTheHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{Read: func(_ *http.Request, body []byte) (httpkey.Meaning, error) {
		return httpkey.Meaning{Fingerprint: retryproof.FingerprintOf(retryproof.Text("b", string(body))), Value: len(body), GuardID: "pay_7"}, nil
	}}, func(rw http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if got, want := httpkey.ValueFrom(r.Context()), len(text); got != want || r.ContentLength != int64(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := effect.FromContext(r.Context()).ID(); got != "pay_7" {
			t.Errorf("id: got %q, want pay_7", got)
		}
	})
	wantAnswer(t, w.send(ask{key: "K1", body: "hello"}), 200, "")
	if got := httpkey.ValueFrom(ask{}.request().Context()); got != nil || httpkey.Done(t.Context()) {
		t.Errorf("outside a keyed request: got %v", got)
	}
}
