// Package ledger holds the nouns of a double-entry journal: postings whose sum
// is zero. Stores write them in the transaction of the effect that they record.
package ledger

import (
	"fmt"

	"github.com/retryproof/retryproof"
)

// Posting is one line of a journal entry: Amount is added to Account. A credit of
// a merchant raises the merchant's balance and lowers another account's, so the
// postings of one entry sum to zero per currency.
type Posting struct {
	// Account is the account's name, for example "merchant:m1".
	Account string
	// Currency is ISO 4217, upper case.
	Currency string
	// Amount is in minor units, negative or positive, never 0.
	Amount int64
	// Ref is what the line records: the event id or the payment id. A ref has one
	// entry, forever: all the postings that one call gives it. A store takes an
	// entry whole, skips it when exactly the same one is there (in whatever order),
	// and refuses it, NotDone with CodeInvalid, when the ref has another one or a
	// part of this one: so one effect cannot be posted twice, and no ref is left
	// with half of an entry.
	Ref string
}

// Check reports the first thing that is wrong with the postings of one call: a field
// that is empty or longer than retryproof.MaxIDBytes, a zero amount, a ref and account
// that occur twice (a ref's entry names an account once), an overflow, or a ref whose
// postings do not sum to zero in each currency. All of it is NotDone with CodeInvalid.
func Check(postings []Posting) error {
	type line struct{ ref, account string }
	type total struct{ ref, currency string }
	seen := make(map[line]bool, len(postings))
	sums := make(map[total]int64, len(postings))
	for i, p := range postings {
		if p.Account == "" || p.Currency == "" || p.Ref == "" || p.Amount == 0 {
			return invalid(fmt.Sprintf("posting %d lacks an account, a currency, a ref or an amount", i))
		}
		if err := retryproof.CheckIDs("an account, a currency or a ref of the postings", p.Account, p.Currency, p.Ref); err != nil {
			return err
		}
		if seen[line{p.Ref, p.Account}] {
			return invalid(fmt.Sprintf("posting %d repeats the ref and the account of another", i))
		}
		seen[line{p.Ref, p.Account}] = true
		before := sums[total{p.Ref, p.Currency}]
		sum := before + p.Amount
		if (sum > before) != (p.Amount > 0) {
			return invalid("the postings overflow")
		}
		sums[total{p.Ref, p.Currency}] = sum
	}
	for _, p := range postings {
		if sum := sums[total{p.Ref, p.Currency}]; sum != 0 {
			return invalid(fmt.Sprintf("the postings of one ref in %s sum to %d, not to 0", p.Currency, sum))
		}
	}
	return nil
}

func invalid(message string) error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeInvalid, Message: message}
}
