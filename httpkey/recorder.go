package httpkey

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/retryproof/retryproof/effect"
)

// recorder is the http.ResponseWriter of a keyed handler. It holds the answer
// until it is recorded; when the handler flushes, or the body outgrows the cap, it
// starts to send and goes on recording. Where the connection cannot flush, a flush
// does nothing.
//
// A client that went away does not show: writes succeed and are recorded, since
// the effect is under way and its answer will be asked for again.
type recorder struct {
	w         http.ResponseWriter
	base      http.Header // what outer handlers had set before
	shown     http.Header // what of the handler's is in the connection's header
	header    http.Header // what the handler sees and changes
	limit     int
	head      bool        // the request is a HEAD: no body is expected
	status    int         // 0 until the handler decided
	decided   http.Header // header at that moment, for the client
	length    int64       // the Content-Length that the handler set; negative without one
	written   int64       // what it wrote of it
	body      []byte
	dropped   bool // the body outgrew the limit; body holds nothing any more
	sent      bool // the header went to the client
	silent    bool // the handler returned without an answer
	clientErr error
}

func newRecorder(w http.ResponseWriter, limit int) *recorder {
	base, header := http.Header(nil), http.Header{}
	if len(w.Header()) > 0 {
		base, header = w.Header().Clone(), w.Header().Clone()
	}
	return &recorder{w: w, base: base, shown: base, header: header, limit: limit, length: -1}
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// Unwrap lets http.ResponseController reach deadlines of the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.w }

// WriteHeader implements http.ResponseWriter. Informational answers go to the
// client at once and are never recorded; a second status is ignored.
func (r *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("httpkey: invalid WriteHeader code %d", status)) // as net/http does
	}
	if r.status != 0 {
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		r.show(r.header.Clone())
		r.w.WriteHeader(status)
		return
	}
	r.status, r.decided = status, r.header.Clone()
	if text := r.decided.Get("Content-Length"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if r.length = n; err != nil || n < 0 {
			r.length = -1
			r.decided.Del("Content-Length") // as net/http does
		}
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if err := r.record(p); err != nil {
		return 0, err
	}
	if r.sent && r.clientErr == nil {
		_, r.clientErr = r.w.Write(p)
	}
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (r *recorder) WriteString(s string) (int, error) { return r.Write([]byte(s)) }

// record keeps p unless the body is too large; then the header and what was held
// go to the client, and nothing is kept.
func (r *recorder) record(p []byte) error {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(r.status) {
		return http.ErrBodyNotAllowed
	}
	if r.length >= 0 && int64(len(p)) > r.length-r.written {
		return http.ErrContentLength // as net/http does: the client could not read it
	}
	r.written += int64(len(p))
	if r.dropped || len(p) == 0 {
		return nil
	}
	if len(r.body)+len(p) <= r.limit {
		r.body = append(r.body, p...)
		return nil
	}
	r.sniff(p)
	r.dropped = true
	r.send()
	r.body = nil
	return nil
}

// Flush implements http.Flusher.
func (r *recorder) Flush() { _ = r.FlushError() }

// FlushError is what http.ResponseController calls: from now on the answer is
// streamed. It is http.ErrNotSupported, and the answer is held as before, when an
// outer handler's writer cannot flush.
func (r *recorder) FlushError() error {
	if !flushes(r.w) {
		return fmt.Errorf("httpkey: the writer of an outer handler cannot flush: %w", http.ErrNotSupported)
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.sniff(nil)
	r.send()
	if r.clientErr != nil {
		return nil
	}
	err := http.NewResponseController(r.w).Flush()
	if errors.Is(err, http.ErrNotSupported) { // further out: the client is still there
		return err
	}
	r.clientErr = err
	return nil
}

// flushes reports a writer that http.ResponseController can flush.
func flushes(w http.ResponseWriter) bool {
	for {
		switch out := w.(type) {
		case interface{ FlushError() error }, http.Flusher:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = out.Unwrap()
		default:
			return false
		}
	}
}

// Hijack refuses: an answer that does not pass through here cannot be recorded.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, fmt.Errorf("httpkey: a request with an Idempotency-Key cannot take over the connection, its answer could not be recorded; serve this route outside the middleware: %w", http.ErrNotSupported)
}

// send sends the header and what is held.
func (r *recorder) send() {
	if r.sent {
		return
	}
	r.sent = true
	r.show(r.decided)
	r.w.WriteHeader(r.status)
	if len(r.body) > 0 {
		_, r.clientErr = r.w.Write(r.body)
	}
}

// finish settles the answer of a handler that has returned: a handler that wrote
// nothing means 200 with an empty body.
func (r *recorder) finish() {
	if r.status == 0 {
		r.silent = true
		r.WriteHeader(http.StatusOK)
	}
	r.sniff(nil)
}

// cut reports a body that is shorter than the handler said: the client's connection
// is cut, and a repeat must not get for whole what is not.
func (r *recorder) cut() bool {
	return !r.head && bodyAllowed(r.status) && r.written < r.length
}

// answer is what the recorder has seen, as it is stored.
func (r *recorder) answer() effect.Answer {
	a := effect.Answer{Status: r.status, Header: recordable(r.changed()), Body: r.body, BodyDropped: r.dropped || r.cut()}
	if a.BodyDropped {
		a.Body = nil
	}
	return a
}

// given is the answer as the handler gave it, with all of its headers.
func (r *recorder) given() effect.Answer {
	return effect.Answer{Status: r.status, Header: r.decided, Body: r.body, BodyDropped: r.dropped}
}

// trailers hands over what the handler set after the body for the end of the
// answer.
func (r *recorder) trailers() {
	if !r.sent {
		return
	}
	for name, values := range r.header { // order: each name by itself
		if strings.HasPrefix(name, http.TrailerPrefix) || declaredTrailer(r.decided, http.CanonicalHeaderKey(name)) {
			r.w.Header()[name] = values
		}
	}
}

func declaredTrailer(h http.Header, name string) bool {
	for _, line := range h.Values("Trailer") {
		for field := range strings.SplitSeq(line, ",") {
			if http.CanonicalHeaderKey(trimOWS(field)) == name {
				return true
			}
		}
	}
	return false
}

// show makes the connection's header the handler's: what it removed goes, what it
// set comes. What outer handlers add meanwhile stays.
func (r *recorder) show(h http.Header) {
	out := r.w.Header()
	for name := range r.shown { // order: each name by itself
		if _, kept := h[name]; !kept {
			delete(out, name)
		}
	}
	maps.Copy(out, h)
	r.shown = h
}

// withdraw takes back what an informational answer has shown, for an answer that
// is not the handler's.
func (r *recorder) withdraw() { r.show(r.base) }

// sniff sets the Content-Type that net/http would guess, so that the first answer
// and its repeats guess alike. more is what was written and is not held.
func (r *recorder) sniff(more []byte) {
	if r.sent || len(r.body)+len(more) == 0 {
		return
	}
	if _, set := r.decided["Content-Type"]; set || r.decided.Get("Content-Encoding") != "" || r.decided.Get("Transfer-Encoding") != "" {
		return
	}
	head := r.body
	if len(head) < 512 && len(more) > 0 {
		head = slices.Concat(head, more[:min(len(more), 512)])
	}
	r.decided.Set("Content-Type", http.DetectContentType(head))
}

// changed is what the handler itself did to the header. A name without values is
// one that it suppressed or removed.
func (r *recorder) changed() http.Header {
	out := http.Header{}
	for name, values := range r.decided { // order: each name by itself
		if before, had := r.base[name]; !had || !slices.Equal(values, before) {
			out[name] = values
		}
	}
	for name := range r.base { // order: each name by itself
		if _, kept := r.decided[name]; !kept {
			out[name] = nil
		}
	}
	return out
}

// bodyAllowed reports whether a status has a body (RFC 9110 §6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
