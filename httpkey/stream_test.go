package httpkey_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

// held is a writer that cannot flush, like that of http.TimeoutHandler.
type held struct{ http.ResponseWriter }

// lateRefusal is one that finds out when it is asked to.
type lateRefusal struct{ http.ResponseWriter }

func (lateRefusal) FlushError() error { return http.ErrNotSupported }

// case 4
func TestAnAnswerIsWholeWhereNothingCanBeFlushed(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"no flush": func(rw http.ResponseWriter) http.ResponseWriter { return held{rw} },
		"refused":  func(rw http.ResponseWriter) http.ResponseWriter { return lateRefusal{rw} },
	} {
		w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
			err := http.NewResponseController(rw).Flush()
			if !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("%s: flush: got %v, want %v", name, err, http.ErrNotSupported)
			}
			_, _ = io.WriteString(rw, "one,")
			rw.(http.Flusher).Flush()
			_, _ = io.WriteString(rw, "two")
		})
		inner := w.next
		w.next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { inner.ServeHTTP(wrap(rw), r) })
		for range 2 {
			if got := bodyOf(t, w.send(ask{key: "K1"})); got != "one,two" {
				t.Errorf("%s: got %q, want one,two", name, got)
			}
		}
		w.wantRuns(1)
	}
}

// case 4
func TestAFlushReachesAWriterBehindWrappers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(rw).Flush(); err != nil {
			t.Error(err)
		}
	})
	rec := httptest.NewRecorder()
	w.next.ServeHTTP(unwrapping{held{rec}, rec}, ask{key: "K1"}.request())
	if !rec.Flushed {
		t.Error("the flush did not come through")
	}
}

type unwrapping struct {
	held
	inner http.ResponseWriter
}

func (u unwrapping) Unwrap() http.ResponseWriter { return u.inner }

// case 2
func TestContentLengthIsHeldTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length      string
		err         error
		first, kept string
	}{
		"right":   {"5", nil, "12345", "12345"},
		"over":    {"3", http.ErrContentLength, "", ""},
		"under":   {"9", nil, "12345", "not-kept"},
		"garbage": {"x", nil, "12345", "12345"},
	} {
		w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", c.length)
			if _, err := io.WriteString(rw, "12345"); !errors.Is(err, c.err) {
				t.Errorf("%s: got %v, want %v", name, err, c.err)
			}
		})
		if got := bodyOf(t, w.send(ask{key: "K1"})); got != c.first {
			t.Errorf("%s: first: got %q, want %q", name, got, c.first)
		}
		again := w.send(ask{key: "K1"})
		got := bodyOf(t, again)
		if c.length == "3" || c.length == "9" { // what is known to be cut is not kept for whole
			got = again.Header.Get(httpkey.HeaderBody)
			c.kept = "not-kept"
		}
		if got != c.kept {
			t.Errorf("%s: repeat: got %q, want %q", name, got, c.kept)
		}
	}
	w := newWorld(t, httpkey.Config{Methods: []string{http.MethodHead}}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "9")
	})
	w.send(ask{method: http.MethodHead, key: "K1"})
	if got := w.send(ask{method: http.MethodHead, key: "K1"}).Header.Get(httpkey.HeaderBody); got != "" {
		t.Errorf("HEAD: got %q, want nothing missing", got)
	}
}

// pack packs text with codings, the first one first.
func pack(t *testing.T, text string, codings ...string) []byte {
	t.Helper()
	body := []byte(text)
	for _, coding := range codings {
		var buf bytes.Buffer
		var z io.WriteCloser
		switch coding {
		case "gzip", "x-gzip", "GZIP":
			z = gzip.NewWriter(&buf)
		case "deflate":
			z = zlib.NewWriter(&buf)
		case "raw":
			z, _ = flate.NewWriter(&buf, flate.BestSpeed)
		default:
			continue
		}
		_, _ = z.Write(body)
		_ = z.Close()
		body = buf.Bytes()
	}
	return body
}

