package payments

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/reconcile"
	"github.com/retryproof/retryproof/resolve"
)

// The operator's part of the API: what no machine can settle, a named person looks at
// and decides, and everything that they do is kept as evidence (mission C4).

// operator authenticates a person by their bearer token.
func (s *System) operator(r *http.Request) (string, error) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if ok && strings.EqualFold(scheme, "Bearer") {
		if name, known := s.deps.Operator(strings.TrimSpace(token)); known {
			return name, nil
		}
	}
	return "", retryproof.Refused(retryproof.CodeUnauthorized, "an operator's bearer token is required", nil)
}

// evidenceBody is evidence as an operator sees it.
type evidenceBody struct {
	At   time.Time           `json:"at"`
	Kind effect.EvidenceKind `json:"kind"`
	Name string              `json:"name"`
	By   string              `json:"by"`
	Seen string              `json:"seen"`
}

// operatorPayment is a payment with everything that is known of it. State is the real
// one: an operator must tell PENDING from UNKNOWN.
type operatorPayment struct {
	paymentBody
	State     effect.State     `json:"state"`
	Caller    string           `json:"caller"`
	ChargeID  string           `json:"charge_id,omitempty"`
	Refunded  int64            `json:"refunded"`
	CreatedAt time.Time        `json:"created_at"`
	UpdatedAt time.Time        `json:"updated_at"`
	Evidence  []evidenceBody   `json:"evidence"`
	Refunds   []operatorRefund `json:"refunds"`
}

type operatorRefund struct {
	refundBody
	State    effect.State   `json:"state"`
	RefundID string         `json:"refund_id,omitempty"`
	Evidence []evidenceBody `json:"evidence"`
}

// forOperator reads everything about one payment.
func (s *System) forOperator(r *http.Request, id retryproof.ID) (operatorPayment, error) {
	p, err := s.deps.Store.Ledger.Payment(r.Context(), id)
	if err != nil {
		return operatorPayment{}, err
	}
	out := operatorPayment{paymentBody: bodyOf(p), State: p.State, Caller: p.Caller, ChargeID: p.ChargeID, Refunded: p.Refunded,
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt, Refunds: []operatorRefund{}}
	if out.Evidence, err = evidenceOf(r, s.deps.Store.Due, id); err != nil {
		return operatorPayment{}, err
	}
	refunds, err := s.deps.Store.Ledger.Refunds(r.Context(), id)
	if err != nil {
		return operatorPayment{}, err
	}
	for _, f := range refunds {
		shown := operatorRefund{refundBody: bodyOfRefund(f), State: f.State, RefundID: f.RefundID}
		if shown.Evidence, err = evidenceOf(r, s.deps.Store.DueRefunds, f.ID); err != nil {
			return operatorPayment{}, err
		}
		out.Refunds = append(out.Refunds, shown)
	}
	return out, nil
}

func evidenceOf(r *http.Request, store resolve.Store, id retryproof.ID) ([]evidenceBody, error) {
	kept, err := store.Evidence(r.Context(), id)
	out := make([]evidenceBody, len(kept))
	for i, e := range kept {
		out[i] = evidenceBody{At: e.At, Kind: e.Kind, Name: e.Name, By: e.By, Seen: e.Seen}
	}
	return out, err
}

func (s *System) showToOperator(w http.ResponseWriter, r *http.Request) {
	_, err := s.operator(r)
	if err == nil {
		var p operatorPayment
		if p, err = s.forOperator(r, retryproof.ID(r.PathValue("id"))); err == nil {
			writeJSON(w, p)
			return
		}
	}
	writeError(w, err)
}

// maxUnknown bounds the list of what is open.
const maxUnknown = 200

// farFuture makes a list of what is due one of everything that is open.
const farFuture = 100 * 365 * 24 * time.Hour

