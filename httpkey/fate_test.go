package httpkey_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
)

// fateCase is an answer and what becomes of the intent: the server's mark on it, no
// mark and no doubt, no mark and an earlier send in doubt. The JavaScript client is
// held to the same list.
type fateCase struct {
	Name, Type, Body, Marked, Clean, Doubt, Strict string
	Status                                         int
	Headers                                        map[string]string
	LeavesDoubt                                    bool
}

func fateCases(t *testing.T) []fateCase {
	t.Helper()
	text, err := os.ReadFile("../js/fate.cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []fateCase
	if err := json.Unmarshal(text, &list); err != nil || len(list) < 50 {
		t.Fatalf("got %d cases and %v, want the list", len(list), err)
	}
	return list
}

// step answers as the case says, with a length that is announced or not.
func (c fateCase) step(length int64, header ...string) step {
	if c.Status == 0 {
		return broken
	}
	for name, value := range c.Headers { // order: each header by itself
		header = append(header, name, value)
	}
	if c.Type != "" {
		header = append(header, "Content-Type", c.Type)
	}
	return func(r *http.Request) (*http.Response, error) {
		resp, err := status(c.Status, header...)(r)
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(c.Body)), length
		return resp, err
	}
}

// outcome is what the journal says of the intent "i": the words of the list, of which
// three let the key go.
func outcome(t *testing.T, s *sender) (string, int) {
	t.Helper()
	got, made := open(t, s.journal, entry("i", "K2", start))
	switch {
	case made:
		return "let go", 0
	case got.State == httpkey.EntryDone:
		return "done", got.Doubtful
	}
	return "pending", got.Doubtful
}

func wantOutcome(t *testing.T, name string, s *sender, want string) {
	t.Helper()
	if want != "done" && want != "pending" {
		want = "let go"
	}
	if got, _ := outcome(t, s); got != want {
		t.Errorf("%s: got %s, want %s", name, got, want)
	}
}

// case 27
func TestBothClientsJudgeEveryAnswerAlike(t *testing.T) {
	t.Parallel()
	marks := [][]string{{httpkey.HeaderReplayed, "true"}, {httpkey.HeaderExpires, "Wed, 04 Mar 2026 05:06:07 GMT"}, {"Idempotent-Replayed", "true"}}
	for _, c := range fateCases(t) {
		for _, length := range []int64{int64(len(c.Body)), -1} {
			once := httpkey.ClientConfig{MaxTries: 1}
			s := newSender(t, once, c.step(length))
			_, _ = s.post("i", pay)
			got, doubtful := outcome(t, s)
			if got == "pending" && (doubtful == 1) != c.LeavesDoubt {
				t.Errorf("%s: got doubt %d, want doubt %v", c.Name, doubtful, c.LeavesDoubt)
			}
			s = newSender(t, once, c.step(length))
			_, _ = s.post("i", pay)
			wantOutcome(t, c.Name, s, c.Clean)

			s = newSender(t, once, broken, c.step(length))
			_, _ = s.post("i", pay)
			_, _ = s.post("i", pay)
			wantOutcome(t, c.Name+" after a lost call", s, c.Doubt)
			s = newSender(t, httpkey.ClientConfig{MaxTries: 2}, broken, c.step(length))
			_, _ = s.post("i", pay)
			wantOutcome(t, c.Name+" after a lost send", s, c.Doubt)

			strict := c.Clean
			if c.Strict != "" {
				strict = c.Strict
			}
			s = newSender(t, httpkey.ClientConfig{MaxTries: 1, Fate: httpkey.StrictFate}, c.step(length))
			_, _ = s.post("i", pay)
			wantOutcome(t, c.Name+" strictly", s, strict)
			for _, mark := range marks {
				if c.Status == 0 {
					continue
				}
				for _, rule := range []func(*http.Response, httpkey.Problem) httpkey.Fate{httpkey.DefaultFate, httpkey.StrictFate} {
					s = newSender(t, httpkey.ClientConfig{MaxTries: 1, Fate: rule}, broken, c.step(length, mark...))
					_, _ = s.post("i", pay)
					_, _ = s.post("i", pay)
					wantOutcome(t, c.Name+" with "+mark[0], s, c.Marked)
				}
			}
		}
	}
}

// case 27
func TestAPageOfAHotelsNetworkKeepsTheKeyAndIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for _, portal := range []step{status(302, "Location", "/login"), answer(200, "text/html", "<h1>Sign in</h1>")} {
		s := newSender(t, httpkey.ClientConfig{MaxTries: 3}, broken, portal, status(201))
		if _, err := s.post("i", pay); err != nil || len(s.script.keys) != 2 {
			t.Errorf("got %v after %d sends, want the page after two", err, len(s.script.keys))
		}
		if code, err := s.post("i", pay); code != 201 || err != nil || len(s.pending()) != 0 {
			t.Errorf("got %d %v, want 201", code, err)
		}
		s.script.one(t)
	}
}

// case 27
func TestAStateThatIsNotFinalIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{}, state(200, "PROCESSING"), answer(200, "application/json", `{"id":`), state(200, "SUCCEEDED"))
	if code, err := s.post("i", pay); code != 200 || err != nil || len(s.script.keys) != 3 || len(s.pending()) != 0 {
		t.Errorf("got %d %v after %d sends, want the final answer after three", code, err, len(s.script.keys))
	}
	s.script.one(t)
}

