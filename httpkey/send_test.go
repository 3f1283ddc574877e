package httpkey_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
)

// plain hides that a reader could be read again.
func plain(text string) io.Reader { return struct{ io.Reader }{strings.NewReader(text)} }

func TestABodyOfAnotherLengthThanAnnouncedIsNotSent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*http.Request){
		"cut":      func(r *http.Request) { r.ContentLength = 10 },
		"too long": func(r *http.Request) { r.ContentLength = 3 },
		"longer than is kept, and cut": func(r *http.Request) {
			r.ContentLength = 2000
		},
		"trailers": func(r *http.Request) { r.Trailer = http.Header{"X-Sum": {"1"}} },
	} {
		s := newSender(t, httpkey.ClientConfig{MaxBody: 1000}, status(201))
		r, _ := http.NewRequest(http.MethodPost, "https://api.example.com/", plain("12345"))
		change(r)
		_, err := s.transport.RoundTrip(r)
		if retryproof.CodeOf(err) != retryproof.CodeInvalid || retryproof.OutcomeOf(err) != retryproof.NotDone || len(s.script.keys) != 0 || len(s.pending()) != 0 {
			t.Errorf("%s: got %v after %d sends, want a refusal and nothing journaled", name, err, len(s.script.keys))
		}
	}
}

func TestEverySendHasTheLengthOfItsBody(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{}, broken, func(r *http.Request) (*http.Response, error) {
		if r.ContentLength != 5 || r.TransferEncoding != nil {
			t.Errorf("got length %d and %v, want 5 and no encoding", r.ContentLength, r.TransferEncoding)
		}
		return status(201)(r)
	})
	r, _ := http.NewRequest(http.MethodPost, "https://api.example.com/", plain("12345"))
	r.TransferEncoding = []string{"chunked"}
	if _, err := s.transport.RoundTrip(r); err != nil {
		t.Error(err)
	}
}

func TestABodyUpToMaxBodyIsKeptInMemory(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{MaxBody: int64(len(pay))}, broken, status(201))
	r, _ := http.NewRequest(http.MethodPost, "https://api.example.com/", strings.NewReader(pay))
	r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("asked for again") }
	if _, err := s.transport.RoundTrip(r); err != nil || len(s.script.bodies) != 2 || s.script.bodies[1] != pay {
		t.Errorf("got %v and %q, want the body twice", err, s.script.bodies)
	}
}

// case 27
func TestABodyThatCannotBeHadAgainEndsTheCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps   []step
		have    int // how often the body can be had; the first is for the fingerprint
		want    retryproof.Outcome
		pending int
	}{
		"before the first send": {nil, 1, retryproof.NotDone, 0},
		"after a lost one":      {[]step{broken}, 2, retryproof.Unknown, 1},
		"after a 429":           {[]step{status(429)}, 2, retryproof.NotDone, 0},
	} {
		s := newSender(t, httpkey.ClientConfig{MaxBody: 10}, c.steps...)
		n := 0
		r, _ := http.NewRequest(http.MethodPost, "https://api.example.com/", bytes.NewReader([]byte(pay)))
		get := r.GetBody
		r.GetBody = func() (io.ReadCloser, error) {
			if n++; n > c.have {
				return nil, io.ErrClosedPipe
			}
			return get()
		}
		_, err := s.transport.RoundTrip(r)
		if !errors.Is(err, io.ErrClosedPipe) || retryproof.OutcomeOf(err) != c.want || n != c.have+1 || len(s.pending()) != c.pending {
			t.Errorf("%s: got %v after %d tries to read, %d pending; want %v, %d, %d", name, err, n, len(s.pending()), c.want, c.have+1, c.pending)
		}
	}
}

func TestAHeadWithAKeyIsAnswered(t *testing.T) {
	t.Parallel()
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.Header().Set("Content-Length", "5")
	}))
	t.Cleanup(srv.Close)
	transport, err := httpkey.NewTransport(httpkey.ClientConfig{Methods: []string{http.MethodHead}})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequest(http.MethodHead, srv.URL, nil)
	resp, err := transport.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK || n != 1 {
		t.Fatalf("got %v %v after %d sends, want 200 after one", resp, err, n)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if open, err := transport.Pending(context.Background()); len(open) != 0 || err != nil {
		t.Errorf("got %v %v, want it finished", open, err)
	}
}

func TestTryTimeoutBoundsOneSend(t *testing.T) {
	t.Parallel()
	var s *sender
	s = newSender(t, httpkey.ClientConfig{TryTimeout: 5 * time.Second}, func(r *http.Request) (*http.Response, error) {
		return nil, s.clock.Sleep(r.Context(), time.Hour)
	}, status(201))
	if code, err := s.post("i", pay); code != 201 || err != nil {
		t.Fatalf("got %d %v, want 201 by the second send", code, err)
	}
	if got := s.clock.Now().Sub(start); got < 5*time.Second || got > 6*time.Second {
		t.Errorf("got %v, want 5 s and a pause", got)
	}
}