// listUnknown lists what has no outcome yet, the longest untouched first.
func (s *System) listUnknown(w http.ResponseWriter, r *http.Request) {
	if _, err := s.operator(r); err != nil {
		writeError(w, err)
		return
	}
	type open struct {
		ID        retryproof.ID `json:"id"`
		PaymentID retryproof.ID `json:"payment_id"`
		Kind      string        `json:"kind"`
		State     effect.State  `json:"state"`
		Amount    int64         `json:"amount"`
		Currency  string        `json:"currency"`
		Tries     int           `json:"tries"`
		CreatedAt time.Time     `json:"created_at"`
		NextAt    *time.Time    `json:"next_at,omitempty"`
	}
	list := []open{}
	for _, of := range []struct {
		kind  string
		store resolve.Store
	}{{"payment", s.deps.Store.Due}, {"refund", s.deps.Store.DueRefunds}} {
		due, err := of.store.Due(r.Context(), resolve.Due{Now: s.deps.Clock.Now().Add(farFuture), Limit: maxUnknown})
		if err != nil {
			writeError(w, err)
			return
		}
		for _, g := range due {
			o := open{ID: g.ID, PaymentID: g.ID, Kind: of.kind, State: g.State, Tries: g.Tries, CreatedAt: g.CreatedAt}
			switch row := g.Row.(type) {
			case Payment:
				o.Amount, o.Currency = row.Amount, row.Currency
			case Refund:
				o.PaymentID, o.Amount, o.Currency = row.PaymentID, row.Amount, row.Currency
			}
			if !g.NextAt.IsZero() {
				o.NextAt = &g.NextAt
			}
			list = append(list, o)
		}
	}
	writeJSON(w, map[string]any{"unknown": list, "limit": maxUnknown})
}

// verdictBody is what a person decides.
type verdictBody struct {
	// State is SUCCEEDED, FAILED or VOID.
	State effect.State `json:"state"`
	// Reference is the processor's id of what happened; needed for SUCCEEDED.
	Reference string `json:"reference"`
	// Reason is kept as evidence.
	Reason string `json:"reason"`
}

// maxVerdictBody bounds the body of an operator's request, in bytes.
const maxVerdictBody = 16 << 10

func readVerdict(w http.ResponseWriter, r *http.Request) (verdictBody, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxVerdictBody))
	if err != nil {
		return verdictBody{}, retryproof.Refused(retryproof.CodeTooLarge, fmt.Sprintf("a verdict is at most %d bytes, sent whole", maxVerdictBody), nil)
	}
	return parseVerdict(body)
}

// parseVerdict reads a verdict, or says everything that is wrong with it.
func parseVerdict(body []byte) (verdictBody, error) {
	var v verdictBody
	members, err := httpkey.ObjectMembers(body) // strict: UTF-8, surrogates, repeated members
	if err != nil {
		return v, err
	}
	var problems []string
	refuse := func(is bool, problem string) {
		if is {
			problems = append(problems, problem)
		}
	}
	for _, m := range members {
		text, isText := m.Text()
		switch m.Name {
		case "state":
			v.State = effect.State(text)
		case "reference":
			v.Reference = text
		case "reason":
			v.Reason = text
		default:
			refuse(true, fmt.Sprintf("a verdict has no %q", m.Name))
			continue
		}
		refuse(!isText, m.Name+" must be a string")
	}
	refuse(v.State == effect.Succeeded && v.Reference == "", "a SUCCEEDED verdict needs the reference of the charge or refund at the processor")
	refuse(v.State == effect.Void && v.Reference != "", "what never ran has no reference at the processor")
	refuse(len(v.Reference) > MaxFieldBytes || strings.ContainsFunc(v.Reference, func(c rune) bool { return c < ' ' || c > '~' }),
		fmt.Sprintf("the reference is up to %d visible ASCII characters", MaxFieldBytes))
	var rest *retryproof.Error
	if errors.As(resolve.Verdict{ID: "-", By: "-", Finish: effect.Finish{State: v.State}, Reason: v.Reason}.Check(), &rest) {
		refuse(true, rest.Message)
	}
	if len(problems) > 0 {
		return v, invalid(`a verdict is {"state": "SUCCEEDED|FAILED|VOID", "reference": "…", "reason": "…"}: ` + strings.Join(problems, "; "))
	}
	return v, nil
}

