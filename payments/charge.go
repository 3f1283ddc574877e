package payments

// The charge of one payment, and the rules for what settles it.
//
// It promises that the card is charged under the payment's derived key, while the lease and
// the PSP's memory of the key hold, and that the settlement, its postings and its event are
// one transaction. It does not promise an outcome: without a definite answer the payment is
// UNKNOWN, and the resolver, a webhook or a person ends that.
//
// A crash before the call or during it leaves PENDING, which the next repeat runs again with
// the same key, or the sweep makes UNKNOWN; one after the settlement leaves the answer.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/resolve"
)

// The accounts of the journal. A payment moves its amount from the PSP to
// transit when it is settled, and from transit to the merchant when it is
// credited, so that what is settled and not yet credited can be seen. A refund goes
// the other way through a transit of its own.
const (
	accountPSP      = "psp:clearing"
	accountTransit  = "payments:transit"
	accountRefunds  = "refunds:transit"
	accountOpening  = "equity:opening"
	accountMerchant = "merchant:"
)

// MerchantAccount names a merchant's account.
func MerchantAccount(merchantID string) string { return accountMerchant + merchantID }

// EventSucceeded is the type of the event that announces a settled payment.
const EventSucceeded = "payment.succeeded"

// charge runs one attempt: the outside call, then one settlement. A call that
// ends without a definite answer leaves UNKNOWN and a pointer.
func (s *System) charge(ctx context.Context, a *effect.Attempt, p Payment) (effect.Decision, error) {
	callCtx, cancel := a.Context(ctx)
	defer cancel()
	if !s.deps.Clock.Now().Before(a.Until()) { // no new side effect past the deadline
		return a.Unknown(ctx)
	}
	created := a.Guard().CreatedAt
	if s.deps.Clock.Now().Sub(created) >= s.config.PSPWindow-s.config.PSPWindowMargin {
		return a.Unknown(ctx) // the PSP may have forgotten the key: look it up, do not repeat
	}
	s.saw(p.ID, hopPSP, "calls")
	charge, err := s.deps.PSP.Charge(callCtx, chargeRequest(a.Key("charge"), p))
	if err == nil {
		if f := s.finding(p, charge); f.Differs == "" && f.State.Final() {
			h := hook{id: p.ID, source: "the answer to an attempt", engine: s.engine, evidence: s.deps.Store.Due, finding: f}
			return s.finish(ctx, a, h, answered(p, f.Finish))
		}
	}
	if !a.TookOver() && refusedForGood(err) {
		return a.Finish(ctx, answered(p, failed(Outcome{DeclineCode: "invalid_request"})))
	}
	if !a.TookOver() && retryproof.OutcomeOf(err) == retryproof.NotDone {
		return effect.Decision{}, notSent(ctx, err)
	}
	s.deps.Log.Info("a charge ended without a definite answer", "payment", p.ID, "error", err)
	return a.Unknown(ctx)
}

// failedRun answers for a run that recorded nothing.
func (s *System) failedRun(w http.ResponseWriter, id retryproof.ID, err error) {
	if retryproof.OutcomeOf(err) == retryproof.NotDone {
		s.deps.Log.Warn("the card processor took no request", "id", id, "error", err)
	} else {
		s.deps.Log.Error("an outcome could not be recorded; the sweep will", "id", id, "error", err)
	}
	httpkey.ProblemOf(err).Write(w)
}

// notSent frees the key of a request that the PSP certainly did not take: it was not
// reached, or it refused before it looked. Leaving it UNKNOWN would let the resolver
// charge a buyer who has given up meanwhile.
func notSent(ctx context.Context, cause error) error {
	httpkey.NotDone(ctx)
	wait := time.Second
	var e *retryproof.Error
	if errors.As(cause, &e) && e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeUnavailable, RetryAfter: wait, Err: cause,
		Message: "the card processor cannot be reached, or refuses requests", Hint: "nothing happened; send it again with the same key"}
}

// answered adds the answer that the caller gets, and repeats of the request.
func answered(p Payment, f effect.Finish) effect.Finish {
	o := f.Row.(Outcome)
	p.State, p.ChargeID, p.DeclineCode = f.State, o.ChargeID, o.DeclineCode
	f.Answer = renderPayment(p)
	return f
}

func chargeRequest(key string, p Payment) psp.ChargeRequest {
	return psp.ChargeRequest{Key: key, Reference: string(p.ID), Amount: p.Amount, Currency: p.Currency, Method: p.Method}
}

// finding turns what the PSP says of a charge into what it means for the payment. It
// is the only place that decides what evidence is, for the first attempt, the
// resolver and the webhook alike.
func (s *System) finding(p Payment, c psp.Charge) resolve.Finding {
	f := resolve.Finding{Ref: c.ID, State: effect.Unknown}
	switch {
	case c.Reference != string(p.ID):
		f.Differs = fmt.Sprintf("it is about %q, not about this payment", c.Reference)
		return f
	case c.Amount != p.Amount || c.Currency != p.Currency:
		f.Differs = fmt.Sprintf("it is %d %s, the payment is %d %s", c.Amount, c.Currency, p.Amount, p.Currency)
	}
	switch c.State {
	case psp.Succeeded:
		f.State, f.Finish = effect.Succeeded, s.succeeded(p, Outcome{ChargeID: c.ID})
	case psp.Declined:
		f.State, f.Finish = effect.Failed, failed(Outcome{ChargeID: c.ID, DeclineCode: c.DeclineCode})
	}
	return f
}

// refusedForGood reports that the PSP refused the request as such, so that no
// repeat of it can charge. It settles a payment only when the request was the first
// under its key: the refusal of a repeat says nothing about what went before.
func refusedForGood(err error) bool {
	return retryproof.OutcomeOf(err) == retryproof.NotDone &&
		slices.Contains([]retryproof.Code{retryproof.CodeInvalid, retryproof.CodePermanent}, retryproof.CodeOf(err))
}

// succeeded and failed are final outcomes, without the answer: only the attempt gives
// one.
func (s *System) succeeded(p Payment, o Outcome) effect.Finish {
	return effect.Finish{
		State: effect.Succeeded, Row: o,
		Postings: []ledger.Posting{
			{Account: accountPSP, Currency: p.Currency, Amount: -p.Amount, Ref: string(p.ID)},
			{Account: accountTransit, Currency: p.Currency, Amount: p.Amount, Ref: string(p.ID)},
		},
		Events: []retryproof.Event{{ID: p.ID.Sub("SUCCEEDED"), Type: EventSucceeded, Group: p.MerchantID, Body: succeededBody(p), At: s.deps.Clock.Now()}},
	}
}

func failed(o Outcome) effect.Finish { return effect.Finish{State: effect.Failed, Row: o} }
