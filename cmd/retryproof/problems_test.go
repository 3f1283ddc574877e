package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/retryproof/retryproof/httpkey"
)

func TestEveryRefusalIsAProblemDocument(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	writeFile(t, tokens, `{"0123456789abcdef":"ann"}`)
	demo := serve(t, t.TempDir(), "--store", "memory", "--queue", "memory")
	own := serve(t, t.TempDir(), "--store", "memory", "--queue", "memory", "--tokens", tokens)
	for _, c := range []struct {
		s            *served
		method, path string
		body         string
		status       int
		code, allow  string
	}{
		{demo, "GET", "/nope", "", 404, "not-found", ""},
		{demo, "DELETE", "/nope", "", 404, "not-found", ""},
		{demo, "POST", "/phone.js", "", 405, "method-not-allowed", "GET, HEAD"},
		{own, "GET", "/nope", "", 404, "not-found", ""},
		{own, "GET", "/", "", 404, "not-found", ""},
		{own, "POST", "/metrics", "", 405, "method-not-allowed", "GET, HEAD"},
		{demo, "POST", "/metrics", "", 405, "method-not-allowed", "GET, HEAD"},
		{demo, "POST", "/", "", 405, "method-not-allowed", "GET, HEAD"},
		{demo, "DELETE", "/payments", "", 405, "method-not-allowed", "POST"},
		{demo, "DELETE", "/story/run", "", 405, "method-not-allowed", "GET, HEAD"},
		{demo, "DELETE", "/phone/faults", "", 405, "method-not-allowed", "GET, HEAD, POST"},
		{demo, "POST", "/phone/faults", `{"smoke":true}`, 400, "invalid", ""},
		{demo, "POST", "/phone/faults", `{} {}`, 400, "invalid", ""},
		{demo, "POST", "/phone/screen?to=u1", "", 405, "method-not-allowed", "GET, HEAD"},
		{demo, "GET", "/phone/screen?to=", "", 400, "invalid", ""},
		{demo, "GET", "/outside/push/nope", "", 404, "not-found", ""},
		{demo, "GET", "/outside/push", "", 404, "not-found", ""},
		{demo, "PUT", "/outside/push/send", "", 405, "method-not-allowed", "POST"},
		{demo, "POST", "/outside/push/send", `{"to":""}`, 400, "invalid", ""},
		{demo, "POST", "/outside/push/_emulator/faults", `{"kind":"mischief"}`, 400, "invalid", ""},
		{demo, "GET", "/outside/psp/_emulator/nope", "", 404, "not-found", ""},
		{demo, "GET", "//payments", "", 404, "not-found", ""},
		{demo, "POST", "/payments/../payments", "", 404, "not-found", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.s.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer demo-u1")
		resp, err := http.DefaultTransport.RoundTrip(r) // no redirect is followed
		if err != nil {
			t.Fatal(err)
		}
		var p httpkey.Problem
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
		}
		_ = resp.Body.Close()
		kind, allow := resp.Header.Get("Content-Type"), resp.Header.Get("Allow")
		if resp.StatusCode != c.status || p.Status != c.status || string(p.Code) != c.code || kind != httpkey.ProblemType || allow != c.allow || p.Type != httpkey.ProblemBase+c.code {
			t.Errorf("%s %s: got %d %s %v, Allow %q, want %d %s, Allow %q", c.method, c.path, resp.StatusCode, kind, p, allow, c.status, c.code, c.allow)
		}
	}
	if got := demo.do("POST", "/outside/push/_emulator/faults", "", "", `{"kind":"refuse"}`); got.status != http.StatusCreated {
		t.Errorf("a fault without a Content-Type: got %+v, want 201", got)
	}
	demo.stop()
	own.stop()
}

func TestAPageFromElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--store", "memory", "--queue", "memory")
	for _, c := range []struct {
		method string
		header []string
		want   int
	}{
		{"GET", nil, 200},
		{"GET", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, 200},
		{"GET", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, 200},
		{"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200}, // a link
		{"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, 403},
		{"POST", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403}, // a form
		{"GET", []string{"Origin", "https://evil.example"}, 403},
		{"GET", []string{"Origin", "null"}, 403},
		{"GET", []string{"Origin", s.url}, 200},
		{"GET", []string{"Host", "evil.example"}, 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, s.url+"/phone/faults", strings.NewReader(`{"lose_psp_reply":false,"slow":false}`))
		if err != nil {
			t.Fatal(err)
		}
		for pair := range slices.Chunk(c.header, 2) {
			if r.Header.Set(pair[0], pair[1]); pair[0] == "Host" {
				r.Host = pair[1]
			}
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want || c.want == 403 && resp.Header.Get("Content-Type") != httpkey.ProblemType {
			t.Errorf("%s with %v: got %d %s, want %d", c.method, c.header, resp.StatusCode, resp.Header.Get("Content-Type"), c.want)
		}
	}
	s.stop()
}
