package httpkey_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/httpkey"
)

// script is a base transport that gives scripted answers and notes what was sent.
type script struct {
	steps  []func(*http.Request) (*http.Response, error)
	keys   []string
	bodies []string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	text := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		text = string(b)
		_ = r.Body.Close()
	}
	s.keys = append(s.keys, r.Header.Get(httpkey.HeaderKey))
	s.bodies = append(s.bodies, text)
	if len(s.steps) == 0 {
		return nil, errors.New("nothing left in the script")
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	return step(r)
}

// one is the single key that every send carried.
func (s *script) one(t *testing.T) string {
	t.Helper()
	keys := slices.Compact(slices.Clone(s.keys))
	if len(keys) != 1 || keys[0] == "" {
		t.Fatalf("keys: got %q, want one", keys)
	}
	return keys[0]
}

type step = func(*http.Request) (*http.Response, error)

func status(code int, header ...string) step {
	return func(r *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("body")), Request: r}
		for i := 0; i+1 < len(header); i += 2 {
			resp.Header.Set(header[i], header[i+1])
		}
		return resp, nil
	}
}

func problem(code retryproof.Code) step {
	return func(r *http.Request) (*http.Response, error) {
		rec := httptest.NewRecorder()
		httpkey.ProblemOf(&retryproof.Error{Code: code}).Write(rec)
		resp := rec.Result()
		resp.Request = r
		return resp, nil
	}
}

