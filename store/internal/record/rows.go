package record

import (
	"database/sql"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
)

// Kind says what a table of guards keeps beside the guard.
type Kind int

// The kinds of tables.
const (
	Generic     Kind = iota // a result
	PaymentRows             // each row is a payment
	RefundRows              // each row is a refund of a payment
)

// businessColumns are the columns beside the guard's.
func (t Table) businessColumns() []string {
	switch t.Kind {
	case PaymentRows:
		return []string{"order_id", "merchant_id", "amount", "currency", "payment_method", "psp_charge", "decline_code", "refunded"}
	case RefundRows:
		return []string{"payment_id", "amount", "currency", "psp_refund", "failure_code"}
	}
	return []string{"result"}
}

// BusinessColumns are the columns that a settlement may set, in the order of
// SettleArgs.
func (t Table) BusinessColumns() []string {
	switch t.Kind {
	case PaymentRows:
		return []string{"psp_charge", "decline_code"}
	case RefundRows:
		return []string{"psp_refund", "failure_code"}
	}
	return []string{"result"}
}

// businessArgs are the values of businessColumns for a guard that b asks for. A VOID
// guard has none.
func (t Table) businessArgs(b effect.Begin) ([]any, error) {
	if b.Void {
		b.Row = nil
	}
	switch t.Kind {
	case PaymentRows:
		p, ok := b.Row.(payments.Payment)
		if !ok && !b.Void {
			return nil, Invalid("the row of the payments table must be a payments.Payment")
		}
		return []any{p.OrderID, p.MerchantID, p.Amount, p.Currency, p.Method, p.ChargeID, p.DeclineCode, int64(0)}, nil
	case RefundRows:
		r, ok := b.Row.(payments.Refund)
		if !b.Void && (!ok || r.Amount <= 0 || r.PaymentID == "") {
			return nil, Invalid("the row of the refunds table must be a payments.Refund of a payment, with an amount")
		}
		return []any{string(r.PaymentID), r.Amount, r.Currency, r.RefundID, r.FailureCode}, nil
	}
	if b.Row != nil {
		return nil, Invalid("the generic guard table keeps no business row")
	}
	return []any{nil}, nil
}

// SettleArgs are the values of BusinessColumns; NULL leaves a column as it is.
func (t Table) SettleArgs(s effect.Settle) ([]any, error) {
	if t.Kind == Generic {
		if s.Row != nil {
			return nil, Invalid("the generic guard table keeps no business row")
		}
		if s.Result == nil {
			return []any{nil}, nil
		}
		return []any{s.Result}, nil
	}
	if s.Row == nil {
		return []any{nil, nil}, nil
	}
	if o, ok := s.Row.(payments.Outcome); ok && t.Kind == PaymentRows {
		return []any{o.ChargeID, o.DeclineCode}, nil
	}
	if o, ok := s.Row.(payments.RefundOutcome); ok && t.Kind == RefundRows {
		return []any{o.RefundID, o.FailureCode}, nil
	}
	return nil, Invalid("the payments table takes a payments.Outcome to settle, the refunds table a payments.RefundOutcome")
}

// newRow is the business row of the guard that b asks for, as it would be read back.
func (t Table) newRow(b effect.Begin) any {
	if b.Void {
		b.Row = nil
	}
	switch t.Kind {
	case PaymentRows:
		p, _ := b.Row.(payments.Payment)
		p.Refunded = 0
		return p
	case RefundRows:
		r, _ := b.Row.(payments.Refund)
		return r
	}
	return nil
}

// settledRow is the business row after a settlement.
func (t Table) settledRow(row any, s effect.Settle) any {
	switch r := row.(type) {
	case payments.Payment:
		if o, ok := s.Row.(payments.Outcome); ok {
			r.ChargeID, r.DeclineCode = o.ChargeID, o.DeclineCode
		}
		return r
	case payments.Refund:
		if o, ok := s.Row.(payments.RefundOutcome); ok {
			r.RefundID, r.FailureCode = o.RefundID, o.FailureCode
		}
		return r
	}
	return row
}

// mirror copies to the business row what the guard's columns hold.
func mirror(g *effect.Guard) {
	switch r := g.Row.(type) {
	case payments.Payment:
		r.ID, r.Caller, r.State, r.CreatedAt, r.UpdatedAt = g.ID, g.Scope.Caller, g.State, g.CreatedAt, g.UpdatedAt
		g.Row = r
	case payments.Refund:
		r.ID, r.Caller, r.State, r.CreatedAt, r.UpdatedAt = g.ID, g.Scope.Caller, g.State, g.CreatedAt, g.UpdatedAt
		g.Row = r
	}
}

// rowScan receives the business columns of any table.
type rowScan struct {
	result                                               []byte
	payment, order, merchant, currency, method, psp, why sql.NullString
	amount, refunded                                     sql.NullInt64
}

func (s *rowScan) dest(kind Kind) []any {
	switch kind {
	case PaymentRows:
		return []any{&s.order, &s.merchant, &s.amount, &s.currency, &s.method, &s.psp, &s.why, &s.refunded}
	case RefundRows:
		return []any{&s.payment, &s.amount, &s.currency, &s.psp, &s.why}
	}
	return []any{&s.result}
}

func (s *rowScan) row(kind Kind) any {
	switch kind {
	case PaymentRows:
		return payments.Payment{
			OrderID: s.order.String, MerchantID: s.merchant.String, Amount: s.amount.Int64, Currency: s.currency.String,
			Method: s.method.String, ChargeID: s.psp.String, DeclineCode: s.why.String, Refunded: s.refunded.Int64,
		}
	case RefundRows:
		return payments.Refund{
			PaymentID: retryproof.ID(s.payment.String), Amount: s.amount.Int64, Currency: s.currency.String,
			RefundID: s.psp.String, FailureCode: s.why.String,
		}
	}
	return nil
}

// Reservation is the refund whose amount the guard that b asks for reserves; nil when
// it reserves nothing.
func (t Table) Reservation(b effect.Begin) *payments.Refund {
	if r, ok := b.Row.(payments.Refund); ok && t.Kind == RefundRows && !b.Void {
		return &r
	}
	return nil
}

// GivesBack reports whether a settlement of this table to that state gives a reserved
// amount back.
func (t Table) GivesBack(to effect.State) bool {
	return t.Kind == RefundRows && (to == effect.Failed || to == effect.Void)
}

// Exceeds is the refusal of a refund whose payment has not so much left.
func Exceeds() error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeExceeds, Message: "the payment has not so much left to refund",
		Hint: "a cancel is the whole payment; what is left after a part was refunded goes back as another part"}
}
