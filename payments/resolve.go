package payments

import (
	"net/http"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// keyQuestion is a question about a key: which effect it names, and what to read when the key
// store has the answer alone.
type keyQuestion struct {
	engine *effect.Engine
	scope  retryproof.Scope
	id     retryproof.ID
	what   string
}

// askAbout answers "what became of my key?", or makes sure that it never runs (mission
// C2): a key that nothing is known of is voided, so that an original that is still on
// its way is refused forever. What is in progress or not known keeps its key.
func askAbout(r *http.Request, q keyQuestion) (effect.Decision, error) {
	d, err := q.engine.Resolve(r.Context(), effect.Request{Scope: q.scope, GuardID: q.id})
	if err == nil && d.Verdict == effect.Busy {
		err = &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeInProgress, RetryAfter: d.RetryAfter,
			Message: "the " + q.what + " with this key is being worked on", Hint: "keep the key and ask again"}
	}
	return d, err
}

// voidedBody is all that there is to say of a key that was voided before anything came.
type voidedBody struct {
	ID    retryproof.ID `json:"id"`
	State effect.State  `json:"state"`
}

// writeAsked tells what an effect is now: 202 with a Location while nobody knows, 200
// when it is final.
func writeAsked(w http.ResponseWriter, state effect.State, location string, body any) {
	if !state.Final() {
		w.Header().Set("Location", location)
		w.Header().Set("Retry-After", "1")
		setJSON(w.Header())
		w.WriteHeader(http.StatusAccepted)
	}
	writeJSON(w, body)
}

// resolve answers what became of the key of a payment.
func (s *System) resolve(w http.ResponseWriter, r *http.Request) {
	caller, err := s.caller(r)
	var key retryproof.Key
	if err == nil {
		key, err = retryproof.KeyFromHeader(r.Header.Values("Idempotency-Key"))
	}
	if err != nil {
		writeError(w, err)
		return
	}
	scope := retryproof.Scope{Endpoint: endpointPayments, Caller: caller, Key: key}
	id := retryproof.Of("pay", scope)
	d, err := askAbout(r, keyQuestion{s.engine, scope, id, "payment"})
	var p Payment
	if err == nil {
		p, err = s.paymentOf(r, d, id)
	}
	switch {
	case err != nil:
		writeError(w, err)
	case p.neverBegan():
		writeJSON(w, voidedBody{p.ID, p.State})
	default:
		writeAsked(w, p.State, "/payments/"+string(p.ID), shownPayment{bodyOf(p), p.Refunded})
	}
}

// paymentOf is the payment of a decision; the key store may have had the answer alone.
func (s *System) paymentOf(r *http.Request, d effect.Decision, id retryproof.ID) (Payment, error) {
	if d.Guard != nil {
		if p, ok := d.Guard.Row.(Payment); ok {
			return p, nil
		}
	}
	return s.deps.Store.Ledger.Payment(r.Context(), id)
}

// neverBegan reports a key that was voided before an order came with it.
func (p Payment) neverBegan() bool { return p.State == effect.Void && p.Amount == 0 }

// resolveRefund answers what became of the key of a refund. A cancel needs none: it has
// no key, and sending it again is the question.
func (s *System) resolveRefund(w http.ResponseWriter, r *http.Request) {
	p, err := s.own(r)
	var key retryproof.Key
	if err == nil {
		key, err = retryproof.KeyFromHeader(r.Header.Values("Idempotency-Key"))
	}
	if err != nil {
		writeError(w, err)
		return
	}
	scope := retryproof.Scope{Endpoint: refundEndpoint(r), Caller: p.Caller, Key: key}
	id := retryproof.Of("ref", scope)
	d, err := askAbout(r, keyQuestion{s.refunds.engine, scope, id, "refund"})
	var f Refund
	if err == nil {
		f, err = s.refundOf(r, d, p.ID, id)
	}
	switch {
	case err != nil:
		writeError(w, err)
	case f.Amount == 0: // voided before a refund came
		writeJSON(w, voidedBody{id, effect.Void})
	default:
		writeAsked(w, f.State, "/payments/"+string(p.ID)+"/refunds", bodyOfRefund(f))
	}
}

func (s *System) refundOf(r *http.Request, d effect.Decision, paymentID, id retryproof.ID) (Refund, error) {
	if d.Guard != nil {
		if f, ok := d.Guard.Row.(Refund); ok {
			return f, nil
		}
	}
	return s.refundByID(r.Context(), paymentID, id)
}
