package httpkey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
)

// ClientConfig configures a Transport. The zero value works, with a journal that
// ends with the process.
type ClientConfig struct {
	// Base sends. Defaults to http.DefaultTransport.
	Base http.RoundTripper
	// Journal remembers the keys. Defaults to a new MemoryJournal; a process that
	// may be killed needs a FileJournal.
	Journal Journal
	// Methods get a key on every call. Other methods get one when the call has an
	// intent or brings a key; GET, HEAD, OPTIONS and TRACE only when listed here.
	// Defaults to POST and PATCH.
	Methods []string
	// MaxTries is how often a request is sent in one call, at most. Defaults to 8.
	MaxTries int
	// TryTimeout bounds one send, up to the end of its body, and a Close that reads
	// on to find that end. The call's context bounds all of them. Defaults to 30 s.
	TryTimeout time.Duration
	// Backoff is the longest pause before the second send; it doubles per send up
	// to MaxBackoff, and each pause is drawn from its upper half. Defaults to
	// 200 ms.
	Backoff time.Duration
	// MaxBackoff bounds a pause. Defaults to 10 s.
	MaxBackoff time.Duration
	// MaxRetryAfter is the longest Retry-After that a call waits for; a longer one
	// ends the call with that answer, and the key is kept. Defaults to 1 min.
	MaxRetryAfter time.Duration
	// MaxBody is the largest body, in bytes, that is kept in memory to be sent
	// again; a larger one is refused before anything is sent. Defaults to 1 MiB.
	MaxBody int64
	// ReturnAccepted ends the call at a 202, with the key kept, for callers who
	// ask later. Defaults to false: 202 is asked again like "in progress".
	ReturnAccepted bool
	// Ignore names members of a JSON body that may differ between two sends of one
	// intent, like a client timestamp; see CanonicalJSON. Defaults to none.
	Ignore []string
	// Fate judges answers, for example StrictFate. Defaults to DefaultFate.
	Fate func(*http.Response, Problem) Fate
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Rand makes keys and jitter. Defaults to entropy.System().
	Rand entropy.Source
}

func (c ClientConfig) withDefaults() ClientConfig {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.TryTimeout, 30*time.Second)
	set(&c.Backoff, 200*time.Millisecond)
	set(&c.MaxBackoff, 10*time.Second)
	set(&c.MaxRetryAfter, time.Minute)
	if c.Base == nil {
		c.Base = http.DefaultTransport
	}
	if c.Journal == nil {
		c.Journal = new(MemoryJournal)
	}
	if len(c.Methods) == 0 {
		c.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if c.MaxTries == 0 {
		c.MaxTries = 8
	}
	if c.MaxBody == 0 {
		c.MaxBody = 1 << 20
	}
	if c.Fate == nil {
		c.Fate = DefaultFate
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Rand == nil {
		c.Rand = entropy.System()
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c ClientConfig) Validate() error {
	c = c.withDefaults()
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"TryTimeout", c.TryTimeout}, {"Backoff", c.Backoff}, {"MaxBackoff", c.MaxBackoff}, {"MaxRetryAfter", c.MaxRetryAfter}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("httpkey: %s is %v, must not be negative", d.name, d.value))
		}
	}
	if c.MaxTries < 1 {
		errs = append(errs, fmt.Errorf("httpkey: MaxTries is %d, must be at least 1", c.MaxTries))
	}
	if c.MaxBody < 1 {
		errs = append(errs, fmt.Errorf("httpkey: MaxBody is %d, must be at least 1", c.MaxBody))
	}
	if c.Backoff > c.MaxBackoff {
		errs = append(errs, fmt.Errorf("httpkey: Backoff ≤ MaxBackoff fails: %v > %v", c.Backoff, c.MaxBackoff))
	}
	return errors.Join(errs...)
}

// Transport is an http.RoundTripper that gives every request that changes
// something an Idempotency-Key, journals it before the first send, and sends it
// again with the same key until there is a definite answer (mission A1).
//
// The key of an intent outlives the call, the process and the machine's power, as
// far as the journal does. It is kept on a timeout, a transport error, 5xx, 202,
// "in progress" and 429; see DefaultFate for what ends it. When the tries or the
// context end first, the caller gets the last answer, or an error with Outcome
// Unknown, and sends the same intent again later.
//
// An answer counts once its body has come to its end. One of up to 64 KiB whose
// length is announced is read before the call returns, and sent for again when it
// was cut; of another JSON answer to a success, DefaultFate reads as much. Any other
// counts when the caller has read it to io.EOF; closing it earlier reads on for 64 KiB
// at most. One that is cut, or left unread, keeps the key. A body that only the
// connection's end ends (HTTP/1.0) cannot be told from a cut one and counts as whole
// (RFC 9112 §8). When the journal cannot note what an answer means, the answer is
// returned all the same, and the end of its body and Close return the error.
//
// A request whose body is not as long as its Content-Length says, and one with
// trailers, is refused: it could not be sent again as it was.
//
// A crash leaves behind: before the journal entry is flushed, nothing was sent;
// afterwards, an entry that Pending lists and whose intent finds the same key.
//
// Keys never appear in errors. Safe for concurrent use.
type Transport struct {
	config ClientConfig
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a transport, or everything that is wrong with its
// configuration.
func NewTransport(c ClientConfig) (*Transport, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Transport{config: c.withDefaults()}, nil
}

// Pending lists the intents that have no definite answer yet, oldest first. To
// resume one, send its request again under WithIntent with the same name, also one
// that was sent without a name: its name is then the entry's, "key:…".
func (t *Transport) Pending(ctx context.Context) ([]Entry, error) {
	return t.config.Journal.Pending(ctx)
}

type intentKey struct{}

// WithIntent names what the requests under ctx want to be done, once: "order-42-pay".
// The name is the application's own and must stay the same across retries and
// restarts; another intent needs another name, even when its request looks the
// same. An intent is one request: another method, URL or body under the same name
// is refused. Names that begin with "key:" are the transport's: one is taken while
// Pending lists it.
func WithIntent(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, intentKey{}, name)
}

