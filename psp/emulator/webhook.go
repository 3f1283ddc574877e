package emulator

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/internal/backoff"
	"github.com/retryproof/retryproof/psp"
)

// SignatureHeader is the header that carries a webhook's signature.
const SignatureHeader = "Stripe-Signature"

// Deliverer sends one webhook. nil means that the receiver said 2xx; any error
// means that it is to be sent again.
type Deliverer interface {
	// Deliver sends the payload with SignatureHeader as signature.
	Deliver(ctx context.Context, payload []byte, signature string) error
}

// HTTPDeliverer posts webhooks to one URL.
type HTTPDeliverer struct {
	// URL is the receiver's.
	URL string
	// Client sends. Defaults to a client that follows no redirects.
	Client *http.Client
}

// Deliver posts the payload with its signature and wants a 2xx.
func (d HTTPDeliverer) Deliver(ctx context.Context, payload []byte, signature string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(payload))
	if err != nil {
		return fmt.Errorf("emulator: webhook: %w", err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set(SignatureHeader, signature)
	client := d.Client
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("emulator: webhook: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // the answer's body says nothing
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("emulator: webhook: the receiver answered %d", resp.StatusCode)
	}
	return nil
}

// Sign returns the value of [SignatureHeader] for a payload sent at the given time.
func Sign(secret string, payload []byte, at time.Time) string {
	return newSigner(secret).sign(payload, at)
}

// signer signs with one secret, again and again.
type signer struct{ free sync.Pool }

// macer computes codes, one at a time.
type macer struct {
	hash.Hash
	head []byte
}

func newSigner(secret string) *signer {
	return &signer{sync.Pool{New: func() any { return &macer{Hash: hmac.New(sha256.New, []byte(secret))} }}}
}

// sign is the header of a payload.
func (s *signer) sign(payload []byte, at time.Time) string {
	t := strconv.FormatInt(at.Unix(), 10)
	sum := s.mac(t, payload)
	header := make([]byte, 0, 96)
	header = append(append(append(header, "t="...), t...), ",v1="...)
	return string(hex.AppendEncode(header, sum[:]))
}

// mac is the code of a payload that is sent at a time.
func (s *signer) mac(t string, payload []byte) (sum [sha256.Size]byte) {
	m := s.free.Get().(*macer)
	defer s.free.Put(m)
	m.Reset()
	m.head = append(append(m.head[:0], t...), '.')
	m.Write(m.head)
	m.Write(payload)
	m.head = m.Sum(m.head[:0])
	copy(sum[:], m.head)
	return sum
}

// event is a webhook that is owed. The first group is in the record.
type event struct {
	ID      string          `json:"id"`
	Seq     int64           `json:"seq"`
	Type    string          `json:"type"`
	Due     time.Time       `json:"due"`
	Times   int             `json:"times"` // 1, or 2 for WebhookTwice, or 0 for WebhookNever
	Gap     time.Duration   `json:"gap,omitempty"`
	Payload json.RawMessage `json:"payload"`

	said *psp.WebhookEvent // what Payload says, for a receiver in this process; may be nil

	next      time.Time
	delivered int
	attempts  int // failed ones since the last success
	sending   bool
	lastError string
}

type eventJSON struct {
	ID         string `json:"id"`
	Object     string `json:"object"`
	APIVersion string `json:"api_version"`
	Created    int64  `json:"created"`
	Data       struct {
		Object any `json:"object"`
	} `json:"data"`
	Livemode        bool `json:"livemode"`
	PendingWebhooks int  `json:"pending_webhooks"`
	Request         struct {
		ID             string  `json:"id"`
		IdempotencyKey *string `json:"idempotency_key"`
	} `json:"request"`
	Type string `json:"type"`
}

// announce adds a webhook to the record. It returns the event's id when a fault
// wants it delivered before the answer. The caller holds the lock.
func (c *Core) announce(k *call, w *writeRecord, kind string, object any, due time.Time) []string {
	e := event{Seq: c.nextSeq(), Type: kind, Due: due, Times: 1}
	// The intent's attempts and refunds move with every announcement, so that a
	// repeat of a request whose record failed names the same event.
	e.ID = string(retryproof.Derive("evt", kind, w.Intent.ID, strconv.Itoa(w.Intent.Attempts), strconv.FormatInt(w.Intent.Refunded, 10)))
	j := eventJSON{ID: e.ID, Object: "event", APIVersion: c.cfg.APIVersion, Created: due.Unix(), PendingWebhooks: 1, Type: kind}
	j.Data.Object = object
	j.Request.ID, j.Request.IdempotencyKey = k.id, optional(k.Key)
	e.Payload, e.said = j.text(), heard(j)

	op := k.route.operation
	var early []string
	if now := c.clock.Now(); !due.After(now) && c.take(op, WebhookEarly, "") != nil {
		early = append(early, e.ID)
	}
	if f := c.take(op, WebhookLate, ""); f != nil {
		e.Due = due.Add(f.By)
	}
	if f := c.take(op, WebhookTwice, ""); f != nil {
		e.Times, e.Gap = 2, f.By
	}
	if c.take(op, WebhookNever, "") != nil {
		e.Times, early = 0, nil
	}
	w.Events = append(w.Events, e)
	return early
}

// RunOnce delivers the webhooks that are due, oldest first, each once. n is how
// many were received. Those that failed are due again after the backoff; they, and
// deliveries that could not be recorded, are the error, which tells of the first few
// and counts the others. With no Deliverer it does nothing.
func (c *Core) RunOnce(ctx context.Context) (n int, err error) {
	const told = 3
	var errs []error
	failed := 0
	for _, id := range c.due() {
		if cause := context.Cause(ctx); cause != nil {
			errs = append(errs, cause)
			break
		}
		ok, err := c.deliver(ctx, id)
		if err != nil {
			if failed++; failed <= told {
				errs = append(errs, err)
			}
		}
		if ok {
			n++
		}
	}
	if failed > told {
		errs = append(errs, fmt.Errorf("emulator: %d more deliveries failed", failed-told))
	}
	return n, errors.Join(errs...)
}

func (c *Core) due() []string {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owing = slices.DeleteFunc(c.owing, func(n numbered) bool { return c.events[n.id].delivered >= c.events[n.id].Times })
	var found []*event
	for _, o := range c.owing {
		if e := c.events[o.id]; e.owed() && !e.next.After(now) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b *event) int { return a.next.Compare(b.next) })
	var ids []string
	for _, e := range found[:min(len(found), c.cfg.WebhookBatch)] {
		ids = append(ids, e.ID)
	}
	return ids
}

