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
	// entry, for ever: all the postings that one call gives it. A store takes an
	// entry whole, skips it when exactly the same one is there (in whatever order),
	// and refuses it, NotDone with CodeInvalid, when the ref has another one or a
	// part of this one: so one effect cannot be posted twice, and no ref is left
	// with half of an entry.
	Ref string
}

// Check reports the first thing that is wrong with the postings of one call: an
// field that is empty or longer than retryproof.MaxIDBytes, a zero amount, a ref and account that occur twice (a ref's entry
// names an account once), an overflow, or a ref whose postings do not sum to zero
// in each currency.
func Check(postings []Posting) error {
	type total struct {
		ref, currency string
		sum           int64
	}
	var totals []total
	for i, p := range postings {
		if p.Account == "" || p.Currency == "" || p.Ref == "" || p.Amount == 0 {
			return invalid(fmt.Sprintf("posting %d lacks an account, a currency, a ref or an amount", i))
		}
		if err := retryproof.CheckIDs("an account, a currency or a ref of the postings", p.Account, p.Currency, p.Ref); err != nil {
			return err
		}
		for _, q := range postings[:i] {
			if q.Ref == p.Ref && q.Account == p.Account {
				return invalid(fmt.Sprintf("posting %d repeats the ref and the account of another", i))
			}
		}
		at := -1
		for j := range totals {
			if totals[j].ref == p.Ref && totals[j].currency == p.Currency {
				at = j
			}
		}
		if at < 0 {
			totals, at = append(totals, total{ref: p.Ref, currency: p.Currency}), len(totals)
		}
		sum := totals[at].sum + p.Amount
		if (sum > totals[at].sum) != (p.Amount > 0) {
			return invalid("the postings overflow")
		}
		totals[at].sum = sum
	}
	for _, t := range totals {
		if t.sum != 0 {
			return invalid(fmt.Sprintf("the postings of one ref in %s sum to %d, not to 0", t.currency, t.sum))
		}
	}
	return nil
}

func invalid(message string) error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeInvalid, Message: message}
}
