package emulator

import (
	"context"
	"errors"
	"strings"
)

// defaultDecline is the reason when the issuer names none.
const defaultDecline = "generic_decline"

// declineSuffixes are Stripe's test cards that end a name: pm_card_chargeDeclined,
// pm_card_visa_chargeDeclinedInsufficientFunds and so on.
var declineSuffixes = []struct{ suffix, code string }{
	{"chargeDeclined", defaultDecline},
	{"chargeDeclinedInsufficientFunds", "insufficient_funds"},
	{"chargeDeclinedLostCard", "lost_card"},
	{"chargeDeclinedStolenCard", "stolen_card"},
	{"chargeDeclinedExpiredCard", "expired_card"},
	{"chargeDeclinedIncorrectCvc", "incorrect_cvc"},
	{"chargeDeclinedProcessingError", "processing_error"},
	{"chargeDeclinedFraudulent", "fraudulent"},
}

// methodAnswer says whether the method exists and why it is declined, "" when it
// pays. What [Core.SetMethod] said wins. The caller holds the lock.
func (c *Core) methodAnswer(method string) (known bool, declineCode string) {
	if code, ok := c.methods[method]; ok {
		return true, code
	}
	switch method {
	case "pm_declined":
		return true, defaultDecline
	case "pm_insufficient_funds":
		return true, "insufficient_funds"
	}
	if card, ok := strings.CutPrefix(method, "pm_card_"); ok && card != "" {
		for _, d := range declineSuffixes {
			if strings.HasSuffix(card, d.suffix) {
				return true, d.code
			}
		}
		return !strings.Contains(card, "Declined"), ""
	}
	number, ok := strings.CutPrefix(method, "pm_")
	return ok && number != "" && strings.Trim(number, "0123456789") == "", ""
}

// SetMethod decides how a payment method answers from now on: declined for the
// given reason, or paying when it is "" (funds have arrived). Saved answers of
// keys stay as they are. It is journaled; an error means that nothing changed.
func (c *Core) SetMethod(ctx context.Context, method, declineCode string) error {
	if method == "" {
		return errors.New("emulator: the payment method is empty")
	}
	return c.commit(ctx, record{At: c.clock.Now(), Method: &methodRecord{method, declineCode}})
}

// declineOf renders an issuer's reason the way Stripe splits it into two codes.
func declineOf(method, reason string) *decline {
	code := "card_declined"
	switch reason {
	case "expired_card", "incorrect_cvc", "processing_error":
		code = reason
	}
	return &decline{Code: code, DeclineCode: reason, Method: method}
}