// decidePayment applies an operator's verdict about a payment.
func (s *System) decidePayment(w http.ResponseWriter, r *http.Request) {
	id := retryproof.ID(r.PathValue("id"))
	s.decide(w, r, s.resolver, id, func(v verdictBody) (effect.Finish, error) {
		p, err := s.deps.Store.Ledger.Payment(r.Context(), id)
		if err == nil && p.neverBegan() {
			err = movedBy(p.State, p.ChargeID)
		}
		switch v.State {
		case effect.Succeeded:
			return s.succeeded(p, Outcome{ChargeID: v.Reference}), err
		case effect.Failed:
			return failed(Outcome{ChargeID: v.Reference, DeclineCode: "operator"}), err
		}
		return effect.Finish{State: v.State}, err
	})
}

// decideRefund applies an operator's verdict about a refund.
func (s *System) decideRefund(w http.ResponseWriter, r *http.Request) {
	id := retryproof.ID(r.PathValue("refund"))
	s.decide(w, r, s.refunds.resolver, id, func(v verdictBody) (effect.Finish, error) {
		p, err := s.deps.Store.Ledger.Payment(r.Context(), retryproof.ID(r.PathValue("id")))
		if err != nil {
			return effect.Finish{}, err
		}
		f, err := s.refundByID(r.Context(), p.ID, id)
		switch v.State {
		case effect.Succeeded:
			return s.refundSucceeded(f, p, RefundOutcome{RefundID: v.Reference}), err
		case effect.Failed:
			return s.refundFailed(f, RefundOutcome{RefundID: v.Reference, FailureCode: "operator"}), err
		}
		return effect.Finish{State: v.State}, err
	})
}

// movedBy refuses a verdict on what is final by now.
func movedBy(state effect.State, ref string) error {
	if ref != "" {
		ref = " as " + ref
	}
	return retryproof.Refused(retryproof.CodeMoved, fmt.Sprintf("it is %s%s by now, not UNKNOWN; nothing was changed", state, ref), nil)
}

// decide reads a verdict, applies it, and shows what the payment is then. A verdict on
// a row that moved meanwhile changes nothing: 409 says what it is now.
func (s *System) decide(w http.ResponseWriter, r *http.Request, by *resolve.Resolver, id retryproof.ID, finish func(verdictBody) (effect.Finish, error)) {
	name, err := s.operator(r)
	var v verdictBody
	if err == nil {
		v, err = readVerdict(w, r)
	}
	var f effect.Finish
	if err == nil {
		f, err = finish(v)
	}
	var g effect.Guard
	if err == nil {
		g, err = by.Decide(r.Context(), resolve.Verdict{ID: id, Finish: f, By: "operator " + name, Reason: v.Reason})
	}
	if ref := refIn(g); err == nil && v.Reference != "" && ref != v.Reference {
		err = movedBy(g.State, ref) // their earlier verdict, and not this one
	}
	var p operatorPayment
	if err == nil {
		s.deps.Metrics.Add("retryproof_verdicts_total", 1, "state", string(v.State))
		s.deps.Log.Info("a person gave a verdict", "id", id, "state", v.State, "by", name)
		p, err = s.forOperator(r, retryproof.ID(r.PathValue("id")))
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, p)
}

// maxPeriod bounds a reconciliation over HTTP.
const maxPeriod = 31 * 24 * time.Hour

// periodBody says what to reconcile.
type periodBody struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Settle closes what is unknown here and definite at the processor.
	Settle bool `json:"settle"`
}

// reconcileForOperator compares a period with the processor's records. Unknowns that
// could not be closed are in the report, each with its error: it is answered with 200.
func (s *System) reconcileForOperator(w http.ResponseWriter, r *http.Request) {
	name, err := s.operator(r)
	var body periodBody
	if err == nil {
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<10))
		d.DisallowUnknownFields()
		if d.Decode(&body) != nil || d.More() || !body.From.Before(body.To) || body.To.Sub(body.From) > maxPeriod {
			err = invalid(`a period is {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z", "settle": false}, of at most 31 days`)
		}
	}
	var out Reconciliation
	if err == nil {
		out, err = s.Reconcile(r.Context(), body.From, body.To, reconcile.Config{Settle: body.Settle})
	}
	if err != nil {
		writeError(w, err)
		return
	}
	s.deps.Log.Info("a period was reconciled", "by", name, "from", body.From, "to", body.To,
		"differences", len(out.Payments.Differences)+len(out.Refunds.Differences), "settled", out.Payments.Settled+out.Refunds.Settled,
		"failed", out.Payments.Failed+out.Refunds.Failed)
	writeJSON(w, out)
}
