package payments_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/payments"
)

func TestParseOrderReadsTheMeaning(t *testing.T) {
	t.Parallel()
	got, err := payments.ParseOrder([]byte(`{"client_time":1,"amount":3000,"currency":"USD","order_id":"4\u0032","payment_method":"pm_1","merchant_id":"m1"}`), []string{"m0", "m1"})
	want := payments.Order{OrderID: "42", MerchantID: "m1", Amount: 3000, Currency: "USD", Method: "pm_1"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := payments.ParseOrder([]byte(order(3000)), []string{"m0"}); retryproof.CodeOf(err) != retryproof.CodeInvalid {
		t.Errorf("a merchant that is not here: got %v, want invalid", err)
	}
}

func TestEveryFieldOfAnOrderCounts(t *testing.T) {
	t.Parallel()
	base := payments.Order{OrderID: "42", MerchantID: "m1", Amount: 3000, Currency: "USD", Method: "pm_1"}
	for name, change := range map[string]func(*payments.Order){
		"order": func(o *payments.Order) { o.OrderID = "43" }, "merchant": func(o *payments.Order) { o.MerchantID = "m2" },
		"amount": func(o *payments.Order) { o.Amount++ }, "currency": func(o *payments.Order) { o.Currency = "EUR" },
		"method": func(o *payments.Order) { o.Method = "pm_2" },
		"swap":   func(o *payments.Order) { o.OrderID, o.MerchantID = o.MerchantID, o.OrderID },
	} {
		other := base
		change(&other)
		if other.Fingerprint().Same(base.Fingerprint()) {
			t.Errorf("%s: two orders have one fingerprint", name)
		}
	}
	// Golden: the fingerprint must not change between releases.
	if got, want := string(base.Fingerprint()), "1=d6e2dmmms2xvanxk6e2aj3mz5521mhgf"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// case 12: whatever is accepted is exact, and reads the same when it is written
// again.
func FuzzParseOrder(f *testing.F) {
	for _, s := range []string{
		order(3000), order(99_999_999), order(0), `{"amount":3e3}`, `{"amount":-0,"order_id":"x"}`, "null", "[]", `{"order_id":"\ud83d"}`,
		`{"order_id":"42","amount":3000,"currency":"USD","payment_method":"pm_1","merchant_id":"m1","amount":1}`, "{\"order_id\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := payments.ParseOrder(body, nil)
		if err != nil {
			var e *retryproof.Error
			if !errors.As(err, &e) || e.Outcome != retryproof.NotDone {
				t.Errorf("got %v, want a refusal that says NotDone", err)
			}
			return
		}
		if o.Amount < 1 || o.Amount > payments.MaxAmount || len(o.Currency) != 3 || o.OrderID == "" || o.Method == "" || o.MerchantID == "" {
			t.Errorf("accepted %+v", o)
		}
		again, err := json.Marshal(map[string]any{"order_id": o.OrderID, "amount": o.Amount, "currency": o.Currency, "payment_method": o.Method, "merchant_id": o.MerchantID})
		if err != nil {
			t.Fatal(err)
		}
		second, err := payments.ParseOrder(again, nil)
		if err != nil || second != o || !second.Fingerprint().Same(o.Fingerprint()) {
			t.Errorf("written again: got %+v, %v, want %+v", second, err, o)
		}
	})
}
