package emulator

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/retryproof/retryproof"
)

// A cut connection: the caller hears nothing. To the caller the two are the same;
// a simulator may want to know.
var (
	// ErrRequestLost: the request never arrived; nothing happened.
	ErrRequestLost = errors.New("emulator: the request was lost")
	// ErrReplyLost: the request was executed, or replayed; the answer was lost.
	ErrReplyLost = errors.New("emulator: the reply was lost")
)

// MaxKeyBytes is the longest idempotency key, as at Stripe.
const MaxKeyBytes = 255

// Request is an API request behind authentication.
type Request struct {
	// Method and Path are HTTP's, for example POST and /v1/payment_intents.
	Method, Path string
	// Key is the Idempotency-Key; "" is none. Reads ignore it.
	Key string
	// Form holds the parameters of the body, or of the query for reads.
	Form url.Values

	typed *typedForm // Form, for a caller in this process
}

// Response is what the company answers.
type Response struct {
	// ID is the request's id, for logs.
	ID string
	// Status is HTTP's.
	Status int
	// Body is JSON.
	Body []byte
	// Replayed says that the answer comes from the memory of the key.
	Replayed bool

	said any // what Body says, *intentJSON or *failure; nil when only Body knows
}

// fingerprint tells whether a repeat has the parameters of the first request.
type fingerprint = retryproof.Fingerprint

func fingerprintOf(r Request) fingerprint {
	var form string
	if r.typed != nil {
		form = r.typed.encoded()
	} else {
		form = r.Form.Encode()
	}
	return retryproof.FingerprintOf(
		retryproof.Text("method", r.Method), retryproof.Text("path", r.Path), retryproof.Text("form", form))
}

// call is one request on its way through the company.
type call struct {
	Request
	id    string
	route route
	// at is when the request arrived; the effect happens at the time of its
	// execution, which a delay may move.
	at          time.Time
	fingerprint fingerprint
	life        int
	form        *form
	memory      *keyMemory // what to replay
	reserved    bool       // the key is marked as executing
	busy        string     // the PaymentIntent that is marked as changing
}

// Do serves one request. ctx must be the company's own life, not the caller's
// patience: a caller who hangs up does not stop a payment company. The error is
// [ErrRequestLost], [ErrReplyLost], or the end of ctx during a delay; then nothing
// is answered. Every other failure is a Response.
func (c *Core) Do(ctx context.Context, r Request) (Response, error) {
	resp, err := c.do(ctx, r)
	if resp.Body == nil && resp.said != nil {
		resp.Body = encode(resp.said)
	}
	return resp, err
}

// do is Do without the bytes of an answer that is at hand otherwise.
func (c *Core) do(ctx context.Context, r Request) (Response, error) {
	k, answer, err := c.arrive(r)
	if answer != nil || err != nil {
		return orZero(answer), err
	}
	resp, early, err := c.serve(ctx, k)
	if err != nil {
		return Response{}, err
	}
	for _, id := range early {
		// A failed early delivery is due again like any other; the answer goes out.
		_, _ = c.deliver(ctx, id)
	}
	return c.reply(ctx, k, resp)
}

func orZero(r *Response) Response {
	if r == nil {
		return Response{}
	}
	return *r
}

// arrive routes the request and lets the faults on the way in happen.
func (c *Core) arrive(r Request) (*call, *Response, error) {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	k := &call{Request: r, id: "req_" + strconv.FormatInt(c.requests, 10), at: now}
	var fail *failure
	if k.route, fail = findRoute(r); fail != nil {
		return nil, k.fail(fail), nil
	}
	if c.take(k.route.operation, LoseRequest, "") != nil {
		return nil, nil, ErrRequestLost
	}
	if c.take(k.route.operation, RateLimited, "") != nil {
		return nil, k.fail(&failure{429, errorJSON{Type: "invalid_request_error", Code: "rate_limit", Message: "Too many requests at once."}}), nil
	}
	if !k.route.write {
		k.Key = ""
		return k, nil, nil
	}
	return c.claim(k)
}

