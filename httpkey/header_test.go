package httpkey_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

// case 4
func TestAStreamedAnswerIsNotCalledRecordedBeforeItIs(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "part")
			_ = http.NewResponseController(rw).Flush()
			if cut {
				panic(http.ErrAbortHandler)
			}
		})
		srv := httptest.NewServer(w.next)
		resp, err := srv.Client().Do(forServer(t, srv, ask{key: "K1"}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		srv.Close()
		if got := resp.Header.Get(httpkey.HeaderExpires); got != "" || (err != nil) != cut {
			t.Errorf("cut %v: got %v and %s %q in the header, want none", cut, err, httpkey.HeaderExpires, got)
		}
		if got := resp.Trailer.Get(httpkey.HeaderExpires); (got == "") != cut {
			t.Errorf("cut %v: got %q in the trailer", cut, got)
		}
		again := w.send(ask{key: "K1"})
		if got := again.Header.Get(httpkey.HeaderExpires); (got == "") != cut {
			t.Errorf("cut %v: repeat: got %d %q", cut, again.StatusCode, got)
		}
	}
}

// gone is the connection of a client that went away.
type gone struct{ *httptest.ResponseRecorder }

func (gone) Write([]byte) (int, error)       { return 0, errors.New("broken pipe") }
func (gone) WriteString(string) (int, error) { return 0, errors.New("broken pipe") }

// case 8
func TestAClientThatLeavesALargeAnswerDoesNotShow(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for name, plain := range map[string]bool{"ReadFrom": false, "Write": true} {
		w := newWorld(t, httpkey.Config{MaxAnswer: 1 << 10}, func(rw http.ResponseWriter, r *http.Request) {
			dst := io.Writer(rw)
			if plain {
				dst = struct{ io.Writer }{rw}
			}
			n, err := io.Copy(dst, io.LimitReader(zeros{}, size))
			if n != size || err != nil {
				t.Errorf("%s: got %d %v, want %d", name, n, err, size)
				httpkey.Unknown(r.Context())
			}
		})
		w.next.ServeHTTP(gone{httptest.NewRecorder()}, ask{key: "K1"}.request())
		wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
	}
}

// case 2
func TestNamesInAnySpellingAreKeptOutOfTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		h := rw.Header()
		h["set-cookie"] = []string{"sid=secret"}
		h["date"] = []string{"Mon, 02 Mar 2026 00:00:00 GMT"}
		h["WWW-authenticate"] = []string{"Basic"}
		h["idempotency-key-expires"] = []string{"never"}
		h["connection"] = []string{"x-hop, X-Other"}
		h["X-HOP"], h["x-other"], h["x-kept"] = []string{"1"}, []string{"1"}, []string{"1"}
	})
	w.send(ask{key: "K1"})
	resp := w.send(ask{key: "K1"})
	kept := 0
	for name := range resp.Header {
		switch name {
		case "x-kept":
			kept++
		case "Content-Length", httpkey.HeaderReplayed, httpkey.HeaderExpires:
		default:
			t.Errorf("%s was replayed: %q", name, resp.Header[name])
		}
	}
	if kept != 1 {
		t.Errorf("got %v, want x-kept replayed", resp.Header)
	}
	seen := w.recorded(scopeOf("POST /payments", "u1", "K1"))
	if got := seen.Claim.Answer.Header; len(got) != 1 {
		t.Errorf("recorded: got %q, want x-kept only", got)
	}
}

// case 2
func TestHeadersThatTheHandlerTookAwayStayAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header()["Content-Type"] = nil // no guess
		rw.Header().Del("X-Frame-Options")
		_, _ = io.WriteString(rw, "<html>")
	})
	inner := w.next
	w.next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Frame-Options", "deny")
		rw.Header().Set("X-Outer", "1")
		inner.ServeHTTP(rw, r)
	})
	srv := httptest.NewServer(w.next)
	defer srv.Close()
	for _, after := range []time.Duration{0, time.Second, 25 * time.Hour, time.Second} { // first, record, guard, record again
		w.clock.Advance(after)
		resp, err := srv.Client().Do(forServer(t, srv, ask{key: "K1"}))
		if err != nil {
			t.Fatal(err)
		}
		if got := bodyOf(t, resp); got != "<html>" || resp.Header.Get("X-Outer") != "1" {
			t.Errorf("after %v: got %q %v", after, got, resp.Header)
		}
		_ = resp.Body.Close()
		for _, name := range []string{"Content-Type", "X-Frame-Options"} {
			if got := resp.Header.Values(name); len(got) > 0 {
				t.Errorf("after %v: %s is back: %q", after, name, got)
			}
		}
	}
	w.wantRuns(1)
}

func TestARefilledAnswerSaysHowLongItIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, ok("done"))
	w.send(ask{key: "K1"})
	w.clock.Advance(25 * time.Hour)
	want := w.clock.Now().Add(24 * time.Hour).Format(http.TimeFormat)
	for range 2 { // from the guard, then from the claim that was filled again
		if got := w.send(ask{key: "K1"}).Header.Get(httpkey.HeaderExpires); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// case 5
func TestARefusalAfterAnUnrecordedDoubtIsNotTold(t *testing.T) {
	t.Parallel()
	store := &failing{Store: memory.New().Effects(), settleErr: errors.New("connection lost")}
	w := newWorldOn(t, store, effect.Config{}, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		effect.FromContext(r.Context()).Begin()
		rw.WriteHeader(http.StatusBadRequest) // a client would give the key up
	})
	wantAnswer(t, w.send(ask{key: "K1"}), 503, retryproof.CodeUnknown)
}

// case 5
func TestAHandlerThatRecordedDoubtCannotSayDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = effect.FromContext(r.Context()).Unknown(context.WithoutCancel(r.Context()))
		rw.WriteHeader(http.StatusCreated)
	})
	wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
	wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
	w.wantRuns(1)
}

// case 11: the host is what the client calls the server, not what the server is.
func TestARetryThroughAnotherNameFindsItsRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, ok("done"))
	wantAnswer(t, w.send(ask{url: "https://api.example.com/payments", key: "K1"}), 200, "")
	wantAnswer(t, w.send(ask{url: "https://eu.api.example.com:8443/payments", key: "K1"}), 200, "")
	w.wantRuns(1)
	tenants := newWorld(t, httpkey.Config{Endpoint: func(r *http.Request) string { return r.Host + " " + httpkey.DefaultEndpoint(r) }}, ok("done"))
	wantAnswer(t, tenants.send(ask{url: "https://a.example.com/payments", key: "K1"}), 200, "")
	wantAnswer(t, tenants.send(ask{url: "https://b.example.com/payments", key: "K1"}), 200, "")
	tenants.wantRuns(2)
}
