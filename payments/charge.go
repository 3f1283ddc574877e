package payments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/psp"
)

// The accounts of the journal. A payment moves its amount from the PSP to
// transit when it is settled, and from transit to the merchant when it is
// credited, so that what is settled and not yet credited can be seen.
const (
	accountPSP      = "psp:clearing"
	accountTransit  = "payments:transit"
	accountOpening  = "equity:opening"
	accountMerchant = "merchant:"
)

// MerchantAccount names a merchant's account.
func MerchantAccount(merchantID string) string { return accountMerchant + merchantID }

// EventSucceeded is the type of the event that announces a settled payment.
const EventSucceeded = "payment.succeeded"

// succeededEvent is the event's body.
type succeededEvent struct {
	PaymentID  retryproof.ID `json:"payment_id"`
	Caller     string        `json:"caller"`
	OrderID    string        `json:"order_id"`
	MerchantID string        `json:"merchant_id"`
	Amount     int64         `json:"amount"`
	Currency   string        `json:"currency"`
}

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
	f, final := s.finish(p, charge, err)
	if !a.TookOver() && refusedForGood(err) {
		f, final = s.failed(p, Outcome{DeclineCode: "invalid_request"}), true
	}
	if !final {
		s.deps.Log.Info("a charge ended without a definite answer", "payment", p.ID, "error", err)
		return a.Unknown(ctx)
	}
	return a.Finish(ctx, f)
}

func chargeRequest(key string, p Payment) psp.ChargeRequest {
	return psp.ChargeRequest{Key: key, Reference: string(p.ID), Amount: p.Amount, Currency: p.Currency, Method: p.Method}
}

// finish turns what the PSP says into a final outcome, or says that it is none.
// It is the only place that decides what evidence is, for the first attempt, the
// resolver and the webhook alike.
func (s *System) finish(p Payment, c psp.Charge, err error) (effect.Finish, bool) {
	if err != nil {
		return effect.Finish{}, false
	}
	switch c.State {
	case psp.Succeeded:
		if c.Amount != p.Amount || c.Currency != p.Currency || c.Reference != string(p.ID) {
			s.conflict(p, c)
			return effect.Finish{}, false
		}
		return s.succeeded(p, Outcome{ChargeID: c.ID}), true
	case psp.Declined:
		return s.failed(p, Outcome{ChargeID: c.ID, DeclineCode: c.DeclineCode}), true
	}
	return effect.Finish{}, false
}

// refusedForGood reports that the PSP refused the request as such, so that no
// repeat of it can charge. It settles a payment only when the request was the first
// under its key: the refusal of a repeat says nothing about what went before.
func refusedForGood(err error) bool {
	return retryproof.OutcomeOf(err) == retryproof.NotDone &&
		slices.Contains([]retryproof.Code{retryproof.CodeInvalid, retryproof.CodePermanent}, retryproof.CodeOf(err))
}

func (s *System) succeeded(p Payment, o Outcome) effect.Finish {
	p.State, p.ChargeID = effect.Succeeded, o.ChargeID
	body, err := json.Marshal(succeededEvent{PaymentID: p.ID, Caller: p.Caller, OrderID: p.OrderID, MerchantID: p.MerchantID, Amount: p.Amount, Currency: p.Currency})
	if err != nil {
		panic("payments: an event of strings and integers cannot be encoded: " + err.Error())
	}
	return effect.Finish{
		State: effect.Succeeded, Answer: renderPayment(p), Row: o,
		Postings: []ledger.Posting{
			{Account: accountPSP, Currency: p.Currency, Amount: -p.Amount, Ref: string(p.ID)},
			{Account: accountTransit, Currency: p.Currency, Amount: p.Amount, Ref: string(p.ID)},
		},
		Events: []retryproof.Event{{ID: p.ID.Sub("SUCCEEDED"), Type: EventSucceeded, Group: p.MerchantID, Body: body, At: s.deps.Clock.Now()}},
	}
}