func broken(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset") }

// counter is a source of randomness that counts.
type counter struct{ n uint64 }

func (c *counter) Uint64() uint64 { c.n++; return c.n }

// sender is a client with its journal.
type sender struct {
	t         *testing.T
	clock     *clocktest.Clock
	script    *script
	journal   httpkey.Journal
	transport *httpkey.Transport
}

func newSender(t *testing.T, c httpkey.ClientConfig, steps ...step) *sender {
	t.Helper()
	s := &sender{t: t, clock: clocktest.New(start), script: &script{steps: steps}}
	if c.Journal == nil {
		c.Journal = new(httpkey.MemoryJournal)
	}
	s.journal = c.Journal
	c.Base, c.Clock = s.script, s.clock
	if c.Rand == nil {
		c.Rand = new(counter)
	}
	var err error
	if s.transport, err = httpkey.NewTransport(c); err != nil {
		t.Fatal(err)
	}
	return s
}

// post sends one POST under an intent ("" for none) and returns its status.
func (s *sender) post(intent, body string) (int, error) {
	s.t.Helper()
	ctx := context.Background()
	if intent != "" {
		ctx = httpkey.WithIntent(ctx, intent)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://user:secret@api.example.com/payments?token=secret", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	before := r.Header.Clone()
	resp, err := s.transport.RoundTrip(r)
	if fmt.Sprint(before) != fmt.Sprint(r.Header) {
		s.t.Errorf("the caller's request was changed: %v", r.Header)
	}
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Body.Close()
}

func (s *sender) pending() []httpkey.Entry {
	s.t.Helper()
	list, err := s.transport.Pending(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

const pay = `{"order_id":"42","amount":3000}`

// case 27
func TestEverySendCarriesTheIntentsKey(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{}, broken, broken, problem(retryproof.CodeInProgress), status(202), status(500),
		problem(retryproof.CodeKeyReused), status(402, httpkey.HeaderReplayed, "true"), problem(retryproof.CodeVoid), status(201))
	if code, err := s.post("order-42-pay", pay); code != 422 || err != nil {
		t.Fatalf("got %d %v, want the 422 after five unclear sends", code, err)
	}
	k1 := s.script.one(t)
	if list := s.pending(); len(list) != 1 || string(list[0].Key) != k1 || list[0].Intent != "order-42-pay" {
		t.Errorf("pending: got %v, want the intent: an unclear send may have been done", list)
	}
	for _, body := range s.script.bodies {
		if body != pay {
			t.Errorf("body: got %q, want %q", body, pay)
		}
	}
	if code, err := s.post("order-42-pay", pay); code != 402 || err != nil {
		t.Fatalf("got %d %v, want 402", code, err)
	}
	s.script.one(t) // still K1; the decline lets it go
	if list := s.pending(); len(list) != 0 {
		t.Errorf("pending: got %v, want none", list)
	}
	for _, want := range []int{409, 201} { // the void lets the second key go
		s.script.keys = nil
		if code, err := s.post("order-42-pay", pay); code != want || err != nil {
			t.Fatalf("got %d %v, want %d", code, err, want)
		}
		if k := s.script.one(t); k == k1 {
			t.Error("a key that was let go was used again")
		}
	}
}

// case 27
func TestTwo409sAreToldApartByTheirCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		step step
		want httpkey.Fate
	}{
		{"in progress", problem(retryproof.CodeInProgress), httpkey.FateAgain},
		{"void", problem(retryproof.CodeVoid), httpkey.FateDeclined},
		{"a stored one", status(409, httpkey.HeaderReplayed, "true"), httpkey.FateDeclined},
		{"another system's, retry", status(409, "Retry-After", "1"), httpkey.FateAgain},
		{"another system's", status(409), httpkey.FateKept},
		{"stored 202", status(202, httpkey.HeaderExpires, "Wed, 04 Mar 2026 05:06:07 GMT"), httpkey.FateAgain},
		{"202", status(202), httpkey.FateAgain},
		{"201", status(201), httpkey.FateDone}, {"303", status(303), httpkey.FateKept}, {"307", status(307), httpkey.FateKept},
		{"400", status(400), httpkey.FateRefused}, {"stored 400", status(400, httpkey.HeaderReplayed, "true"), httpkey.FateDeclined},
		{"401", status(401), httpkey.FateKept}, {"402", status(402), httpkey.FateDeclined}, {"422", status(422), httpkey.FateRefused},
		{"429", status(429), httpkey.FateAgain}, {"503", status(503), httpkey.FateAgain},
	} {
		resp, err := c.step(nil)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := httpkey.ReadProblem(resp)
		if got := httpkey.DefaultFate(resp, p); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestRetryAfterAndBackoffAreHonoured(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{}, status(503, "Retry-After", "7"), status(201))
	if code, err := s.post("", pay); code != 201 || err != nil {
		t.Fatalf("got %d %v", code, err)
	}
	if got := s.clock.Now().Sub(start); got < 7*time.Second || got > 8*time.Second {
		t.Errorf("waited %v, want 7 s and a little", got)
	}
	s = newSender(t, httpkey.ClientConfig{}, status(503, "Retry-After", "3600"))
	if code, err := s.post("i", pay); code != 503 || err != nil || len(s.pending()) != 1 {
		t.Errorf("got %d %v, want the 503 at once and the key kept", code, err)
	}
	s = newSender(t, httpkey.ClientConfig{MaxTries: 3}, broken, broken, broken, broken)
	_, err := s.post("i", pay)
	if got := retryproof.OutcomeOf(err); err == nil || got != retryproof.Unknown || len(s.script.keys) != 3 {
		t.Errorf("got %v after %d sends, want unknown after 3", err, len(s.script.keys))
	}
	if got := s.clock.Now().Sub(start); got < 300*time.Millisecond || got > 600*time.Millisecond {
		t.Errorf("backed off %v, want between 0.3 and 0.6 s", got)
	}
	if key := s.script.one(t); strings.Contains(fmt.Sprintf("%v %+v %v %q %#v %s", err, s.pending(), s.pending()[0].Key, s.pending(), s.pending(), &s.pending()[0]), key) {
		t.Error("the key was printed")
	}
}

func TestContextBoundsAllSends(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{}, broken, broken, broken, broken, broken, broken, broken, broken)
	ctx, cancel := s.clock.WithTimeout(httpkey.WithIntent(context.Background(), "i"), time.Second)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com/", strings.NewReader(pay))
	_, err := s.transport.RoundTrip(r)
	if got := s.clock.Now().Sub(start); err == nil || got > time.Second {
		t.Errorf("got %v after %v, want an error within 1 s", err, got)
	}
	if len(s.pending()) != 1 {
		t.Error("the key was not kept")
	}
	cancelled, stop := context.WithCancel(context.Background())
	stop()
	sent := len(s.script.keys)
	_, err = s.transport.RoundTrip(r.WithContext(cancelled))
	if retryproof.OutcomeOf(err) != retryproof.NotDone || len(s.script.keys) != sent {
		t.Errorf("got %v, want not done and nothing sent", err)
	}
}

func TestAcceptedIsReturnedWithTheKeyKept(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{ReturnAccepted: true}, status(202), status(200))
	if code, err := s.post("i", pay); code != 202 || err != nil || len(s.pending()) != 1 {
		t.Errorf("got %d %v, want 202 and one pending", code, err)
	}
	if code, err := s.post("i", pay); code != 200 || err != nil || len(s.pending()) != 0 {
		t.Errorf("got %d %v, want 200 and none pending", code, err)
	}
	s.script.one(t)
}

