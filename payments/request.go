package payments

import (
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// Order is the meaning of a POST /payments body.
type Order struct {
	OrderID    string
	MerchantID string
	Amount     int64
	Currency   string
	Method     string
}

// MaxAmount is the largest amount of one payment, in minor units: what Stripe
// takes (eight digits, docs.stripe.com/currencies).
const MaxAmount = 99_999_999

// MaxFieldBytes bounds the text fields of an order.
const MaxFieldBytes = 200

// isCurrency reports three capital letters, the form of ISO 4217.
func isCurrency(s string) bool {
	if len(s) != 3 {
		return false
	}
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return false
		}
	}
	return true
}

// Fingerprint hashes what the order means, in a fixed order (mission A3). Fields
// that join later carry Since, so that a rolling release changes no retry.
func (o Order) Fingerprint() retryproof.Fingerprint {
	return retryproof.FingerprintOf(
		retryproof.Text("order_id", o.OrderID),
		retryproof.Int("amount", o.Amount),
		retryproof.Text("currency", o.Currency),
		retryproof.Text("payment_method", o.Method),
		retryproof.Text("merchant_id", o.MerchantID),
	)
}

// check reports the first field that cannot be right.
func (o Order) check(merchants []string) error {
	for _, f := range []struct{ name, value string }{
		{"order_id", o.OrderID}, {"merchant_id", o.MerchantID}, {"payment_method", o.Method},
	} {
		if f.value == "" {
			return invalid(f.name + " is missing")
		}
		if len(f.value) > MaxFieldBytes {
			return invalid(fmt.Sprintf("%s is longer than %d bytes", f.name, MaxFieldBytes))
		}
		for _, r := range f.value {
			if r < ' ' || r == 0x7f {
				return invalid(f.name + " has a control character")
			}
		}
	}
	if o.Amount <= 0 || o.Amount > MaxAmount {
		return invalid(fmt.Sprintf("amount must be 1 to %d minor units", MaxAmount))
	}
	if !isCurrency(o.Currency) {
		return invalid("currency must be three capital letters (ISO 4217)")
	}
	if len(merchants) == 0 {
		return nil
	}
	for _, m := range merchants {
		if m == o.MerchantID {
			return nil
		}
	}
	return invalid("merchant_id is not a merchant here")
}

func invalid(message string) error {
	return retryproof.Refused(retryproof.CodeInvalid, message, nil)
}

// payment is the row that is recorded before the card is charged.
func (o Order) payment(id retryproof.ID, caller string) Payment {
	return Payment{ID: id, Caller: caller, OrderID: o.OrderID, MerchantID: o.MerchantID, Amount: o.Amount,
		Currency: o.Currency, Method: o.Method, State: effect.Pending}
}