func (s *System) failed(p Payment, o Outcome) effect.Finish {
	p.State, p.ChargeID, p.DeclineCode = effect.Failed, o.ChargeID, o.DeclineCode
	return effect.Finish{State: effect.Failed, Answer: renderPayment(p), Row: o}
}

// conflict tells a person that the PSP's record and ours disagree. The payment
// keeps its state: a wrong amount is no evidence of the right one.
func (s *System) conflict(p Payment, c psp.Charge) {
	s.deps.Metrics.Add("retryproof_psp_conflicts_total", 1)
	s.deps.Log.Error("the PSP's charge does not match the payment: a person must look", "payment", p.ID, "charge", c.ID,
		"our_amount", p.Amount, "psp_amount", c.Amount, "our_currency", p.Currency, "psp_currency", c.Currency)
}

// repeatTimeout bounds the resolver's repeat of a call: half of its lease.
const repeatTimeout = 7 * time.Second

// ask is the resolver's question (mission C4): inside the PSP's window the call is
// repeated with the same key and identical parameters; after it, or when the PSP
// keeps a saved error for the key, the charge is looked up by our reference. That
// a search finds nothing proves nothing.
func (s *System) ask(ctx context.Context, g effect.Guard) (effect.Finish, error) {
	p, ok := g.Row.(Payment)
	if !ok {
		return effect.Finish{}, fmt.Errorf("payments: guard %s has no payment", g.ID)
	}
	var cause error
	if s.deps.Clock.Now().Sub(p.CreatedAt) < s.config.PSPWindow-s.config.PSPWindowMargin {
		s.saw(p.ID, hopPSP, "calls")
		// A processor that hangs must leave time for the look-up.
		callCtx, cancel := s.deps.Clock.WithTimeout(ctx, repeatTimeout)
		c, err := s.deps.PSP.Charge(callCtx, chargeRequest(p.ID.Sub("charge"), p))
		cancel()
		if f, final := s.finish(p, c, err); final {
			return f, nil
		}
		if err == nil {
			// The key keeps saying "processing", whatever happened since.
			c, err = s.deps.PSP.Retrieve(ctx, c.ID)
			if f, final := s.finish(p, c, err); err == nil && final {
				return f, nil
			}
			return effect.Finish{}, fmt.Errorf("payments: the PSP has not decided yet: %w", errOr(err))
		}
		cause = err
	}
	found, err := s.deps.PSP.Find(ctx, string(p.ID))
	if err != nil {
		return effect.Finish{}, fmt.Errorf("payments: look-up: %w (repeat: %v)", err, cause) //nolint:errorlint // there may be no cause
	}
	var settled []psp.Charge
	for _, c := range found {
		if c.State == psp.Succeeded {
			settled = append(settled, c)
		}
	}
	if len(settled) > 1 {
		s.deps.Metrics.Add("retryproof_psp_conflicts_total", 1)
		s.deps.Log.Error("the PSP holds more than one charge for a payment: a person must look", "payment", p.ID, "charges", len(settled))
		return effect.Finish{}, fmt.Errorf("payments: the PSP holds %d charges", len(settled))
	}
	if len(settled) == 1 {
		if f, final := s.finish(p, settled[0], nil); final {
			return f, nil
		}
	}
	return effect.Finish{}, fmt.Errorf("payments: no evidence yet: %d charges found (repeat: %v)", len(found), cause) //nolint:errorlint // there may be no cause
}

// errUndecided says that the PSP answered and has no outcome.
var errUndecided = errors.New("the charge is still processing, or does not match the payment")

func errOr(err error) error {
	if err == nil {
		return errUndecided
	}
	return err
}

// alert tells a person that a payment stays UNKNOWN.
func (s *System) alert(_ context.Context, g effect.Guard, cause error) {
	s.deps.Metrics.Add("retryproof_unknown_alerts_total", 1)
	s.deps.Log.Error("a payment stays UNKNOWN: a person must look", "payment", g.ID, "tries", g.Tries,
		"since", g.CreatedAt.Format(time.RFC3339), "error", cause)
}
