package stripe

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	stripesdk "github.com/stripe/stripe-go/v85"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
)

// signatureHeader carries a webhook's signature.
const signatureHeader = "Stripe-Signature"

// Webhook verifies and reads a webhook; now is the time of its arrival.
//
// An event about a refund has it in Refund, even when it is none of ours: then
// somebody made it by hand and its Reference is empty. charge.refunded is not one of
// these, since it does not name the refund: subscribe to refund.created,
// refund.updated and refund.failed.
//
// An event that is about neither the outcome of one of our charges nor a refund
// (another type, or a PaymentIntent without our reference) is returned with its id
// and type, empty otherwise, and no error: see [Ignored]. Answer it with 2xx, or
// Stripe sends it for three days.
//
// Errors are NotDone: unauthorized when the signature does not hold, invalid when
// what was signed is no event.
func (c *Client) Webhook(payload []byte, header http.Header, now time.Time) (psp.WebhookEvent, error) {
	if err := c.verify(payload, header, now); err != nil {
		return psp.WebhookEvent{}, &retryproof.Error{
			Outcome: retryproof.NotDone, Code: retryproof.CodeUnauthorized, Message: "the webhook's signature does not hold", Err: err,
		}
	}
	var e struct { // no more than every kind of event has
		ID      string          `json:"id"`
		Type    string          `json:"type"`
		Created json.RawMessage `json:"created"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(payload, &e); err != nil || e.ID == "" || e.Type == "" {
		return psp.WebhookEvent{}, invalidEvent("the webhook is not an event")
	}
	out := psp.WebhookEvent{ID: e.ID, Type: e.Type, At: createdAt(e.Created)}
	switch stripesdk.EventType(e.Type) {
	case stripesdk.EventTypePaymentIntentSucceeded, stripesdk.EventTypePaymentIntentPaymentFailed,
		stripesdk.EventTypePaymentIntentProcessing, stripesdk.EventTypePaymentIntentCanceled:
		var i stripesdk.PaymentIntent
		if err := readObject(e.Data, &i); err != nil || i.ID == "" {
			return psp.WebhookEvent{}, invalidEvent("the webhook has no PaymentIntent")
		}
		if i.Metadata[referenceKey] != "" {
			out.Charge = chargeOf(&i, false)
		}
	case stripesdk.EventTypeRefundCreated, stripesdk.EventTypeRefundUpdated, stripesdk.EventTypeRefundFailed,
		stripesdk.EventTypeChargeRefundUpdated:
		var r stripesdk.Refund
		if err := readObject(e.Data, &r); err != nil || r.ID == "" {
			return psp.WebhookEvent{}, invalidEvent("the webhook has no refund")
		}
		out.Refund = refundOf(&r, false)
	}
	return out, nil
}

// readObject reads what an event is about.
func readObject(raw json.RawMessage, into any) error {
	var data stripesdk.EventData
	if err := json.Unmarshal(raw, &data); err != nil {
		return err
	}
	return json.Unmarshal(data.Raw, into)
}

func invalidEvent(message string) error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeInvalid, Message: message}
}

// createdAt reads an event's time: seconds since 1970, or RFC 3339 in newer kinds
// of events; the zero time when it is neither.
func createdAt(raw json.RawMessage) time.Time {
	var seconds int64
	if json.Unmarshal(raw, &seconds) == nil {
		return time.Unix(seconds, 0).UTC()
	}
	var at time.Time
	if json.Unmarshal(raw, &at) == nil {
		return at.UTC()
	}
	return time.Time{}
}

// Ignored reports that a verified webhook is neither about a charge of ours nor about
// a refund.
func Ignored(e psp.WebhookEvent) bool { return e.Charge.State == "" && e.Refund.State == "" }

// verify checks the signature at the given time. The library checks the digest; the
// time is ours to check, since the library asks the machine's clock.
func (c *Client) verify(payload []byte, header http.Header, now time.Time) error {
	if c.secret == "" {
		return errors.New("there is no WebhookSecret in the configuration")
	}
	values := header.Values(signatureHeader)
	if len(values) != 1 {
		return errors.New("there must be one Stripe-Signature header")
	}
	at, err := signedAt(values[0])
	if err != nil {
		return err
	}
	if age := now.Sub(at); age > c.tolerance || age < -c.tolerance {
		return errors.New("the signature's time is too far from now")
	}
	return stripesdk.ValidatePayload(payload, values[0], c.secret, stripesdk.WithIgnoreTolerance())
}

// signedAt reads the one time of a signature header.
func signedAt(header string) (time.Time, error) {
	var at time.Time
	found := false
	for part := range strings.SplitSeq(header, ",") {
		value, ok := strings.CutPrefix(part, "t=")
		if !ok {
			continue
		}
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || found {
			return time.Time{}, errors.New("the signature must have one time")
		}
		at, found = time.Unix(seconds, 0), true
	}
	if !found {
		return time.Time{}, errors.New("the signature must have one time")
	}
	return at, nil
}
