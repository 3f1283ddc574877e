// Package web serves two pages. The phone: a phone that pays, its journal, the
// troubles that a network can have, and the hops of the last payment as they see
// it. The story: one payment, retried at every hop, as a sequence diagram to step
// through. Everything is embedded; the pages load nothing from elsewhere.
//
// The pages show no secret and need none: their buyers are demonstration users.
// They expect their API on the same origin; README.md lists what they call.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/retryproof/retryproof/js"
)

// Policy is the Content-Security-Policy of every answer: nothing inline, nothing
// from elsewhere, no frame around the page and no form that leaves it.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed static
var static embed.FS

// Config sets up the handler; the zero value works.
type Config struct {
	// MaxAge is for how long a browser may use a file without asking again. After
	// it, and always with 0, the browser asks with the file's ETag. Defaults to 0.
	MaxAge time.Duration
}

type file struct {
	name, etag, kind string
	data             []byte
}

// Handler serves the phone at "/", the story at "/story", their files beside them,
// and the browser client at "/js/retryproof.js". Any other path is 404, any method but GET and HEAD 405.
func Handler(config Config) http.Handler {
	files := load()
	cache := "no-cache"
	if seconds := int64(config.MaxAge / time.Second); seconds > 0 {
		cache = "max-age=" + strconv.FormatInt(seconds, 10)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", Policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		f, ok := files[r.URL.Path]
		switch {
		case !ok:
			http.Error(w, "404 there is no such page", http.StatusNotFound)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "405 only GET is allowed here", http.StatusMethodNotAllowed)
			return
		}
		h.Set("Content-Type", f.kind)
		h.Set("Cache-Control", cache)
		h.Set("ETag", f.etag)
		http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.data))
	})
}

// load reads the embedded files by the path under which they are served.
func load() map[string]file {
	files := map[string]file{}
	add := func(at string, from fs.FS, name string) {
		data, err := fs.ReadFile(from, name)
		if err != nil {
			panic("web: an embedded file is missing: " + err.Error()) // the build embeds it
		}
		sum := sha256.Sum256(data)
		files[at] = file{name: path.Base(name), etag: `"` + hex.EncodeToString(sum[:16]) + `"`, kind: kindOf(name), data: data}
	}
	entries, err := static.ReadDir("static")
	if err != nil {
		panic("web: " + err.Error())
	}
	for _, e := range entries {
		at := "/" + e.Name()
		switch e.Name() {
		case "index.html":
			at = "/"
		case "story.html":
			at = "/story"
		}
		add(at, static, "static/"+e.Name())
	}
	add("/js/retryproof.js", js.Files, "retryproof.js")
	return files
}

// kindOf does not ask the machine's own table of types, which differs.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}
