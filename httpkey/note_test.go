package httpkey_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
)

// beside makes a step during which another call of the same intent, from another
// process perhaps, runs to its end; then the step is answered.
func beside(other *sender, answer step) step {
	return func(r *http.Request) (*http.Response, error) {
		_, _ = other.post("i", pay)
		return answer(r)
	}
}

// case 27
func TestALateAnswerNeverTakesBackWhatAnotherCallLearned(t *testing.T) {
	t.Parallel()
	declined := status(402, httpkey.HeaderReplayed, "true")
	for name, c := range map[string]struct {
		inner, outer step // the call that ends first, and the one around it
		state        httpkey.EntryState
		doubtful     int
	}{
		"done, then 404":                {status(201), status(404), httpkey.EntryDone, 0},
		"done, then 402":                {status(201), declined, httpkey.EntryDone, 0},
		"done, then 401":                {status(201), status(401), httpkey.EntryDone, 0},
		"done, then lost":               {status(201), broken, httpkey.EntryDone, 0},
		"404, then done":                {status(404), status(201), httpkey.EntryDone, 0},
		"lost, then 404":                {broken, status(404), httpkey.EntryOpen, 1},
		"404, then lost":                {status(404), broken, httpkey.EntryOpen, 1},
		"500, then 401":                 {status(500), status(401), httpkey.EntryOpen, 1},
		"401, then 401":                 {status(401), status(401), httpkey.EntryOpen, 0},
		"404, then 404":                 {status(404), status(404), httpkey.EntryLetGo, 0},
		"lost, then somebody's decline": {broken, status(402), httpkey.EntryOpen, 1},
		"lost, then a stored decline":   {broken, declined, httpkey.EntryLetGo, 0},
		"a stored decline, then lost":   {declined, broken, httpkey.EntryLetGo, 0},
	} {
		journals(t, func(t *testing.T, j httpkey.Journal) {
			inner := newSender(t, httpkey.ClientConfig{Journal: j, MaxTries: 1, Rand: &counter{1000}}, c.inner)
			outer := newSender(t, httpkey.ClientConfig{Journal: j, MaxTries: 1}, beside(inner, c.outer))
			_, _ = outer.post("i", pay)
			key := outer.script.one(t)
			if inner.script.one(t) != key {
				t.Fatalf("%s: two calls of one intent sent two keys", name)
			}
			want := entry("i", "K2", start)
			got, made := open(t, j, want)
			if letGo := c.state == httpkey.EntryLetGo; made != letGo || letGo != (string(got.Key) != key) {
				t.Errorf("%s: got %+v %v, want %s", name, got, made, c.state)
			}
			if !made && (got.State != c.state || got.Doubtful != c.doubtful) {
				t.Errorf("%s: got %s with %d doubtful, want %s with %d", name, got.State, got.Doubtful, c.state, c.doubtful)
			}
		})
	}
}

// case 27
func TestNo5xxLeavesAKeyClean(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unclear step
		clean   bool
	}{
		"unavailable": {problem(retryproof.CodeUnavailable), false}, "too late": {problem(retryproof.CodeTooLate), false},
		"conflict": {problem(retryproof.CodeConflict), false}, "read-only": {problem(retryproof.CodeReadOnly), false},
		"511": {status(511), false}, "503 too many": {status(503), false}, "plain 409": {status(409), false}, "202": {status(202), false},
		"429": {problem(retryproof.CodeTooMany), true}, "425": {status(425), true}, "401": {status(401), true},
	} {
		s := newSender(t, httpkey.ClientConfig{MaxTries: 1}, c.unclear, status(404), status(201))
		for range 3 {
			_, _ = s.post("i", pay)
		}
		if letGo := s.script.keys[1] != s.script.keys[2]; letGo != c.clean {
			t.Errorf("%s, then 404: let go %v, want %v", name, letGo, c.clean)
		}
		within := newSender(t, httpkey.ClientConfig{MaxTries: 2}, c.unclear, status(404), status(404), status(201))
		for len(within.script.steps) > 0 {
			_, _ = within.post("i", pay)
		}
		if letGo := within.script.keys[1] != within.script.keys[3]; letGo != c.clean && name != "401" && name != "511" {
			t.Errorf("%s, then 404 in one call: let go %v, want %v", name, letGo, c.clean)
		}
	}
}

// case 27
func TestARuleOfTheCallersCannotMakeA5xxClean(t *testing.T) {
	t.Parallel()
	refused := func(*http.Response, httpkey.Problem) httpkey.Fate { return httpkey.FateRefused }
	s := newSender(t, httpkey.ClientConfig{Fate: refused}, status(503), status(404), status(404))
	for range 3 {
		_, _ = s.post("i", pay)
	}
	s.script.one(t)
}

// case 27
func TestA429ThatWasCutProvesNothing(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{true, false} {
		n := 0
		j := new(httpkey.MemoryJournal)
		send := serverSender(t, j, func(w http.ResponseWriter, _ *http.Request) {
			if n++; n > 1 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.WriteHeader(http.StatusTooManyRequests)
			_ = http.NewResponseController(w).Flush()
			if cut {
				panic(http.ErrAbortHandler)
			}
		})
		resp, err := send()
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Fatalf("got %v %v, want the 404", resp, err)
		}
		_ = resp.Body.Close()
		if _, made := open(t, j, entry("i", "K2", start)); made == cut {
			t.Errorf("cut %v: let go %v", cut, made)
		}
	}
}

