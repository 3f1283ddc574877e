package emulator

import (
	"bytes"
	"encoding/json"
	"testing"
)

func FuzzEventTextsAreThoseOfEncodingJSON(f *testing.F) {
	f.Add("evt_1", "pi_1", "", "ch_1", "order", "A1", int64(3000), uint8(0))
	f.Add("\"", "\\", "é\u2028</script>&", "\x00\x7f\xff", "", "x", int64(-1), uint8(255))
	f.Fuzz(func(t *testing.T, id, object, note, charge, name, value string, amount int64, kind uint8) {
		e := eventJSON{ID: id, Object: "event", APIVersion: note, Created: amount, Livemode: kind&1 != 0, PendingWebhooks: int(kind), Type: value}
		e.Request.ID, e.Request.IdempotencyKey = object, optional(note)
		var metadata map[string]string
		if kind&2 != 0 {
			metadata = map[string]string{name: value, value: note}
		}
		i := &intentJSON{ID: object, Amount: amount, AmountReceived: -amount, ClientSecret: note, Created: amount, Currency: name,
			Description: optional(value), Metadata: metadata, PaymentMethod: optional(note), PaymentMethodTypes: []string{"card"}, Status: value}
		r := &refundJSON{ID: object, Amount: amount, Charge: charge, FailureReason: note, Metadata: metadata, PendingReason: value, Reason: optional(name)}
		if kind&4 != 0 {
			i.LatestCharge, i.PaymentMethodTypes = charge, nil
			i.LastPaymentError = &errorJSON{Message: note}
		}
		for _, e.Data.Object = range []any{i, r, &chargeJSON{ID: charge}, nil} {
			want, err := json.Marshal(e)
			if got := e.text(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}
