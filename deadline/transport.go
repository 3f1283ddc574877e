package deadline

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
)

// HeaderEnvoyTimeout tells an Envoy proxy on the way how many milliseconds the call
// may take; Envoy hands the number on as x-envoy-expected-rq-timeout-ms (source: Envoy,
// "Router", HTTP headers). See Transport.Header.
const HeaderEnvoyTimeout = "X-Envoy-Upstream-Rq-Timeout-Ms"

// Transport sends requests inside of the budget of their context (see Budget). A
// request without one is sent as it is. The zero value works, and it is safe for
// concurrent use.
type Transport struct {
	// Base sends. Defaults to http.DefaultTransport.
	Base http.RoundTripper
	// Need is the least time that a call is worth trying with; with less left it is
	// not sent. Defaults to 1 ms.
	Need time.Duration
	// Header carries what is left of the budget to the callee, in whole milliseconds,
	// in place of anything that the request has there. There is no standard name:
	// HeaderEnvoyTimeout where an Envoy stands on the way. Defaults to none.
	Header string
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
}

// RoundTrip sends the request unless the budget is used up, and ends the waiting, for
// the answer or for its body, with the budget. Nothing sent is NotDone with
// CodeTooLate; sent and not answered in time is Unknown, whatever Base says. Other
// errors and answers are Base's.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base, c, need := t.Base, t.Clock, t.Need
	if base == nil {
		base = http.DefaultTransport
	}
	if c == nil {
		c = clock.System()
	}
	if need <= 0 {
		need = time.Millisecond
	}
	until, ok := Budget(r.Context())
	if !ok {
		return base.RoundTrip(r)
	}
	if err := Allow(r.Context(), c, need); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper must, also on errors
		}
		return nil, err
	}
	left := until.Sub(c.Now())
	ctx, cancel := c.WithTimeout(r.Context(), left)
	bounded := r.Clone(ctx)
	if t.Header != "" {
		bounded.Header.Set(t.Header, strconv.FormatInt(max(left.Milliseconds(), 0), 10))
	}
	resp, err := base.RoundTrip(bounded)
	if err != nil {
		if ended(ctx) {
			err = tooLong(err)
		}
		cancel()
		return nil, err
	}
	resp.Body = boundedBody(ctx, cancel, resp.Body)
	return resp, nil
}

func ended(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// tooLong is the error of a call that was under way when the budget ended. The cause
// may call itself NotDone; nobody can know that any more.
func tooLong(cause error) error {
	return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown, Err: cause,
		Message: "the budget ended while the call was under way", Hint: "ask again with the same key"}
}

// body ends the bound when it was read to its end or closed.
type body struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelFunc
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) && ended(b.ctx) {
		err = tooLong(err)
	}
	b.cancel()
	return n, err
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// writableBody is the body of a 101, which is a connection.
type writableBody struct {
	*body
	io.Writer
}

func boundedBody(ctx context.Context, cancel context.CancelFunc, inner io.ReadCloser) io.ReadCloser {
	out := &body{ReadCloser: inner, ctx: ctx, cancel: cancel}
	if w, ok := inner.(io.Writer); ok {
		return &writableBody{body: out, Writer: w}
	}
	return out
}
