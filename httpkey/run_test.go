package httpkey_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

// case 4
func TestStreamedAnswerIsSentWhileItIsRecorded(t *testing.T) {
	t.Parallel()
	rest := make(chan struct{})
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Link", "</style.css>; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
		rw.Header().Del("Link")
		_, _ = io.WriteString(rw, "chunk 1\n")
		if err := http.NewResponseController(rw).Flush(); err != nil {
			t.Error(err)
		}
		<-rest
		_, _ = io.WriteString(rw, "chunk 2\n")
		rw.WriteHeader(http.StatusInternalServerError)
	})
	served := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer close(served)
		w.next.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	resp, err := srv.Client().Do(forServer(t, srv, ask{key: "K1"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Link"); got != "" {
		t.Errorf("a header of the 103 came with the answer: %q", got)
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || line != "chunk 1\n" || resp.StatusCode != http.StatusOK {
		t.Errorf("got %d %q %v, want 200 and chunk 1 while the handler runs", resp.StatusCode, line, err)
	}
	_ = resp.Body.Close() // the client cuts
	close(rest)
	<-served
	again := w.send(ask{key: "K1"})
	if got, want := bodyOf(t, again), "chunk 1\nchunk 2\n"; again.StatusCode != http.StatusOK || got != want {
		t.Errorf("got %d %q, want 200 %q", again.StatusCode, got, want)
	}
	if got := again.Header.Get("Link"); got != "" {
		t.Errorf("a header of the 103 was recorded: %q", got)
	}
	w.wantRuns(1)
}

// forServer turns an ask into a request that a client can send.
func forServer(t *testing.T, srv *httptest.Server, a ask) *http.Request {
	t.Helper()
	r := a.request()
	out, err := http.NewRequestWithContext(r.Context(), r.Method, srv.URL+r.URL.RequestURI(), r.Body)
	if err != nil {
		t.Fatal(err)
	}
	out.Header = r.Header
	return out
}

// case 4
func TestHijackOfAKeyedRequestIsRefused(t *testing.T) {
	t.Parallel()
	var got error
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		_, _, got = http.NewResponseController(rw).Hijack()
		rw.WriteHeader(http.StatusInternalServerError)
	})
	wantAnswer(t, w.send(ask{key: "K1"}), 500, "")
	if !errors.Is(got, http.ErrNotSupported) {
		t.Errorf("got %v, want %v", got, http.ErrNotSupported)
	}
	w.clock.Advance(5020 * time.Millisecond)
	seen := w.recorded(scopeOf("POST /payments", "u1", "K1"))
	if seen.Claim == nil || seen.Claim.State == effect.InProgress {
		t.Errorf("claim: got %+v, want one that is not in progress", seen.Claim)
	}
}

// case 4
func TestReadFromIsRecordedUpToTheCap(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789", 10_000)
	for _, limit := range []int{50_000, 200_000} {
		w := newWorld(t, httpkey.Config{MaxAnswer: limit}, func(rw http.ResponseWriter, _ *http.Request) {
			if n, err := io.Copy(rw, iotest.OneByteReader(strings.NewReader(big))); n != int64(len(big)) || err != nil {
				t.Errorf("Copy: got %d %v, want %d", n, err, len(big))
			}
		})
		if got := bodyOf(t, w.send(ask{key: "K1"})); got != big {
			t.Errorf("limit %d: first: got %d bytes, want %d", limit, len(got), len(big))
		}
		again := w.send(ask{key: "K1"})
		if kept := bodyOf(t, again) == big; kept != (limit > len(big)) {
			t.Errorf("limit %d: kept %v", limit, kept)
		}
	}
}

// case 5
func TestErrorAfterTheEffectNeverRunsItAgain(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(http.ResponseWriter){
		"a 500":     func(rw http.ResponseWriter) { http.Error(rw, "mail failed", http.StatusInternalServerError) },
		"a 400":     func(rw http.ResponseWriter) { http.Error(rw, "output invalid", http.StatusBadRequest) },
		"b panic":   func(http.ResponseWriter) { panic("boom") },
		"c abort":   func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"d goexit":  func(http.ResponseWriter) { runtime.Goexit() },
		"e unknown": func(rw http.ResponseWriter) { rw.WriteHeader(499) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			charges := map[string]int{}
			w := newWorld(t, httpkey.Config{Location: func(g effect.Guard) string { return "/effects/" + string(g.ID) }},
				func(rw http.ResponseWriter, r *http.Request) {
					charges[effect.FromContext(r.Context()).Key("charge")]++
					leave(rw)
				})
			var resp *http.Response
			var panicked any
			var wg sync.WaitGroup
			wg.Go(func() { resp, panicked = w.sendTo(ask{key: "K1"}) })
			wg.Wait()
			switch name[0] {
			case 'a':
				if resp.StatusCode != http.StatusInternalServerError && resp.StatusCode != http.StatusAccepted {
					t.Errorf("got %d, want 500 or 202, never a refusal", resp.StatusCode)
				}
			case 'b', 'c':
				if panicked == nil {
					t.Error("the panic was swallowed")
				}
			}
			for _, at := range []time.Duration{time.Second, 6 * time.Second, 13 * time.Second} {
				w.clock.Advance(at)
				again := w.send(ask{key: "K1"})
				if again.StatusCode != http.StatusAccepted || again.Header.Get("Location") == "" || again.Header.Get("Retry-After") != "1" {
					t.Errorf("repeat: got %d %v, want a 202 that points to the record", again.StatusCode, again.Header)
				}
			}
			w.wantRuns(1)
			if seen := w.recorded(scopeOf("POST /payments", "u1", "K1")); seen.Guard == nil || seen.Guard.State != effect.Unknown {
				t.Errorf("guard: got %+v, want UNKNOWN", seen.Guard)
			}
			if len(charges) != 1 {
				t.Errorf("charges: got %v, want one", charges)
			}
		})
	}
}

