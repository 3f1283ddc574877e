package emulator

import (
	"slices"
	"strconv"
)

// A webhook's text is written by hand, to the byte as encoding/json writes it: by
// reflection it was a third of a charge's work.

// text is JSON that grows. Names are given with what stands before and behind them.
type text []byte

func (t *text) raw(s string) { *t = append(*t, s...) }

// string appends a string; most are plain.
func (t *text) string(name, s string) {
	t.raw(name)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			*t = append(*t, encode(s)...)
			return
		}
	}
	*t = append(append(append(*t, '"'), s...), '"')
}

func (t *text) optional(name string, s *string) {
	if s == nil {
		t.raw(name)
		t.raw("null")
		return
	}
	t.string(name, *s)
}

func (t *text) number(name string, n int64) {
	t.raw(name)
	*t = strconv.AppendInt(*t, n, 10)
}

// other appends what is seldom there, or seldom long.
func (t *text) other(name string, v any) {
	t.raw(name)
	*t = append(*t, encode(v)...)
}

func (t *text) metadata(name string, m map[string]string) {
	names := make([]string, 0, 4)
	for n := range m { // order: sorted below
		names = append(names, n)
	}
	if len(names) == 0 {
		t.other(name, m) // null or {}
		return
	}
	slices.Sort(names)
	t.raw(name)
	before := "{"
	for _, n := range names {
		t.string(before, n)
		t.string(":", m[n])
		before = ","
	}
	t.raw("}")
}

// text is the event as encoding/json writes it.
func (e *eventJSON) text() []byte {
	t := make(text, 0, 1280)
	t.string(`{"id":`, e.ID)
	t.string(`,"object":`, e.Object)
	t.string(`,"api_version":`, e.APIVersion)
	t.number(`,"created":`, e.Created)
	t.raw(`,"data":{"object":`)
	switch object := e.Data.Object.(type) {
	case *intentJSON:
		object.write(&t)
	case *refundJSON:
		object.write(&t)
	default:
		t.other("", object)
	}
	t.raw(`},"livemode":` + strconv.FormatBool(e.Livemode))
	t.number(`,"pending_webhooks":`, int64(e.PendingWebhooks))
	t.string(`,"request":{"id":`, e.Request.ID)
	t.optional(`,"idempotency_key":`, e.Request.IdempotencyKey)
	t.string(`},"type":`, e.Type)
	t.raw("}")
	return t
}

func (i *intentJSON) write(t *text) {
	t.string(`{"id":`, i.ID)
	t.string(`,"object":`, i.Object)
	t.number(`,"amount":`, i.Amount)
	t.number(`,"amount_capturable":`, i.AmountCapturable)
	t.number(`,"amount_received":`, i.AmountReceived)
	t.string(`,"capture_method":`, i.CaptureMethod)
	t.string(`,"client_secret":`, i.ClientSecret)
	t.string(`,"confirmation_method":`, i.ConfirmationMethod)
	t.number(`,"created":`, i.Created)
	t.string(`,"currency":`, i.Currency)
	t.optional(`,"description":`, i.Description)
	if i.LastPaymentError == nil {
		t.raw(`,"last_payment_error":null`)
	} else {
		t.other(`,"last_payment_error":`, i.LastPaymentError)
	}
	if charge, plain := i.LatestCharge.(string); plain {
		t.string(`,"latest_charge":`, charge)
	} else {
		t.other(`,"latest_charge":`, i.LatestCharge)
	}
	t.raw(`,"livemode":` + strconv.FormatBool(i.Livemode))
	t.metadata(`,"metadata":`, i.Metadata)
	t.optional(`,"payment_method":`, i.PaymentMethod)
	if len(i.PaymentMethodTypes) == 1 {
		t.string(`,"payment_method_types":[`, i.PaymentMethodTypes[0])
		t.raw("]")
	} else {
		t.other(`,"payment_method_types":`, i.PaymentMethodTypes)
	}
	t.string(`,"status":`, i.Status)
	t.raw("}")
}

func (r *refundJSON) write(t *text) {
	t.string(`{"id":`, r.ID)
	t.string(`,"object":`, r.Object)
	t.number(`,"amount":`, r.Amount)
	t.string(`,"charge":`, r.Charge)
	t.number(`,"created":`, r.Created)
	t.string(`,"currency":`, r.Currency)
	if r.FailureReason != "" {
		t.string(`,"failure_reason":`, r.FailureReason)
	}
	t.metadata(`,"metadata":`, r.Metadata)
	t.string(`,"payment_intent":`, r.PaymentIntent)
	if r.PendingReason != "" {
		t.string(`,"pending_reason":`, r.PendingReason)
	}
	t.optional(`,"reason":`, r.Reason)
	t.string(`,"status":`, r.Status)
	t.raw("}")
}
