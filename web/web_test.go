package web_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/web"
)

var served = map[string]string{
	"/":                 "text/html; charset=utf-8",
	"/story":            "text/html; charset=utf-8",
	"/page.css":         "text/css; charset=utf-8",
	"/phone.css":        "text/css; charset=utf-8",
	"/story.css":        "text/css; charset=utf-8",
	"/phone.js":         "text/javascript; charset=utf-8",
	"/view.js":          "text/javascript; charset=utf-8",
	"/words.js":         "text/javascript; charset=utf-8",
	"/trouble.js":       "text/javascript; charset=utf-8",
	"/story.js":         "text/javascript; charset=utf-8",
	"/storyline.js":     "text/javascript; charset=utf-8",
	"/diagram.js":       "text/javascript; charset=utf-8",
	"/tables.js":        "text/javascript; charset=utf-8",
	"/icon.svg":         "image/svg+xml",
	"/js/retryproof.js": "text/javascript; charset=utf-8",
}

func ask(t *testing.T, h http.Handler, method, path string, header http.Header) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	data, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(data)
}

func TestEveryFileHasItsTypeAndTheStrictPolicy(t *testing.T) {
	t.Parallel()
	h := web.Handler(web.Config{})
	for path, kind := range served {
		got, body := ask(t, h, "GET", path, nil)
		if got.StatusCode != 200 || body == "" || got.Header.Get("Content-Type") != kind {
			t.Errorf("%s: %d %s, want 200 %s", path, got.StatusCode, got.Header.Get("Content-Type"), kind)
		}
		if got.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: Cache-Control %q", path, got.Header.Get("Cache-Control"))
		}
	}
	for _, path := range []string{"/", "/phone.js", "/nothing", "/static/", "/../web.go", "/js/"} {
		got, _ := ask(t, h, "GET", path, nil)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s: %s = %q, want %q", path, name, got.Header.Get(name), want)
			}
		}
		if _, ok := served[path]; !ok && got.StatusCode != 404 {
			t.Errorf("%s: %d, want 404", path, got.StatusCode)
		}
	}
}

func TestAFileIsSentAgainOnlyWhenItChanged(t *testing.T) {
	t.Parallel()
	h := web.Handler(web.Config{MaxAge: time.Minute})
	got, _ := ask(t, h, "GET", "/phone.js", nil)
	etag := got.Header.Get("ETag")
	if etag == "" || got.Header.Get("Cache-Control") != "max-age=60" {
		t.Fatalf("headers = %v, want an ETag and max-age=60", got.Header)
	}
	got, body := ask(t, h, "GET", "/phone.js", http.Header{"If-None-Match": {etag}})
	if got.StatusCode != 304 || body != "" {
		t.Errorf("with the ETag: %d and %d bytes, want 304 and none", got.StatusCode, len(body))
	}
	if got, _ := ask(t, h, "GET", "/view.js", http.Header{"If-None-Match": {etag}}); got.StatusCode != 200 {
		t.Errorf("another file with that ETag: %d, want 200", got.StatusCode)
	}
}

func TestOnlyReadingIsAllowed(t *testing.T) {
	t.Parallel()
	h := web.Handler(web.Config{})
	got, _ := ask(t, h, "POST", "/", nil)
	if got.StatusCode != 405 || got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, Allow %q", got.StatusCode, got.Header.Get("Allow"))
	}
	if got, body := ask(t, h, "HEAD", "/", nil); got.StatusCode != 200 || body != "" {
		t.Errorf("HEAD: %d with %d bytes, want 200 and none", got.StatusCode, len(body))
	}
}

// pages are what each page loads, itself included, and the bytes that it may have.
var pages = map[string]struct {
	most  int
	loads []string
}{
	"/":      {84_000, []string{"/page.css", "/phone.css", "/phone.js", "/view.js", "/words.js", "/trouble.js", "/icon.svg", "/js/retryproof.js"}},
	"/story": {44_000, []string{"/page.css", "/story.css", "/story.js", "/storyline.js", "/diagram.js", "/tables.js", "/icon.svg"}},
}

func TestThePagesAreSmallAndLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	h := web.Handler(web.Config{})
	loads := regexp.MustCompile(`(?:(?:href|src)="|from '|import ')(/[a-z/]*[a-z]\.[a-z]+)["']`)
	for page, want := range pages {
		seen := map[string]string{}
		queue := []string{page}
		for len(queue) > 0 {
			path := queue[0]
			queue = queue[1:]
			if _, ok := seen[path]; ok {
				continue
			}
			_, seen[path] = ask(t, h, "GET", path, nil)
			for _, m := range loads.FindAllStringSubmatch(seen[path], -1) {
				queue = append(queue, m[1])
			}
		}
		total := 0
		for _, body := range seen {
			total += len(body)
		}
		if total >= want.most {
			t.Errorf("%s is %d bytes in all, want less than %d", page, total, want.most)
		}
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(seen)), func(path string) bool { return path == page })
		if slices.Sort(want.loads); !slices.Equal(got, want.loads) {
			t.Errorf("%s loads %v, want %v", page, got, want.loads)
		}
	}
}

func TestNothingIsInlineOrNamesAnotherSite(t *testing.T) {
	t.Parallel()
	h := web.Handler(web.Config{})
	outside := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9-]+\.[a-z]`)
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script(?:[^>]*)>[^<]`)
	for path, kind := range served {
		_, body := ask(t, h, "GET", path, nil)
		if found := outside.FindString(strings.ReplaceAll(body, "http://www.w3.org/2000/svg", "")); found != "" {
			t.Errorf("%s names another site: %q", path, found)
		}
		if found := inline.FindString(body); found != "" && strings.HasPrefix(kind, "text/html") {
			t.Errorf("%s has something inline: %q", path, found)
		}
	}
}
