package payments

import (
	"context"
	"fmt"
	"net/http"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/resolve"
)

// refunds are the parts that give money back (mission C5). A refund is an effect of
// its own: recorded before its first call, with its amount taken off what is left of
// the payment in the same transaction, so that refunds together never exceed the
// charge; its key at the PSP derived from its own id, never from a running total;
// UNKNOWN like a payment, and settled by evidence only. A refund that definitely
// failed gives its amount back.
type refunds struct {
	engine   *effect.Engine
	keyed    *httpkey.Middleware
	resolver *resolve.Resolver
}

// EventRefunded is the type of the event that announces a settled refund.
const EventRefunded = "refund.succeeded"

// keyOfCancel is the key of every cancel: what names it is the payment.
const keyOfCancel = "cancel"

// refundOrder is the meaning of a refund request, and what its run needs.
type refundOrder struct {
	refund  Refund
	payment Payment
}

func (s *System) composeRefunds() error {
	var err error
	engine := s.config.engine()
	engine.Clock, engine.Rand, engine.Observe = s.deps.Clock, s.deps.Rand, s.sawRefund
	if s.refunds.engine, err = effect.New(s.deps.Store.Refunds, engine); err != nil {
		return err
	}
	s.refunds.keyed, err = httpkey.New(s.refunds.engine, httpkey.Config{
		Caller:   s.caller,
		Endpoint: refundEndpoint,
		Arrived:  s.deps.Arrived,
		Read:     s.readRefund,
		Render:   renderRefundGuard,
		MaxBody:  s.config.MaxBody,
	})
	if err != nil {
		return err
	}
	questions := s.config.questions()
	questions.Alert, questions.Clock, questions.Rand, questions.Observe = s.alert, s.deps.Clock, s.deps.Rand, s.sawRefundResolver
	questions.Ref = refIn
	ask, err := resolve.AskRemote(refundRemote{s}, s.config.ask(s.deps.Clock))
	if err != nil {
		return err
	}
	s.refunds.resolver, err = resolve.New(s.refunds.engine, s.deps.Store.DueRefunds, ask, renderRefundGuard, questions)
	return err
}

// refundEndpoint tells a cancel, whose key is ours, from a refund that a client has
// given the same key.
func refundEndpoint(r *http.Request) string {
	what := "/refunds"
	if isCancel(r) {
		what = "/cancel"
	}
	return "payments/" + r.PathValue("id") + what
}

// readRefund reads a refund request and the payment that it is about.
func (s *System) readRefund(r *http.Request, body []byte) (httpkey.Meaning, error) {
	if r.URL.RawQuery != "" {
		// A parameter that changed on a retry would make it another refund.
		return httpkey.Meaning{}, invalid("a refund takes no query parameters")
	}
	p, err := s.own(r)
	if code := retryproof.CodeOf(err); err != nil && (code == "" || code == retryproof.CodeUnknown) {
		// Not the client's fault: nothing ran, and it must not read "not valid".
		err = retryproof.Refused(retryproof.CodeUnavailable, "the records cannot be reached", err)
	}
	if err != nil {
		return httpkey.Meaning{}, err
	}
	key, err := retryproof.KeyFromHeader(r.Header.Values(httpkey.HeaderKey))
	if err != nil {
		return httpkey.Meaning{}, err
	}
	amount, id := p.Amount, retryproof.ID(p.ID.Sub(keyOfCancel))
	if !isCancel(r) {
		if amount, err = parseRefund(body); err != nil {
			return httpkey.Meaning{}, err
		}
		id = retryproof.Of("ref", retryproof.Scope{Endpoint: refundEndpoint(r), Caller: p.Caller, Key: key})
	}
	if p.State != effect.Succeeded {
		return httpkey.Meaning{}, retryproof.Refused(retryproof.CodeMoved, "the payment is "+publicState(p.State)+"; only a SUCCEEDED one can be refunded", nil)
	}
	f := Refund{ID: id, PaymentID: p.ID, Caller: p.Caller, Amount: amount, Currency: p.Currency, State: effect.Pending}
	return httpkey.Meaning{GuardID: id, Row: f, Value: refundOrder{f, p},
		Fingerprint: retryproof.FingerprintOf(retryproof.Text("payment_id", string(p.ID)), retryproof.Int("amount", amount))}, nil
}

