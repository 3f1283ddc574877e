package sim

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/retryproof/retryproof/deadline"
)

// recorder is the server's end of one exchange.
type recorder struct {
	header http.Header
	status int
	body   []byte
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.body = append(r.body, b...)
	return len(b), nil
}

// served is a request as the server reads it, in one piece.
type served struct {
	request    http.Request
	url        url.URL
	body       content
	header     http.Header
	token, key [1]string
}

// content is a request's body.
type content struct{ bytes.Reader }

// Close implements io.Closer.
func (*content) Close() error { return nil }

var jsonType = []string{"application/json"}

// request builds what the server reads. Its context never ends.
func (m Message) request() (*http.Request, error) {
	x := &served{header: make(http.Header, 4+len(m.Header))}
	return &x.request, x.fill(&m)
}

func (x *served) fill(m *Message) error {
	if plainPath(m.Path) {
		x.url = url.URL{Path: m.Path}
	} else {
		u, err := url.ParseRequestURI(m.Path)
		if err != nil {
			return fmt.Errorf("sim: %q: %w", m.Path, err)
		}
		x.url = *u
	}
	method := m.Method
	if method == "" {
		method = http.MethodPost
	}
	clear(x.header)
	for name, values := range m.Header { // order: copied into a map
		x.header[name] = values
	}
	if m.Token != "" {
		x.token[0] = "Bearer " + m.Token
		x.header["Authorization"] = x.token[:]
	}
	if m.Key != "" {
		x.key[0] = m.Key
		x.header["Idempotency-Key"] = x.key[:]
	}
	if m.stamps != nil {
		x.header[deadline.HeaderRequestStart] = m.stamps
	}
	x.header["Content-Type"] = jsonType
	x.body.Reset(m.Body)
	x.request = http.Request{Method: method, URL: &x.url, Header: x.header, Host: "api", RemoteAddr: m.remote, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Body: &x.body, ContentLength: int64(len(m.Body)), RequestURI: m.Path}
	return nil
}

// plainPath reports a path that a URL holds as it is.
func plainPath(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && strings.Trim(path, "/abcdefghijklmnopqrstuvwxyz") == ""
}

// answer lets a handler answer the message. Nothing of a request is used after its
// answer, so that the next one takes its place; one whose process dies is left.
func (w *World) answer(h http.Handler, m *Message) *recorder {
	var x *served
	if n := len(w.served); n > 0 {
		x, w.served = w.served[n-1], w.served[:n-1]
	} else {
		x = &served{header: make(http.Header, 5)}
	}
	if err := x.fill(m); err != nil {
		panic(err)
	}
	rec := &recorder{header: http.Header{}}
	h.ServeHTTP(rec, &x.request)
	rec.WriteHeader(http.StatusOK)
	w.served = append(w.served, x)
	return rec
}
