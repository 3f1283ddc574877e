package emulator

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
)

// permanentRefusals are the codes after which the same refund can never be made: for
// the charge as it is, no other key and no later try helps.
var permanentRefusals = []string{
	"amount_too_large", "charge_already_refunded", "charge_disputed", "charge_not_refundable", "refund_disputed_payment",
}

// Refund gives money of one charge back. See the Stripe adapter for the errors.
func (d Direct) Refund(ctx context.Context, r psp.RefundRequest) (psp.Refund, error) {
	if err := r.Validate(); err != nil {
		return psp.Refund{}, err
	}
	resp, err := d.Core.do(ctx, Request{Method: http.MethodPost, Path: "/v1/refunds", Key: r.Key, typed: refundForm(r)})
	if err != nil {
		return psp.Refund{}, noAnswer(err)
	}
	switch said := resp.said.(type) {
	case *refundJSON:
		return said.brief().refund(resp.Replayed), nil
	case *failure:
		return psp.Refund{}, refundRefused(resp, &said.errorJSON)
	}
	// A key of an earlier life of this process: only the bytes are left.
	if resp.Status == http.StatusOK {
		return refundIn(resp)
	}
	e, err := decode[struct {
		Error errorJSON `json:"error"`
	}](resp.Body)
	if err != nil {
		return psp.Refund{}, err
	}
	return psp.Refund{}, refundRefused(resp, &e.Error)
}

func refundRefused(resp Response, e *errorJSON) error {
	out := refusal(resp, e)
	if out.Code == retryproof.CodeInvalid && slices.Contains(permanentRefusals, e.Code) {
		out.Code, out.Hint = retryproof.CodePermanent, "an earlier request may have been the refund: look it up by its reference"
	}
	return out
}

// RetrieveRefund returns the refund with the given id, as it is now.
func (d Direct) RetrieveRefund(ctx context.Context, id string) (psp.Refund, error) {
	if id == "" {
		return psp.Refund{}, &retryproof.Error{Code: retryproof.CodeInvalid, Message: "the refund's id is empty"}
	}
	resp, err := d.Core.Do(ctx, Request{Method: http.MethodGet, Path: "/v1/refunds/" + url.PathEscape(id)})
	if err != nil {
		return psp.Refund{}, noAnswer(err)
	}
	if resp.Status != http.StatusOK {
		return psp.Refund{}, lookupRefused(resp)
	}
	return refundIn(resp)
}

// FindRefunds returns every refund of the charge that carries our reference, newest
// first. A listing does not lag; still, none is no proof while a request may be on
// its way.
func (d Direct) FindRefunds(ctx context.Context, reference, chargeID string) ([]psp.Refund, error) {
	if reference == "" || chargeID == "" {
		return nil, &retryproof.Error{Code: retryproof.CodeInvalid, Message: "the reference or the charge's id is empty"}
	}
	form := url.Values{"payment_intent": {chargeID}}
	var out []psp.Refund
	for after := ""; ; {
		page, next, err := list[briefObject](ctx, d.Core, "/v1/refunds", form, after, psp.MaxPage)
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			if r := o.refund(false); r.Reference == reference {
				out = append(out, r)
			}
		}
		if next == "" {
			return out, nil
		}
		after = next
	}
}

// List returns a page of the charges that were created in [from, to), newest first,
// and the cursor of the next page, "" when there is none.
func (d Direct) List(ctx context.Context, from, to time.Time, after string, limit int) ([]psp.Charge, string, error) {
	page, next, err := window[briefIntent](ctx, d.Core, "/v1/payment_intents", from, to, after, limit)
	if err != nil {
		return nil, "", err
	}
	out := make([]psp.Charge, 0, len(page))
	for _, i := range page {
		out = append(out, i.charge(false))
	}
	return out, next, nil
}

// ListRefunds is List for refunds: also those that somebody made by hand.
func (d Direct) ListRefunds(ctx context.Context, from, to time.Time, after string, limit int) ([]psp.Refund, string, error) {
	page, next, err := window[briefObject](ctx, d.Core, "/v1/refunds", from, to, after, limit)
	if err != nil {
		return nil, "", err
	}
	out := make([]psp.Refund, 0, len(page))
	for _, o := range page {
		out = append(out, o.refund(false))
	}
	return out, next, nil
}

// window lists one page of what was created in [from, to).
func window[T identified](ctx context.Context, c *Core, path string, from, to time.Time, after string, limit int) ([]T, string, error) {
	size, err := psp.PageSize(limit)
	if err != nil {
		return nil, "", err
	}
	first, end := psp.Window(from, to)
	if first >= end {
		return nil, "", nil
	}
	form := url.Values{"created[gte]": {strconv.FormatInt(first, 10)}, "created[lt]": {strconv.FormatInt(end, 10)}}
	return list[T](ctx, c, path, form, after, size)
}

type identified interface{ id() string }

// list reads one page and returns the cursor of the next.
func list[T identified](ctx context.Context, c *Core, path string, form url.Values, after string, size int) ([]T, string, error) {
	form.Set("limit", strconv.Itoa(size))
	if after != "" {
		form.Set("starting_after", after)
	}
	resp, err := c.Do(ctx, Request{Method: http.MethodGet, Path: path, Form: form})
	if err != nil {
		return nil, "", noAnswer(err)
	}
	if resp.Status != http.StatusOK {
		return nil, "", lookupRefused(resp)
	}
	page, err := decode[struct {
		Data    []T  `json:"data"`
		HasMore bool `json:"has_more"`
	}](resp.Body)
	if err != nil {
		return nil, "", err
	}
	if !page.HasMore || len(page.Data) == 0 {
		return page.Data, "", nil
	}
	return page.Data, page.Data[len(page.Data)-1].id(), nil
}

func refundIn(resp Response) (psp.Refund, error) {
	o, err := decode[briefObject](resp.Body)
	if err != nil {
		return psp.Refund{}, err
	}
	return o.refund(resp.Replayed), nil
}

// briefObject is a PaymentIntent or a refund.
type briefObject struct {
	briefIntent
	FailureReason string `json:"failure_reason"`
	PaymentIntent string `json:"payment_intent"`
}

func (i briefIntent) id() string { return i.ID }

// refund reads a refund. One whose status is not known here is Processing: it is
// asked again.
func (o *briefObject) refund(replayed bool) psp.Refund {
	r := psp.Refund{
		ID: o.ID, Reference: o.Metadata[refundKey], Payment: o.Metadata[referenceKey], ChargeID: o.PaymentIntent,
		Amount: o.Amount, Currency: strings.ToUpper(o.Currency), State: psp.Processing,
		Created: time.Unix(o.Created, 0).UTC(), Replayed: replayed,
	}
	switch o.Status {
	case statusSucceeded:
		r.State = psp.Succeeded
	case statusFailed:
		r.State, r.FailureCode = psp.Failed, o.FailureReason
	}
	return r
}
