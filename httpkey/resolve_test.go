package httpkey_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
)

// answer is a step with a body of a type.
func answer(code int, contentType, body string, header ...string) step {
	return func(r *http.Request) (*http.Response, error) {
		resp, err := status(code, append(header, "Content-Type", contentType)...)(r)
		resp.Body = io.NopCloser(strings.NewReader(body))
		return resp, err
	}
}

// state is what a server of this module answers to the question.
func state(code int, name string) step {
	return answer(code, "application/json", `{"id":"pay_7","state":"`+name+`"}`)
}

// ask asks what became of an intent.
func (s *sender) ask(intent string, header ...string) (httpkey.Resolution, error) {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodPost, "https://api.example.com/payments/resolve", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.transport.Resolve(context.Background(), intent, r)
}

// case 27
func TestResolveSettlesTheIntentOnlyOnAFinalAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		step step
		want httpkey.Fate
	}{
		{"succeeded", state(200, "SUCCEEDED"), httpkey.FateDone},
		{"failed", state(200, "FAILED"), httpkey.FateDeclined},
		{"void", state(200, "VOID"), httpkey.FateDeclined},
		{"409 void", problem(retryproof.CodeVoid), httpkey.FateDeclined},
		{"409 in progress", problem(retryproof.CodeInProgress), httpkey.FateAgain},
		{"409 of another kind", problem(retryproof.CodeMoved), httpkey.FateAgain},
		{"202", state(202, "SUCCEEDED"), httpkey.FateAgain},
		{"not final", state(200, "PROCESSING"), httpkey.FateAgain},
		{"no state", answer(200, "application/json", `{}`), httpkey.FateAgain},
		{"a state twice", answer(200, "application/json", `{"state":"PROCESSING","state":"VOID"}`), httpkey.FateAgain},
		{"broken JSON", answer(200, "application/json", `{"state":"VOID"`), httpkey.FateAgain},
		{"a hotel's page", answer(200, "text/html", `{"state":"VOID"}`), httpkey.FateAgain},
		{"too long", answer(200, "application/json", `{"state":"VOID","x":"`+strings.Repeat("x", 70_000)+`"}`), httpkey.FateAgain},
		{"204", status(204), httpkey.FateAgain},
		{"303", state(303, "VOID"), httpkey.FateKept},
		{"401", problem(retryproof.CodeUnauthorized), httpkey.FateKept},
		{"403", problem(retryproof.CodeForbidden), httpkey.FateKept},
		{"404", problem(retryproof.CodeNotFound), httpkey.FateKept},
		{"402", state(402, "FAILED"), httpkey.FateKept},
		{"429", problem(retryproof.CodeTooMany), httpkey.FateAgain},
		{"503", state(503, "VOID"), httpkey.FateAgain},
	} {
		s := newSender(t, httpkey.ClientConfig{MaxTries: 1}, broken, c.step)
		_, _ = s.post("i", pay)
		before := s.pending()
		got, err := s.ask("i")
		if err != nil || got.Fate != c.want {
			t.Errorf("%s: got %d %v, want %d", c.name, got.Fate, err, c.want)
		}
		s.script.one(t)
		settled := c.want == httpkey.FateDone || c.want == httpkey.FateDeclined
		after := s.pending()
		if settled && len(after) != 0 || !settled && (len(after) != 1 || after[0] != before[0]) {
			t.Errorf("%s: pending %v, want settled %v and otherwise as before", c.name, after, settled)
		}
	}
}

func TestResolveVoidsAndTheNextUseIsANewKey(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{MaxTries: 1}, broken, state(200, "VOID"), status(201))
	_, _ = s.post("i", pay)
	got, err := s.ask("i")
	if err != nil || got.State != "VOID" || got.Status != 200 || !strings.Contains(string(got.Body), "pay_7") {
		t.Fatalf("got %+v %v", got, err)
	}
	if code, err := s.post("i", pay); code != 201 || err != nil {
		t.Fatalf("got %d %v, want 201", code, err)
	}
	if k := s.script.keys; k[0] != k[1] || k[2] == k[0] {
		t.Errorf("keys: got %q, want the same for the question and another for the next send", k)
	}
	if _, err := s.ask("i"); retryproof.CodeOf(err) != retryproof.CodeNotFound || retryproof.OutcomeOf(err) != retryproof.Unknown || len(s.script.keys) != 3 {
		t.Errorf("got %v, want a settled intent not asked for", err)
	}
}

