package httpkey

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/retryproof/retryproof/effect"
)

// The headers of this package.
const (
	// HeaderKey carries the client's key.
	HeaderKey = "Idempotency-Key"
	// HeaderReplayed is "true" on an answer that comes from a record.
	HeaderReplayed = "Idempotency-Replayed"
	// HeaderExpires is on every recorded answer, also the first time: the HTTP date
	// up to which a repeat gets it word for word. A first answer that left before it
	// was recorded, since it was streamed, has it as a trailer. Afterwards the durable record
	// answers. The key never becomes new again while that record exists.
	HeaderExpires = "Idempotency-Key-Expires"
	// HeaderBody is "not-kept" on the repeat of an answer that was too large.
	HeaderBody = "Idempotency-Body"
)

// Config configures a Middleware. It needs Caller; the rest works as zero values.
type Config struct {
	// Caller returns the authenticated caller, the second part of a key's scope. It
	// must come from verified credentials, never from something that a request
	// merely claims. It is asked before anything else, on every request, and once more
	// after a wait that the client asked for, with the same header and body. An error
	// is answered with 401, or as its retryproof.Code says (403 for
	// CodeForbidden), and nothing is stored. Required.
	Caller func(*http.Request) (string, error)
	// Endpoint is the first part of a key's scope: what is asked of whom. Two
	// requests whose meaning differs in the path or the query must have two
	// endpoints, unless Read covers the difference.
	//
	// The default does NOT look at the host. A server that is another service, or
	// another tenant, under each host name MUST set Endpoint and put its own name for
	// that into it; otherwise one caller's key on two hosts is one effect, and the
	// second host answers with what the first one said. Decide before the first
	// request: effects are named after it, so after a change no retry finds the
	// record of its first send. Defaults to DefaultEndpoint.
	Endpoint func(*http.Request) string
	// Methods need a key; others go straight to the handler. Defaults to POST and
	// PATCH.
	Methods []string
	// Optional lets requests without an Idempotency-Key header through to the
	// handler, unprotected. Defaults to false.
	Optional bool
	// Read reads what the request means. An error is answered with 400, or as its
	// retryproof.Code says. Defaults to ReadBody(Ignore...).
	Read func(r *http.Request, body []byte) (Meaning, error)
	// Ignore names members of a JSON body that do not count, like a client
	// timestamp; the default Read uses it. Defaults to none.
	Ignore []string
	// MaxBody is the largest request body in bytes, counted as it arrives. Defaults
	// to 1 MiB.
	MaxBody int64
	// MaxAnswer is the largest answer body in bytes that is kept. Defaults to 1 MiB.
	MaxAnswer int
	// MaxResult is how much of an answer, in bytes of its JSON form, is kept with
	// the durable record for the time after the answer has expired; a larger one
	// is kept without its body, or not at all. At most effect.MaxResultBytes; negative
	// keeps nothing. Defaults to effect.MaxResultBytes.
	MaxResult int
	// Arrived returns when the request arrived, from a stamp that a trusted proxy
	// has set. A moment that is still to come counts as now. Defaults to the moment at
	// which the middleware sees it.
	Arrived func(*http.Request) time.Time
	// Authorize may refuse an answer from the record that the caller may no longer
	// see; the error is answered as Caller's, and nothing is stored. Defaults to
	// allowing what Caller allows.
	Authorize func(r *http.Request, d effect.Decision) error
	// Render makes the answer of an effect without a recorded one: not final yet,
	// or final and expired. A Status of 0 means 200 when the state is final and 202
	// when it is not. Defaults to the answer kept under MaxResult, or else
	// {"id":…,"state":…} with 200 SUCCEEDED, 422 FAILED, 202 otherwise.
	Render func(effect.Guard) effect.Answer
	// Location is the URL at which the state of the effect can be asked, for 202
	// answers. Defaults to none.
	Location func(effect.Guard) string
	// PollAfter is the Retry-After of a 202. Defaults to 1 s.
	PollAfter time.Duration
	// Classify says what a handler's answer means when the handler has not said so
	// itself with Done, Failed, NotDone or Unknown. It gets the answer with all of
	// its headers, and without its body when that was too large to keep; it must not
	// change it. begun is effect.Attempt.Begun. Defaults to DefaultClassify:
	//
	//	200 201 203 to 208 226, any other 2xx, 304
	//	        done: final
	//	300 301 302 303
	//	        done when the attempt has begun; otherwise unknown, since it may be a login page
	//	202     unknown: accepted is not done
	//	402 404 409 410 412 416 422 423 451
	//	        definitely not done: final; unknown with a Retry-After, or when it is a
	//	        problem document with code in-progress
	//	424     the same, and unknown when the attempt has begun
	//	307 308 400 401 403 405 406 411 413 414 415 417 421 425 426 428 429 431
	//	        nothing was done: the key is free; unknown when the attempt has begun
	//	1xx, 305, 306, any other 3xx, 407, 408, 418, any other 4xx, all of 5xx
	//	        unknown
	Classify func(given effect.Answer, begun bool) Ending
	// Challenge is the WWW-Authenticate header of a 401 (RFC 9110 §11.6.1).
	// Defaults to none.
	Challenge string
}

