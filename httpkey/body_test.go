package httpkey_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

// case 11, case 12
func TestABodyThatAnOuterHandlerHasReadIsRefused(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	parts := "multipart/form-data; boundary=b"
	for _, c := range []struct {
		name, media, body string
		length            int64 // 0: the right one
		outer             func(*http.Request)
		want              int
	}{
		{"form", form, "amount=3000", 0, func(r *http.Request) { _ = r.FormValue("_csrf") }, 500},
		{"form of unknown length", form, "amount=3000", -1, func(r *http.Request) { _ = r.FormValue("_csrf") }, 500},
		{"parts", parts, "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n", -1, func(r *http.Request) { _ = r.ParseMultipartForm(1 << 20) }, 500},
		{"all", "application/json", `{"amount":3000}`, 0, func(r *http.Request) { _, _ = io.ReadAll(r.Body) }, 500},
		{"a bit", "application/json", `{"amount":3000}`, 0, func(r *http.Request) { _, _ = r.Body.Read(make([]byte, 1)) }, 500},
		{"replaced by nothing", "application/json", `{"amount":3000}`, 0, func(r *http.Request) { r.Body = http.NoBody }, 500},
		{"query only", "application/json", `{"amount":3000}`, -1, func(r *http.Request) { _ = r.ParseForm() }, 200},
		{"put back", form, "amount=3000", 0, func(r *http.Request) {
			_ = r.ParseForm()
			r.Body = io.NopCloser(strings.NewReader("amount=3000"))
		}, 200},
		{"untouched", form, "amount=3000", -1, func(*http.Request) {}, 200},
		{"an empty form", form, "-", -1, func(r *http.Request) { _ = r.ParseForm() }, 200},
	} {
		w := newWorld(t, httpkey.Config{}, ok("paid"))
		r := ask{key: "K1", body: c.body, header: http.Header{"Content-Type": {c.media}}}.request()
		if c.length != 0 {
			r.ContentLength = c.length
		}
		c.outer(r)
		rec := httptest.NewRecorder()
		w.next.ServeHTTP(rec, r)
		code, runs := retryproof.Code(""), int64(1)
		if c.want == 500 {
			code, runs = retryproof.CodePermanent, 0
		}
		t.Log(c.name)
		wantAnswer(t, rec.Result(), c.want, code)
		w.wantRuns(runs)
	}
}

// case 9
func TestWhatAClientAnnouncesTakesNoMemory(t *testing.T) {
	t.Parallel()
	first := 0
	w := newWorld(t, httpkey.Config{MaxBody: 64 << 20}, ok("done"))
	r := ask{key: "K1"}.request()
	r.ContentLength, r.Body = 64<<20, io.NopCloser(readerFunc(func(p []byte) (int, error) {
		first = len(p)
		return 0, io.ErrUnexpectedEOF
	}))
	rec := httptest.NewRecorder()
	w.next.ServeHTTP(rec, r)
	wantAnswer(t, rec.Result(), 400, retryproof.CodeInvalid)
	if first > 64<<10 {
		t.Errorf("got a buffer of %d bytes before a byte has come", first)
	}
	large := strings.Repeat("x", 3<<20)
	if got := w.send(ask{key: "K2", body: large, header: http.Header{"Content-Type": {"text/plain"}}}).StatusCode; got != 200 {
		t.Errorf("a large body: got %d, want 200", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestTheHandlerGetsTheBodyAsOneOfKnownLength(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if len(r.TransferEncoding) > 0 || r.ContentLength != int64(len(body)) || string(body) != "123" || err != nil {
			t.Errorf("got %q %v, length %d, transfer encoding %q", body, err, r.ContentLength, r.TransferEncoding)
		}
	})
	r := ask{key: "K1", body: "123", header: http.Header{"Content-Type": {"text/plain"}}}.request()
	r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	w.next.ServeHTTP(httptest.NewRecorder(), r)
	w.wantRuns(1)
}

func TestAnArrivalThatIsStillToComeCountsAsNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{Arrived: func(*http.Request) time.Time { return start.Add(100 * time.Hour) }},
		func(_ http.ResponseWriter, r *http.Request) {
			if got, want := effect.FromContext(r.Context()).Until(), start.Add(5*time.Second); !got.Equal(want) {
				t.Errorf("the lease ends at %v, want %v", got, want)
			}
		})
	wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
}

