package psp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
)

func good() psp.RefundRequest {
	return psp.RefundRequest{Key: "pay_7:cancel:refund", Reference: "ref_1", ChargeID: "pi_1", Payment: "pay_7", Amount: 1000, Currency: "USD"}
}

func TestARefundRequestIsRefusedBeforeItIsSentAndNamesEveryProblem(t *testing.T) {
	t.Parallel()
	if err := good().Validate(); err != nil {
		t.Errorf("a good request: got %v", err)
	}
	edge := good()
	edge.Key, edge.Reference = strings.Repeat("k", psp.MaxKey), strings.Repeat("é", psp.MaxReference)
	if err := edge.Validate(); err != nil {
		t.Errorf("at the limits: got %v", err)
	}
	for word, change := range map[string]func(*psp.RefundRequest){
		"the key must have":       func(r *psp.RefundRequest) { r.Key = strings.Repeat("k", psp.MaxKey+1) },
		"no blanks":               func(r *psp.RefundRequest) { r.Key = "k " },
		"visible ASCII":           func(r *psp.RefundRequest) { r.Key = "k\nk" },
		"the reference must have": func(r *psp.RefundRequest) { r.Reference = "" },
		"the payment must have":   func(r *psp.RefundRequest) { r.Payment = "\xff" },
		"the charge's id":         func(r *psp.RefundRequest) { r.ChargeID = "" },
		"the amount":              func(r *psp.RefundRequest) { r.Amount = 0 },
		"the currency":            func(r *psp.RefundRequest) { r.Currency = "" },
	} {
		r := good()
		change(&r)
		err := r.Validate()
		if err == nil || !strings.Contains(err.Error(), word) || retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeInvalid {
			t.Errorf("%s: got %v, want NotDone, invalid and this word", word, err)
		}
		if all := (psp.RefundRequest{}).Validate().Error(); !strings.Contains(all, "the key") || !strings.Contains(all, "the currency") {
			t.Errorf("got %s, want every problem at once", all)
		}
	}
}

func TestAPageHasAHundredAtMost(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{0: 100, 1: 1, 100: 100, 101: 100} {
		if got, err := psp.PageSize(limit); got != want || err != nil {
			t.Errorf("%d: got %d %v, want %d", limit, got, err, want)
		}
	}
	if _, err := psp.PageSize(-1); retryproof.CodeOf(err) != retryproof.CodeInvalid {
		t.Errorf("got %v, want invalid", err)
	}
}

// FuzzWindow: a whole second lies in exactly one of two windows that meet, wherever
// they meet.
func FuzzWindow(f *testing.F) {
	f.Add(int64(1_700_000_000), int64(0), int64(1_700_000_000))
	f.Add(int64(1_700_000_000), int64(1), int64(1_700_000_000))
	f.Add(int64(1_700_000_000), int64(1), int64(1_700_000_001))
	f.Add(int64(-5), int64(999_999_999), int64(0))
	f.Fuzz(func(t *testing.T, seconds, nanos, created int64) {
		if seconds < -1<<40 || seconds > 1<<40 || created < 0 || created > 1<<40 {
			return // no time of this kind
		}
		cut := time.Unix(seconds, nanos%1e9)
		_, before := psp.Window(time.Unix(0, 0), cut)
		after, _ := psp.Window(cut, time.Unix(1<<41, 0))
		at := time.Unix(created, 0)
		if got, want := created < before, at.Before(cut); got != want {
			t.Errorf("%v in front of %v: got %v, want %v", at, cut, got, want)
		}
		if got, want := created >= after, !at.Before(cut); got != want {
			t.Errorf("%v behind %v: got %v, want %v", at, cut, got, want)
		}
	})
}
