package sim

import (
	"encoding/json"
	"testing"
)

func FuzzReadPayment(f *testing.F) {
	for _, text := range []string{
		`{"id":"pay_1","order_id":"A1","state":"SUCCEEDED","amount":3000,"currency":"USD"}` + "\n",
		`{"amount":-1}`, `{"amount":01}`, `{"amount":"1"}`, `{"id":"a","id":"b"}`, `{"ID":"a"}`, `{"id":"\u0061"}`, `{"id": "a"}`,
		`{}`, `{"id":null}`, `{"id":"a"`, `{"id":"a"}}`, `{"amount":1,}`, `{"state":"VOID"}`, `{"id":"a` + "\n" + `"}`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want paymentText
		err := json.Unmarshal(text, &want)
		got, ok := readPayment(text)
		if ok != (err == nil) || ok && got != want {
			t.Errorf("%q: got %+v, %v, want %+v, %v", text, got, ok, want, err)
		}
	})
}