// case 27
func TestADefiniteAnswerIsNotedAlthoughTheCallerHasGone(t *testing.T) {
	t.Parallel()
	j := openJournal(t, filepath.Join(t.TempDir(), "j"))
	ctx, leave := context.WithCancel(httpkey.WithIntent(context.Background(), "i"))
	s := newSender(t, httpkey.ClientConfig{Journal: j}, func(r *http.Request) (*http.Response, error) {
		leave()
		return status(201)(r)
	})
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com/", strings.NewReader(pay))
	if _, err := s.transport.RoundTrip(r); err != nil || len(s.pending()) != 0 {
		t.Errorf("got %v, pending %v, want it done", err, s.pending())
	}
}

// case 27
func TestAnAnswerShorterThanItsLengthIsNone(t *testing.T) {
	t.Parallel()
	short := func(r *http.Request) (*http.Response, error) {
		resp, err := status(201)(r)
		resp.ContentLength = 10
		return resp, err
	}
	s := newSender(t, httpkey.ClientConfig{MaxTries: 2}, short, short)
	if _, err := s.post("i", pay); !errors.Is(err, io.ErrUnexpectedEOF) || len(s.script.keys) != 2 || len(s.pending()) != 1 {
		t.Errorf("got %v after %d sends, want it sent again and the key kept", err, len(s.script.keys))
	}
}

// case 27
func TestAWhole429OfAnyHeldSizeLeavesNoDoubt(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{}, answer(429, "text/plain", strings.Repeat("x", 64<<10)), status(404), status(404))
	for range 2 {
		_, _ = s.post("i", pay)
	}
	if k := s.script.keys; len(k) != 3 || k[1] == k[2] {
		t.Errorf("got %q, want the key let go by the 404", k)
	}
}

// case 27
func TestAPendingCallIsResumedUnderItsEntrysName(t *testing.T) {
	t.Parallel()
	journals(t, func(t *testing.T, j httpkey.Journal) {
		s := newSender(t, httpkey.ClientConfig{Journal: j, MaxTries: 1}, broken)
		_, _ = s.post("", pay)
		list := s.pending()
		again := newSender(t, httpkey.ClientConfig{Journal: j, MaxTries: 1, Rand: &counter{1000}}, broken, status(201))
		for range 2 {
			_, _ = again.post(list[0].Intent, pay)
		}
		if got, want := again.script.one(t), s.script.one(t); got != want || len(again.pending()) != 0 {
			t.Errorf("got %q, pending %v, want the first key and none", got, again.pending())
		}
		for _, name := range []string{list[0].Intent, "key:mine"} { // it is not pending any more
			if _, err := again.post(name, pay); retryproof.CodeOf(err) != retryproof.CodeInvalid || len(again.script.keys) != 2 {
				t.Errorf("got %v, want the name refused and nothing sent", err)
			}
		}
	})
}

func TestAPendingCallIsNotResumedWithAnotherKeyOrBody(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{MaxTries: 1}, broken)
	_, _ = s.post("", pay)
	name := s.pending()[0].Intent
	if _, err := s.post(name, `{"amount":3500}`); retryproof.CodeOf(err) != retryproof.CodeKeyReused {
		t.Errorf("got %v, want another body refused", err)
	}
	r, _ := http.NewRequestWithContext(httpkey.WithIntent(context.Background(), name), http.MethodPost, "https://api.example.com/", strings.NewReader(pay))
	r.Header.Set(httpkey.HeaderKey, "another")
	if _, err := s.transport.RoundTrip(r); retryproof.CodeOf(err) != retryproof.CodeKeyReused || len(s.script.keys) != 1 {
		t.Errorf("got %v, want another key refused", err)
	}
}

// A request that a redirect answers brings the key of the first; when the intent has
// another one by then, it must not be sent under that entry.
func TestARedirectDoesNotCarryAnOldKeyIntoANewEntry(t *testing.T) {
	t.Parallel()
	var s *sender
	s = newSender(t, httpkey.ClientConfig{MaxTries: 1}, func(r *http.Request) (*http.Response, error) {
		resp, err := status(307, "Location", "/there")(r)
		r.Header.Set(httpkey.HeaderKey, "K1")
		return resp, err
	})
	ctx := httpkey.WithIntent(context.Background(), "i")
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com/", strings.NewReader(pay))
	r.Header.Set(httpkey.HeaderKey, "K1")
	resp, err := s.transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	open1, _ := open(t, s.journal, entry("i", "K2", start)) // somebody else lets it go, and starts over
	save(t, s.journal, open1, httpkey.EntryLetGo)
	open(t, s.journal, entry("i", "K2", start))
	r, _ = http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com/there", strings.NewReader(pay))
	r.Header.Set(httpkey.HeaderKey, "K1")
	r.Response = resp
	if _, err := s.transport.RoundTrip(r); retryproof.CodeOf(err) != retryproof.CodeKeyReused || len(s.script.keys) != 1 {
		t.Errorf("got %v after %d sends, want it refused", err, len(s.script.keys))
	}
}
