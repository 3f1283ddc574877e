package payments

import (
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
	members, err := httpkey.ObjectMembers(body) // strict: UTF-8, surrogates, repeated members
	if err != nil {
		return Order{}, err
	}
	var o Order
	if err := readTexts(members, textField{"order_id", &o.OrderID}, textField{"merchant_id", &o.MerchantID},
		textField{"currency", &o.Currency}, textField{"payment_method", &o.Method}); err != nil {
		return Order{}, err
	}
	if o.Amount, err = readAmount(members); err != nil {
		return Order{}, err
	}
	return o, o.check(merchants)
}

func memberNamed(members []httpkey.Member, name string) (httpkey.Member, bool) {
	for _, m := range members {
		if m.Name == name {
			return m, true
		}
	}
	return httpkey.Member{}, false
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
