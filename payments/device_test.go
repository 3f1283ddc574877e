package payments_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

func numbered(key, device, action string) ask {
	a := ask{key: key, header: http.Header{}}
	if device != "" {
		a.header.Set("Device-Id", device)
	}
	if action != "" {
		a.header.Set("Device-Action", action)
	}
	return a
}

func (w *world) lastAction(device, token string) answer {
	w.t.Helper()
	return w.send(ask{method: http.MethodGet, path: "/devices/" + device + "/last-action", token: token})
}

// An app that lost its journal learns what it did last before it lets its user act
// again (mission C6).
func TestAReinstalledAppLearnsItsLastAcceptedAction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want(t, w.lastAction("D1", ""), http.StatusNotFound, retryproof.CodeNotFound)
	want(t, w.send(numbered(keyK1, "D1", "41")), http.StatusCreated, "")
	want(t, w.send(numbered(keyK2, "D1", "42")), http.StatusCreated, "")
	want(t, w.send(numbered(keyK1, "D1", "41")), http.StatusCreated, "") // a late copy
	w.wantLast(42, 42, keyK2, "SUCCEEDED")
	want(t, w.lastAction("D1", "t-u2"), http.StatusNotFound, retryproof.CodeNotFound) // another caller's D1
	want(t, w.lastAction("D1", "nobody"), http.StatusUnauthorized, retryproof.CodeUnauthorized)
}

// A late original with an older number still runs: its key decides, not its number.
func TestAnOlderActionRunsAndIsNotTheLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want(t, w.send(numbered(keyK2, "D1", "42")), http.StatusCreated, "")
	want(t, w.send(numbered(keyK1, "D1", "41")), http.StatusCreated, "")
	w.wantCharges(2)
	w.wantLast(42, 42, keyK2, "SUCCEEDED")
}

// A number stays used, even when a later one was used since.
func TestAnOlderNumberIsNotUsedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want(t, w.send(numbered(keyK1, "D1", "41")), http.StatusCreated, "")
	want(t, w.send(numbered(keyK2, "D1", "42")), http.StatusCreated, "")
	want(t, w.send(numbered("another", "D1", "41")), http.StatusBadRequest, retryproof.CodeInvalid)
	want(t, w.send(numbered("another", "D2", "41")), http.StatusCreated, "") // another counter
	w.wantCharges(3)
	w.wantLast(42, 42, keyK2, "SUCCEEDED")
}

// refuseAll lets the processor take no request whose payment is of one of the keys.
func (w *world) refuseAll(keys ...string) {
	w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
		for _, key := range keys {
			if r.Reference == string(idOf("u1", key)) {
				return psp.Charge{}, retryproof.Refused(retryproof.CodeUnavailable, "connection refused", nil)
			}
		}
		return next(ctx, r)
	})
}

// An action that came to nothing does not hide the one before it.
func TestAnActionThatWasNotSentIsNotTheLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want(t, w.send(numbered(keyK1, "D1", "41")), http.StatusCreated, "")
	w.refuseAll(keyK2)
	for range 2 {
		want(t, w.send(numbered(keyK2, "D1", "42")), http.StatusServiceUnavailable, retryproof.CodeUnavailable)
		w.wantLast(41, 42, keyK1, "SUCCEEDED")
	}
	w.psp.set(nil)
	want(t, w.send(numbered("another", "D1", "42")), http.StatusBadRequest, retryproof.CodeInvalid)
	w.wantLast(41, 42, keyK1, "SUCCEEDED")
	want(t, w.send(numbered(keyK2, "D1", "42")), http.StatusCreated, "")
	w.wantLast(42, 42, keyK2, "SUCCEEDED")
	w.wantCharges(2)
}

// What was voided never happened and hides nothing; what was declined did.
func TestAVoidedActionIsNotTheLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want(t, w.send(numbered(keyK1, "D1", "41")), http.StatusCreated, "")
	w.refuseAll(keyK2)
	want(t, w.send(numbered(keyK2, "D1", "42")), http.StatusServiceUnavailable, retryproof.CodeUnavailable)
	wantBodyState(t, w.ask(keyK2), http.StatusOK, "VOID")
	w.wantLast(41, 42, keyK1, "SUCCEEDED")
	w.psp.set(nil)
	w.fault(pspemulator.Fault{Do: pspemulator.Decline})
	want(t, w.send(numbered("another", "D1", "43")), http.StatusPaymentRequired, "")
	w.wantLast(43, 43, "another", "FAILED")
}

// However many actions came to nothing, the one before them is found; and where none
// led to a payment the counter is known.
func TestActionsThatCameToNothingLeaveTheCounter(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 19, 20, 21, 40, 41} {
		w := newWorld(t)
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprint("refused-", i))
		}
		w.refuseAll(keys...)
		for i, key := range keys {
			want(t, w.send(numbered(key, "D1", fmt.Sprint(5+i))), http.StatusServiceUnavailable, retryproof.CodeUnavailable)
		}
		got := w.lastAction("D1", "")
		want(t, got, http.StatusOK, "")
		if text := fmt.Sprintf(`{"device":"D1","action":null,"counter":%d,"accepted_at":null,"payment":null}`, 4+n); strings.TrimSpace(got.body) != text {
			t.Errorf("%d: got %s, want %s", n, got.body, text)
		}
		want(t, w.lastAction("D1", "t-u2"), http.StatusNotFound, retryproof.CodeNotFound)
		w.wantCharges(0)
		want(t, w.send(numbered(keyK1, "D1", "4")), http.StatusCreated, "")
		w.wantLast(4, int64(4+n), keyK1, "SUCCEEDED")
	}
}

