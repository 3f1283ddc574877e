package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/web"
)

// askStory returns an answer of the handler and its decoded body.
func askStory(t *testing.T, v *storyView, query string) (*http.Response, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	v.run(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/story/run?"+query, nil))
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return w.Result(), body
}

func TestTheStoryIsPlayedWithItsTimeline(t *testing.T) {
	t.Parallel()
	v := newStoryView()
	for _, c := range []struct {
		query, id string
		charges   int
		total     float64
	}{
		{"", "main", 1, 3000},
		{"id=main&amount=4200&retry_at=2h", "main", 1, 4200},
		{"id=naive", "naive", 2, 6000},
	} {
		got, body := askStory(t, v, c.query)
		if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Content-Security-Policy") != web.Policy {
			t.Errorf("%s: got %d and %v", c.query, got.StatusCode, got.Header)
		}
		charges, _ := body["charges"].([]any)
		if body["id"] != c.id || body["ok"] != true || len(charges) != c.charges || body["charged_total"] != c.total {
			t.Errorf("%s: got %v, %v, %d charges, %v, want %s, true, %d, %v", c.query, body["id"], body["ok"], len(charges), body["charged_total"], c.id, c.charges, c.total)
		}
		lines, _ := body["lines"].([]any)
		actors, _ := body["actors"].([]any)
		if len(lines) == 0 || !slices.Contains(actors, any("phone")) {
			t.Errorf("%s: got %d lines of %v", c.query, len(lines), actors)
		}
	}
}

func TestABadQueryOfTheStoryIsToldWhatThereIs(t *testing.T) {
	t.Parallel()
	v := newStoryView()
	for _, c := range []struct {
		query  string
		status int
		detail string
	}{
		{"id=nothing", 400, "branch"},
		{"id=all", 400, "branch"},
		{"id=", 400, "branch"},
		{"id=F2", 400, "cannot be played yet"},
		{"colour=red", 400, `"colour"`},
		{"amount=-1", 400, "amount"},
		{"amount=", 400, "amount"},
		{"deadline=soon", 400, "deadline"},
		{"id=naive&client_timeout=500000", 400, "client_timeout is more than"},
		{"id=naive&queued_until=30h", 400, "queued_until is more than"},
		{"amount=1&amount=2", 400, "amount is given twice"},
		{"amount%3D7=1", 400, "parameter"},
		{"amount=%zz", 400, "malformed"},
		{"copy_at=20", 400, "copy_at < client_timeout"},
		{"amount=" + strings.Repeat("1", maxStoryQuery), 414, "2048"},
	} {
		got, body := askStory(t, v, c.query)
		detail, _ := body["detail"].(string)
		if got.StatusCode != c.status || got.Header.Get("Content-Type") != "application/problem+json" || body["status"] != float64(c.status) || !strings.Contains(detail, c.detail) {
			t.Errorf("%.40s: got %d, %s, %q, want %d and %q", c.query, got.StatusCode, got.Header.Get("Content-Type"), detail, c.status, c.detail)
		}
		branches, _ := body["branches"].([]any)
		parameters, _ := body["parameters"].([]any)
		if !slices.Contains(branches, any("main")) || slices.Contains(branches, any("F2")) || !slices.Contains(parameters, any("retry_at")) {
			t.Errorf("%.40s: it lists %v and %v", c.query, branches, parameters)
		}
	}
}

func TestOneRunOfTheStoryAtATime(t *testing.T) {
	t.Parallel()
	v := newStoryView()
	v.turn <- struct{}{} // somebody's run
	v.patience = time.Nanosecond
	got, body := askStory(t, v, "id=main")
	if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" || body["code"] != "too-many" {
		t.Errorf("while another runs: got %d, %v", got.StatusCode, body)
	}
	v.patience = time.Hour
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	v.run(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/story/run", nil))
	if w.Body.Len() > 0 {
		t.Errorf("a reader who left was answered %q", w.Body)
	}
	<-v.turn
	for range 2 {
		if got, _ := askStory(t, v, "id=main"); got.StatusCode != http.StatusOK {
			t.Errorf("afterwards: got %d, want 200", got.StatusCode)
		}
	}
}

func TestTheStoryIsServedBesideThePhone(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--store", "memory", "--queue", "memory")
	for path, want := range map[string]string{
		"/story":                    "text/html; charset=utf-8",
		"/story/branches":           "application/json",
		"/story/run?id=3d&seed=2":   "application/json",
		"/story/run?id=no-such-one": "application/problem+json",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if _ = answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if got := answer.Header.Get("Content-Type"); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
		if path != "/story/branches" {
			continue
		}
		var list struct {
			Branches []struct {
				ID       string
				Defaults map[string]string
			}
			Parameters []struct{ Name, Default string }
		}
		if err := json.Unmarshal(body, &list); err != nil || len(list.Parameters) < 20 {
			t.Errorf("%s: got %v and %d parameters", path, err, len(list.Parameters))
		}
		for _, b := range list.Branches {
			if b.ID == "W" && b.Defaults["webhook_at"] != "10.5" || b.ID == "main" && len(b.Defaults) > 0 {
				t.Errorf("defaults of %s: got %v", b.ID, b.Defaults)
			}
		}
	}
	s.stop()
}
