package payments_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
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
	got := w.lastAction("D1", "")
	want(t, got, http.StatusOK, "")
	for _, text := range []string{`"action":42`, string(idOf("u1", keyK2)), `"state":"SUCCEEDED"`} {
		if !strings.Contains(got.body, text) {
			t.Errorf("got %s, want %s in it", got.body, text)
		}
	}
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
	if got := w.lastAction("D1", ""); !strings.Contains(got.body, `"action":42`) {
		t.Errorf("got %s, want action 42", got.body)
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
