package payments

import (
	"encoding/json"
	"strconv"

	"github.com/retryproof/retryproof/httpkey"
)

// ParseOrder reads the body of POST /payments. Members that are not part of the
// meaning, such as a client's timestamp, are ignored; what is part of it must be
// there once, in its own type.
//
// The amount is a JSON integer written with digits only: 3000.0, 3e3, "3000" and
// -0 are refused, so that the amount that is compared is the amount that is sent.
func ParseOrder(body []byte, merchants []string) (Order, error) {
	if _, err := httpkey.CanonicalJSON(body); err != nil { // strict: UTF-8, surrogates, repeated members
		return Order{}, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return Order{}, invalid("the body must be a JSON object")
	}
	var o Order
	for _, f := range []struct {
		name string
		to   *string
	}{{"order_id", &o.OrderID}, {"merchant_id", &o.MerchantID}, {"currency", &o.Currency}, {"payment_method", &o.Method}} {
		raw, ok := members[f.name]
		if !ok {
			return Order{}, invalid(f.name + " is missing")
		}
		if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, f.to) != nil {
			return Order{}, invalid(f.name + " must be a string")
		}
	}
	raw, ok := members["amount"]
	if !ok {
		return Order{}, invalid("amount is missing")
	}
	amount, err := parseAmount(string(raw))
	if err != nil {
		return Order{}, err
	}
	o.Amount = amount
	return o, o.check(merchants)
}

func parseAmount(literal string) (int64, error) {
	for i := range len(literal) {
		if literal[i] < '0' || literal[i] > '9' {
			return 0, invalid("amount must be an integer of minor units, written with digits only")
		}
	}
	n, err := strconv.ParseInt(literal, 10, 64)
	if err != nil {
		return 0, invalid("amount is too large")
	}
	return n, nil
}
