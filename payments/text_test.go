package payments

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// succeededText is the event as encoding/json writes it.
type succeededText struct {
	PaymentID  retryproof.ID `json:"payment_id"`
	Caller     string        `json:"caller"`
	OrderID    string        `json:"order_id"`
	MerchantID string        `json:"merchant_id"`
	Amount     int64         `json:"amount"`
	Currency   string        `json:"currency"`
}

func FuzzTextsAreThoseOfEncodingJSON(f *testing.F) {
	f.Add("pay_1", "u1", "order 7", "m1", "USD", "pm_1", "", int64(3000))
	f.Add("", "\"", "é\u2028</script>&", "\x00\x7f\xff", "a\\b", "\t\n", "x", int64(-1))
	f.Fuzz(func(t *testing.T, id, caller, order, merchant, currency, method, decline string, amount int64) {
		p := Payment{ID: retryproof.ID(id), Caller: caller, OrderID: order, MerchantID: merchant, Currency: currency, Method: method,
			DeclineCode: decline, Amount: amount, State: effect.Failed}
		want, err := json.Marshal(bodyOf(p))
		if got := textOf(p); err != nil || !bytes.Equal(got, append(want, '\n')) {
			t.Errorf("got %s, want %s", got, want)
		}
		refunded := refundedEvent{retryproof.ID(id), retryproof.ID(method), caller, order, merchant, amount, currency}
		want, err = json.Marshal(refunded)
		got := refundedBody(refunded)
		if err != nil || !bytes.Equal(got, want) || json.Unmarshal(got, &refunded) != nil {
			t.Errorf("got %s, want %s", got, want)
		}
		if read, err := parseRefunded(got); amount >= 0 && (err != nil || read != refunded) {
			t.Errorf("got %+v %v, want %+v", read, err, refunded)
		}
		r := Refund{ID: retryproof.ID(id), PaymentID: retryproof.ID(order), State: effect.Succeeded, Amount: amount, Currency: currency, FailureCode: decline}
		want, err = json.Marshal(bodyOfRefund(r))
		if got := textOfRefund(r); err != nil || !bytes.Equal(got, append(want, '\n')) {
			t.Errorf("got %s, want %s", got, want)
		}
		want, err = json.Marshal(succeededText{p.ID, caller, order, merchant, amount, currency})
		got = succeededBody(p)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		var meant succeededText
		if err := json.Unmarshal(got, &meant); err != nil {
			t.Fatal(err)
		}
		read, err := parseSucceeded(got)
		if amount < 0 {
			return // never written: an amount is positive
		}
		if err != nil || read.ID != meant.PaymentID || read.Caller != meant.Caller || read.OrderID != meant.OrderID ||
			read.MerchantID != meant.MerchantID || read.Amount != meant.Amount || read.Currency != meant.Currency {
			t.Errorf("got %+v %v, want %+v", read, err, meant)
		}
	})
}