// claim decides what a write's key says: replay, refuse or execute. The caller
// holds the lock.
func (c *Core) claim(k *call) (*call, *Response, error) {
	if len(k.Key) > MaxKeyBytes {
		return nil, k.fail(invalid("", "", "The Idempotency-Key is longer than 255 bytes.")), nil
	}
	if k.Key != "" {
		k.fingerprint = fingerprintOf(k.Request)
		count := c.counts[k.Key]
		if count == nil {
			count = &keyCount{}
			c.counts[k.Key] = count
		}
		count.requests++
		first, running := c.executing[k.Key]
		memory := c.remembered(k.Key, k.at)
		if memory != nil && !running {
			first = memory.Fingerprint
		}
		if (memory != nil || running) && !first.Same(k.fingerprint) {
			return nil, k.fail(&failure{400, errorJSON{Type: "idempotency_error", Message: "Keys for idempotent requests can only be used with the endpoint and the parameters of their first use."}}), nil
		}
		if running {
			return nil, k.fail(&failure{409, errorJSON{Type: "idempotency_error", Code: "idempotency_key_in_use", Message: "A request with this Idempotency-Key is still being executed."}}), nil
		}
		if memory != nil {
			k.memory = memory // serve replays it
			return k, nil, nil
		}
		k.life = c.lifeOf(k.Key)
	}
	var fail *failure
	if k.form, fail = k.route.parse(c, k); fail != nil {
		return nil, k.fail(fail), nil // refused before execution: not saved
	}
	if k.Key != "" {
		c.executing[k.Key] = k.fingerprint
	}
	k.reserved = true
	return k, nil, nil
}

// serve waits out a delay before the effect and then reads, replays or executes.
func (c *Core) serve(ctx context.Context, k *call) (Response, []string, error) {
	defer c.release(k)
	c.mu.Lock()
	delay := c.take(k.route.operation, Delay, BeforeEffect)
	c.mu.Unlock()
	if delay != nil {
		if err := c.clock.Sleep(ctx, delay.By); err != nil {
			return Response{}, nil, err
		}
	}
	switch {
	case !k.route.write:
		return c.read(k), nil, nil
	case k.memory != nil:
		return c.replay(k), nil, nil
	}
	return c.execute(ctx, k)
}

func (c *Core) release(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.reserved && k.Key != "" {
		delete(c.executing, k.Key)
	}
	if k.busy != "" {
		delete(c.busy, k.busy)
	}
}

func (c *Core) read(k *call) Response {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.take(k.route.operation, Error500, "") != nil {
		return *k.fail(internal("The emulator was told to fail."))
	}
	f, fail := k.route.parse(c, k)
	if fail != nil {
		return *k.fail(fail)
	}
	k.form = f
	body, fail := k.route.read(c, k, now)
	if fail != nil {
		return *k.fail(fail)
	}
	return Response{ID: k.id, Status: 200, Body: body}
}

// replay answers from the memory that claim found, even if a delay outlived it.
func (c *Core) replay(k *call) Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[k.Key].replays++
	return Response{ID: k.id, Status: k.memory.Status, Body: k.memory.Body, said: k.memory.said, Replayed: true}
}

// execute makes the effect and the memory of the key durable in one record.
func (c *Core) execute(ctx context.Context, k *call) (Response, []string, error) {
	now := c.clock.Now()
	w, early, fail := c.plan(k, now)
	if fail != nil {
		return *k.fail(fail), nil, nil
	}
	if w.Key != "" || w.Intent != nil || w.Refund != nil {
		if err := c.commit(ctx, record{At: now, Write: w}); err != nil {
			f := internal("The emulator could not record the request; nothing happened and nothing was saved.")
			return *k.fail(f), nil, nil //nolint:nilerr // the failure is the answer
		}
	}
	return Response{ID: k.id, Status: w.Status, Body: w.Body, said: w.said}, early, nil
}

// plan decides what the write does, under the lock and without doing it. A failure
// is one that is not saved.
func (c *Core) plan(k *call, now time.Time) (*writeRecord, []string, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &writeRecord{Key: k.Key, FirstUse: k.at, Fingerprint: k.fingerprint, Life: k.life}
	fault500 := c.take(k.route.operation, Error500, "")
	if fault500 != nil && fault500.When == BeforeEffect {
		w.Status, w.said = 500, internal("The emulator was told to fail.")
		return w, nil, nil
	}
	early, fail := k.route.execute(c, k, w, now)
	if fail != nil {
		return nil, nil, fail
	}
	if fault500 != nil {
		w.Status, w.Body, w.said = 500, nil, internal("The emulator was told to fail.")
	}
	return w, early, nil
}

// reply lets the faults on the way out happen.
func (c *Core) reply(ctx context.Context, k *call, resp Response) (Response, error) {
	c.mu.Lock()
	delay := c.take(k.route.operation, Delay, AfterEffect)
	lost := c.take(k.route.operation, LoseReply, "")
	c.mu.Unlock()
	if delay != nil {
		if err := c.clock.Sleep(ctx, delay.By); err != nil {
			return Response{}, err
		}
	}
	if lost != nil {
		return Response{}, ErrReplyLost
	}
	return resp, nil
}

func (k *call) fail(f *failure) *Response {
	return &Response{ID: k.id, Status: f.status, said: f}
}
