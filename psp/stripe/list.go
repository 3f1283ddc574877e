package stripe

import (
	"context"
	"time"

	stripesdk "github.com/stripe/stripe-go/v85"

	"github.com/retryproof/retryproof/psp"
)

// List returns a page of the PaymentIntents that were created in [from, to), newest
// first, and the cursor of the next page, "" when there is none: the PSP's own book,
// for reconciliation. limit is at most psp.MaxPage; 0 is psp.MaxPage. Those that
// somebody else made, without our reference, are in it. The interval counts in whole
// seconds, as Charge.Created does: see psp.Window. A window that has ended, pages
// included, no longer grows; one that has not may, in front of the first page.
//
// A listing is not a search and does not lag. Errors are Unknown; a cursor that is no
// charge has the code not-found.
func (c *Client) List(ctx context.Context, from, to time.Time, after string, limit int) ([]psp.Charge, string, error) {
	params, window, err := listing(ctx, from, to, after, limit)
	if err != nil || window == nil {
		return nil, "", err
	}
	l := c.api.V1PaymentIntents.List(ctx, &stripesdk.PaymentIntentListParams{ListParams: params, CreatedRange: window})
	return page(ctx, l, func(i *stripesdk.PaymentIntent) psp.Charge { return chargeOf(i, false) }, func(c psp.Charge) string { return c.ID })
}

// ListRefunds is List for refunds: also those that somebody made by hand.
func (c *Client) ListRefunds(ctx context.Context, from, to time.Time, after string, limit int) ([]psp.Refund, string, error) {
	params, window, err := listing(ctx, from, to, after, limit)
	if err != nil || window == nil {
		return nil, "", err
	}
	l := c.api.V1Refunds.List(ctx, &stripesdk.RefundListParams{ListParams: params, CreatedRange: window})
	return page(ctx, l, func(r *stripesdk.Refund) psp.Refund { return refundOf(r, false) }, func(r psp.Refund) string { return r.ID })
}

// listing checks and renders what is asked; the window is nil when it is empty.
func listing(ctx context.Context, from, to time.Time, after string, limit int) (stripesdk.ListParams, *stripesdk.RangeQueryParams, error) {
	var params stripesdk.ListParams
	if err := checkLookup(ctx, "a window", ""); err != nil {
		return params, nil, err
	}
	size, err := psp.PageSize(limit)
	if err != nil {
		return params, nil, err
	}
	first, end := psp.Window(from, to)
	if first >= end {
		return params, nil, nil
	}
	params.Limit = stripesdk.Int64(int64(size))
	if after != "" {
		params.StartingAfter = stripesdk.String(after)
	}
	// The library leaves a bound of 0 out, which is the same.
	return params, &stripesdk.RangeQueryParams{GreaterThanOrEqual: first, LesserThan: end}, nil
}

// page reads the one page that was asked for.
func page[From, To any](ctx context.Context, l *stripesdk.V1List[From], read func(From) To, id func(To) string) ([]To, string, error) {
	if err := l.Err(); err != nil {
		return nil, "", lookup(classify(ctx, err))
	}
	out := make([]To, 0, len(l.Data()))
	for _, from := range l.Data() {
		out = append(out, read(from))
	}
	if !l.Meta().HasMore || len(out) == 0 {
		return out, "", nil
	}
	return out, id(out[len(out)-1]), nil
}
