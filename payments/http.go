package payments

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
)

// endpointPayments is the endpoint part of a payment's scope.
const endpointPayments = "payments"

// caller authenticates the request by its bearer token.
func (s *System) caller(r *http.Request) (string, error) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if ok && strings.EqualFold(scheme, "Bearer") {
		if caller, known := s.deps.Authenticate(strings.TrimSpace(token)); known {
			return caller, nil
		}
	}
	return "", retryproof.Refused(retryproof.CodeUnauthorized, "a valid bearer token is required", nil)
}

// readOrder turns a request into its meaning before anything is claimed.
func (s *System) readOrder(r *http.Request, body []byte) (httpkey.Meaning, error) {
	if r.URL.RawQuery != "" {
		// A parameter that changed on a retry would make it another payment.
		return httpkey.Meaning{}, invalid("POST /payments takes no query parameters")
	}
	order, err := ParseOrder(body, s.config.Merchants)
	if err != nil {
		return httpkey.Meaning{}, err
	}
	caller, err := s.caller(r)
	if err != nil {
		return httpkey.Meaning{}, err
	}
	key, err := retryproof.KeyFromHeader(r.Header.Values("Idempotency-Key"))
	if err != nil {
		return httpkey.Meaning{}, err
	}
	device, err := readDevice(r.Header)
	if err != nil {
		return httpkey.Meaning{}, err
	}
	scope := retryproof.Scope{Endpoint: endpointPayments, Caller: caller, Key: key}
	id := retryproof.Of("pay", scope)
	p := order.payment(id, caller)
	// Before the claim: a payment without its mark could be charged by a sweep and then
	// not be the device's last action. A mark without its payment says nothing.
	if err := s.accept(r.Context(), device, scope, p); err != nil {
		return httpkey.Meaning{}, err
	}
	return httpkey.Meaning{Fingerprint: order.Fingerprint(), GuardID: id, Row: p}, nil
}

// create runs a payment that this request owns. The settlement stores the answer;
// the middleware serves it.
func (s *System) create(w http.ResponseWriter, r *http.Request) {
	a := effect.FromContext(r.Context())
	p, ok := a.Guard().Row.(Payment)
	if !ok {
		httpkey.ProblemOf(retryproof.Refused(retryproof.CodeUnavailable, "the payment's record has no payment", nil)).Write(w)
		return
	}
	if _, err := s.charge(r.Context(), a, p); err != nil {
		s.failedRun(w, p.ID, err)
	}
}

// publicState is what callers see: what is not final is PROCESSING.
func publicState(state effect.State) string {
	if state.Final() {
		return string(state)
	}
	return "PROCESSING"
}

// paymentBody is the answer about one payment. A key that was voided before an order
// came with it has none, and says nothing of one.
type paymentBody struct {
	ID            retryproof.ID `json:"id"`
	State         string        `json:"state"`
	Amount        int64         `json:"amount,omitempty"`
	Currency      string        `json:"currency,omitempty"`
	OrderID       string        `json:"order_id,omitempty"`
	MerchantID    string        `json:"merchant_id,omitempty"`
	PaymentMethod string        `json:"payment_method,omitempty"`
	DeclineCode   string        `json:"decline_code,omitempty"`
}

func bodyOf(p Payment) paymentBody {
	return paymentBody{ID: p.ID, State: publicState(p.State), Amount: p.Amount, Currency: p.Currency,
		OrderID: p.OrderID, MerchantID: p.MerchantID, PaymentMethod: p.Method, DeclineCode: p.DeclineCode}
}

// Header values that are the same in every answer. Nobody changes them.
var jsonType, noStore = []string{"application/json"}, []string{"no-store"}

// renderPayment makes the answer of a payment from its row: 201 when the card was
// charged, 402 when it was declined, 202 with a Location while nobody knows.
func renderPayment(p Payment) effect.Answer {
	a := effect.Answer{Status: http.StatusAccepted, Body: textOf(p), Header: map[string][]string{
		"Content-Type": jsonType, "Location": {"/payments/" + string(p.ID)}, "Cache-Control": noStore,
	}}
	switch p.State {
	case effect.Succeeded:
		a.Status = http.StatusCreated
	case effect.Failed:
		a.Status = http.StatusPaymentRequired
	}
	return a
}

// renderGuard makes the answer of a payment's guard.
func (s *System) renderGuard(g effect.Guard) effect.Answer {
	p, ok := g.Row.(Payment)
	if !ok {
		p = Payment{ID: g.ID}
	}
	p.State = g.State
	return renderPayment(p)
}

// own reads a payment that belongs to the caller; somebody else's does not exist.
func (s *System) own(r *http.Request) (Payment, error) {
	caller, err := s.caller(r)
	if err != nil {
		return Payment{}, err
	}
	p, err := s.deps.Store.Ledger.Payment(r.Context(), retryproof.ID(r.PathValue("id")))
	if err == nil && p.Caller != caller {
		err = retryproof.Refused(retryproof.CodeNotFound, "there is no such payment", nil)
	}
	return p, err
}

func (s *System) show(w http.ResponseWriter, r *http.Request) {
	p, err := s.own(r)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, shownPayment{bodyOf(p), p.Refunded})
}

// shownPayment is a payment as it is now. What a key was answered never changes, so
// refunds are shown here only.
type shownPayment struct {
	paymentBody
	Refunded int64 `json:"refunded,omitempty"`
}

func (s *System) showHops(w http.ResponseWriter, r *http.Request) {
	p, err := s.own(r)
	if err != nil {
		writeError(w, err)
		return
	}
	table, err := s.hops(r.Context(), p)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, map[string]any{"payment_id": p.ID, "state": publicState(p.State), "hops": table})
}

func (s *System) balance(w http.ResponseWriter, r *http.Request) {
	if _, err := s.caller(r); err != nil {
		writeError(w, err)
		return
	}
	merchant, currency := r.PathValue("id"), r.URL.Query().Get("currency")
	if currency == "" {
		currency = "USD"
	}
	if !isCurrency(currency) {
		writeError(w, invalid("currency must be three capital letters (ISO 4217)"))
		return
	}
	if err := (Order{OrderID: "-", Method: "-", Amount: 1, Currency: currency, MerchantID: merchant}).check(s.config.Merchants); err != nil || !isText(merchant) {
		writeError(w, retryproof.Refused(retryproof.CodeNotFound, "there is no such merchant", nil))
		return
	}
	balance, err := s.deps.Store.Ledger.Balance(r.Context(), MerchantAccount(merchant), currency)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, map[string]any{"merchant_id": merchant, "currency": currency, "balance": balance})
}

func writeError(w http.ResponseWriter, err error) {
	if retryproof.CodeOf(err) == "" {
		err = retryproof.Refused(retryproof.CodeUnavailable, "the records cannot be reached", err)
	}
	httpkey.ProblemOf(err).Write(w)
}

func setJSON(h http.Header) {
	h["Content-Type"], h["Cache-Control"] = jsonType, noStore
}

func writeJSON(w http.ResponseWriter, v any) {
	setJSON(w.Header())
	_ = json.NewEncoder(w).Encode(v) // the client is gone: nobody to tell
}
