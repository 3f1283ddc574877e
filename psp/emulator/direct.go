package emulator

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
)

// CodeNoAnswer is the code of an error after which nobody knows whether the
// company got the request: repeat it with the same key. The Stripe adapter uses
// the same word.
const CodeNoAnswer retryproof.Code = "no-answer"

// referenceKey is the metadata name of psp.ChargeRequest.Reference.
const referenceKey = "payment_id"

// webhookTolerance is how far a signature's time may be from now.
const webhookTolerance = 5 * time.Minute

// Direct calls the company without a network, in psp's nouns, with the answers and
// the errors that the Stripe adapter gives for the same events; it is what a
// simulator hands to the payments system. It retries nothing.
type Direct struct {
	// Core is the company.
	Core *Core
}

// Charge creates and confirms a PaymentIntent in one request. A decline is a
// Charge with State Declined. See the Stripe adapter for the errors.
func (d Direct) Charge(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error) {
	resp, err := d.Core.do(ctx, Request{Method: http.MethodPost, Path: "/v1/payment_intents", Key: r.Key, typed: chargeForm(r)})
	if err != nil {
		return psp.Charge{}, noAnswer(err)
	}
	switch said := resp.said.(type) {
	case *intentJSON:
		return said.brief().charge(resp.Replayed), nil
	case *failure:
		return charged(resp, &said.errorJSON)
	}
	// A key of an earlier life of this process: only the bytes are left.
	if resp.Status == http.StatusOK {
		i, err := decode[briefIntent](resp.Body)
		if err != nil {
			return psp.Charge{}, err
		}
		return i.charge(resp.Replayed), nil
	}
	e, err := decode[struct {
		Error errorJSON `json:"error"`
	}](resp.Body)
	if err != nil {
		return psp.Charge{}, err
	}
	return charged(resp, &e.Error)
}

// charged is a decline as a charge, or any other refusal as an error.
func charged(resp Response, e *errorJSON) (psp.Charge, error) {
	if resp.Status == http.StatusPaymentRequired && e.Type == "card_error" && e.PaymentIntent != nil {
		return e.PaymentIntent.brief().charge(resp.Replayed), nil
	}
	return psp.Charge{}, refusal(resp, e)
}

// Find returns every PaymentIntent of a reference, newest first. None is no proof
// that there will be none: search lags behind.
func (d Direct) Find(ctx context.Context, reference string) ([]psp.Charge, error) {
	form := url.Values{"query": {"metadata['" + referenceKey + "']:" + QuoteSearch(reference)}, "limit": {"100"}}
	var out []psp.Charge
	for {
		resp, err := d.Core.Do(ctx, Request{Method: http.MethodGet, Path: "/v1/payment_intents/search", Form: form})
		if err != nil {
			return nil, noAnswer(err)
		}
		if resp.Status != http.StatusOK {
			return nil, lookupRefused(resp)
		}
		page, err := decode[struct {
			Data     []briefIntent `json:"data"`
			NextPage *string       `json:"next_page"`
		}](resp.Body)
		if err != nil {
			return nil, err
		}
		for _, i := range page.Data {
			out = append(out, i.charge(false))
		}
		if page.NextPage == nil {
			return out, nil
		}
		form.Set("page", *page.NextPage)
	}
}

// Retrieve returns the PaymentIntent with the given id.
func (d Direct) Retrieve(ctx context.Context, id string) (psp.Charge, error) {
	resp, err := d.Core.Do(ctx, Request{Method: http.MethodGet, Path: "/v1/payment_intents/" + url.PathEscape(id)})
	if err != nil {
		return psp.Charge{}, noAnswer(err)
	}
	if resp.Status != http.StatusOK {
		return psp.Charge{}, lookupRefused(resp)
	}
	i, err := decode[briefIntent](resp.Body)
	if err != nil {
		return psp.Charge{}, err
	}
	return i.charge(false), nil
}

// Webhook verifies a webhook's signature at the given time, within five minutes,
// and reads it. An event that is about neither a charge of ours nor a refund has an
// empty Charge and an empty Refund: answer 2xx and forget it.
func (d Direct) Webhook(payload []byte, header http.Header, now time.Time) (psp.WebhookEvent, error) {
	if err := d.Core.signer.verify(payload, header.Get(SignatureHeader), now); err != nil {
		return psp.WebhookEvent{}, retryproof.Refused(retryproof.CodeUnauthorized, "the webhook's signature does not hold", err)
	}
	if e := d.Core.pending(payload); e != nil {
		return *e, nil
	}
	var e struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Created int64  `json:"created"`
		Data    struct {
			Object briefObject `json:"object"`
		} `json:"data"`
	}
	err := json.Unmarshal(payload, &e)
	ours, refund := slices.Contains(chargeEvents, e.Type), slices.Contains(refundEvents, e.Type)
	if other := (*json.UnmarshalTypeError)(nil); err != nil && (ours || refund || !errors.As(err, &other)) {
		return psp.WebhookEvent{}, retryproof.Refused(retryproof.CodeInvalid, "the webhook is not an event", err)
	}
	out := psp.WebhookEvent{ID: e.ID, Type: e.Type, At: time.Unix(e.Created, 0).UTC()}
	object := &e.Data.Object
	if ours && object.Metadata[referenceKey] != "" {
		out.Charge = object.charge(false)
	}
	if refund {
		if object.ID == "" {
			return psp.WebhookEvent{}, retryproof.Refused(retryproof.CodeInvalid, "the webhook has no refund", nil)
		}
		out.Refund = object.refund(false)
	}
	return out, nil
}

