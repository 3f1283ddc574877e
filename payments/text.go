package payments

import (
	"encoding/json"
	"strconv"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
)

// The JSON texts that payments and refunds write are written by hand, to the byte as
// encoding/json writes them: by reflection they were a tenth of a payment's work.

// appendText appends a string as encoding/json does. Most are plain.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			if err != nil {
				panic("payments: a string cannot be encoded: " + err.Error())
			}
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendMember(b []byte, name, value string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return appendText(b, value)
}

// appendGiven leaves an empty member out.
func appendGiven(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendMember(b, name, value)
}

func appendAmount(b []byte, amount int64) []byte {
	return strconv.AppendInt(append(b, `,"amount":`...), amount, 10)
}

// textOf is the answer about one payment, as JSON: bodyOf and a line's end.
func textOf(p Payment) []byte {
	b := make([]byte, 0, 320)
	b = appendText(append(b, `{"id":`...), string(p.ID))
	b = appendMember(b, "state", publicState(p.State))
	if p.Amount != 0 {
		b = appendAmount(b, p.Amount)
	}
	b = appendGiven(b, "currency", p.Currency)
	b = appendGiven(b, "order_id", p.OrderID)
	b = appendGiven(b, "merchant_id", p.MerchantID)
	b = appendGiven(b, "payment_method", p.Method)
	b = appendGiven(b, "decline_code", p.DeclineCode)
	return append(b, '}', '\n')
}

// textOfRefund is refundBody as a line of JSON.
func textOfRefund(r Refund) []byte {
	b := make([]byte, 0, 256)
	b = appendText(append(b, `{"id":`...), string(r.ID))
	b = appendMember(b, "payment_id", string(r.PaymentID))
	b = appendMember(b, "state", publicState(r.State))
	if r.Amount != 0 {
		b = appendAmount(b, r.Amount)
	}
	b = appendGiven(b, "currency", r.Currency)
	b = appendGiven(b, "failure_code", r.FailureCode)
	return append(b, '}', '\n')
}

// succeededBody is the body of the event that announces a payment.
func succeededBody(p Payment) []byte {
	b := make([]byte, 0, 256)
	b = appendText(append(b, `{"payment_id":`...), string(p.ID))
	b = appendMember(b, "caller", p.Caller)
	b = appendMember(b, "order_id", p.OrderID)
	b = appendMember(b, "merchant_id", p.MerchantID)
	b = appendAmount(b, p.Amount)
	b = appendMember(b, "currency", p.Currency)
	return append(b, '}')
}

// parseSucceeded reads what succeededBody wrote; later versions may have added
// members.
func parseSucceeded(body []byte) (Payment, error) {
	members, err := httpkey.ObjectMembers(body)
	if err != nil {
		return Payment{}, err
	}
	var p Payment
	var id string
	if err := readTexts(members, textField{"payment_id", &id}, textField{"caller", &p.Caller}, textField{"order_id", &p.OrderID},
		textField{"merchant_id", &p.MerchantID}, textField{"currency", &p.Currency}); err != nil {
		return Payment{}, err
	}
	p.ID = retryproof.ID(id)
	p.Amount, err = readAmount(members)
	return p, err
}

// refundedBody is the body of the event that announces a refund.
func refundedBody(e refundedEvent) []byte {
	b := make([]byte, 0, 320)
	b = appendText(append(b, `{"refund_id":`...), string(e.RefundID))
	b = appendMember(b, "payment_id", string(e.PaymentID))
	b = appendMember(b, "caller", e.Caller)
	b = appendMember(b, "order_id", e.OrderID)
	b = appendMember(b, "merchant_id", e.MerchantID)
	b = appendAmount(b, e.Amount)
	b = appendMember(b, "currency", e.Currency)
	return append(b, '}')
}

// parseRefunded reads what refundedBody writes.
func parseRefunded(body []byte) (refundedEvent, error) {
	members, err := httpkey.ObjectMembers(body)
	if err != nil {
		return refundedEvent{}, err
	}
	var e refundedEvent
	var id, payment string
	if err := readTexts(members, textField{"refund_id", &id}, textField{"payment_id", &payment}, textField{"caller", &e.Caller},
		textField{"order_id", &e.OrderID}, textField{"merchant_id", &e.MerchantID}, textField{"currency", &e.Currency}); err != nil {
		return refundedEvent{}, err
	}
	e.RefundID, e.PaymentID = retryproof.ID(id), retryproof.ID(payment)
	e.Amount, err = readAmount(members)
	return e, err
}

// textField is a member that must be there and be a string.
type textField struct {
	name string
	to   *string
}

func readTexts(members []httpkey.Member, fields ...textField) error {
	for _, f := range fields {
		m, ok := memberNamed(members, f.name)
		if !ok {
			return invalid(f.name + " is missing")
		}
		if *f.to, ok = m.Text(); !ok {
			return invalid(f.name + " must be a string")
		}
	}
	return nil
}

func readAmount(members []httpkey.Member) (int64, error) {
	m, ok := memberNamed(members, "amount")
	if !ok {
		return 0, invalid("amount is missing")
	}
	return parseAmount(string(m.Value))
}