// hook is told of claims.
type hook struct {
	effect.Store
	begin func(context.Context)
	look  func()
}

func (s hook) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	s.begin(ctx)
	return s.Store.Begin(ctx, b)
}

func (s hook) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	if s.look != nil {
		s.look()
	}
	return s.Store.Look(ctx, l)
}

// case 8
func TestAClientThatLeavesDuringTheClaimStopsNothing(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(context.Background())
	store := hook{Store: memory.New().Effects(), begin: func(claiming context.Context) {
		hangUp()
		if err := claiming.Err(); err != nil {
			t.Errorf("the claim ended with its client: %v", err)
		}
	}}
	w := newWorldOn(t, store, effect.Config{}, httpkey.Config{}, ok("done"))
	w.send(ask{key: "K1", ctx: ctx})
	w.wantRuns(1)
}

func TestAWaitIsNeverLongerThanAllowed(t *testing.T) {
	t.Parallel()
	var w *world
	w = newWorldOn(t, memory.New().Effects(), effect.Config{MaxWait: 2500 * time.Millisecond}, httpkey.Config{}, func(http.ResponseWriter, *http.Request) {
		for wait, want := range map[string]string{"100": "wait=2", "1": "wait=1", "0": ""} {
			at := w.clock.Now()
			resp := w.send(ask{key: "K1", header: http.Header{"Prefer": {"wait=" + wait}}})
			if got := resp.Header.Get("Preference-Applied"); got != want {
				t.Errorf("wait %s: Preference-Applied: got %q, want %q", wait, got, want)
			}
			if got := w.clock.Now().Sub(at); got > 2100*time.Millisecond {
				t.Errorf("wait %s: waited %v", wait, got)
			}
		}
	})
	wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
}

// case 10
func TestACallerWhoIsRevokedWhileItWaitsGetsNothing(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(*http.Request) (string, error){
		"revoked": func(*http.Request) (string, error) {
			return "", retryproof.Refused(retryproof.CodeForbidden, "revoked", nil)
		},
		"another": func(*http.Request) (string, error) { return "u2", nil },
	} {
		caller := bearer
		var w *world
		looks := 0
		store := hook{Store: memory.New().Effects(), begin: func(context.Context) {}, look: func() {
			if looks++; looks == 2 {
				caller = after
			}
		}}
		w = newWorldOn(t, store, effect.Config{}, httpkey.Config{Caller: func(r *http.Request) (string, error) { return caller(r) }},
			func(_ http.ResponseWriter, r *http.Request) { httpkey.Unknown(r.Context()) })
		wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
		resp := w.send(ask{key: "K1", header: http.Header{"Prefer": {"wait=1"}}})
		want, code := http.StatusForbidden, retryproof.CodeForbidden
		if name == "another" {
			want, code = http.StatusUnauthorized, retryproof.CodeUnauthorized
		}
		wantAnswer(t, resp, want, code)
		w.wantRuns(1)
	}
}

