package main

import (
	"net/http"
	"path"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
)

// onlyCleanPaths refuses a path that the multiplexer would redirect to another one: a
// redirect is no answer that a program of this API knows.
func onlyCleanPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; p != "/" && (!strings.HasPrefix(p, "/") || path.Clean(p) != strings.TrimSuffix(p, "/")) {
			refuse(w, retryproof.CodeNotFound, "there is no such endpoint")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// either serves paths that the multiplexer has, with whatever method, and leaves the
// others to the pages, when there are some.
func either(mux *http.ServeMux, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has := pages == nil
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			if has {
				break
			}
			_, pattern := mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host})
			has = pattern != ""
		}
		if has {
			mux.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// inProblems makes problem documents of what a multiplexer, or the pages' handler,
// says in plain text: no such path, no such method, and a redirect to another path.
func inProblems(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&plainRefusals{ResponseWriter: w}, r)
	})
}

// plainRefusals replaces refusals. What else is answered passes.
type plainRefusals struct {
	http.ResponseWriter
	begun, replaced bool
}

// Unwrap is for http.ResponseController.
func (p *plainRefusals) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (p *plainRefusals) WriteHeader(status int) {
	if p.begun || status < 200 {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.begun = true
	h := p.Header()
	plain := strings.HasPrefix(h.Get("Content-Type"), "text/plain")
	switch {
	case status == http.StatusNotFound && plain || status < 400 && h.Get("Location") != "":
		p.replaced = true
		h.Del("Location")
		refuse(p.ResponseWriter, retryproof.CodeNotFound, "there is no such endpoint")
	case status == http.StatusMethodNotAllowed && plain:
		p.replaced = true
		code := retryproof.Code("method-not-allowed")
		httpkey.Problem{Type: httpkey.ProblemBase + string(code), Title: "The endpoint does not take this method", Status: status, Code: code,
			Detail: "use " + strings.ReplaceAll(h.Get("Allow"), ", ", " or ")}.Write(p.ResponseWriter)
	default:
		p.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter. The plain text of a replaced refusal is dropped.
func (p *plainRefusals) Write(b []byte) (int, error) {
	if p.replaced {
		return len(b), nil
	}
	p.begun = true
	return p.ResponseWriter.Write(b)
}