func (e *event) owed() bool { return e.delivered < e.Times && !e.sending }

// NextWebhook returns when the next webhook is due, and whether there is one.
func (c *Core) NextWebhook() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var at time.Time
	found := false
	for _, o := range c.owing {
		if e := c.events[o.id]; e.owed() && (!found || e.next.Before(at)) {
			at, found = e.next, true
		}
	}
	return at, found
}

// deliver sends one webhook now and notes what became of it.
func (c *Core) deliver(ctx context.Context, id string) (bool, error) {
	if c.cfg.Deliverer == nil {
		return false, nil
	}
	c.mu.Lock()
	e := c.events[id]
	if e == nil || !e.owed() {
		c.mu.Unlock()
		return false, nil
	}
	e.sending = true
	payload, count := e.Payload, e.delivered+1
	c.mu.Unlock()

	err := errors.New("emulator: the deliverer panicked")
	defer func() { c.sent(id, err) }()
	err = c.send(ctx, payload)
	if err == nil {
		err = c.commit(ctx, record{At: c.clock.Now(), Webhook: &webhookRecord{Event: id, Delivered: count}})
	}
	if err != nil {
		return false, fmt.Errorf("emulator: deliver %s: %w", id, err)
	}
	return true, nil
}

func (c *Core) send(ctx context.Context, payload []byte) error {
	ctx, cancel := c.clock.WithTimeout(ctx, c.cfg.WebhookTimeout)
	defer cancel()
	return c.cfg.Deliverer.Deliver(ctx, payload, c.signer.sign(payload, c.clock.Now()))
}

// sent ends an attempt; a failed one is due again after the backoff.
func (c *Core) sent(id string, err error) {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.events[id]
	e.sending, e.lastError = false, ""
	if err != nil {
		e.lastError = err.Error()
		e.attempts++
		e.next = now.Add(backoff.Doubling{Min: c.cfg.WebhookBackoff, Max: c.cfg.WebhookMaxBackoff}.After(e.attempts))
	}
}