// parseRefund reads the body of POST /payments/{id}/refunds: {"amount": minor units}.
func parseRefund(body []byte) (int64, error) {
	members, err := httpkey.ObjectMembers(body)
	if err != nil {
		return 0, err
	}
	m, ok := memberNamed(members, "amount")
	if !ok {
		return 0, invalid("amount is missing: say how much to refund, in minor units")
	}
	amount, err := parseAmount(string(m.Value))
	if err == nil && (amount <= 0 || amount > MaxAmount) {
		err = invalid(fmt.Sprintf("amount must be 1 to %d minor units", MaxAmount))
	}
	return amount, err
}

type cancelKey struct{}

func isCancel(r *http.Request) bool { return r.Context().Value(cancelKey{}) != nil }

// cancel refunds the whole payment, once: it needs no key of the client's, since
// there is one cancel of a payment.
func (s *System) cancel(w http.ResponseWriter, r *http.Request) {
	ctx := context.WithValue(r.Context(), cancelKey{}, true)
	again := r.Clone(ctx)
	again.Header.Set(httpkey.HeaderKey, keyOfCancel)
	s.refunds.keyed.Handler(http.HandlerFunc(s.createRefund)).ServeHTTP(w, again)
}

// createRefund runs a refund that this request owns.
func (s *System) createRefund(w http.ResponseWriter, r *http.Request) {
	order, ok := httpkey.ValueFrom(r.Context()).(refundOrder)
	a := effect.FromContext(r.Context())
	if !ok || a == nil {
		httpkey.ProblemOf(retryproof.Refused(retryproof.CodeUnavailable, "the refund's record has no refund", nil)).Write(w)
		return
	}
	if _, err := s.refund(r.Context(), a, order); err != nil {
		s.failedRun(w, a.ID(), err)
	}
}

// refund runs one attempt: the outside call, then one settlement.
func (s *System) refund(ctx context.Context, a *effect.Attempt, o refundOrder) (effect.Decision, error) {
	callCtx, cancel := a.Context(ctx)
	defer cancel()
	now := s.deps.Clock.Now()
	if !now.Before(a.Until()) || now.Sub(a.Guard().CreatedAt) >= s.config.PSPWindow-s.config.PSPWindowMargin {
		return a.Unknown(ctx) // no new side effect past the deadline, no repeat of a forgotten key
	}
	s.saw(o.payment.ID, hopPSP, "refund calls")
	got, err := s.deps.PSP.Refund(callCtx, refundRequest(a.Key("refund"), o.refund, o.payment))
	if err == nil {
		if f := s.refundFinding(o.refund, o.payment, got); f.Differs == "" && f.State.Final() {
			h := hook{id: o.refund.ID, source: "the answer to an attempt", engine: s.refunds.engine, evidence: s.deps.Store.DueRefunds, finding: f}
			return s.finish(ctx, a, h, f.Finish)
		}
	}
	if !a.TookOver() && refusedForGood(err) {
		return a.Finish(ctx, s.refundFailed(o.refund, RefundOutcome{FailureCode: "refused"}))
	}
	if !a.TookOver() && retryproof.OutcomeOf(err) == retryproof.NotDone {
		return effect.Decision{}, notSent(ctx, err)
	}
	s.deps.Log.Info("a refund ended without a definite answer", "refund", o.refund.ID, "error", err)
	return a.Unknown(ctx)
}