func TestFinishedIntentStillHasItsKey(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{}, status(201), status(201), status(201))
	for range 2 { // the application crashed before it noted the first 201
		if code, err := s.post("i", pay); code != 201 || err != nil {
			t.Fatalf("got %d %v", code, err)
		}
	}
	k1 := s.script.one(t)
	if n, err := s.journal.Forget(context.Background(), start.Add(time.Second)); n != 1 || err != nil {
		t.Errorf("Forget: got %d %v, want 1", n, err)
	}
	if _, err := s.post("i", pay); err != nil || s.script.keys[2] == k1 {
		t.Errorf("a forgotten intent has its old key (%v)", err)
	}
}

func TestCorrectedIntentKeepsItsKeyWhileNothingRan(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{}, status(429), status(401), status(400), status(201))
	if code, err := s.post("i", `{"order_id":"42"}`); code != 401 || err != nil {
		t.Fatalf("got %d %v", code, err)
	}
	if code, err := s.post("i", `{"order_id":"43"}`); code != 400 || err != nil { // corrected, same key
		t.Fatalf("got %d %v", code, err)
	}
	s.script.one(t)
	if code, err := s.post("i", pay); code != 201 || err != nil { // let go by the 400
		t.Fatalf("got %d %v", code, err)
	}
	if s.script.keys[3] == s.script.keys[2] {
		t.Error("the key was not let go by a refusal after clean sends")
	}
}

func TestIntentIsOneRequest(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{MaxTries: 1, Ignore: []string{"sent_at"}}, status(500), status(500), status(500))
	_, _ = s.post("i", pay)
	if _, err := s.post("i", `{"sent_at":7,"amount":3000.0,"order_id":"42"}`); err != nil {
		t.Errorf("the same meaning was refused: %v", err)
	}
	_, err := s.post("i", `{"order_id":"42","amount":3500}`)
	if retryproof.CodeOf(err) != retryproof.CodeKeyReused || retryproof.OutcomeOf(err) != retryproof.NotDone || len(s.script.keys) != 2 {
		t.Errorf("got %v after %d sends, want a refusal before the third", err, len(s.script.keys))
	}
}

// case 27
func TestCallersOwnKeyIsKept(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{MaxTries: 2}, broken, status(500), status(200))
	send := func(ctx context.Context, method, key string) error {
		r, _ := http.NewRequestWithContext(ctx, method, "https://api.example.com/", nil)
		r.Header.Set(httpkey.HeaderKey, key)
		resp, err := s.transport.RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	if err := send(context.Background(), http.MethodPut, `"mine"`); err != nil {
		t.Fatal(err)
	}
	if got := s.script.one(t); got != `"mine"` {
		t.Errorf("got %q, want the caller's spelling", got)
	}
	if list := s.pending(); len(list) != 1 || list[0].Key != "mine" {
		t.Errorf("pending: got %v, want the caller's key", list)
	}
	if err := send(context.Background(), http.MethodPut, "mine"); err != nil || len(s.pending()) != 0 {
		t.Errorf("got %v, want it finished", err)
	}
	if err := send(context.Background(), http.MethodPut, "bad key"); retryproof.CodeOf(err) != retryproof.CodeKeyMalformed {
		t.Errorf("got %v, want %v", err, retryproof.CodeKeyMalformed)
	}
	s.script.steps = []step{status(500), status(500)}
	_ = send(httpkey.WithIntent(context.Background(), "i"), http.MethodPost, "a")
	if err := send(httpkey.WithIntent(context.Background(), "i"), http.MethodPost, "b"); retryproof.CodeOf(err) != retryproof.CodeKeyReused {
		t.Errorf("got %v, want the other key refused", err)
	}
}

