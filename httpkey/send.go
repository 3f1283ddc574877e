package httpkey

// One call of the client's Transport, with all its sends.
//
// It promises that every send carries the key and the body of the first, and that the
// intent is closed only by an answer that settles it. It does not promise an outcome: an
// end without one leaves the intent open, to be sent again or asked about.
//
// A crash leaves the entry that was journaled before the first send, counted as doubtful.

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/entropy"
)

// maxHeldBytes is how much of an answer is read to find its end: before the call
// returns when its length is announced, and when nobody wants the rest, so that its
// connection can be used again.
const maxHeldBytes = 64 << 10

// call is one RoundTrip with all its sends.
type call struct {
	transport *Transport
	request   *http.Request
	body      replayBody
	// entry is as the journal has it with this call counted as doubtful.
	entry Entry
	// unclear: some send of this call may have been done.
	unclear bool
	// whole: the last answer has come to its end.
	whole bool
	// proven: the last answer comes from the server's record of the key.
	proven bool
	// problem is the last answer's problem document.
	problem Problem
}

// send sends until the answer settles the intent, or the tries or the context
// end.
func (c *call) send() (*http.Response, error) {
	for try := 1; ; try++ {
		body, err := c.body.reader()
		if err != nil {
			return nil, c.unsent(err)
		}
		resp, err := c.once(body)
		fate, wait := FateAgain, time.Duration(0)
		if err == nil {
			fate, wait = c.judge(resp)
		} else {
			c.unclear = true
		}
		pause, again := c.pause(try, fate, wait, resp)
		if !again {
			return c.end(fate, resp, err)
		}
		c.discard(resp)
		if err := c.transport.config.Clock.Sleep(c.request.Context(), pause); err != nil {
			return c.end(FateAgain, nil, err)
		}
	}
}

// pause is how long to wait before the next send, and false when the call ends
// with the answer that it has: at a fate other than again, after the last try, or
// when the wait would outlast the call, since that answer says more than "too
// late" would.
func (c *call) pause(try int, fate Fate, wait time.Duration, resp *http.Response) (time.Duration, bool) {
	t := c.transport
	if fate != FateAgain || try >= t.config.MaxTries || wait > t.config.MaxRetryAfter || c.returned(resp) {
		return 0, false
	}
	pause := t.backoff(try)
	if wait > 0 { // with some jitter: the others were told the same
		pause = max(pause, wait+time.Duration(entropy.Fraction(t.config.Rand)*float64(t.config.Backoff)))
	}
	return pause, c.timeFor(pause)
}

// discard reads what is left of an answer that is asked for again. One that was cut
// proves nothing.
func (c *call) discard(resp *http.Response) {
	if resp == nil {
		return
	}
	if _, err := io.CopyN(io.Discard, resp.Body, maxHeldBytes); !errors.Is(err, io.EOF) && !c.whole {
		c.unclear = true
	}
	closeBody(resp)
}

// end notes what the last answer means, now or when its body has come to its end,
// and hands it to the caller. What the journal could not note is told at the body's
// end, so that the answer is not lost with it.
func (c *call) end(fate Fate, resp *http.Response, err error) (*http.Response, error) {
	switch {
	case resp == nil:
		return nil, cmp.Or(c.note(fate), c.lost(err))
	case !c.whole:
		resp.Body = &endingBody{ReadCloser: resp.Body, ended: func() error { return c.note(c.atEnd(fate, resp)) }}
	default:
		if noteErr := c.note(fate); noteErr != nil {
			resp.Body = &endingBody{ReadCloser: resp.Body, over: true, err: noteErr}
		}
	}
	return resp, nil
}

// unsent ends a call whose body cannot be had again: this send did not begin, and
// another try would not either. What earlier sends did stays in doubt.
func (c *call) unsent(err error) error {
	if noteErr := c.note(FateRefused); noteErr != nil {
		return errors.Join(noteErr, err)
	}
	if c.unclear {
		return c.lost(err)
	}
	return retryproof.Refused(retryproof.CodeInvalid, "the request's body could not be read; nothing was sent", err)
}

// returned reports a 202 that the caller wants to see.
func (c *call) returned(resp *http.Response) bool {
	return resp != nil && resp.StatusCode == http.StatusAccepted && c.transport.config.ReturnAccepted
}

// once sends one copy, with a body of its own; the caller's request is not changed.
func (c *call) once(body io.ReadCloser) (*http.Response, error) {
	t := c.transport
	ctx, cancel := t.config.Clock.WithTimeout(c.request.Context(), t.config.TryTimeout)
	r := c.request.Clone(ctx)
	if len(r.Header.Values(HeaderKey)) == 0 {
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set(HeaderKey, string(c.entry.Key))
	}
	r.Body, r.GetBody = body, c.body.reader
	if !c.body.streamed {
		r.ContentLength, r.TransferEncoding = int64(len(c.body.bytes)), nil
	}
	resp, err := t.config.Base.RoundTrip(r)
	if err != nil {
		cancel()
		return nil, err
	}
	// The answer to HEAD announces a length that never comes.
	c.whole = resp.Body == nil || resp.Body == http.NoBody || r.Method == http.MethodHead
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	resp.Body = &cancelBody{ReadCloser: resp.Body, cancel: cancel}
	if c.whole {
		return resp, nil
	}
	if c.whole, err = hold(resp); err != nil {
		closeBody(resp)
		return nil, err
	}
	return resp, nil
}