func TestResolveIsRepeatedLikeASend(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{MaxTries: 4}, broken, broken, broken, broken,
		answer(409, httpkey.ProblemType, `{"code":"in-progress"}`, "Retry-After", "7"), broken, state(202, "PROCESSING"), state(200, "SUCCEEDED"))
	_, _ = s.post("i", pay)
	asked := s.clock.Now()
	if got, err := s.ask("i"); err != nil || got.Fate != httpkey.FateDone {
		t.Fatalf("got %+v %v", got, err)
	}
	if waited := s.clock.Now().Sub(asked); waited < 7*time.Second || waited > 9*time.Second {
		t.Errorf("waited %v, want Retry-After and two pauses", waited)
	}
	s.script.one(t)
	if code, err := s.post("i", pay); code != 0 || err == nil { // the script is at its end
		t.Fatalf("got %d %v", code, err)
	}
	s.script.one(t) // a finished intent still has its key

	s = newSender(t, httpkey.ClientConfig{MaxTries: 2, ReturnAccepted: true}, broken, broken, state(202, "PROCESSING"), broken, broken)
	_, _ = s.post("i", pay)
	if got, err := s.ask("i"); err != nil || got.Status != 202 || len(s.script.keys) != 3 {
		t.Errorf("got %+v %v, want the 202 at once", got, err)
	}
	if got, err := s.ask("i"); retryproof.OutcomeOf(err) != retryproof.Unknown || got.Fate != httpkey.FateAgain || len(s.script.keys) != 5 || len(s.pending()) != 1 {
		t.Errorf("got %+v %v, want unknown and the key kept", got, err)
	}
}

func TestResolveTakesItsOwnCredentialsAndNoOtherKey(t *testing.T) {
	t.Parallel()
	var seen http.Header
	s := newSender(t, httpkey.ClientConfig{MaxTries: 1}, broken, func(r *http.Request) (*http.Response, error) {
		seen = r.Header
		return state(200, "VOID")(r)
	})
	_, _ = s.post("", pay)
	list := s.pending()
	if _, err := s.ask(list[0].Intent, httpkey.HeaderKey, "another"); retryproof.CodeOf(err) != retryproof.CodeKeyReused || len(s.script.keys) != 1 {
		t.Errorf("got %v, want another key refused before anything is asked", err)
	}
	if _, err := s.ask(list[0].Intent, "Authorization", "Bearer demo-u1"); err != nil || seen.Get("Authorization") != "Bearer demo-u1" || seen.Get(httpkey.HeaderKey) != string(list[0].Key) {
		t.Errorf("got %v and %v", err, seen)
	}
}

