package payments

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/reconcile"
	"github.com/retryproof/retryproof/resolve"
)

// Reconciliation is the comparison of a period, apart for payments and refunds.
type Reconciliation struct {
	Payments reconcile.Report `json:"payments"`
	Refunds  reconcile.Report `json:"refunds"`
}

// Reconcile compares the PSP's records of a period with the ledger's (mission C4).
func (s *System) Reconcile(ctx context.Context, from, to time.Time, c reconcile.Config) (Reconciliation, error) {
	if s.deps.Lister == nil {
		return Reconciliation{}, retryproof.Refused(retryproof.CodeInvalid, "payments: Deps.Lister is missing: the PSP's records cannot be listed", nil)
	}
	var out Reconciliation
	var err error
	if out.Payments, err = reconcile.Run(ctx, ourCharges{s}, theirCharges{s.deps.Lister}, from, to, c); err != nil {
		return out, err
	}
	out.Refunds, err = reconcile.Run(ctx, ourRefunds{s}, theirRefunds{s.deps.Lister}, from, to, c)
	return out, err
}

// byReconciliation is who settles what a reconciliation has found.
const byReconciliation = "reconciliation"

// pageOfRecords is how many of our payments are read at a time.
const pageOfRecords = 500

// theirCharges and theirRefunds are what the PSP holds.
type (
	theirCharges struct{ Lister }
	theirRefunds struct{ Lister }
)

func stateOf(s psp.State) effect.State {
	switch s {
	case psp.Succeeded:
		return effect.Succeeded
	case psp.Declined, psp.Failed:
		return effect.Failed
	}
	return effect.Unknown
}

// List implements reconcile.Remote.
func (t theirCharges) List(ctx context.Context, from, to time.Time, after string) ([]reconcile.Entry, string, error) {
	page, next, err := t.Lister.List(ctx, from, to, after, 0)
	out := make([]reconcile.Entry, len(page))
	for i, c := range page {
		out[i] = reconcile.Entry{Reference: c.Reference, Ref: c.ID, Amount: c.Amount, Currency: c.Currency, State: stateOf(c.State), At: c.Created}
	}
	return out, next, err
}

// List implements reconcile.Remote.
func (t theirRefunds) List(ctx context.Context, from, to time.Time, after string) ([]reconcile.Entry, string, error) {
	page, next, err := t.ListRefunds(ctx, from, to, after, 0)
	out := make([]reconcile.Entry, len(page))
	for i, r := range page {
		out[i] = reconcile.Entry{Reference: r.Reference, Ref: r.ID, Amount: r.Amount, Currency: r.Currency, State: stateOf(r.State), At: r.Created}
	}
	return out, next, err
}

// cursor is a place in one of our lists, as text.
func cursor(id retryproof.ID, created time.Time) string {
	return strconv.FormatInt(created.UnixMicro(), 10) + ":" + string(id)
}

func fromCursor(s string) (retryproof.ID, time.Time, error) {
	if s == "" {
		return "", time.Time{}, nil
	}
	micros, id, _ := strings.Cut(s, ":")
	at, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || id == "" {
		return "", time.Time{}, invalid("the cursor of a list is broken")
	}
	return retryproof.ID(id), time.UnixMicro(at).UTC(), nil
}

// ourCharges lists our payments for reconcile, which compares them with the PSP's charges.
type ourCharges struct{ s *System }

func entryOf(p Payment) reconcile.Entry {
	return reconcile.Entry{Reference: string(p.ID), Ref: p.ChargeID, Amount: p.Amount, Currency: p.Currency, State: p.State, At: p.CreatedAt}
}

// List implements reconcile.Ledger.
func (o ourCharges) List(ctx context.Context, from, to time.Time, after string) ([]reconcile.Entry, string, error) {
	var behind Payment
	var err error
	if behind.ID, behind.CreatedAt, err = fromCursor(after); err != nil {
		return nil, "", err
	}
	list, err := o.s.deps.Store.Ledger.Payments(ctx, Query{From: from, To: to, After: behind, Limit: pageOfRecords})
	out, next := make([]reconcile.Entry, len(list)), ""
	for i, p := range list {
		out[i] = entryOf(p)
	}
	if len(list) == pageOfRecords {
		next = cursor(list[pageOfRecords-1].ID, list[pageOfRecords-1].CreatedAt)
	}
	return out, next, err
}