func refundRequest(key string, r Refund, p Payment) psp.RefundRequest {
	return psp.RefundRequest{Key: key, Reference: string(r.ID), ChargeID: p.ChargeID, Payment: string(p.ID), Amount: r.Amount, Currency: r.Currency}
}

// refundFinding is what the PSP's record of a refund means for ours.
func (s *System) refundFinding(r Refund, p Payment, got psp.Refund) resolve.Finding {
	f := resolve.Finding{Ref: got.ID, State: effect.Unknown}
	switch {
	case got.Reference != string(r.ID):
		f.Differs = fmt.Sprintf("it is about %q, not about this refund", got.Reference)
	case got.Amount != r.Amount || got.Currency != r.Currency:
		f.Differs = fmt.Sprintf("it is %d %s, the refund is %d %s", got.Amount, got.Currency, r.Amount, r.Currency)
	}
	switch got.State {
	case psp.Succeeded:
		f.State, f.Finish = effect.Succeeded, s.refundSucceeded(r, p, RefundOutcome{RefundID: got.ID})
	case psp.Failed:
		f.State, f.Finish = effect.Failed, s.refundFailed(r, RefundOutcome{RefundID: got.ID, FailureCode: got.FailureCode})
	}
	return f
}

// refundedEvent is the event's body.
type refundedEvent struct {
	RefundID   retryproof.ID `json:"refund_id"`
	PaymentID  retryproof.ID `json:"payment_id"`
	Caller     string        `json:"caller"`
	OrderID    string        `json:"order_id"`
	MerchantID string        `json:"merchant_id"`
	Amount     int64         `json:"amount"`
	Currency   string        `json:"currency"`
}

func (s *System) refundSucceeded(r Refund, p Payment, o RefundOutcome) effect.Finish {
	r.State, r.RefundID = effect.Succeeded, o.RefundID
	body := refundedBody(refundedEvent{RefundID: r.ID, PaymentID: r.PaymentID, Caller: r.Caller, OrderID: p.OrderID, MerchantID: p.MerchantID, Amount: r.Amount, Currency: r.Currency})
	return effect.Finish{
		State: effect.Succeeded, Answer: renderRefund(r), Row: o,
		Postings: []ledger.Posting{
			{Account: accountRefunds, Currency: r.Currency, Amount: -r.Amount, Ref: string(r.ID)},
			{Account: accountPSP, Currency: r.Currency, Amount: r.Amount, Ref: string(r.ID)},
		},
		Events: []retryproof.Event{{ID: r.ID.Sub("SUCCEEDED"), Type: EventRefunded, Group: p.MerchantID, Body: body, At: s.deps.Clock.Now()}},
	}
}

func (s *System) refundFailed(r Refund, o RefundOutcome) effect.Finish {
	r.State, r.RefundID, r.FailureCode = effect.Failed, o.RefundID, o.FailureCode
	return effect.Finish{State: effect.Failed, Answer: renderRefund(r), Row: o}
}

// refundBody is the answer about one refund; amount and currency are left out of one
// whose key was voided before they came with it.
type refundBody struct {
	ID          retryproof.ID `json:"id"`
	PaymentID   retryproof.ID `json:"payment_id"`
	State       string        `json:"state"`
	Amount      int64         `json:"amount,omitempty"`
	Currency    string        `json:"currency,omitempty"`
	FailureCode string        `json:"failure_code,omitempty"`
}

func bodyOfRefund(r Refund) refundBody {
	return refundBody{ID: r.ID, PaymentID: r.PaymentID, State: publicState(r.State), Amount: r.Amount, Currency: r.Currency, FailureCode: r.FailureCode}
}

// renderRefund makes the answer of a refund: 201 when the money is on its way back,
// 402 when it definitely is not, 202 with a Location while nobody knows.
func renderRefund(r Refund) effect.Answer {
	a := effect.Answer{Status: http.StatusAccepted, Body: textOfRefund(r), Header: map[string][]string{
		"Content-Type": jsonType, "Location": {"/payments/" + string(r.PaymentID) + "/refunds"}, "Cache-Control": noStore,
	}}
	switch r.State {
	case effect.Succeeded:
		a.Status = http.StatusCreated
	case effect.Failed:
		a.Status = http.StatusPaymentRequired
	}
	return a
}