func intentFrom(ctx context.Context) string {
	name, _ := ctx.Value(intentKey{}).(string)
	return name
}

// keyed reports whether the request gets a key.
func (t *Transport) keyed(r *http.Request) bool {
	if slices.Contains(t.config.Methods, r.Method) {
		return true
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	return intentFrom(r.Context()) != "" || len(r.Header.Values(HeaderKey)) > 0
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.keyed(r) {
		return t.config.Base.RoundTrip(r)
	}
	body, err := t.bodyOf(r)
	if err != nil {
		return nil, err
	}
	if r.Context().Err() != nil {
		return nil, &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeUnavailable,
			Message: "the call had ended before anything was sent", Err: context.Cause(r.Context())}
	}
	entry, err := t.open(r, body)
	if err != nil {
		return nil, err
	}
	call := &call{transport: t, request: r, body: body, entry: entry}
	return call.send()
}

// open finds or makes the journal's entry of the request, durable when it returns.
func (t *Transport) open(r *http.Request, body replayBody) (Entry, error) {
	key, err := t.keyOf(r)
	if err != nil {
		return Entry{}, err
	}
	fingerprint, err := t.fingerprint(r, body)
	if err != nil {
		return Entry{}, err
	}
	now := t.config.Clock.Now()
	want := Entry{Intent: intentFrom(r.Context()), Key: key, Fingerprint: fingerprint, Method: r.Method, URL: shownURL(r.URL),
		State: EntryOpen, Doubtful: 1, CreatedAt: now, UpdatedAt: now}
	if want.Intent == "" {
		want.Intent = callIntent(key)
	} else if callEntry(want.Intent) {
		// Its key goes with its name, even when it is finished and gone by the time
		// that it is opened.
		if want.Key, err = t.keyOfCall(r.Context(), want.Intent); err != nil {
			return Entry{}, err
		}
		if given := r.Header.Values(HeaderKey); len(given) > 0 && key != want.Key {
			return Entry{}, otherKey()
		}
	}
	for {
		have, made, err := t.config.Journal.Open(r.Context(), want)
		if err == nil {
			_, err = retryproof.ParseKey(string(have.Key)) // it will be a header
		}
		if err != nil {
			return Entry{}, retryproof.Refused(retryproof.CodeUnavailable, "the journal could not store the key; nothing was sent", err)
		}
		if made {
			return have, nil
		}
		have, err = resume(r, have, want)
		if err != nil || have.State == EntryDone { // done stays done, whatever another send hears
			return have, err
		}
		have.Doubtful++ // before this send it must be known that one more may be under way
		have, saved, err := t.config.Journal.Save(r.Context(), have)
		if err != nil {
			return Entry{}, retryproof.Refused(retryproof.CodeUnavailable, "the journal could not note the send; nothing was sent", err)
		}
		if saved {
			return have, nil
		} // another call changed it meanwhile: look again
	}
}

// resume checks an entry that was there, and readies it for another send.
func resume(r *http.Request, have, want Entry) (Entry, error) {
	if given := r.Header.Values(HeaderKey); len(given) > 0 && have.Key != want.Key {
		return Entry{}, otherKey()
	}
	if !have.Fingerprint.Same(want.Fingerprint) && r.Response == nil {
		if have.State != EntryOpen || have.Doubtful > 0 {
			return Entry{}, retryproof.Refused(retryproof.CodeKeyReused,
				"the intent was sent before with another method, URL or body; nothing was sent this time", nil)
		}
		have.Fingerprint, have.Method, have.URL = want.Fingerprint, want.Method, want.URL
	}
	have.UpdatedAt = want.UpdatedAt
	return have, nil
}

func otherKey() error {
	return retryproof.Refused(retryproof.CodeKeyReused, "the request brings another key than the intent has in the journal; nothing was sent", nil)
}

// keyOfCall is the key of a pending call that had no intent of the application's.
func (t *Transport) keyOfCall(ctx context.Context, name string) (retryproof.Key, error) {
	open, err := t.config.Journal.Pending(ctx)
	for _, e := range open {
		if e.Intent == name {
			return e.Key, nil
		}
	}
	if err != nil {
		return "", retryproof.Refused(retryproof.CodeUnavailable, "the journal could not be read; nothing was sent", err)
	}
	return "", retryproof.Refused(retryproof.CodeInvalid,
		fmt.Sprintf("an intent's name must not begin with %q, unless it is pending", callPrefix), nil)
}

// keyOf is the key that the request brings, the key of the request that a
// redirect answered, or a new one.
func (t *Transport) keyOf(r *http.Request) (retryproof.Key, error) {
	if given := r.Header.Values(HeaderKey); len(given) > 0 {
		return retryproof.KeyFromHeader(given)
	}
	if r.Response != nil && r.Response.Request != nil {
		if before := r.Response.Request.Header.Values(HeaderKey); len(before) > 0 {
			return retryproof.KeyFromHeader(before)
		}
	}
	return retryproof.Key(entropy.Token(t.config.Rand)), nil
}