// Look implements reconcile.Ledger.
func (o ourCharges) Look(ctx context.Context, reference string) (reconcile.Entry, bool, error) {
	p, err := o.s.deps.Store.Ledger.Payment(ctx, retryproof.ID(reference))
	if retryproof.CodeOf(err) == retryproof.CodeNotFound {
		return reconcile.Entry{}, false, nil
	}
	return entryOf(p), err == nil, err
}

// Settle implements reconcile.Ledger.
func (o ourCharges) Settle(ctx context.Context, reference string, there reconcile.Entry) (bool, error) {
	p, err := o.s.deps.Store.Ledger.Payment(ctx, retryproof.ID(reference))
	if err != nil {
		return false, err
	}
	f := o.s.succeeded(p, Outcome{ChargeID: there.Ref})
	if there.State != effect.Succeeded {
		f = failed(Outcome{ChargeID: there.Ref, DeclineCode: byReconciliation})
	}
	return o.s.closeBy(ctx, o.s.resolver, p.ID, f, there)
}

// closeBy settles an unknown with an entry of the PSP's list as the evidence.
func (s *System) closeBy(ctx context.Context, r *resolve.Resolver, id retryproof.ID, f effect.Finish, there reconcile.Entry) (bool, error) {
	_, err := r.Decide(ctx, resolve.Verdict{ID: id, Finish: f, By: byReconciliation,
		Reason: fmt.Sprintf("the processor lists %s: %s, %d %s, made %s", there.Ref, there.State, there.Amount, there.Currency, there.At.UTC().Format(time.RFC3339))})
	if code := retryproof.CodeOf(err); code == retryproof.CodeMoved || code == retryproof.CodeInProgress {
		return false, nil // somebody else was faster, or is about to be
	}
	return err == nil, err
}

// ourRefunds lists our refunds for reconcile, which compares them with the PSP's.
type ourRefunds struct{ s *System }

func refundEntryOf(r Refund) reconcile.Entry {
	return reconcile.Entry{Reference: string(r.ID), Ref: r.RefundID, Amount: r.Amount, Currency: r.Currency, State: r.State, At: r.CreatedAt}
}

// List implements reconcile.Ledger.
func (o ourRefunds) List(ctx context.Context, from, to time.Time, after string) ([]reconcile.Entry, string, error) {
	var behind Refund
	var err error
	if behind.ID, behind.CreatedAt, err = fromCursor(after); err != nil {
		return nil, "", err
	}
	list, err := o.s.deps.Store.RefundList.RefundsBetween(ctx, from, to, behind, pageOfRecords)
	out, next := make([]reconcile.Entry, len(list)), ""
	for i, r := range list {
		out[i] = refundEntryOf(r)
	}
	if len(list) == pageOfRecords {
		next = cursor(list[pageOfRecords-1].ID, list[pageOfRecords-1].CreatedAt)
	}
	return out, next, err
}

// byReference finds one of our refunds.
func (o ourRefunds) byReference(ctx context.Context, reference string) (Refund, bool, error) {
	// A settlement of no state moves nothing and shows what is there.
	out, err := o.s.refunds.engine.Settle(ctx, effect.Settle{ID: retryproof.ID(reference), To: effect.Unknown, By: byReconciliation, Now: o.s.deps.Clock.Now()})
	if err != nil || out.Guard == nil {
		return Refund{}, false, err
	}
	r, ok := out.Guard.Row.(Refund)
	return r, ok, nil
}

// Look implements reconcile.Ledger.
func (o ourRefunds) Look(ctx context.Context, reference string) (reconcile.Entry, bool, error) {
	r, found, err := o.byReference(ctx, reference)
	return refundEntryOf(r), found, err
}

// Settle implements reconcile.Ledger.
func (o ourRefunds) Settle(ctx context.Context, reference string, there reconcile.Entry) (bool, error) {
	r, found, err := o.byReference(ctx, reference)
	if err != nil || !found {
		return false, err
	}
	p, err := o.s.deps.Store.Ledger.Payment(ctx, r.PaymentID)
	if err != nil {
		return false, err
	}
	f := o.s.refundSucceeded(r, p, RefundOutcome{RefundID: there.Ref})
	if there.State != effect.Succeeded {
		f = o.s.refundFailed(r, RefundOutcome{RefundID: there.Ref, FailureCode: byReconciliation})
	}
	return o.s.closeBy(ctx, o.s.refunds.resolver, r.ID, f, there)
}