// serverSender is a client of a real server.
func serverSender(t *testing.T, j httpkey.Journal, handler http.HandlerFunc) func() (*http.Response, error) {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	transport, err := httpkey.NewTransport(httpkey.ClientConfig{Journal: j, MaxTries: 2, Backoff: time.Nanosecond, MaxBackoff: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	return func() (*http.Response, error) {
		ctx := httpkey.WithIntent(context.Background(), "i")
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader(pay))
		if err != nil {
			t.Fatal(err)
		}
		return transport.RoundTrip(r)
	}
}

// case 27
func TestAnAnswerThatWasCutKeepsTheKey(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusCreated, http.StatusBadRequest, http.StatusPaymentRequired, http.StatusUnauthorized} {
		j := new(httpkey.MemoryJournal)
		cut := serverSender(t, j, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(httpkey.HeaderExpires, "Wed, 04 Mar 2026 05:06:07 GMT")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "part")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		resp, err := cut()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); string(text) != "part" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %q %v, want the part and an error", text, err)
		}
		_ = resp.Body.Close()
		if got, made := open(t, j, entry("i", "K2", start)); made || got.State != httpkey.EntryOpen || got.Doubtful != 1 {
			t.Errorf("%d cut: got %+v, want it open and in doubt", status, got)
		}
	}
}

// case 27
func TestASmallAnswerThatWasCutIsSentForAgain(t *testing.T) {
	t.Parallel()
	n := 0
	j := new(httpkey.MemoryJournal)
	send := serverSender(t, j, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "whole"[:3])
		if n++; n == 1 {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "whole"[3:])
	})
	resp, err := send()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := open(t, j, entry("i", "K2", start)); got.State != httpkey.EntryDone {
		t.Errorf("got %+v, want it done before the caller reads", got)
	}
	if got := bodyOf(t, resp); got != "whole" || n != 2 {
		t.Errorf("got %q after %d sends, want all of it after two", got, n)
	}
}

func TestAnAnswerCountsOnceItsBodyHasEnded(t *testing.T) {
	t.Parallel()
	long := `{"a":"` + strings.Repeat("x", 1000) + `"}`
	huge := strings.Repeat("x", 200<<10)
	for name, c := range map[string]struct {
		body string
		use  func(resp *http.Response) error
		want httpkey.EntryState
	}{
		"read":        {long, func(r *http.Response) error { _, err := io.ReadAll(r.Body); return err }, httpkey.EntryDone},
		"read, large": {huge, func(r *http.Response) error { _, err := io.ReadAll(r.Body); return err }, httpkey.EntryDone},
		"decoded, closed": {long, func(r *http.Response) error {
			return errors.Join(json.NewDecoder(r.Body).Decode(&struct{}{}), r.Body.Close())
		}, httpkey.EntryDone},
		"closed":        {long, func(r *http.Response) error { return errors.Join(r.Body.Close(), r.Body.Close()) }, httpkey.EntryDone},
		"closed, large": {huge, func(r *http.Response) error { return r.Body.Close() }, httpkey.EntryOpen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := new(httpkey.MemoryJournal)
			send := serverSender(t, j, func(w http.ResponseWriter, _ *http.Request) {
				_ = http.NewResponseController(w).Flush() // chunked
				_, _ = io.WriteString(w, c.body)
			})
			resp, err := send()
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := open(t, j, entry("i", "K2", start)); got.State != httpkey.EntryOpen {
				t.Errorf("before the end: got %+v, want it open", got)
			}
			if err := c.use(resp); err != nil {
				t.Error(err)
			}
			if got, _ := open(t, j, entry("i", "K2", start)); got.State != c.want {
				t.Errorf("got %s, want %s", got.State, c.want)
			}
		})
	}
}

// fullAtTheEnd cannot note what an answer means.
type fullAtTheEnd struct{ httpkey.MemoryJournal }

func (*fullAtTheEnd) Save(context.Context, httpkey.Entry) (httpkey.Entry, bool, error) {
	return httpkey.Entry{}, false, errors.New("no space left on device")
}

func TestAnAnswerThatCannotBeNotedSaysSoAtItsEnd(t *testing.T) {
	t.Parallel()
	for _, chunked := range []bool{false, true} {
		send := serverSender(t, new(fullAtTheEnd), func(w http.ResponseWriter, _ *http.Request) {
			if chunked {
				_ = http.NewResponseController(w).Flush()
			}
			_, _ = io.WriteString(w, "paid")
		})
		resp, err := send()
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		if text, err = io.ReadAll(resp.Body); string(text) != "paid" {
			t.Errorf("got %q, want paid", text)
		}
		if closeErr := resp.Body.Close(); closeErr == nil {
			t.Error("Close gave no error")
		}
		if got, want := retryproof.OutcomeOf(err), retryproof.Done; err == nil || got != want {
			t.Errorf("chunked %v: got %v, want %v", chunked, err, want)
		}
	}
}