func (c Config) withDefaults() Config {
	if c.Endpoint == nil {
		c.Endpoint = DefaultEndpoint
	}
	if len(c.Methods) == 0 {
		c.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if c.Read == nil {
		c.Read = ReadBody(c.Ignore...)
	}
	if c.MaxBody == 0 {
		c.MaxBody = 1 << 20
	}
	if c.MaxAnswer == 0 {
		c.MaxAnswer = 1 << 20
	}
	if c.MaxResult == 0 {
		c.MaxResult = effect.MaxResultBytes
	}
	if c.PollAfter == 0 {
		c.PollAfter = time.Second
	}
	if c.Render == nil {
		c.Render = renderGuard
	}
	if c.Classify == nil {
		c.Classify = DefaultClassify
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Caller == nil {
		errs = append(errs, errors.New("httpkey: Caller is missing: without it two callers who send one key would share an answer"))
	}
	if c.MaxBody < 1 {
		errs = append(errs, fmt.Errorf("httpkey: MaxBody is %d, must be at least 1", c.MaxBody))
	}
	if c.MaxAnswer < 1 {
		errs = append(errs, fmt.Errorf("httpkey: MaxAnswer is %d, must be at least 1", c.MaxAnswer))
	}
	if c.MaxResult > effect.MaxResultBytes {
		errs = append(errs, fmt.Errorf("httpkey: MaxResult ≤ effect.MaxResultBytes fails: %d > %d", c.MaxResult, effect.MaxResultBytes))
	}
	if c.PollAfter < 0 {
		errs = append(errs, fmt.Errorf("httpkey: PollAfter is %v, must not be negative", c.PollAfter))
	}
	if slices.Contains(c.Methods, "") {
		errs = append(errs, errors.New("httpkey: Methods has an empty method"))
	}
	return errors.Join(errs...)
}

// DefaultEndpoint is the method, the path as it was sent, and the query with its
// names sorted: "POST /orders/1/cancel?dry=1". Path ids and parameters are part of
// it, so one key on two resources is two effects. The order of several values of
// one parameter counts. A handler behind http.StripPrefix sees a shorter path: wrap
// outside of it, or set Endpoint.
//
// The host is NOT part of it: virtual hosts that are different services must set
// Config.Endpoint. The host is what the client calls the server, not what the server
// is, and a retry often goes through another name: a fallback, a port, an address.
// With the host in it that retry would be a second effect, a second charge perhaps;
// without it the worst is that a key which one caller sends to two services is
// answered once.
func DefaultEndpoint(r *http.Request) string {
	endpoint := r.Method + " " + r.URL.EscapedPath()
	if r.URL.RawQuery == "" {
		return endpoint
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what cannot be parsed counts as it was sent
		return endpoint + "?" + r.URL.RawQuery
	}
	return endpoint + "?" + values.Encode()
}
