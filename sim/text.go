package sim

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// paymentText is what requests and answers say of a payment, and of a refund.
type paymentText struct {
	ID, State string
	OrderID   string `json:"order_id"`
	PaymentID string `json:"payment_id"`
	Amount    int64
}

// readPayment reads a text about a payment or a refund; false when it is no object with
// these members. Texts without escapes and nested values, which are nearly all, are read
// without encoding/json: every answer is read twice, by its asker and by the auditor.
func readPayment(text []byte) (p paymentText, ok bool) {
	if p, ok = readFlat(text); ok {
		return p, true
	}
	p = paymentText{}
	return p, json.Unmarshal(text, &p) == nil
}

func readFlat(text []byte) (p paymentText, ok bool) {
	rest, ok := bytes.CutPrefix(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'{'})
	for ok {
		var name, value []byte
		var quoted bool
		if name, rest, ok = cutText(rest); !ok {
			break
		}
		if rest, ok = bytes.CutPrefix(rest, []byte{':'}); !ok {
			break
		}
		if value, rest, ok = cutText(rest); ok {
			quoted = true
		} else if end := bytes.IndexAny(rest, ",}"); end > 0 {
			value, rest, ok = rest[:end], rest[end:], true
		}
		if !ok || !p.set(name, value, quoted) || len(rest) == 0 {
			break
		}
		if rest[0] == '}' {
			return p, len(rest) == 1
		}
		rest, ok = bytes.CutPrefix(rest, []byte{','})
	}
	return p, false
}

// cutText takes a plain string off the front of a text.
func cutText(text []byte) (s, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return nil, text, false
	}
	for i := 1; i < len(text) && text[i] >= ' ' && text[i] < 0x7f && text[i] != '\\'; i++ {
		if text[i] == '"' {
			return text[1:i], text[i+1:], true
		}
	}
	return nil, text, false
}

// set notes a member; one that is not asked for may be a string. Names are those of the
// system's own texts, in small letters.
func (p *paymentText) set(name, value []byte, quoted bool) (ok bool) {
	var to *string
	switch string(name) {
	case "id":
		to = &p.ID
	case "state":
		to = &p.State
	case "order_id":
		to = &p.OrderID
	case "payment_id":
		to = &p.PaymentID
	case "amount":
		var err error
		p.Amount, err = strconv.ParseInt(string(value), 10, 64)
		return err == nil && !quoted && strconv.FormatInt(p.Amount, 10) == string(value)
	case "currency", "merchant_id", "payment_method", "decline_code", "failure_code":
		return quoted
	default:
		return false
	}
	if *to = stateText(value); *to == "" {
		*to = string(value)
	}
	return quoted
}

// stateText is a state without a copy.
func stateText(b []byte) string {
	switch string(b) {
	case "SUCCEEDED":
		return "SUCCEEDED"
	case "PROCESSING":
		return "PROCESSING"
	case "FAILED":
		return "FAILED"
	}
	return ""
}