// A caller may be known by a signature over the body, after a wait too.
func TestACallerWhoSignsTheBodyIsKnownAfterAWait(t *testing.T) {
	t.Parallel()
	const body = `{"amount":3000}`
	asked := 0
	signed := func(r *http.Request) (string, error) {
		asked++
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != body {
			return "", fmt.Errorf("got %q, %v: a bad signature", got, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(got))
		return "u1", nil
	}
	w := newWorldOn(t, memory.New().Effects(), effect.Config{}, httpkey.Config{Caller: signed},
		func(_ http.ResponseWriter, r *http.Request) { httpkey.Unknown(r.Context()) })
	wantAnswer(t, w.send(ask{key: "K1", body: body}), 202, "")
	wantAnswer(t, w.send(ask{key: "K1", body: body, header: http.Header{"Prefer": {"wait=1"}}}), 202, "")
	if asked != 3 {
		t.Errorf("got the caller asked %d times, want 3: once, and before and after the wait", asked)
	}
	w.wantRuns(1)
}

// case 10: the wait ends with the right to run, and the caller may not run any more.
func TestACallerWhoIsRevokedWhileItWaitsRunsNothing(t *testing.T) {
	t.Parallel()
	for _, rerun := range []effect.Rerun{effect.RerunNever, effect.RerunPending} {
		caller := bearer
		begins := 0
		store := hook{Store: memory.New().Effects()}
		var w *world
		store.begin = func(context.Context) {
			if begins++; begins == 3 { // the second claim of the repeat: its owner has vanished meanwhile
				w.clock.Advance(7 * time.Second)
				caller = func(*http.Request) (string, error) { return "", fmt.Errorf("revoked") }
			}
		}
		w = newWorldOn(t, store, effect.Config{Rerun: rerun, Deadline: 30 * time.Second}, httpkey.Config{
			Caller: func(r *http.Request) (string, error) { return caller(r) },
		}, ok("done"))
		s := scopeOf("POST /payments", "u1", "K1")
		meaning, err := httpkey.ReadBody()(ask{key: "K1"}.request(), []byte(`{"order_id":"42","amount":3000}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Begin(context.Background(), effect.Begin{Scope: s, GuardID: retryproof.Of("effect", s), Fingerprint: meaning.Fingerprint,
			Owner: "vanished", Now: start, Until: start.Add(5 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, w.send(ask{key: "K1", header: http.Header{"Prefer": {"wait=1"}}}), 401, retryproof.CodeUnauthorized)
		w.wantRuns(0)
		if g := w.recorded(s).Guard; g == nil || g.State != effect.Unknown {
			t.Errorf("got %+v, want UNKNOWN: the owner that vanished may have done it", g)
		}
	}
}

// case 10
func TestACallerWhoIsRevokedWhileItWaitsLeavesNoClaim(t *testing.T) {
	t.Parallel()
	caller := bearer
	begins := 0
	s := scopeOf("POST /payments", "u1", "K1")
	id := retryproof.Of("effect", s)
	store := hook{Store: memory.New().Effects()}
	store.begin = func(ctx context.Context) {
		if begins++; begins == 2 { // of the repeat: the owner gives its key back meanwhile
			caller = func(*http.Request) (string, error) { return "", fmt.Errorf("revoked") }
			if free, err := store.Release(ctx, effect.Release{Scope: s, GuardID: id, Owner: "first"}); !free || err != nil {
				t.Errorf("release: got %v %v", free, err)
			}
		}
	}
	w := newWorldOn(t, store, effect.Config{}, httpkey.Config{Caller: func(r *http.Request) (string, error) { return caller(r) }}, ok("done"))
	meaning, err := httpkey.ReadBody()(ask{key: "K1"}.request(), []byte(`{"order_id":"42","amount":3000}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Store.Begin(context.Background(), effect.Begin{Scope: s, GuardID: id, Fingerprint: meaning.Fingerprint,
		Owner: "first", Now: start, Until: start.Add(5 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, w.send(ask{key: "K1", header: http.Header{"Prefer": {"wait=1"}}}), 401, retryproof.CodeUnauthorized)
	w.wantRuns(0)
	if seen := w.recorded(s); seen.Claim != nil || seen.Guard != nil {
		t.Errorf("got %+v, want nothing left", seen)
	}
}

// case 10
func TestAuthorizeMayRefuseAPointer(t *testing.T) {
	t.Parallel()
	allowed := true
	w := newWorld(t, httpkey.Config{Authorize: func(*http.Request, effect.Decision) error {
		if !allowed {
			return retryproof.Refused(retryproof.CodeForbidden, "the order moved to another account", nil)
		}
		return nil
	}}, func(_ http.ResponseWriter, r *http.Request) { httpkey.Unknown(r.Context()) })
	resp := w.send(ask{key: "K1"})
	if got := resp.Header.Get("Cache-Control"); resp.StatusCode != http.StatusAccepted || got != "no-store" {
		t.Errorf("got %d %q, want 202 that no cache keeps", resp.StatusCode, got)
	}
	allowed = false
	wantAnswer(t, w.send(ask{key: "K1"}), 403, retryproof.CodeForbidden)
}