// case 2
func TestARecordedBodyIsReadableForWhoeverAsks(t *testing.T) {
	t.Parallel()
	const text = "the body, which was packed"
	for _, c := range []struct {
		coding, accept string
		packed         []string
		want           string // "plain", "packed" or "not-kept"
	}{
		{"gzip", "", []string{"gzip"}, "plain"},
		{"GZIP", "identity", []string{"gzip"}, "plain"},
		{"x-gzip", "gzip", []string{"gzip"}, "packed"},
		{"gzip", "x-gzip", []string{"gzip"}, "packed"},
		{"gzip", "gzip;q=0, *", []string{"gzip"}, "plain"},
		{"gzip", "*", []string{"gzip"}, "packed"},
		{"deflate", "gzip", []string{"deflate"}, "plain"},
		{"deflate", "", []string{"raw"}, "plain"},
		{"deflate, gzip", "gzip", []string{"deflate", "gzip"}, "plain"},
		{"deflate, gzip", "gzip, deflate", []string{"deflate", "gzip"}, "packed"},
		{"identity", "", nil, "packed"},
		{"br", "br", nil, "packed"},
		{"br", "gzip", nil, "not-kept"},
		{"zstd", "", nil, "not-kept"},
		{"gzip, br", "gzip", []string{"gzip"}, "not-kept"},
	} {
		body := pack(t, text, c.packed...)
		w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
			h := rw.Header()
			h.Set("Content-Encoding", c.coding)
			h.Set("Content-Type", "text/plain")
			for _, name := range []string{"Content-Digest", "Repr-Digest", "Digest", "Content-MD5"} {
				h.Set(name, "of the packed bytes")
			}
			_, _ = rw.Write(body)
		})
		w.send(ask{key: "K1"})
		resp := w.send(ask{key: "K1", header: http.Header{"Accept-Encoding": {c.accept}}})
		got, digests := bodyOf(t, resp), len(resp.Header.Values("Content-Digest"))+len(resp.Header.Values("Repr-Digest"))+
			len(resp.Header.Values("Digest"))+len(resp.Header.Values("Content-Md5"))
		name := c.coding + " for " + c.accept
		switch c.want {
		case "packed":
			if got != string(body) || resp.Header.Get("Content-Encoding") != c.coding || digests != 4 {
				t.Errorf("%s: got %q %v, want it as it was", name, got, resp.Header)
			}
		case "plain":
			if got != text || resp.Header.Get("Content-Encoding") != "" || digests != 0 {
				t.Errorf("%s: got %q %v, want it unpacked", name, got, resp.Header)
			}
		default:
			if resp.Header.Get(httpkey.HeaderBody) != "not-kept" || resp.Header.Get("Content-Encoding") != "" || digests != 0 || !json.Valid([]byte(got)) {
				t.Errorf("%s: got %q %v, want not-kept", name, got, resp.Header)
			}
		}
	}
}

func TestABodyThatIsNotWhatItsCodingSaysStaysAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(rw, "not gzip")
	})
	w.send(ask{key: "K1"})
	if got := bodyOf(t, w.send(ask{key: "K1"})); got != "not gzip" {
		t.Errorf("got %q, want the bytes as they were", got)
	}
}

// case 1
func TestABodyThatIsNotKeptLeavesTheStateOfItsEffect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		say    func(context.Context) bool
		status int
		want   string
	}{
		{httpkey.Failed, 200, "FAILED"}, {httpkey.Done, 409, "SUCCEEDED"}, {func(context.Context) bool { return true }, 200, "SUCCEEDED"},
	} {
		for name, config := range map[string]httpkey.Config{"answer": {MaxAnswer: 10}, "guard": {MaxResult: 300}} {
			w := newWorld(t, config, func(rw http.ResponseWriter, r *http.Request) {
				c.say(r.Context())
				rw.WriteHeader(c.status)
				_, _ = io.WriteString(rw, strings.Repeat("x", 400))
			})
			w.send(ask{key: "K1"})
			if name == "guard" {
				w.clock.Advance(25 * 3600e9)
			}
			resp := w.send(ask{key: "K1"})
			var body struct{ State, Body string }
			if err := json.Unmarshal([]byte(bodyOf(t, resp)), &body); err != nil || body.State != c.want || body.Body != "not-kept" {
				t.Errorf("%s: got %+v %v, want %s", name, body, err, c.want)
			}
		}
	}
}

func TestWhatIsKeptWithTheGuardIsBounded(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{100, 300, 1000} { // nothing fits, the words do not, all does
		w := newWorld(t, httpkey.Config{MaxResult: limit}, ok(strings.Repeat("x", 90)+strings.Repeat("y", 160)))
		w.send(ask{key: "K1"})
		got := len(w.recorded(scopeOf("POST /payments", "u1", "K1")).Guard.Result)
		if got > limit || (got == 0) != (limit == 100) {
			t.Errorf("limit %d: kept %d bytes", limit, got)
		}
	}
}

func TestAnAnswerOfExactlyTheLimitIsKept(t *testing.T) {
	t.Parallel()
	for _, size := range []int{9, 10, 11} {
		w := newWorld(t, httpkey.Config{MaxAnswer: 10}, ok(strings.Repeat("x", size)))
		w.send(ask{key: "K1"})
		resp := w.send(ask{key: "K1"})
		if kept := resp.Header.Get(httpkey.HeaderBody) == ""; kept != (size <= 10) || kept && len(bodyOf(t, resp)) != size {
			t.Errorf("%d bytes: kept %v", size, kept)
		}
	}
}

// cutOff counts the writes to a client that has gone, and shows what header left.
type cutOff struct {
	*httptest.ResponseRecorder
	writes int
	left   http.Header
}