func TestAnAnswerThatWasCutIsNone(t *testing.T) {
	t.Parallel()
	cut := func(r *http.Request) (*http.Response, error) {
		resp, err := state(200, "VOID")(r)
		resp.Body = io.NopCloser(io.MultiReader(resp.Body, brokenReader{}))
		resp.ContentLength = -1
		return resp, err
	}
	s := newSender(t, httpkey.ClientConfig{MaxTries: 1}, broken, cut)
	_, _ = s.post("i", pay)
	if got, err := s.ask("i"); err == nil || got.Fate != httpkey.FateAgain || len(s.pending()) != 1 {
		t.Errorf("got %+v %v, want no answer and the key kept", got, err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// A question and a send of one intent at the same time: whoever hears the truth
// first, the other neither loses it nor undoes it.
func TestResolveRacesASendFairly(t *testing.T) {
	t.Parallel()
	t.Run("a send begins while the question is out, and the key is void", func(t *testing.T) {
		t.Parallel()
		var s *sender
		s = newSender(t, httpkey.ClientConfig{MaxTries: 1}, broken, func(r *http.Request) (*http.Response, error) {
			_, _ = s.post("i", pay) // lost as well
			return state(200, "VOID")(r)
		}, broken, status(201))
		_, _ = s.post("i", pay)
		if got, err := s.ask("i"); err != nil || got.Fate != httpkey.FateDeclined || len(s.pending()) != 0 {
			t.Errorf("got %+v %v, pending %v: void is for ever, whoever else has sent", got, err, s.pending())
		}
	})
	t.Run("the question is out while a send is done", func(t *testing.T) {
		t.Parallel()
		var s *sender
		s = newSender(t, httpkey.ClientConfig{MaxTries: 1}, broken, func(r *http.Request) (*http.Response, error) {
			_, _ = s.post("i", pay)
			return problem(retryproof.CodeInProgress)(r)
		}, status(201), status(201))
		_, _ = s.post("i", pay)
		if got, err := s.ask("i"); err != nil || got.Fate != httpkey.FateAgain || len(s.pending()) != 0 {
			t.Errorf("got %+v %v, pending %v, want the success to stand", got, err, s.pending())
		}
		_, _ = s.post("i", pay)
		s.script.one(t)
	})
	t.Run("the late original is refused after the void", func(t *testing.T) {
		t.Parallel()
		var s *sender
		s = newSender(t, httpkey.ClientConfig{MaxTries: 1}, func(r *http.Request) (*http.Response, error) {
			if got, err := s.ask("i"); err != nil || got.Fate != httpkey.FateDeclined {
				t.Errorf("got %+v %v", got, err)
			}
			if code, err := s.post("i", pay); code != 0 || err == nil { // a new key, whose answer is lost
				t.Errorf("got %d %v", code, err)
			}
			return problem(retryproof.CodeVoid)(r)
		}, state(200, "VOID"), broken)
		if code, err := s.post("i", pay); code != 409 || err != nil {
			t.Errorf("got %d %v, want 409", code, err)
		}
		list := s.pending()
		if len(list) != 1 || list[0].Attempt != 2 || string(list[0].Key) != s.script.keys[2] || list[0].Key == retryproof.Key(s.script.keys[0]) {
			t.Errorf("pending: got %+v, want the second key kept", list)
		}
	})
	t.Run("the intent has another key by the time of the answer", func(t *testing.T) {
		t.Parallel()
		var s *sender
		s = newSender(t, httpkey.ClientConfig{MaxTries: 1}, broken, func(r *http.Request) (*http.Response, error) {
			_, _ = s.post("i", pay) // 409 void: let go
			_, _ = s.post("i", pay) // a new key, and lost
			return state(200, "VOID")(r)
		}, problem(retryproof.CodeVoid), broken)
		_, _ = s.post("i", pay)
		if got, err := s.ask("i"); err != nil || got.Fate != httpkey.FateDeclined {
			t.Errorf("got %+v %v", got, err)
		}
		if list := s.pending(); len(list) != 1 || list[0].Attempt != 2 || list[0].Doubtful != 1 {
			t.Errorf("pending: got %+v, want the second key untouched", list)
		}
	})
}

func TestAFinalAnswerThatCannotBeNotedIsToldBesideTheError(t *testing.T) {
	t.Parallel()
	j := &stubborn{Journal: new(httpkey.MemoryJournal)}
	s := newSender(t, httpkey.ClientConfig{MaxTries: 1, Journal: j}, broken, state(200, "VOID"), state(200, "VOID"))
	_, _ = s.post("i", pay)
	j.full = true
	if got, err := s.ask("i"); got.Fate != httpkey.FateDeclined || retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("got %+v %v, want the void and an error of the journal", got, err)
	}
	j.full = false
	if got, err := s.ask("i"); err != nil || got.Fate != httpkey.FateDeclined || len(s.pending()) != 0 {
		t.Errorf("got %+v %v", got, err)
	}
}

type stubborn struct {
	httpkey.Journal
	full bool
}

func (s *stubborn) Save(ctx context.Context, e httpkey.Entry) (httpkey.Entry, bool, error) {
	if s.full {
		return httpkey.Entry{}, false, errors.New("no space left on device")
	}
	return s.Journal.Save(ctx, e)
}

func FuzzResolveSettlesOnlyOnTheStateThatEveryReaderSees(f *testing.F) {
	for _, seed := range []string{`{"state":"VOID"}`, `{"state":"SUCCEEDED","id":"pay_7"}`, `{"state":"VOID","state":"PROCESSING"}`, `{"a":{"state":"VOID"}}`,
		`["VOID"]`, `"VOID"`, `{"state":"VO\u0049D"}`, `{"state":"VOID"} x`, "\ufeff{}", ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := newSender(t, httpkey.ClientConfig{MaxTries: 1}, broken, answer(200, "application/json", body))
		_, _ = s.post("i", pay)
		got, err := s.ask("i")
		if err != nil {
			t.Fatal(err)
		}
		settled := got.Fate == httpkey.FateDone || got.Fate == httpkey.FateDeclined
		if settled == (len(s.pending()) == 1) {
			t.Errorf("fate %d, pending %v", got.Fate, s.pending())
		}
		var members map[string]any
		if settled && (json.Unmarshal([]byte(body), &members) != nil || members["state"] != got.State) {
			t.Errorf("settled as %q by %q", got.State, body)
		}
	})
}