// chargeEvents are the types of the events that are about a PaymentIntent,
// refundEvents of those about a refund; the object of any other may have another
// form. Charge.refunded is about a charge and does not name the refund.
var (
	chargeEvents = []string{"payment_intent.succeeded", "payment_intent.payment_failed", "payment_intent.processing"}
	refundEvents = []string{"refund.created", "refund.updated", "refund.failed", "charge.refund.updated"}
)

// verify checks a signature header: one t, one or more v1, of which one fits.
func (s *signer) verify(payload []byte, header string, now time.Time) error {
	t, times := "", 0
	for part := range strings.SplitSeq(header, ",") {
		if value, ok := strings.CutPrefix(part, "t="); ok {
			t, times = value, times+1
		}
	}
	if times > 1 {
		return errors.New("the signature has two times")
	}
	seconds, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		return errors.New("the signature has no time")
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > webhookTolerance || age < -webhookTolerance {
		return errors.New("the signature's time is too far from now")
	}
	want := s.mac(t, payload)
	for part := range strings.SplitSeq(header, ",") {
		value, ok := strings.CutPrefix(part, "v1=")
		var sum [sha256.Size]byte
		if !ok || len(value) != hex.EncodedLen(len(sum)) {
			continue
		}
		if _, err := hex.Decode(sum[:], []byte(value)); err == nil && hmac.Equal(sum[:], want[:]) {
			return nil
		}
	}
	return errors.New("no signature fits")
}

// briefIntent is what a charge needs of a PaymentIntent.
type briefIntent struct {
	ID               string            `json:"id"`
	Amount           int64             `json:"amount"`
	Created          int64             `json:"created"`
	Currency         string            `json:"currency"`
	LastPaymentError *briefError       `json:"last_payment_error"`
	Metadata         map[string]string `json:"metadata"`
	Status           string            `json:"status"`
}

type briefError struct {
	DeclineCode string `json:"decline_code"`
}

func (i *intentJSON) brief() *briefIntent {
	b := &briefIntent{ID: i.ID, Amount: i.Amount, Created: i.Created, Currency: i.Currency, Metadata: i.Metadata, Status: i.Status}
	if i.LastPaymentError != nil {
		b.LastPaymentError = &briefError{i.LastPaymentError.DeclineCode}
	}
	return b
}

func (i *briefIntent) charge(replayed bool) psp.Charge {
	c := psp.Charge{
		ID: i.ID, Reference: i.Metadata[referenceKey], Amount: i.Amount, Currency: strings.ToUpper(i.Currency),
		State: psp.Processing, Created: time.Unix(i.Created, 0).UTC(), Replayed: replayed,
	}
	switch {
	case i.Status == statusSucceeded:
		c.State = psp.Succeeded
	case i.Status == statusNeedsMethod && i.LastPaymentError != nil:
		c.State, c.DeclineCode = psp.Declined, i.LastPaymentError.DeclineCode
	}
	return c
}

func noAnswer(err error) error {
	return &retryproof.Error{Code: CodeNoAnswer, Message: "the PSP did not answer", Hint: "repeat with the same key", Err: err}
}

// refusal classifies an answered error of a charge or of a refund.
func refusal(resp Response, e *errorJSON) *retryproof.Error {
	out := &retryproof.Error{
		Outcome: retryproof.NotDone, Code: retryproof.CodeInvalid,
		Message: "the PSP answered " + strconv.Itoa(resp.Status) + " " + e.Type + " " + e.Code,
	}
	switch {
	case e.Type == "idempotency_error" && resp.Status == http.StatusConflict:
		out.Outcome, out.Code, out.RetryAfter = retryproof.Unknown, retryproof.CodeInProgress, time.Second
	case e.Type == "idempotency_error":
		out.Outcome, out.Code = retryproof.Unknown, retryproof.CodeKeyReused
	case resp.Status == http.StatusNotFound:
		out.Code = retryproof.CodeNotFound
	case resp.Status == http.StatusTooManyRequests && e.Code == "lock_timeout":
		out.Outcome, out.Code, out.RetryAfter = retryproof.Unknown, retryproof.CodeConflict, time.Second
	case resp.Status == http.StatusTooManyRequests:
		out.Code, out.RetryAfter = retryproof.CodeTooMany, time.Second
	case resp.Status >= 500:
		out.Outcome, out.Code = retryproof.Unknown, retryproof.CodeUnknown
		out.Hint = "the key keeps this answer: look it up by its reference"
	}
	return out
}

// lookupRefused classifies a failed lookup: it says nothing about any charge, so
// its outcome is always Unknown.
func lookupRefused(resp Response) error {
	out := &retryproof.Error{Code: retryproof.CodeInvalid, Message: "the PSP answered " + strconv.Itoa(resp.Status) + " to a lookup"}
	switch {
	case resp.Status == http.StatusNotFound:
		out.Code = retryproof.CodeNotFound
	case resp.Status == http.StatusTooManyRequests:
		out.Code, out.RetryAfter = retryproof.CodeTooMany, time.Second
	case resp.Status >= 500:
		out.Code = retryproof.CodeUnknown
	}
	return out
}

func decode[T any](b []byte) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, &retryproof.Error{Code: retryproof.CodeUnknown, Message: "the PSP's answer cannot be read", Err: err}
	}
	return v, nil
}