func (c *cutOff) WriteHeader(status int) {
	c.left = c.Header().Clone()
	c.ResponseRecorder.WriteHeader(status)
}

func (c *cutOff) Write([]byte) (int, error) {
	c.writes++
	return 0, errors.New("broken pipe")
}

// case 8
func TestNothingIsWrittenToAClientThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{MaxAnswer: 4}, func(rw http.ResponseWriter, _ *http.Request) {
		for range 5 {
			_, _ = io.WriteString(rw, "<html>")
		}
	})
	out := &cutOff{ResponseRecorder: httptest.NewRecorder()}
	w.next.ServeHTTP(out, ask{key: "K1"}.request())
	if out.writes != 1 {
		t.Errorf("writes: got %d, want 1", out.writes)
	}
	if got, want := out.left.Get("Content-Type"), "text/html; charset=utf-8"; got != want {
		t.Errorf("Content-Type of an answer over the cap: got %q, want %q", got, want)
	}
}

// case 2
func TestPackedBytesAreNotGuessedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		_, _ = rw.Write(pack(t, "text", "gzip"))
	})
	out := &cutOff{ResponseRecorder: httptest.NewRecorder()}
	w.next.ServeHTTP(out, ask{key: "K1"}.request())
	if got := out.left.Get("Content-Type"); got != "" {
		t.Errorf("Content-Type: got %q, want none, as net/http does", got)
	}
}

// case 4
func TestASwitchOfProtocolsIsNoInterimAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusSwitchingProtocols)
		rw.WriteHeader(http.StatusOK)
	})
	for range 2 {
		wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
	}
	w.wantRuns(1)
}

// case 4
func TestWhatAnInterimAnswerShowedIsTakenBackFromARefusal(t *testing.T) {
	t.Parallel()
	store := &failing{Store: memory.New().Effects(), settleErr: errors.New("connection lost")}
	w := newWorldOn(t, store, effect.Config{}, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Link", "</style.css>; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
	})
	srv := httptest.NewServer(w.next)
	defer srv.Close()
	resp, err := srv.Client().Do(forServer(t, srv, ask{key: "K1"}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if got := resp.Header.Get("Link"); got != "" || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %d with Link %q, want 503 without", resp.StatusCode, got)
	}
}

// case 2
func TestTrailersAreNotRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set(http.TrailerPrefix+"X-Sum", "7")
		rw.Header().Set("X-Kept", "1")
	})
	w.send(ask{key: "K1"})
	if got := w.recorded(scopeOf("POST /payments", "u1", "K1")).Claim.Answer.Header; len(got) != 1 {
		t.Errorf("recorded: got %q, want X-Kept only", got)
	}
}

// case 2: another version, or the handler itself, may have stored more.
func TestCookiesOfARecordAreNotReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		finish(t, r, effect.Answer{Status: 201, Header: map[string][]string{"Set-Cookie": {"sid=secret"}, "X-Kept": {"1"}}})
	})
	for range 2 {
		resp := w.send(ask{key: "K1"})
		if got := resp.Header.Get("Set-Cookie"); got != "" || resp.Header.Get("X-Kept") != "1" {
			t.Errorf("got %v, want X-Kept and no cookie", resp.Header)
		}
	}
}

// sharing is a store that hands out what it keeps, and keeps what it is handed.
type sharing struct {
	effect.Store
	kept *effect.Answer
}

func (s *sharing) Settle(ctx context.Context, b effect.Settle) (effect.Settled, error) {
	s.kept = b.Claim.Answer
	return s.Store.Settle(ctx, b)
}

func (s *sharing) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	seen, err := s.Store.Begin(ctx, b)
	if seen.Claim != nil && seen.Claim.Answer != nil {
		seen.Claim.Answer = s.kept
	}
	return seen, err
}

// case 2
func TestOuterHandlersDoNotChangeTheRecord(t *testing.T) {
	t.Parallel()
	store := &sharing{Store: memory.New().Effects()}
	w := newWorldOn(t, store, effect.Config{}, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header()["Vary"] = []string{"Origin"}
	})
	inner := w.next
	w.next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(rw, r)
		rw.Header()["Vary"][0] = "changed"
	})
	w.send(ask{key: "K1"})
	if got, want := store.kept.Header["Vary"], []string{"Origin"}; !slices.Equal(got, want) {
		t.Errorf("after the first answer: got %q, want %q", got, want)
	}
	roomy := make([]string, 1, 4)
	roomy[0] = "Origin"
	store.kept.Header["Vary"] = roomy
	w.next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(rw, r)
		rw.Header().Add("Vary", "Cookie")
	})
	w.send(ask{key: "K1"})
	if got := roomy[:2][1]; got != "" {
		t.Errorf("a repeat wrote %q behind the record's values", got)
	}
}
