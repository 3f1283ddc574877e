package payments_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/psp"
)

// case 15: fresh keys, each raced with two amounts: one charge a key, and the
// losers are refused without a call.
func TestTwoAmountsRaceForOneKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const keys = 50
	var racers sync.WaitGroup
	answers := make([][2]answer, keys)
	for i := range keys {
		for side, amount := range []int64{3000, 3500} {
			racers.Go(func() { answers[i][side] = w.send(ask{key: fmt.Sprintf("race-%d", i), amount: amount}) })
		}
	}
	racers.Wait()
	for i, pair := range answers {
		won := 0
		for _, a := range pair {
			switch {
			case a.status == http.StatusCreated:
				won++
			case a.status != http.StatusUnprocessableEntity && a.status != http.StatusConflict:
				t.Errorf("key %d: got %d %s, want 201, 409 or 422", i, a.status, a.body)
			}
		}
		if won != 1 {
			t.Errorf("key %d: %d winners, want 1", i, won)
		}
	}
	w.wantCharges(keys)
	w.wantCalls(keys)
	if a := w.audit(); a.ByState[effect.Succeeded] != keys || a.ClaimsInProgress != 0 {
		t.Errorf("got %+v, want %d payments", a, keys)
	}
}

// attempt serves one request in a goroutine of its own and reports how it ended.
func attempt(w *world, a ask) (got answer, panicked any, exited bool) {
	done := make(chan struct{})
	exited = true
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				panicked, exited = p, false
			}
		}()
		rec := httptest.NewRecorder()
		w.system.Handler().ServeHTTP(rec, a.request())
		got, exited = read(w.t, rec.Result()), false
	}()
	<-done
	return got, panicked, exited
}

// case 5: what goes wrong after the charge frees no key.
func TestWhatFailsAfterTheChargeNeverChargesAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		fail func() error
	}{
		{"an error", func() error { return errors.New("the output could not be checked") }},
		{"a panic", func() error { panic("a nil map") }},
		{"an aborted handler", func() error { panic(http.ErrAbortHandler) }},
		{"Goexit", func() error { runtime.Goexit(); return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
				if _, err := next(ctx, r); err != nil {
					t.Error(err)
				}
				return psp.Charge{}, c.fail()
			})
			got, panicked, exited := attempt(w, ask{key: keyK1})
			if cause, _ := panicked.(error); c.name == "an aborted handler" && !errors.Is(cause, http.ErrAbortHandler) {
				t.Errorf("the abort was swallowed: got %v", panicked)
			}
			if c.name == "Goexit" != exited {
				t.Errorf("exited: got %v", exited)
			}
			if c.name == "an error" {
				want(t, got, http.StatusAccepted, "")
			}
			w.psp.set(nil)
			w.at(1)
			if got := w.send(ask{key: keyK1}); got.status != http.StatusAccepted && got.status != http.StatusConflict {
				t.Errorf("at 1 s: got %d %s, want 202 or 409", got.status, got.body)
			}
			w.at(7)
			w.resolve(1)
			want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
			w.at(20)
			want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
			w.wantState(keyK1, effect.Succeeded)
			w.wantCharges(1)
			w.deliver()
			w.wantBalance(15_000)
		})
	}
}

// case 5: the ledger cannot take the outcome; the sweep settles it.
func TestAnOutcomeThatCannotBeRecordedIsSwept(t *testing.T) {
	t.Parallel()
	broken := true
	w := newWorld(t, func(w *world) {
		w.deps.Store.Effects = effects{Store: w.deps.Store.Effects, before: func(op string) error {
			if broken && op == "settle" {
				return errors.New("connection reset")
			}
			return nil
		}}
	})
	got := w.send(ask{key: keyK1})
	want(t, got, http.StatusServiceUnavailable, retryproof.CodeUnknown)
	if got.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	broken = false
	want(t, w.send(ask{key: keyK1}), http.StatusConflict, retryproof.CodeInProgress)
	w.at(7)
	w.resolve(1)
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.wantCharges(1)
	w.wantOutbox(1)
}

