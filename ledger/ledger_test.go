package ledger_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/ledger"
)

func post(account, currency string, amount int64) ledger.Posting {
	return ledger.Posting{Account: account, Currency: currency, Amount: amount, Ref: "ev_7"}
}

func TestPostingsThatDoNotSumToZeroAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		postings []ledger.Posting
		want     retryproof.Code
	}{
		{"none", nil, ""},
		{"a credit", []ledger.Posting{post("merchant:m1", "USD", 3000), post("card", "USD", -3000)}, ""},
		{"three lines", []ledger.Posting{post("a", "USD", 3), post("b", "USD", -1), post("c", "USD", -2)}, ""},
		{"two currencies", []ledger.Posting{post("a", "USD", 3), post("c", "EUR", -2), post("d", "EUR", 2), post("b", "USD", -3)}, ""},
		{"two refs", []ledger.Posting{post("a", "USD", 3), post("b", "USD", -3), {Account: "a", Currency: "USD", Amount: 2, Ref: "other"}, {Account: "b", Currency: "USD", Amount: -2, Ref: "other"}}, ""},
		{"refs that only sum together", []ledger.Posting{post("a", "USD", 3), {Account: "b", Currency: "USD", Amount: -3, Ref: "other"}}, retryproof.CodeInvalid},
		{"an account twice under one ref", []ledger.Posting{post("a", "USD", 3), post("a", "USD", 3), post("b", "USD", -6)}, retryproof.CodeInvalid},
		{"the limits", []ledger.Posting{post("a", "USD", math.MaxInt64), post("b", "USD", -math.MaxInt64)}, ""},
		{"one line", []ledger.Posting{post("a", "USD", 3000)}, retryproof.CodeInvalid},
		{"off by one", []ledger.Posting{post("a", "USD", 3000), post("b", "USD", -2999)}, retryproof.CodeInvalid},
		{"currencies that only sum together", []ledger.Posting{post("a", "USD", 3000), post("b", "EUR", -3000)}, retryproof.CodeInvalid},
		{"only the second currency is off", []ledger.Posting{post("a", "USD", 1), post("b", "USD", -1), post("c", "EUR", 1)}, retryproof.CodeInvalid},
		{"zero", []ledger.Posting{post("a", "USD", 0), post("b", "USD", 0)}, retryproof.CodeInvalid},
		{"no account", []ledger.Posting{post("", "USD", 1), post("b", "USD", -1)}, retryproof.CodeInvalid},
		{"no currency", []ledger.Posting{post("a", "", 1), post("b", "", -1)}, retryproof.CodeInvalid},
		{"no ref", []ledger.Posting{{Account: "a", Currency: "USD", Amount: 1}, post("b", "USD", -1)}, retryproof.CodeInvalid},
		{"overflow to zero", []ledger.Posting{post("a", "USD", math.MinInt64), post("b", "USD", math.MinInt64)}, retryproof.CodeInvalid},
		{"overflow upwards", []ledger.Posting{post("a", "USD", math.MaxInt64), post("b", "USD", 1), post("c", "USD", math.MinInt64)}, retryproof.CodeInvalid},
	} {
		err := ledger.Check(c.postings)
		if got := retryproof.CodeOf(err); got != c.want {
			t.Errorf("%s: got %q (%v), want %q", c.name, got, err, c.want)
		}
		if err != nil && retryproof.OutcomeOf(err) != retryproof.NotDone {
			t.Errorf("%s: got %v, want %v", c.name, retryproof.OutcomeOf(err), retryproof.NotDone)
		}
	}
}

func FuzzCheckAcceptsOnlyWhatSumsToZero(f *testing.F) {
	f.Add(int64(1), int64(-1), int64(5), int64(-5), false)
	f.Add(int64(math.MinInt64), int64(math.MinInt64), int64(1), int64(-1), true)
	f.Add(int64(math.MaxInt64), int64(1), int64(math.MinInt64), int64(0), true)
	f.Fuzz(func(t *testing.T, a, b, c, d int64, oneCurrency bool) {
		second := "EUR"
		if oneCurrency {
			second = "USD"
		}
		postings := []ledger.Posting{post("a", "USD", a), post("b", "USD", b), post("c", second, c), post("d", second, d)}
		sums := map[string]*big.Int{"USD": new(big.Int), "EUR": new(big.Int)}
		for _, p := range postings {
			sums[p.Currency].Add(sums[p.Currency], big.NewInt(p.Amount))
		}
		if ledger.Check(postings) == nil && (sums["USD"].Sign() != 0 || sums["EUR"].Sign() != 0) {
			t.Errorf("accepted %v", postings)
		}
	})
}
