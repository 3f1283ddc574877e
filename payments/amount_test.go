package payments

import "testing"

func TestAmountsAreWrittenInTheirCurrencysUnits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		amount         int64
		currency, want string
	}{{3000, "USD", "USD 30.00"}, {5, "EUR", "EUR 0.05"}, {5, "JPY", "JPY 5"}, {3001, "KWD", "KWD 3.001"}} {
		if got := formatAmount(test.amount, test.currency); got != test.want {
			t.Errorf("%d %s: got %q, want %q", test.amount, test.currency, got, test.want)
		}
	}
}