// case 5: the COMMIT of the settlement landed and its answer was lost.
func TestALostCommitAnswerSettlesOnce(t *testing.T) {
	t.Parallel()
	lose := true
	w := newWorld(t, func(w *world) {
		w.deps.Store.Effects = effects{Store: w.deps.Store.Effects, after: func(op string) error {
			if op == "settle" && lose {
				lose = false
				return errors.New("connection reset")
			}
			return nil
		}}
	})
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.wantMetric("retryproof_effects_total what=fenced", 0)
	w.wantOutbox(1)
	w.wantCharges(1)
	w.wantMetric("retryproof_effects_total what=lost_commit", 1)
}

// case 8: the phone hangs up 0.1 s after it has sent; the payment goes on.
func TestABuyerWhoHangsUpStopsNothing(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("reply lost=%v", lost), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.at(0.02)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
				w.at(0.1)
				hangUp()
				w.at(0.28)
				c, err := next(ctx, r)
				if ctx.Err() != nil {
					t.Errorf("the call was given up with the buyer: %v", context.Cause(ctx))
				}
				if lost {
					return psp.Charge{}, w.hang(ctx)
				}
				w.at(0.54)
				return c, err
			})
			w.send(ask{key: keyK1, ctx: ctx})
			w.psp.set(w.roundTrip)
			if lost {
				w.wantTime(5.02)
				w.wantState(keyK1, effect.Unknown)
				w.at(11)
				w.resolve(1)
				w.wantTime(11.52)
			}
			w.wantState(keyK1, effect.Succeeded)
			w.wantOutbox(1)
			want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
			w.wantCharges(1)
			if a := w.audit(); a.ByState[effect.Pending] != 0 || a.ClaimsInProgress != 0 {
				t.Errorf("got %+v, want nothing pending", a)
			}
		})
	}
}

// case 8: a server that is told to stop lets a payment finish.
func TestShutdownWaitsForAPayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := httptest.NewServer(w.system.Handler())
	defer server.Close()
	calling, stopping := make(chan struct{}), make(chan struct{})
	server.Config.RegisterOnShutdown(func() { close(stopping) })
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		close(calling)
		<-stopping
		return next(ctx, r)
	})
	stopped := make(chan error, 1)
	go func() {
		<-calling
		stopped <- server.Config.Shutdown(context.WithoutCancel(t.Context()))
	}()
	a := ask{key: keyK1}.request()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/payments", a.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = a.Header
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	want(t, read(t, resp), http.StatusCreated, "")
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	w.wantState(keyK1, effect.Succeeded)
	w.wantOutbox(1)
}

// direct is a way to a handler without a network.
type direct struct{ h http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	d.h.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// case 27: the client keeps its key through 202 until the answer is definite.
func TestOurClientKeepsItsKeyUntilTheAnswerIsDefinite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var keys []string
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get(httpkey.HeaderKey))
		if len(keys) == 3 {
			w.psp.set(nil)
			w.resolve(1)
		}
		w.system.Handler().ServeHTTP(rw, r)
	})
	transport, err := httpkey.NewTransport(httpkey.ClientConfig{Base: direct{handler}, Clock: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	w.psp.set(w.silence)
	r := ask{}.request()
	r.RequestURI = ""
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	want(t, read(t, resp), http.StatusCreated, "")
	if len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
		t.Errorf("keys: got %d sends with %d different keys, want 3 sends with one key", len(keys), len(map[string]bool{keys[0]: true, keys[len(keys)-1]: true}))
	}
	w.wantCharges(1)
}

// case 19: of two resolvers with one list, one acts.
func TestTwoResolversWithOneListSettleOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.psp.set(w.silence)
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	second := w.process(w.deps)
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		w.psp.set(nil)
		w.clock.Advance(16*time.Second + time.Millisecond) // the first one's lease and the margin end meanwhile
		if n, err := second.ResolveOnce(t.Context()); n != 1 || err != nil {
			t.Errorf("the second resolver: got %d, %v, want 1", n, err)
		}
		return next(ctx, r)
	})
	w.resolve(0)
	w.wantMetric("retryproof_resolver_total what=overtaken", 1)
	w.wantMetric("retryproof_resolver_total what=settled", 1)
	w.wantOutbox(1)
	w.wantCharges(1)
}
