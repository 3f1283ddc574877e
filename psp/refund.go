package psp

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
)

// MaxKey is the longest idempotency key, in bytes; MaxReference is the longest
// name of ours that a PSP keeps, in characters. Both are Stripe's.
const (
	MaxKey       = 255
	MaxReference = 500
)

// MaxPage is the largest page of a listing, as at Stripe.
const MaxPage = 100

// RefundRequest asks for money of one charge to be given back. A repeat carries
// identical fields.
type RefundRequest struct {
	// Key is the PSP's idempotency key, derived from what is refunded, never from a
	// running total and never made again for a retry: payment id + ":cancel:refund".
	Key string
	// Reference is our own name of the refund, stored with it so that it can be found
	// after the PSP forgot the key.
	Reference string
	// ChargeID is Charge.ID of the charge to refund.
	ChargeID string
	// Payment is ChargeRequest.Reference of that charge, stored with the refund.
	Payment string
	// Amount is in minor units of Currency, greater than 0: a part of the charge, or
	// all of it. It is always said, so that a repeat can never mean another amount.
	Amount int64
	// Currency is that of the charge: ISO 4217, upper case. Stripe takes it from the
	// charge and is not told it; compare the answer's.
	Currency string
}

// Validate returns everything that is wrong with the request, as one NotDone error
// with the code invalid.
func (r RefundRequest) Validate() error {
	var errs []error
	need := func(ok bool, problem string) {
		if !ok {
			errs = append(errs, errors.New(problem))
		}
	}
	need(r.Key != "" && len(r.Key) <= MaxKey && r.Key == strings.TrimSpace(r.Key), fmt.Sprintf("the key must have 1 to %d bytes and no blanks around it", MaxKey))
	need(!strings.ContainsFunc(r.Key, func(c rune) bool { return c < ' ' || c >= 0x7f }), "the key must be visible ASCII")
	need(isName(r.Reference), fmt.Sprintf("the reference must have 1 to %d characters", MaxReference))
	need(isName(r.Payment), fmt.Sprintf("the payment must have 1 to %d characters", MaxReference))
	need(r.ChargeID != "", "the charge's id is empty")
	need(r.Amount > 0, "the amount must be positive")
	need(len(r.Currency) == 3, "the currency must have three letters")
	if len(errs) == 0 {
		return nil
	}
	return retryproof.Refused(retryproof.CodeInvalid, "the refund was not sent", errors.Join(errs...))
}

func isName(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= MaxReference
}

// Refund is a refund as the PSP knows it.
type Refund struct {
	// ID is the PSP's id of the refund.
	ID string
	// Reference and Payment are the RefundRequest's. They are empty for a refund that
	// somebody made by hand.
	Reference, Payment string
	// ChargeID is the Charge.ID of what is given back.
	ChargeID string
	// Amount is in minor units of Currency.
	Amount   int64
	Currency string
	// State is Succeeded, Processing or Failed. Succeeded says that the PSP gave the
	// money away; a bank may still return it days later: then the refund is Failed.
	State State
	// FailureCode says why, when State is Failed.
	FailureCode string
	// Created is the PSP's own time.
	Created time.Time
	// Replayed says that the PSP answered from its memory of the key; then State is
	// the one of the first answer.
	Replayed bool
}

// Window turns a half-open interval of time into whole seconds, since a PSP's times
// have no more: what was created at a whole second c lies in [from, to) exactly when
// first <= c and c < end. Windows that meet therefore share nothing and miss
// nothing. Times before 1970 are 1970.
func Window(from, to time.Time) (first, end int64) {
	return ceilSecond(from), ceilSecond(to)
}

func ceilSecond(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return max(0, s)
}

// PageSize checks the size of a page: 0 is MaxPage, more than MaxPage is MaxPage, and
// a negative one is invalid.
func PageSize(limit int) (int, error) {
	switch {
	case limit < 0:
		return 0, &retryproof.Error{Code: retryproof.CodeInvalid, Message: "the limit is negative"}
	case limit == 0:
		return MaxPage, nil
	}
	return min(limit, MaxPage), nil
}