// case 5 c
func TestAbortStillCutsTheConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, "half")
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	})
	srv := httptest.NewServer(w.next)
	defer srv.Close()
	resp, err := srv.Client().Do(forServer(t, srv, ask{key: "K1"}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("got %q without an error, want a cut connection", text)
	}
	wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
	w.wantRuns(1)
}

// case 8
func TestHandlerGoesOnWhenItsClientIsGone(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(context.Background())
	w := newWorld(t, httpkey.Config{}, nil)
	w.next = w.mw.Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.runs.Add(1)
		hangUp()
		if err := r.Context().Err(); err != nil {
			t.Errorf("the handler's context ended with its client: %v", err)
		}
		rw.WriteHeader(http.StatusCreated)
	}))
	w.send(ask{key: "K1", ctx: ctx})
	resp := w.send(ask{key: "K1"})
	if resp.StatusCode != http.StatusCreated || resp.Header.Get(httpkey.HeaderReplayed) != "true" {
		t.Errorf("got %d %v, want the recorded 201", resp.StatusCode, resp.Header)
	}
	w.wantRuns(1)
}

// case 8
func TestHandlerIsBoundedByTheDeadline(t *testing.T) {
	t.Parallel()
	var w *world
	w = newWorld(t, httpkey.Config{Arrived: func(*http.Request) time.Time { return start.Add(-2 * time.Second) }},
		func(rw http.ResponseWriter, r *http.Request) {
			err := w.clock.Sleep(r.Context(), time.Hour)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
			http.Error(rw, "the processor did not answer", http.StatusGatewayTimeout)
		})
	wantAnswer(t, w.send(ask{key: "K1"}), 504, "")
	if got, want := w.clock.Now(), start.Add(3*time.Second); !got.Equal(want) {
		t.Errorf("the deadline came at %v, want %v", got, want)
	}
	wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
}

func TestClientThatIsGoneBeforeTheClaimRunsNothing(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(context.Background())
	hangUp()
	w := newWorld(t, httpkey.Config{}, ok("done"))
	wantAnswer(t, w.send(ask{key: "K1", ctx: ctx}), 503, retryproof.CodeUnavailable)
	w.wantRuns(0)
	wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
}

func TestRequestThatIsTooOldRunsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{Arrived: func(*http.Request) time.Time { return start.Add(-6 * time.Second) }}, ok("done"))
	resp := w.send(ask{key: "K1"})
	if got := resp.Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After: got %q, want 1", got)
	}
	wantAnswer(t, resp, 503, retryproof.CodeTooLate)
	w.wantRuns(0)
}

// case 15
func TestRunningRequestAnswersItsRepeats(t *testing.T) {
	t.Parallel()
	var w *world
	w = newWorld(t, httpkey.Config{}, func(http.ResponseWriter, *http.Request) {
		busy := w.send(ask{key: "K1"})
		if got := busy.Header.Get("Retry-After"); got != "6" { // lease 5 s + margin 1 s
			t.Errorf("Retry-After: got %q, want 6", got)
		}
		wantAnswer(t, busy, 409, retryproof.CodeInProgress)
		wantAnswer(t, w.send(ask{key: "K1", body: `{"order_id":"42","amount":3500}`}), 422, retryproof.CodeKeyReused)
		at := w.clock.Now()
		waited := w.send(ask{key: "K1", header: http.Header{"Prefer": {"respond-async", `foo=","; bar, wait="2"`}}})
		if got, want := w.clock.Now().Sub(at), 2*time.Second; got < want || got > want+100*time.Millisecond {
			t.Errorf("waited %v, want %v", got, want)
		}
		if got := waited.Header.Get("Preference-Applied"); got != "wait=2" {
			t.Errorf("Preference-Applied: got %q, want wait=2", got)
		}
		wantAnswer(t, waited, 409, retryproof.CodeInProgress)
	})
	wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
	w.wantRuns(1)
}

