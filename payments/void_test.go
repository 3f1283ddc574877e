package payments_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
)

// ask asks what became of a key.
func (w *world) ask(key string) answer {
	w.t.Helper()
	return w.send(ask{path: "/payments/resolve", key: key, body: " "})
}

func wantBodyState(t testing.TB, got answer, status int, state string) {
	t.Helper()
	if got.status != status || !strings.Contains(got.body, `"state":"`+state+`"`) {
		t.Errorf("got %d %s, want %d with state %s", got.status, got.body, status, state)
	}
}

// story D-void: a key that nothing is known of is voided, and a late original is
// refused forever, even when the key store has forgotten the key.
func TestALateOriginalOfAVoidedKeyIsRefusedForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storyConfig)
	wantBodyState(t, w.ask(keyK1), http.StatusOK, "VOID")
	for _, at := range []float64{12, 7200, 1e6, 1e8} {
		w.at(at)
		for range 2 {
			want(t, w.send(ask{key: keyK1}), http.StatusConflict, retryproof.CodeVoid)
			want(t, w.send(ask{key: keyK1, amount: 3500}), http.StatusConflict, retryproof.CodeVoid)
		}
		wantBodyState(t, w.ask(keyK1), http.StatusOK, "VOID")
		w.resolve(0)
		if _, err := w.system.TidyOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.wantCalls(0)
	w.wantOutbox(0)
	if a := w.audit(); a.ByState[effect.Void] != 1 || len(a.ByState) != 1 || a.ClaimsInProgress != 0 {
		t.Errorf("got %+v, want one VOID", a)
	}
	want(t, w.send(ask{key: keyK2}), http.StatusCreated, "") // another intent is another key
	// Another caller's key of the same name is another key.
	want(t, w.send(ask{key: keyK1, token: "t-u2"}), http.StatusCreated, "")
}

func TestWhatBecameOfAKeyIsToldInEveryState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		got := w.ask(keyK1)
		want(t, got, http.StatusConflict, retryproof.CodeInProgress)
		if got.header.Get("Retry-After") == "" {
			t.Error("in progress: no Retry-After")
		}
		_, _ = next(ctx, r)
		return psp.Charge{}, errNoAnswer
	})
	want(t, w.send(ask{key: keyK1}), http.StatusAccepted, "")
	w.psp.set(nil)
	got := w.ask(keyK1)
	wantBodyState(t, got, http.StatusAccepted, "PROCESSING")
	if location := got.header.Get("Location"); location != "/payments/"+string(idOf("u1", keyK1)) || got.header.Get("Retry-After") == "" {
		t.Errorf("got Location %q, Retry-After %q", location, got.header.Get("Retry-After"))
	}
	w.resolve(1)
	wantBodyState(t, w.ask(keyK1), http.StatusOK, "SUCCEEDED")
	w.clock.Advance(48 * time.Hour) // the claim has expired
	wantBodyState(t, w.ask(keyK1), http.StatusOK, "SUCCEEDED")
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.wantCharges(1)

	want(t, w.send(ask{path: "/payments/resolve", body: " "}), http.StatusBadRequest, retryproof.CodeKeyMissing)
	want(t, w.send(ask{path: "/payments/resolve", key: keyK2, token: "t-nobody", body: " "}), http.StatusUnauthorized, retryproof.CodeUnauthorized)
}

// An owner that vanished is not voided: its charge may exist.
func TestWhatAVanishedOwnerLeftIsNotVoided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	process, die := w.mortal()
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		_, _ = next(ctx, r)
		die()
		return psp.Charge{}, nil
	})
	dies(w, func() { sendTo(t, process, ask{key: keyK1}) })
	w.psp.set(nil)
	want(t, w.ask(keyK1), http.StatusConflict, retryproof.CodeInProgress)
	w.at(7)
	wantBodyState(t, w.ask(keyK1), http.StatusAccepted, "PROCESSING")
	w.resolve(1)
	wantBodyState(t, w.ask(keyK1), http.StatusOK, "SUCCEEDED")
	w.wantCharges(1)
}

// story D-race: of an original and a question at once exactly one wins, and both tell
// the same from then on.
func TestAnOriginalAndAQuestionAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rounds = 200
	voided := 0
	for round := range rounds {
		key := fmt.Sprintf("key-%d", round)
		var original, question answer
		var both sync.WaitGroup
		both.Go(func() { original = w.send(ask{key: key}) })
		both.Go(func() { question = w.ask(key) })
		both.Wait()
		later := w.ask(key)
		switch {
		case original.code == retryproof.CodeVoid:
			voided++
			wantBodyState(t, question, http.StatusOK, "VOID")
			wantBodyState(t, later, http.StatusOK, "VOID")
			want(t, w.send(ask{key: key}), http.StatusConflict, retryproof.CodeVoid)
		default:
			want(t, original, http.StatusCreated, "")
			if question.code != retryproof.CodeInProgress {
				wantBodyState(t, question, http.StatusOK, "SUCCEEDED")
			}
			wantBodyState(t, later, http.StatusOK, "SUCCEEDED")
			wantSame(t, w.send(ask{key: key}), original)
		}
	}
	w.wantCharges(rounds - voided)
	w.wantCalls(rounds - voided)
	if a := w.audit(); a.ByState[effect.Void] != int64(voided) || a.ByState[effect.Succeeded] != int64(rounds-voided) || a.ClaimsInProgress != 0 {
		t.Errorf("got %+v, want %d VOID of %d", a, voided, rounds)
	}
	t.Logf("%d of %d were voided", voided, rounds)
}

// A key that was voided before an order came with it says nothing of an order, whoever
// asks.
func TestAVoidedKeyHasNoOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOperators)
	want(t, w.ask(keyK1), http.StatusOK, "")
	id := string(idOf("u1", keyK1))
	if got := w.get("/payments/" + id); got.status != http.StatusOK || got.body != `{"id":"`+id+`","state":"VOID"}`+"\n" {
		t.Errorf("got %d %s, want the id and VOID", got.status, got.body)
	}
	got := w.asOperator(ask{method: http.MethodGet, path: operatorPath()})
	if got.status != http.StatusOK || strings.Contains(got.body, `"amount"`) || strings.Contains(got.body, `"order_id"`) || !strings.Contains(got.body, `"state":"VOID"`) {
		t.Errorf("an operator: got %d %s, want no order", got.status, got.body)
	}
}

func TestABalanceIsOfANameThatAMerchantCanHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, status := range map[string]int{"a%2fb": http.StatusOK, "%ff": http.StatusNotFound, "a%00b": http.StatusNotFound, strings.Repeat("m", 201): http.StatusNotFound} {
		if got := w.get("/merchants/" + path + "/balance"); got.status != status {
			t.Errorf("%s: got %d %s, want %d", path, got.status, got.body, status)
		}
	}
}
