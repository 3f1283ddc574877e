package deadline_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/deadline"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/memory"
)

func TestABudgetOnlyShrinks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	if _, ok := deadline.Budget(ctx); ok {
		t.Error("got a budget, want none")
	}
	ctx = deadline.WithBudget(ctx, start.Add(5*time.Second))
	ctx = deadline.WithBudget(ctx, start.Add(9*time.Second))
	if got, ok := deadline.Budget(ctx); !ok || !got.Equal(start.Add(5*time.Second)) {
		t.Errorf("got %v, %v, want 5 s", got, ok)
	}
	if got, _ := deadline.Budget(deadline.WithBudget(ctx, start)); !got.Equal(start) {
		t.Errorf("got %v, want the earlier", got)
	}
}

func TestNoSideEffectStartsWithoutTheTimeForIt(t *testing.T) {
	t.Parallel()
	ctx := deadline.WithBudget(context.Background(), start.Add(5*time.Second))
	for _, c := range []struct {
		at, need time.Duration
		ok       bool
	}{
		{0, 5 * time.Second, true}, {0, 5*time.Second + 1, false},
		{5 * time.Second, 0, true}, {5*time.Second + time.Microsecond, 0, false}, {time.Hour, 0, false},
	} {
		err := deadline.Allow(ctx, clocktest.New(start.Add(c.at)), c.need)
		if (err == nil) != c.ok || err != nil && (retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeTooLate) {
			t.Errorf("at %v, need %v: got %v, want %v", c.at, c.need, err, c.ok)
		}
	}
	if err := deadline.Allow(context.Background(), clocktest.New(start), time.Hour); err != nil {
		t.Errorf("without a budget: got %v, want nil", err)
	}
}

func TestAnAttemptsLeaseIsTheBudget(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	engine, err := effect.New(memory.New().Effects(), effect.Config{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	ask := effect.Request{Scope: retryproof.Scope{Endpoint: "e", Caller: "c", Key: "k"}, Fingerprint: retryproof.FingerprintOf(retryproof.Text("a", "b")),
		Arrived: start.Add(-2 * time.Second)}
	_, err = engine.Do(context.Background(), ask, func(ctx context.Context, _ *effect.Attempt) (effect.Finish, error) {
		for add, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Minute: 3 * time.Second} {
			if got, ok := deadline.Budget(deadline.WithBudget(ctx, start.Add(add))); !ok || !got.Equal(start.Add(want)) {
				t.Errorf("got %v, %v, want %v", got, ok, want)
			}
		}
		return effect.Finish{State: effect.Succeeded}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// base is a callee in virtual time.
type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(r *http.Request) (*http.Response, error) { return b(r) }

func call(ctx context.Context, t *testing.T, c clock.Clock, b base) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://psp.example/charges", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(deadline.HeaderEnvoyTimeout, "999999")
	return (&http.Client{Transport: &deadline.Transport{Base: b, Clock: c, Header: deadline.HeaderEnvoyTimeout}}).Do(r)
}

func answer(body io.Reader) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body)}
}

func TestNothingIsSentAfterTheBudget(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	ctx := deadline.WithBudget(context.Background(), start.Add(999*time.Microsecond))
	_, err := call(ctx, t, c, func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return answer(http.NoBody), nil
	})
	if retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeTooLate {
		t.Errorf("got %v, want not done, too late", err)
	}
}

func TestWhatWasSentWhenTheBudgetEndsIsUnknown(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]error{
		"timeout":       context.DeadlineExceeded,
		"says not done": retryproof.Refused(retryproof.CodeUnavailable, "no connection", nil),
	} {
		c := clocktest.New(start)
		ctx := deadline.WithBudget(context.Background(), start.Add(5*time.Second))
		_, err := call(ctx, t, c, func(r *http.Request) (*http.Response, error) {
			if got := r.Header.Get(deadline.HeaderEnvoyTimeout); got != "5000" {
				t.Errorf("got header %q, want 5000", got)
			}
			if err := c.Sleep(r.Context(), time.Minute); err == nil {
				t.Error("the call was not bounded")
			}
			return nil, claim
		})
		if retryproof.OutcomeOf(err) != retryproof.Unknown || retryproof.CodeOf(err) != retryproof.CodeUnknown || !errors.Is(err, claim) {
			t.Errorf("%s: got %v, want unknown with its cause", name, err)
		}
		if got, want := c.Now(), start.Add(5*time.Second); !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestAnErrorInsideOfTheBudgetIsTheCallees(t *testing.T) {
	t.Parallel()
	refused := retryproof.Refused(retryproof.CodeUnavailable, "no connection", nil)
	ctx := deadline.WithBudget(context.Background(), start.Add(5*time.Second))
	_, err := call(ctx, t, clocktest.New(start), func(*http.Request) (*http.Response, error) { return nil, refused })
	if retryproof.OutcomeOf(err) != retryproof.NotDone || !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
}

// slowBody ends with the request's context.
type slowBody struct {
	clock *clocktest.Clock
	ctx   context.Context
}

func (b slowBody) Read([]byte) (int, error) {
	return 0, b.clock.Sleep(b.ctx, time.Minute)
}

func TestABodyThatOutlastsTheBudgetIsUnknown(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	ctx := deadline.WithBudget(context.Background(), start.Add(5*time.Second))
	resp, err := call(ctx, t, c, func(r *http.Request) (*http.Response, error) {
		return answer(slowBody{c, r.Context()}), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(resp.Body)
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if retryproof.CodeOf(err) != retryproof.CodeUnknown || retryproof.OutcomeOf(err) != retryproof.Unknown {
		t.Errorf("got %v, want unknown", err)
	}
}

func TestAnAnswerInTimeIsReadWhole(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	for name, ctx := range map[string]context.Context{
		"budget": deadline.WithBudget(t.Context(), clock.System().Now().Add(time.Minute)), "none": t.Context(),
	} {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: &deadline.Transport{}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != "hello" {
			t.Errorf("%s: got %q, %v, want hello", name, got, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

// pipe is what a 101 has for a body.
type pipe struct{ strings.Builder }

func (*pipe) Read([]byte) (int, error) { return 0, io.EOF }
func (*pipe) Close() error             { return nil }

func TestAnUpgradedConnectionCanBeWritten(t *testing.T) {
	t.Parallel()
	var p pipe
	ctx := deadline.WithBudget(context.Background(), start.Add(time.Second))
	resp, err := call(ctx, t, clocktest.New(start), func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: &p}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w, ok := resp.Body.(io.Writer)
	if !ok {
		t.Fatal("the body cannot be written")
	}
	if _, err := io.WriteString(w, "x"); err != nil || p.String() != "x" {
		t.Errorf("got %q, %v, want x", p.String(), err)
	}
}
