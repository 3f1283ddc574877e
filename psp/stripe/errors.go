package stripe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	stripesdk "github.com/stripe/stripe-go/v85"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
)

// CodeNoAnswer is the code of an Unknown error without an answer: the request may
// have arrived, or may still be running. Repeat it with the same key.
const CodeNoAnswer retryproof.Code = "no-answer"

// declineOf reports a definite refusal of the card. The PaymentIntent inside the
// error has the last word: when it says that the charge lives, it is no decline.
func declineOf(err error, r psp.ChargeRequest) (psp.Charge, bool) {
	var e *stripesdk.Error
	if !errors.As(err, &e) || e.HTTPStatusCode != http.StatusPaymentRequired || e.Type != stripesdk.ErrorTypeCard {
		return psp.Charge{}, false
	}
	c := psp.Charge{
		Reference: r.Reference, Amount: r.Amount, Currency: r.Currency, State: psp.Declined,
		DeclineCode: declineCode(e), Replayed: replayed(e.LastResponse),
	}
	if e.PaymentIntent == nil || e.PaymentIntent.ID == "" {
		return c, true
	}
	inside := chargeOf(e.PaymentIntent, c.Replayed)
	switch e.PaymentIntent.Status {
	case stripesdk.PaymentIntentStatusSucceeded, stripesdk.PaymentIntentStatusProcessing, stripesdk.PaymentIntentStatusRequiresCapture:
		return inside, true
	}
	inside.State, inside.DeclineCode = psp.Declined, c.DeclineCode
	return inside, true
}

// declineCode is the issuer's reason, or Stripe's code when there is none.
func declineCode(e *stripesdk.Error) string {
	if e.DeclineCode != "" {
		return string(e.DeclineCode)
	}
	return string(e.Code)
}

// classify says what an error of a charge or of a refund tells about it.
func classify(ctx context.Context, err error) *retryproof.Error {
	var e *stripesdk.Error
	if errors.As(err, &e) {
		return answered(e)
	}
	out := &retryproof.Error{
		Code: CodeNoAnswer, Message: "the PSP did not answer", Hint: "repeat with the same key", Err: safe(err),
	}
	if cause := context.Cause(ctx); cause != nil {
		out.Message, out.Err = "the time was up before the PSP answered", cause
	}
	if neverSent(err) {
		out.Outcome, out.Code = retryproof.NotDone, retryproof.CodeUnavailable
		out.Message, out.Hint = "the PSP cannot be reached", "nothing was sent"
	}
	return out
}

// neverSent reports that no connection came to be, so that no byte was sent.
func neverSent(err error) bool {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// safe keeps what a transport says and drops the rest: a URL holds what was searched
// for, and the library's words about an unreadable answer quote the answer.
func safe(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	var n net.Error
	if errors.As(err, &n) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return errors.New("the answer could not be read")
}

// answered classifies an error that Stripe answered. The library's error itself is
// not kept: printed, it shows the PaymentIntent with its client secret.
func answered(e *stripesdk.Error) *retryproof.Error {
	out := &retryproof.Error{Code: retryproof.CodeUnknown, Message: describe(e)}
	notDone := func(code retryproof.Code) { out.Outcome, out.Code = retryproof.NotDone, code }
	switch status := e.HTTPStatusCode; {
	case status == http.StatusConflict && e.Code == stripesdk.ErrorCodeIdempotencyKeyInUse:
		out.Code, out.RetryAfter = retryproof.CodeInProgress, retryAfter(e)
	case e.Type == stripesdk.ErrorTypeIdempotency:
		out.Code = retryproof.CodeKeyReused
		out.Hint = "the key's first request had other parameters and may have been done: look it up by its own reference"
	case status == http.StatusTooManyRequests && e.Code == stripesdk.ErrorCodeLockTimeout:
		out.Code, out.RetryAfter = retryproof.CodeConflict, retryAfter(e)
	case status == http.StatusTooManyRequests:
		notDone(retryproof.CodeTooMany)
		out.RetryAfter = retryAfter(e)
	case status == http.StatusUnauthorized:
		notDone(retryproof.CodeUnauthorized)
		out.Message = "the PSP refused the API key"
	case status == http.StatusForbidden:
		notDone(retryproof.CodeForbidden)
	case status == http.StatusNotFound:
		notDone(retryproof.CodeNotFound)
	case status == http.StatusBadRequest && e.Type == stripesdk.ErrorTypeInvalidRequest:
		notDone(retryproof.CodeInvalid)
	case status >= 500:
		out.Hint = "the key keeps this answer: look it up by its reference"
	}
	return out
}

// describe says what was answered, without the parts that may hold secrets.
func describe(e *stripesdk.Error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the PSP answered %d %s", e.HTTPStatusCode, e.Type)
	for _, part := range []struct{ name, value string }{
		{"", string(e.Code)}, {"parameter ", e.Param}, {"request ", e.RequestID},
	} {
		if part.value != "" {
			b.WriteString(" " + part.name + part.value)
		}
	}
	if replayed(e.LastResponse) {
		b.WriteString(", saved for this key")
	}
	return b.String()
}

// retryAfter reads Retry-After in seconds; a second when there is none.
func retryAfter(e *stripesdk.Error) time.Duration {
	if e.LastResponse != nil {
		if n, err := strconv.Atoi(e.LastResponse.Header.Get("Retry-After")); err == nil && n > 0 && n <= 3600 {
			return time.Duration(n) * time.Second
		}
	}
	return time.Second
}

// lookup turns the error of a charge into that of a lookup, which never says what
// became of a charge.
func lookup(e *retryproof.Error) error {
	e.Outcome = retryproof.Unknown
	if e.Code == CodeNoAnswer || e.Code == retryproof.CodeUnavailable {
		e.Hint = "look it up again"
	}
	return e
}
