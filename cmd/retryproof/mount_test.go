package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A phone shows what was bought: each buyer sees their own and nobody else's.
func TestAScreenIsItsOwnersOnly(t *testing.T) {
	t.Parallel()
	h := demoTokens().ownScreen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "screen of "+r.URL.Query().Get("to")) // a recorder takes everything
	}))
	for _, c := range []struct {
		auth, to string
		status   int
		want     string
	}{
		{"Bearer demo-u1", "u1", 200, "screen of u1"},
		{"bearer  demo-u2", "u2", 200, "screen of u2"},
		{"Bearer demo-u1", "u2", 403, `"code":"forbidden"`},
		{"Bearer demo-operator", "u1", 401, `"code":"unauthorized"`},
		{"Bearer nobody", "nobody", 401, `"code":"unauthorized"`},
		{"Basic demo-u1", "u1", 401, `"code":"unauthorized"`},
		{"", "u1", 401, `"code":"unauthorized"`},
		{"", "", 401, `"code":"unauthorized"`},
	} {
		r := httptest.NewRequest(http.MethodGet, "/phone/screen?to="+c.to, nil)
		r.Header.Set("Authorization", c.auth)
		got := httptest.NewRecorder()
		h.ServeHTTP(got, r)
		if got.Code != c.status || !strings.Contains(got.Body.String(), c.want) {
			t.Errorf("%q asks for %q: got %d %s, want %d with %s", c.auth, c.to, got.Code, got.Body, c.status, c.want)
		}
		if challenge := got.Header().Get("WWW-Authenticate"); (challenge != "") != (c.status == http.StatusUnauthorized) {
			t.Errorf("%q asks for %q: got challenge %q with status %d", c.auth, c.to, challenge, got.Code)
		}
	}
}