// case 15
func TestRacingMeaningsHaveOneWinner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, ok("done"))
	for n := range 50 {
		var wg sync.WaitGroup
		got := make([]int, 8)
		for i := range got {
			wg.Go(func() {
				body := []string{`{"amount":3000}`, `{"amount":3500}`}[i%2]
				got[i] = w.send(ask{key: "K" + strings.Repeat("x", n), body: body}).StatusCode
			})
		}
		wg.Wait()
		for _, status := range got {
			if status != 200 && status != 409 && status != 422 {
				t.Errorf("got %d, want 200, 409 or 422", status)
			}
		}
	}
	w.wantRuns(50)
}

func TestWaitingRepeatGetsTheAnswer(t *testing.T) {
	t.Parallel()
	running, waiting, finish := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	store := lookHook{memory.New().Effects(), func() {
		select {
		case waiting <- struct{}{}:
			close(finish)
		default:
		}
		runtime.Gosched()
	}}
	w := newWorldOn(t, store, effect.Config{Deadline: 24 * time.Hour, AnswerTTL: 48 * time.Hour, MaxWait: 24 * time.Hour, PollEvery: time.Microsecond},
		httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
			close(running)
			<-finish
			_, _ = io.WriteString(rw, "done")
		})
	var wg sync.WaitGroup
	wg.Go(func() { w.send(ask{key: "K1"}) })
	<-running
	resp := w.send(ask{key: "K1", header: http.Header{"Prefer": {"wait=80000"}}})
	wg.Wait()
	if got := bodyOf(t, resp); got != "done" || resp.Header.Get(httpkey.HeaderReplayed) != "true" {
		t.Errorf("got %d %q, want the recorded answer", resp.StatusCode, got)
	}
	w.wantRuns(1)
}

// lookHook is told of every poll.
type lookHook struct {
	effect.Store
	hook func()
}

func (s lookHook) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	s.hook()
	return s.Store.Look(ctx, l)
}

// failing is a store whose settlements fail as often as told.
type failing struct {
	effect.Store
	beginErr, settleErr error
}

func (s *failing) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	if s.beginErr != nil {
		return effect.Seen{}, s.beginErr
	}
	return s.Store.Begin(ctx, b)
}

func (s *failing) Settle(ctx context.Context, b effect.Settle) (effect.Settled, error) {
	if s.settleErr != nil {
		return effect.Settled{}, s.settleErr
	}
	return s.Store.Settle(ctx, b)
}

func TestAnswerThatWasNotRecordedIsNotTold(t *testing.T) {
	t.Parallel()
	store := &failing{Store: memory.New().Effects(), settleErr: errors.New("connection lost")}
	w := newWorldOn(t, store, effect.Config{}, httpkey.Config{}, ok("charged"))
	resp := w.send(ask{key: "K1"})
	if resp.Header.Get("Retry-After") == "" {
		t.Error("Retry-After is missing")
	}
	wantAnswer(t, resp, 503, retryproof.CodeUnknown)
	store.settleErr = nil
	w.clock.Advance(time.Minute)
	wantAnswer(t, w.send(ask{key: "K1"}), 202, "")
	w.wantRuns(1)
}

func TestUnreachableRecordsRunNothing(t *testing.T) {
	t.Parallel()
	store := &failing{Store: memory.New().Effects(), beginErr: retryproof.Refused(retryproof.CodeReadOnly, "replica at db-3.internal", errors.New("dsn"))}
	w := newWorldOn(t, store, effect.Config{}, httpkey.Config{}, ok("charged"))
	resp := w.send(ask{key: "K1"})
	wantAnswer(t, resp, 503, retryproof.CodeUnavailable)
	if got := bodyOf(t, resp); strings.Contains(got, "internal") || strings.Contains(got, "dsn") {
		t.Errorf("the cause was shown: %s", got)
	}
	w.wantRuns(0)
	store.beginErr = nil
	wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
}

// case 4
func TestTrailersReachTheClientOfTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(rw, "body")
		rw.Header().Set("X-Sum", "7")
	})
	srv := httptest.NewServer(w.next)
	defer srv.Close()
	for _, want := range []string{"7", ""} {
		resp, err := srv.Client().Do(forServer(t, srv, ask{key: "K1"}))
		if err != nil {
			t.Fatal(err)
		}
		if got := bodyOf(t, resp); got != "body" {
			t.Errorf("got %q, want body", got)
		}
		_ = resp.Body.Close()
		if got := resp.Trailer.Get("X-Sum"); got != want {
			t.Errorf("trailer: got %q, want %q", got, want)
		}
	}
}