func renderRefundGuard(g effect.Guard) effect.Answer {
	r, ok := g.Row.(Refund)
	if !ok {
		r = Refund{ID: g.ID}
	}
	r.State = g.State
	return renderRefund(r)
}

func (s *System) showRefunds(w http.ResponseWriter, r *http.Request) {
	p, err := s.own(r)
	if err != nil {
		writeError(w, err)
		return
	}
	all, err := s.deps.Store.Ledger.Refunds(r.Context(), p.ID)
	if err != nil {
		writeError(w, err)
		return
	}
	shown := make([]refundBody, len(all))
	for i, one := range all {
		shown[i] = bodyOfRefund(one)
	}
	writeJSON(w, map[string]any{"payment_id": p.ID, "refunded": p.Refunded, "refunds": shown})
}

// refundByID finds a refund of a payment.
func (s *System) refundByID(ctx context.Context, paymentID, id retryproof.ID) (Refund, error) {
	all, err := s.deps.Store.Ledger.Refunds(ctx, paymentID)
	if err != nil {
		return Refund{}, err
	}
	for _, r := range all {
		if r.ID == id {
			return r, nil
		}
	}
	return Refund{}, retryproof.Refused(retryproof.CodeNotFound, "there is no such refund", nil)
}

// refundRemote is the card processor as the resolver of refunds asks it.
type refundRemote struct{ s *System }

// Repeat implements resolve.Remote.
func (m refundRemote) Repeat(ctx context.Context, g effect.Guard) (resolve.Finding, error) {
	r, p, err := m.refundIn(ctx, g)
	if err != nil {
		return resolve.Finding{}, err
	}
	m.s.saw(p.ID, hopPSP, "refund calls")
	got, err := m.s.deps.PSP.Refund(ctx, refundRequest(r.ID.Sub("refund"), r, p))
	if err != nil {
		return resolve.Finding{}, err
	}
	if got.State == psp.Processing { // the key keeps saying so: look at it as it is now
		found, err := m.LookUp(ctx, g)
		if err != nil {
			return resolve.Finding{}, err
		}
		for _, f := range found {
			if f.Ref == got.ID {
				return f, nil
			}
		}
	}
	return m.s.refundFinding(r, p, got), nil
}

// LookUp implements resolve.Remote.
func (m refundRemote) LookUp(ctx context.Context, g effect.Guard) ([]resolve.Finding, error) {
	r, p, err := m.refundIn(ctx, g)
	if err != nil {
		return nil, err
	}
	found, err := m.s.deps.PSP.FindRefunds(ctx, string(r.ID), p.ChargeID)
	out := make([]resolve.Finding, len(found))
	for i, got := range found {
		out[i] = m.s.refundFinding(r, p, got)
	}
	return out, err
}

func (m refundRemote) refundIn(ctx context.Context, g effect.Guard) (Refund, Payment, error) {
	r, ok := g.Row.(Refund)
	if !ok {
		return Refund{}, Payment{}, fmt.Errorf("payments: guard %s has no refund", g.ID)
	}
	p, err := m.s.deps.Store.Ledger.Payment(ctx, r.PaymentID)
	return r, p, err
}

func (s *System) sawRefund(o effect.Observation) {
	s.deps.Metrics.Add("retryproof_refunds_total", 1, "what", o.What)
}

func (s *System) sawRefundResolver(what string, g effect.Guard) {
	s.deps.Metrics.Add("retryproof_refund_resolver_total", 1, "what", what)
	if r, ok := g.Row.(Refund); ok {
		s.saw(r.PaymentID, hopResolver, "refund "+what)
	}
}