// judge reads what the answer means and how long the server asks to wait.
func (c *call) judge(resp *http.Response) (Fate, time.Duration) {
	t := c.transport
	c.problem, _ = ReadProblem(resp)
	fate := t.config.Fate(resp, c.problem)
	c.unclear = c.unclear || doubtful(fate, resp.StatusCode)
	c.proven = stored(resp) || c.problem.Code == retryproof.CodeVoid
	wait, _ := ParseRetryAfter(resp.Header.Get("Retry-After"), t.config.Clock.Now())
	return fate, wait
}

// lost says that nobody knows, and that the key is kept; nil stays nil.
func (c *call) lost(err error) error {
	if err == nil {
		return nil
	}
	return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown,
		Message: "there is no definite answer; the key is kept", Hint: "send the same intent again", Err: err}
}

// timeFor reports whether the context lives longer than the pause.
func (c *call) timeFor(pause time.Duration) bool {
	if c.request.Context().Err() != nil {
		return false
	}
	end, ok := c.request.Context().Deadline()
	return !ok || c.transport.config.Clock.Now().Add(pause).Before(end)
}

// backoff is the pause after the given send: doubling, from its upper half, so that
// callers who failed together do not come back together.
func (t *Transport) backoff(try int) time.Duration {
	top := t.config.MaxBackoff
	if shift := try - 1; shift < 32 && t.config.Backoff<<shift>>shift == t.config.Backoff {
		top = min(top, t.config.Backoff<<shift)
	}
	return top/2 + time.Duration(entropy.Fraction(t.config.Rand)*float64(top/2))
}

// fingerprint is the meaning of the request: method, URL and body. A JSON body
// counts by its canonical form, so that the next version of a client may write
// its members in another order; one that is not valid JSON counts by its bytes,
// since judging it is the server's business.
func (t *Transport) fingerprint(r *http.Request, body replayBody) (retryproof.Fingerprint, error) {
	fields := []retryproof.Field{retryproof.Text("method", r.Method), retryproof.Text("url", r.URL.String())}
	content := retryproof.Text("bytes", string(body.bytes))
	if body.streamed {
		digest, err := body.digest()
		if err != nil {
			return "", err
		}
		content = retryproof.Text("digest", digest)
	} else if isJSON(mediaType(r.Header)) {
		if canonical, err := CanonicalJSON(body.bytes, t.config.Ignore...); err == nil {
			content = retryproof.Text("json", string(canonical))
		}
	}
	return retryproof.FingerprintOf(append(fields, content)...), nil
}

// shownURL is a URL without what may be secret in it.
func shownURL(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return shown.String()
}

// replayBody is a request body that can be sent any number of times: from memory,
// or through the request's own GetBody when it is large.
type replayBody struct {
	bytes    []byte
	streamed bool
	get      func() (io.ReadCloser, error)
}

func (b replayBody) reader() (io.ReadCloser, error) {
	switch {
	case b.streamed:
		return b.get()
	case len(b.bytes) == 0:
		return http.NoBody, nil
	}
	return io.NopCloser(bytes.NewReader(b.bytes)), nil
}

// digest hashes the body without holding it in memory.
func (b replayBody) digest() (string, error) {
	r, err := b.get()
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	return hashReader(r)
}

// bodyOf takes the request's body over and closes it.
func (t *Transport) bodyOf(r *http.Request) (replayBody, error) {
	if len(r.Trailer) > 0 {
		closeRequest(r)
		return replayBody{}, retryproof.Refused(retryproof.CodeInvalid, "a request with trailers could not be sent twice alike; nothing was sent", nil)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return replayBody{}, nil
	}
	limit := t.config.MaxBody
	if r.GetBody != nil && r.ContentLength > limit {
		return replayBody{streamed: true, get: r.GetBody}, r.Body.Close()
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return replayBody{}, retryproof.Refused(retryproof.CodeInvalid, "the request's body could not be read; nothing was sent", err)
	}
	if n := int64(len(text)); r.ContentLength > 0 && n != r.ContentLength && (n <= limit || r.ContentLength <= limit) {
		return replayBody{}, retryproof.Refused(retryproof.CodeInvalid, "the request's body is not as long as its Content-Length says; nothing was sent", nil)
	}
	if int64(len(text)) <= limit {
		return replayBody{bytes: text}, nil
	}
	if r.GetBody != nil {
		return replayBody{streamed: true, get: r.GetBody}, nil
	}
	return replayBody{}, retryproof.Refused(retryproof.CodeTooLarge,
		"the request's body is larger than MaxBody and has no GetBody, so it could not be sent twice; nothing was sent", nil)
}

func closeRequest(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

func closeBody(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}