// Two actions of one device at once: whichever is refused, while the other is worked on
// or after it, the other is the last.
func TestOfTwoActionsAtOnceTheOneThatStaysIsTheLast(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{keyK1, keyK2} {
		w := newWorld(t)
		numbers := map[string]int64{keyK1: 41, keyK2: 42}
		stays := keyK1
		if refused == keyK1 {
			stays = keyK2
		}
		w.psp.set(func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
			if r.Reference != string(idOf("u1", stays)) {
				return psp.Charge{}, retryproof.Refused(retryproof.CodeUnavailable, "connection refused", nil)
			}
			want(t, w.send(numbered(refused, "D1", fmt.Sprint(numbers[refused]))), http.StatusServiceUnavailable, retryproof.CodeUnavailable)
			w.wantLast(numbers[stays], max(numbers[stays], numbers[refused]), stays, "PROCESSING")
			return next(ctx, r)
		})
		want(t, w.send(numbered(stays, "D1", fmt.Sprint(numbers[stays]))), http.StatusCreated, "")
		w.wantLast(numbers[stays], 42, stays, "SUCCEEDED")
	}
}

// While many actions of one device come to nothing and many are paid, the answer is
// never behind what was paid before the question.
func TestLastActionNeverGoesBackUnderConcurrency(t *testing.T) {
	t.Parallel()
	const n = 24
	w := newWorld(t)
	var keys, refused []string
	for i := range n {
		keys = append(keys, fmt.Sprint("key-", i))
		if i%3 != 0 {
			refused = append(refused, keys[i])
		}
	}
	w.refuseAll(refused...)
	var paid atomic.Int64 // the highest number that was answered 201
	var wg sync.WaitGroup
	for sender := range 2 {
		wg.Go(func() {
			for i := sender; i < n; i += 2 {
				if w.send(numbered(keys[i], "D1", fmt.Sprint(1+i))).status == http.StatusCreated {
					for have := paid.Load(); have < int64(1+i) && !paid.CompareAndSwap(have, int64(1+i)); have = paid.Load() {
					}
				}
			}
		})
	}
	wg.Go(func() {
		for range 4 * n {
			least := paid.Load()
			got, body := w.lastAction("D1", ""), lastBody{}
			if err := json.Unmarshal([]byte(got.body), &body); err != nil || body.Action < least || body.Counter < body.Action {
				t.Errorf("got %s, want at least action %d", got.body, least)
			}
		}
	})
	wg.Wait()
	w.wantLast(22, n, "key-21", "SUCCEEDED")
	w.wantCharges(n / 3)
}

type lastBody struct {
	Action, Counter int64
	AcceptedAt      time.Time `json:"accepted_at"`
	Payment         struct{ ID, State string }
}

// wantLast checks the last action of u1's D1.
func (w *world) wantLast(action, counter int64, key, state string) {
	w.t.Helper()
	got, body := w.lastAction("D1", ""), lastBody{}
	want(w.t, got, http.StatusOK, "")
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		w.t.Fatal(err)
	}
	if body.Action != action || body.Counter != counter || body.Payment.ID != string(idOf("u1", key)) || body.Payment.State != state || !body.AcceptedAt.Equal(start) {
		w.t.Errorf("got %s, want action %d with the payment of %s, %s, at %s, and counter %d", got.body, action, key, state, start, counter)
	}
}

func TestANumberUsedTwiceRunsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want(t, w.send(numbered(keyK1, "D1", "41")), http.StatusCreated, "")
	want(t, w.send(numbered(keyK2, "D1", "41")), http.StatusBadRequest, retryproof.CodeInvalid)
	w.wantCharges(1)
	want(t, w.send(numbered(keyK2, "D1", "42")), http.StatusCreated, "") // the key was let go
	w.wantState(keyK2, effect.Succeeded)
}

func TestBrokenDeviceHeadersAreRefusedBeforeAnythingIsClaimed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, bad := range []ask{numbered(keyK1, "D1", ""), numbered(keyK1, "", "41"), numbered(keyK1, "D1", "0"), numbered(keyK1, "D1", "-1"),
		numbered(keyK1, "D1", "041"), numbered(keyK1, "D1", "x"), numbered(keyK1, "D 1", "1"), numbered(keyK1, strings.Repeat("D", 65), "1"),
		numbered(keyK1, "D1", "9223372036854775808")} {
		want(t, w.send(bad), http.StatusBadRequest, retryproof.CodeInvalid)
	}
	if seen := w.recorded("u1", keyK1); seen.Claim != nil || seen.Guard != nil {
		t.Errorf("got %+v, want nothing recorded", seen)
	}
}

// A request that is refused for its key leaves no number behind it: the last action stays
// the last, and the number can be used by the corrected request.
func TestARefusedRequestUsesNoNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want(t, w.send(numbered(keyK1, "D1", "1")), http.StatusCreated, "")
	want(t, w.send(numbered(keyK2, "D1", "2")), http.StatusCreated, "")
	reused := numbered(keyK1, "D1", "3")
	reused.amount = 3500
	want(t, w.send(reused), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
	want(t, w.send(numbered(keyK1, "D1", "3")), http.StatusCreated, "") // a repeat under another number
	if got := w.lastAction("D1", ""); !strings.Contains(got.body, `"action":2`) || !strings.Contains(got.body, string(idOf("u1", keyK2))) {
		t.Errorf("got %s, want action 2", got.body)
	}
	want(t, w.send(numbered("another-key", "D1", "3")), http.StatusCreated, "")
	if got := w.lastAction("D1", ""); !strings.Contains(got.body, `"action":3`) {
		t.Errorf("got %s, want action 3", got.body)
	}
}