func TestReadsGetNoKey(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{}, status(200))
	r, _ := http.NewRequestWithContext(httpkey.WithIntent(context.Background(), "i"), http.MethodGet, "https://api.example.com/", nil)
	if _, err := s.transport.RoundTrip(r); err != nil || s.script.keys[0] != "" {
		t.Errorf("got key %q %v, want none", s.script.keys[0], err)
	}
}

func TestLargeBodiesAreReplayedOrRefused(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 5000)
	s := newSender(t, httpkey.ClientConfig{MaxBody: 1000}, status(503), broken, status(200))
	r, _ := http.NewRequest(http.MethodPost, "https://api.example.com/", strings.NewReader(big)) // has GetBody
	if resp, err := s.transport.RoundTrip(r); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("got %v %v", resp, err)
	}
	if got, want := s.script.bodies, []string{big, big, big}; !slices.Equal(got, want) {
		t.Errorf("bodies: got %d, want three whole ones", len(got))
	}
	r, _ = http.NewRequest(http.MethodPost, "https://api.example.com/", io.MultiReader(strings.NewReader(big)))
	if _, err := s.transport.RoundTrip(r); retryproof.CodeOf(err) != retryproof.CodeTooLarge || len(s.script.keys) != 3 {
		t.Errorf("got %v, want a refusal before anything is sent", err)
	}
}

func TestRedirectKeepsTheKey(t *testing.T) {
	t.Parallel()
	for _, intent := range []string{"", "order-42-pay"} {
		var keys []string
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			keys = append(keys, r.Header.Get(httpkey.HeaderKey))
			if r.URL.Path == "/" {
				http.Redirect(w, r, "/home", http.StatusTemporaryRedirect)
			}
		}))
		transport, err := httpkey.NewTransport(httpkey.ClientConfig{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if intent != "" {
			ctx = httpkey.WithIntent(ctx, intent)
		}
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, bytes.NewReader([]byte(pay)))
		resp, err := (&http.Client{Transport: transport}).Do(r)
		srv.Close()
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if len(keys) != 2 || keys[0] != keys[1] || keys[0] == "" || resp.StatusCode != http.StatusOK {
			t.Errorf("intent %q: got keys %q and %d, want one key twice and 200", intent, keys, resp.StatusCode)
		}
		if list, err := transport.Pending(ctx); len(list) != 0 || err != nil {
			t.Errorf("intent %q: pending: got %v %v, want none", intent, list, err)
		}
	}
}

// a client that is killed mid-send finds its key again; the journal in front of
// the first send
func TestKeyIsJournaledBeforeTheFirstSend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() httpkey.Journal {
		j, err := httpkey.OpenFileJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	var inJournal []httpkey.Entry
	killed := newSender(t, httpkey.ClientConfig{Journal: open()}, func(r *http.Request) (*http.Response, error) {
		inJournal, _ = open().Pending(r.Context())
		panic("killed")
	})
	func() {
		defer func() { _ = recover() }()
		_, _ = killed.post("order-42-pay", pay)
	}()
	k1 := killed.script.one(t)
	if len(inJournal) != 1 || string(inJournal[0].Key) != k1 {
		t.Fatalf("at the first send the journal had %v", inJournal)
	}
	again := newSender(t, httpkey.ClientConfig{Journal: open(), Rand: &counter{1000}}, status(201))
	list := again.pending()
	if len(list) != 1 || list[0].Intent != "order-42-pay" || strings.Contains(list[0].URL, "secret") {
		t.Errorf("pending: got %+v, want the intent without secrets of its URL", list)
	}
	if code, err := again.post("order-42-pay", pay); code != 201 || err != nil || again.script.one(t) != k1 {
		t.Errorf("got %d %v, want 201 under the first key", code, err)
	}
	if list := again.pending(); len(list) != 0 {
		t.Errorf("pending: got %v, want none", list)
	}
}

func TestJournalThatCannotWriteSendsNothing(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{Journal: fullDisk{}}, status(200))
	if _, err := s.post("i", pay); retryproof.OutcomeOf(err) != retryproof.NotDone || len(s.script.keys) != 0 {
		t.Errorf("got %v after %d sends, want not done and none", err, len(s.script.keys))
	}
}

type fullDisk struct{ httpkey.Journal }

func (fullDisk) Open(context.Context, httpkey.Entry) (httpkey.Entry, bool, error) {
	return httpkey.Entry{}, false, errors.New("no space left on device")
}