func TestWhatIsJudgedIsStillRead(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"id":"pay_7"}`, `{"id":"` + strings.Repeat("x", 100_000) + `"}`} {
		for _, length := range []int64{int64(len(body)), -1} {
			s := newSender(t, httpkey.ClientConfig{}, fateCase{Status: 201, Type: "application/json", Body: body}.step(length))
			r, _ := http.NewRequest(http.MethodPost, "https://api.example.com/", strings.NewReader(pay))
			resp, err := s.transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := bodyOf(t, resp); got != body {
				t.Errorf("got %d bytes, want %d as they were", len(got), len(body))
			}
		}
	}
	long := `{"state":"PROCESSING","x":"` + strings.Repeat("x", 100_000) + `"}`
	resp, _ := answer(200, "application/json", long)(nil)
	if got := httpkey.DefaultFate(resp, httpkey.Problem{}); got != httpkey.FateAgain {
		t.Errorf("a long answer: got %d, want %d", got, httpkey.FateAgain)
	}
	packed, _ := answer(200, "application/json", "\x1f\x8b", "Content-Encoding", "gzip")(nil)
	if got := httpkey.DefaultFate(packed, httpkey.Problem{}); got != httpkey.FateDone {
		t.Errorf("a packed answer: got %d, want %d", got, httpkey.FateDone)
	}
}

// case 27
func TestAStreamedAnswerMayBeMarkedInItsTrailer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		kind, body string
		want       string
	}{
		"a page":    {200, "text/html", "<h1>Paid</h1>", "done"},
		"a decline": {402, "application/json", `{"state":"FAILED"}`, "declined"},
		"a refusal": {422, "application/json", `{}`, "declined"},
		"declined":  {200, "application/json", `{"state":"FAILED"}`, "declined"},
		"no mark":   {402, "text/plain", "quota", "pending"},
	} {
		streamed := func(r *http.Request) (*http.Response, error) {
			resp, err := fateCase{Status: c.status, Type: c.kind, Body: c.body}.step(-1)(r)
			if name != "no mark" {
				resp.Trailer = http.Header{httpkey.HeaderExpires: {"Wed, 04 Mar 2026 05:06:07 GMT"}}
			}
			return resp, err
		}
		s := newSender(t, httpkey.ClientConfig{MaxTries: 2}, broken, streamed)
		if code, err := s.post("i", pay); code != c.status || err != nil {
			t.Errorf("%s: got %d %v", name, code, err)
		}
		wantOutcome(t, name, s, c.want)
	}
}

// case 27
func TestARefusalThatCannotBeNotedSaysOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doubt  bool
		answer step
		want   string
	}{
		"done":                    {false, status(201), "done"},
		"refused":                 {false, status(404), "not done"},
		"refused, in doubt":       {true, status(404), "unknown"},
		"declined, in doubt":      {true, status(402), "unknown"},
		"on record, and in doubt": {true, status(402, httpkey.HeaderReplayed, "true"), "not done"},
		"nothing definite":        {false, status(401), "unknown"},
	} {
		j := &stubborn{Journal: new(httpkey.MemoryJournal)}
		s := newSender(t, httpkey.ClientConfig{Journal: j, MaxTries: 1}, broken, func(r *http.Request) (*http.Response, error) {
			j.full = true
			return c.answer(r)
		})
		if c.doubt {
			_, _ = s.post("i", pay)
		}
		s.script.steps = s.script.steps[len(s.script.steps)-1:]
		r, _ := http.NewRequestWithContext(httpkey.WithIntent(context.Background(), "i"), http.MethodPost,
			"https://user:secret@api.example.com/payments?token=secret", strings.NewReader(pay))
		r.Header.Set("Content-Type", "application/json")
		resp, err := s.transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if string(text) != "body" || err == nil || retryproof.OutcomeOf(err).String() != c.want {
			t.Errorf("%s: got %q %v, want the answer and %s", name, text, err, c.want)
		}
		if err := resp.Body.Close(); err == nil || retryproof.OutcomeOf(err).String() != c.want {
			t.Errorf("%s: Close: got %v", name, err)
		}
	}
}

// case 27
func FuzzTheFateOfASuccessIsReadWithoutHarm(f *testing.F) {
	for _, seed := range []string{`{"state":"PROCESSING"}`, `{"state":"FAILED"}`, `{"state":`, `["state"]`, `{"a":{"state":"VOID"}}`, "\ufeff{}", ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		resp, _ := answer(200, "application/json", body)(nil)
		fate := httpkey.DefaultFate(resp, httpkey.Problem{})
		if text, err := io.ReadAll(resp.Body); string(text) != body || err != nil {
			t.Errorf("got %q %v, want the body as it was", text, err)
		}
		var members map[string]any
		if fate == httpkey.FateDeclined && (json.Unmarshal([]byte(strings.TrimPrefix(body, "\ufeff")), &members) != nil || members["state"] == nil) {
			t.Errorf("declined by %q", body)
		}
		if errors.Is(json.Unmarshal([]byte(body), &members), nil) && members["state"] == "PROCESSING" && fate == httpkey.FateDone {
			t.Errorf("done by %q", body)
		}
	})
}
