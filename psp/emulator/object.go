package emulator

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
)

// The statuses of a PaymentIntent that the company knows.
const (
	statusNeedsMethod  = "requires_payment_method"
	statusNeedsConfirm = "requires_confirmation"
	statusProcessing   = "processing"
	statusSucceeded    = "succeeded"
)

// intent is a PaymentIntent. Records hold it whole.
type intent struct {
	ID          string            `json:"id"`
	Seq         int64             `json:"seq"`
	Amount      int64             `json:"amount"`
	Currency    string            `json:"currency"`
	Method      string            `json:"method,omitempty"`
	Description string            `json:"description,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Created     time.Time         `json:"created"`
	Status      string            `json:"status"`
	// Attempts counts confirmations: each names its charge and its event.
	Attempts int      `json:"attempts,omitempty"`
	Refused  *decline `json:"refused,omitempty"`
	// ChargeID, ChargeKey and ChargedAt are set once the card is charged. A time in
	// the future means that the charge is still processing.
	ChargeID  string    `json:"charge_id,omitempty"`
	ChargeKey string    `json:"charge_key,omitempty"`
	ChargedAt time.Time `json:"charged_at,omitzero"`
	// Refunded is all that was ever given back; Returns is what banks sent back of it.
	Refunded int64      `json:"refunded,omitempty"`
	Returns  []returned `json:"returns,omitempty"`
}

// returned is the amount of a refund that fails at a time, which may be to come.
type returned struct {
	At     time.Time `json:"at"`
	Amount int64     `json:"amount"`
}

// decline is why a card was refused.
type decline struct {
	Code        string `json:"code"`
	DeclineCode string `json:"decline_code"`
	Method      string `json:"method"`
}

// status is the PaymentIntent's status at the given time.
func (i *intent) status(now time.Time) string {
	if i.Status == statusSucceeded && now.Before(i.ChargedAt) {
		return statusProcessing
	}
	return i.Status
}

// refunded is what has been given back and has not failed by the given time.
func (i *intent) refunded(now time.Time) int64 {
	total := i.Refunded
	for _, r := range i.Returns {
		if !now.Before(r.At) {
			total -= r.Amount
		}
	}
	return total
}

// newID names an object after the key's life that made it, so that the same key
// makes the same id in every process; without a key, after its number and time.
func newID(kind, key string, life int, seq int64, at time.Time) string {
	if key != "" {
		return string(retryproof.Derive(kind, "key", key, strconv.Itoa(life)))
	}
	return string(retryproof.Derive(kind, "number", strconv.FormatInt(seq, 10), strconv.FormatInt(at.UnixMicro(), 10)))
}

type intentJSON struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	Amount             int64             `json:"amount"`
	AmountCapturable   int64             `json:"amount_capturable"`
	AmountReceived     int64             `json:"amount_received"`
	CaptureMethod      string            `json:"capture_method"`
	ClientSecret       string            `json:"client_secret"`
	ConfirmationMethod string            `json:"confirmation_method"`
	Created            int64             `json:"created"`
	Currency           string            `json:"currency"`
	Description        *string           `json:"description"`
	LastPaymentError   *errorJSON        `json:"last_payment_error"`
	LatestCharge       any               `json:"latest_charge"`
	Livemode           bool              `json:"livemode"`
	Metadata           map[string]string `json:"metadata"`
	PaymentMethod      *string           `json:"payment_method"`
	PaymentMethodTypes []string          `json:"payment_method_types"`
	Status             string            `json:"status"`
}

func (i *intent) render(now time.Time, expandCharge bool) *intentJSON {
	j := &intentJSON{
		ID: i.ID, Object: "payment_intent", Amount: i.Amount, CaptureMethod: "automatic_async",
		ClientSecret:       i.ID + "_secret_" + strings.TrimPrefix(string(retryproof.Derive("s", i.ID)), "s_"),
		ConfirmationMethod: "automatic", Created: i.Created.Unix(), Currency: i.Currency,
		Description: optional(i.Description), Metadata: i.Metadata, PaymentMethod: optional(i.Method),
		PaymentMethodTypes: []string{"card"}, Status: i.status(now),
	}
	if j.Metadata == nil {
		j.Metadata = map[string]string{}
	}
	if j.Status == statusSucceeded {
		j.AmountReceived = i.Amount
	}
	if i.Refused != nil {
		j.LastPaymentError = i.Refused.render()
		if i.Status == statusNeedsMethod {
			j.PaymentMethod = nil
		}
	}
	if i.ChargeID != "" {
		j.LatestCharge = i.ChargeID
		if expandCharge {
			j.LatestCharge = i.renderCharge(now)
		}
	}
	return j
}

type chargeJSON struct {
	ID             string            `json:"id"`
	Object         string            `json:"object"`
	Amount         int64             `json:"amount"`
	AmountCaptured int64             `json:"amount_captured"`
	AmountRefunded int64             `json:"amount_refunded"`
	Captured       bool              `json:"captured"`
	Created        int64             `json:"created"`
	Currency       string            `json:"currency"`
	Livemode       bool              `json:"livemode"`
	Metadata       map[string]string `json:"metadata"`
	Paid           bool              `json:"paid"`
	PaymentIntent  string            `json:"payment_intent"`
	PaymentMethod  string            `json:"payment_method"`
	Refunded       bool              `json:"refunded"`
	Status         string            `json:"status"`
}

func (i *intent) renderCharge(now time.Time) *chargeJSON {
	j := &chargeJSON{
		ID: i.ChargeID, Object: "charge", Amount: i.Amount, AmountRefunded: i.refunded(now), Created: i.ChargedAt.Unix(),
		Currency: i.Currency, Metadata: i.Metadata, PaymentIntent: i.ID, PaymentMethod: i.Method,
		Refunded: i.refunded(now) == i.Amount, Status: "pending",
	}
	if i.status(now) == statusSucceeded {
		j.Status, j.Paid, j.Captured, j.AmountCaptured = statusSucceeded, true, true, i.Amount
	}
	if j.Metadata == nil {
		j.Metadata = map[string]string{}
	}
	return j
}

type methodJSON struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	Type   string `json:"type"`
}

type errorJSON struct {
	Code          string      `json:"code,omitempty"`
	DeclineCode   string      `json:"decline_code,omitempty"`
	Message       string      `json:"message"`
	Param         string      `json:"param,omitempty"`
	PaymentIntent *intentJSON `json:"payment_intent,omitempty"`
	PaymentMethod *methodJSON `json:"payment_method,omitempty"`
	Type          string      `json:"type"`
}

func (d *decline) render() *errorJSON {
	return &errorJSON{
		Type: "card_error", Code: d.Code, DeclineCode: d.DeclineCode, Message: "The card was declined.",
		PaymentMethod: &methodJSON{ID: d.Method, Object: "payment_method", Type: "card"},
	}
}

// failure is an error as Stripe answers it.
type failure struct {
	status int
	errorJSON
}

func (f *failure) body() []byte { return encode(f) }

// MarshalJSON is the body of an answer.
func (f *failure) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Error *errorJSON `json:"error"`
	}{&f.errorJSON})
}

func invalid(code, param, message string) *failure {
	return &failure{400, errorJSON{Type: "invalid_request_error", Code: code, Param: param, Message: message}}
}

func missing(kind, id, param string) *failure {
	return &failure{404, errorJSON{Type: "invalid_request_error", Code: "resource_missing", Param: param, Message: "No such " + kind + ": '" + id + "'"}}
}

func internal(message string) *failure {
	return &failure{500, errorJSON{Type: "api_error", Message: message}}
}

type listJSON struct {
	Object  string `json:"object"`
	Data    []any  `json:"data"`
	HasMore bool   `json:"has_more"`
	URL     string `json:"url"`
	// NextPage is for searches.
	NextPage *string `json:"next_page,omitempty"`
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// encode renders a value of this package; none of them can fail to encode.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("emulator: " + err.Error())
	}
	return b
}
