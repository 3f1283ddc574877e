package stripe

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	stripesdk "github.com/stripe/stripe-go/v85"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
)

// refundKey is the metadata name of psp.RefundRequest.Reference; its Payment stands
// under referenceKey, as on the charge.
const refundKey = "refund_id"

// permanentRefusals are the codes after which the same refund can never be made: for
// the charge as it is, no other key and no later try helps.
var permanentRefusals = []stripesdk.ErrorCode{
	stripesdk.ErrorCodeAmountTooLarge, stripesdk.ErrorCodeChargeAlreadyRefunded, "charge_disputed",
	stripesdk.ErrorCodeChargeNotRefundable, stripesdk.ErrorCodeRefundDisputedPayment,
}

// Refund gives money of one charge back in one request. The errors are listed at the
// package. A final refusal (refunded already, disputed, more than is left) is
// NotDone with the code permanent; it speaks of this request only. When an earlier
// request under the same key is unsettled, or the key is older than Stripe's memory,
// "refunded already" may be the echo of this very refund: [Client.FindRefunds] tells.
//
// A refund that Succeeded can fail later, when the bank sends the money back: Stripe
// tells it by a webhook and by [Client.RetrieveRefund], never by a repeat of the key.
func (c *Client) Refund(ctx context.Context, r psp.RefundRequest) (psp.Refund, error) {
	if cause := context.Cause(ctx); cause != nil {
		return psp.Refund{}, &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeTooLate, Message: "the time was up before the PSP was asked", Err: cause}
	}
	if err := r.Validate(); err != nil {
		return psp.Refund{}, err
	}
	p := &stripesdk.RefundCreateParams{
		PaymentIntent: stripesdk.String(r.ChargeID),
		Amount:        stripesdk.Int64(r.Amount),
		Metadata:      map[string]string{refundKey: r.Reference, referenceKey: r.Payment},
	}
	p.SetIdempotencyKey(r.Key)
	refund, err := c.api.V1Refunds.Create(ctx, p)
	if err != nil {
		return psp.Refund{}, classifyRefund(ctx, err)
	}
	return refundOf(refund, replayed(refund.LastResponse)), nil
}

// classifyRefund says what an error of a refund tells about it.
func classifyRefund(ctx context.Context, err error) *retryproof.Error {
	out := classify(ctx, err)
	var e *stripesdk.Error
	if errors.As(err, &e) && out.Code == retryproof.CodeInvalid && e.HTTPStatusCode == http.StatusBadRequest &&
		(slices.Contains(permanentRefusals, e.Code) || e.Param == "amount") {
		out.Code, out.Hint = retryproof.CodePermanent, "an earlier request may have been the refund: look it up by its reference"
	}
	return out
}

// RetrieveRefund returns the refund with the given id, as it is now. Errors are
// Unknown; one that does not exist has the code not-found.
func (c *Client) RetrieveRefund(ctx context.Context, id string) (psp.Refund, error) {
	if err := checkLookup(ctx, id, "the refund's id is empty"); err != nil {
		return psp.Refund{}, err
	}
	refund, err := c.api.V1Refunds.Retrieve(ctx, id, nil)
	if err != nil {
		return psp.Refund{}, lookup(classify(ctx, err))
	}
	return refundOf(refund, false), nil
}

// FindRefunds returns every refund of the charge that carries our reference, newest
// first. It lists the charge's refunds and compares their metadata, since refunds
// cannot be searched; Stripe says that its listings, unlike its searches, serve a
// read right after a write. None is still no proof while a request under the key may
// be on its way or running. Errors are Unknown; a charge that does not exist has the
// code not-found.
func (c *Client) FindRefunds(ctx context.Context, reference, chargeID string) ([]psp.Refund, error) {
	if err := checkLookup(ctx, chargeID, "the charge's id is empty"); err != nil {
		return nil, err
	}
	if reference == "" {
		return nil, &retryproof.Error{Code: retryproof.CodeInvalid, Message: "the reference is empty"}
	}
	p := &stripesdk.RefundListParams{PaymentIntent: stripesdk.String(chargeID)}
	p.Limit = stripesdk.Int64(psp.MaxPage)
	var out []psp.Refund
	for refund, err := range c.api.V1Refunds.List(ctx, p).All(ctx) {
		if err != nil {
			return nil, lookup(classify(ctx, err))
		}
		if got := refundOf(refund, false); got.Reference == reference {
			out = append(out, got)
		}
	}
	return out, nil
}

// checkLookup refuses a question that must not be sent.
func checkLookup(ctx context.Context, id, problem string) error {
	if cause := context.Cause(ctx); cause != nil {
		return &retryproof.Error{Code: retryproof.CodeTooLate, Message: "the time was up before the PSP was asked", Err: cause}
	}
	if id == "" {
		return &retryproof.Error{Code: retryproof.CodeInvalid, Message: problem}
	}
	return nil
}

// refundOf reads a refund. One that waits for somebody, or whose status is not known
// here, is Processing: it may still give the money back.
func refundOf(r *stripesdk.Refund, wasReplayed bool) psp.Refund {
	out := psp.Refund{
		ID: r.ID, Reference: r.Metadata[refundKey], Payment: r.Metadata[referenceKey], Amount: r.Amount,
		Currency: strings.ToUpper(string(r.Currency)), State: psp.Processing, Created: time.Unix(r.Created, 0).UTC(), Replayed: wasReplayed,
	}
	if r.PaymentIntent != nil {
		out.ChargeID = r.PaymentIntent.ID
	}
	switch r.Status {
	case stripesdk.RefundStatusSucceeded:
		out.State = psp.Succeeded
	case stripesdk.RefundStatusFailed, stripesdk.RefundStatusCanceled:
		out.State, out.FailureCode = psp.Failed, string(r.FailureReason)
		if out.FailureCode == "" {
			out.FailureCode = string(r.Status)
		}
	}
	return out
}
