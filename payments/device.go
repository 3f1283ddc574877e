package payments

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/version"
)

// A reinstalled app has lost its journal, and with it the keys of what it
// sent. So each device may number its payments with one counter, and the server keeps
// which payment had which number, forever: the app asks "what was my last action?"
// before it lets its user act again (mission C6). The number orders nothing and stops
// nothing; the key does that.
//
// A number is kept before its payment is claimed, and a payment that was certainly not
// charged is released, with its key, so that it can be sent again. Then its number leads
// nowhere, and the last action is the one with the highest number that leads to a
// payment. Numbers are read before payments, so an accepted payment that stays is never
// passed over for an older one, whatever becomes of others meanwhile.
const (
	// HeaderDevice names the installation that sends, up to 64 visible ASCII
	// characters.
	HeaderDevice = "Device-Id"
	// HeaderDeviceAction is the number of the action, from the device's own counter.
	HeaderDeviceAction = "Device-Action"
)

const (
	maxDevice      = 64
	streamPayments = "payments"
	// actionsPage is how many actions one read lists; nearly always the first is it.
	actionsPage = 20
)

// deviceAction is one numbered action of a device; the zero value is none.
type deviceAction struct {
	device string
	number int64
}

func isDevice(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxDevice
}

// readDevice reads the device's headers: both or none, each once.
func readDevice(h http.Header) (deviceAction, error) {
	device, number := h.Values(HeaderDevice), h.Values(HeaderDeviceAction)
	if len(device) == 0 && len(number) == 0 {
		return deviceAction{}, nil
	}
	if len(device) != 1 || len(number) != 1 || !isDevice(device[0]) {
		return deviceAction{}, invalid(HeaderDevice + " and " + HeaderDeviceAction + " come together, once each; the id is 1 to 64 visible ASCII characters")
	}
	n, err := strconv.ParseInt(number[0], 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != number[0] {
		return deviceAction{}, invalid(HeaderDeviceAction + " is the number of the action, from 1, written with digits only")
	}
	return deviceAction{device[0], n}, nil
}

// acceptedAction is what is kept of an action.
type acceptedAction struct {
	PaymentID retryproof.ID `json:"payment_id"`
}

// accept keeps which payment has the device's number, before anything is claimed. An
// older number than the last runs like any other.
//
// The mark's subject is the number. So each number has a mark of its own, which nothing
// replaces: a second payment under it meets the first one's mark, as a Mismatch. With one
// subject for the whole line an action that came to nothing would hide those before it;
// with the payment as subject one number could have two payments.
func (s *System) accept(ctx context.Context, d deviceAction, scope retryproof.Scope, p Payment) error {
	if d.device == "" {
		return nil
	}
	seen, err := s.deps.Store.Effects.Look(ctx, effect.Look{Scope: scope, GuardID: p.ID, Now: s.deps.Clock.Now()})
	if err != nil {
		return retryproof.Refused(retryproof.CodeUnavailable, "the payment's record cannot be read; nothing ran", err)
	}
	if seen.Guard != nil || seen.Claim != nil {
		return nil // a repeat, or a key used for something else: its number was kept when it was first used
	}
	value, err := json.Marshal(acceptedAction{p.ID})
	if err != nil {
		panic("payments: an action of one string cannot be encoded: " + err.Error())
	}
	got, err := s.deps.Store.Versions.Apply(ctx, version.Write{
		Line:    version.Line{Stream: streamPayments, Caller: p.Caller, Device: d.device},
		Subject: strconv.FormatInt(d.number, 10), Version: d.number, Action: string(p.ID), Value: value, Now: s.deps.Clock.Now(),
	})
	switch {
	case err != nil:
		return retryproof.Refused(retryproof.CodeUnavailable, "the device's action could not be recorded; nothing ran", err)
	case got.Verdict == version.Mismatch:
		return invalid("the device has used this number for another payment: ask for its last action, and count on from there")
	}
	return nil
}

// lastActionBody is the answer to "what was my last action?".
type lastActionBody struct {
	Device string `json:"device"`
	// Action, AcceptedAt and Payment are those of the last action that led to a payment,
	// null when none did.
	Action *int64 `json:"action"`
	// Counter is the highest number that the device has used: it counts on behind it.
	Counter    int64        `json:"counter"`
	AcceptedAt *time.Time   `json:"accepted_at"`
	Payment    *paymentBody `json:"payment"`
}

// lastAction answers "what was my last action?" for one device of the caller.
func (s *System) lastAction(w http.ResponseWriter, r *http.Request) {
	caller, err := s.caller(r)
	device := r.PathValue("device")
	if err == nil && !isDevice(device) {
		err = invalid("a device's id is 1 to 64 visible ASCII characters")
	}
	var body lastActionBody
	if err == nil {
		body, err = s.lastOf(r.Context(), version.Line{Stream: streamPayments, Caller: caller, Device: device})
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, body)
}

// lastOf walks from the line's highest number down to the first whose payment is there,
// a page at a time; the walk ends with the request.
func (s *System) lastOf(ctx context.Context, line version.Line) (lastActionBody, error) {
	body := lastActionBody{Device: line.Device}
	var after version.Mark
	for {
		marks, err := s.deps.Store.Versions.Recent(ctx, line, after, actionsPage)
		if err != nil {
			return body, err
		}
		for _, m := range marks {
			body.Counter = max(body.Counter, m.Version)
			p, there, err := s.acceptedPayment(ctx, retryproof.ID(m.Action))
			if err != nil {
				return body, err
			}
			if there {
				shown := bodyOf(p)
				body.Action, body.AcceptedAt, body.Payment = &m.Version, &m.At, &shown
				return body, nil
			}
		}
		switch {
		case len(marks) == actionsPage:
			after = marks[actionsPage-1]
		case body.Counter == 0:
			return body, retryproof.Refused(retryproof.CodeNotFound, "nothing of this device was accepted", nil)
		default:
			return body, nil
		}
	}
}

// acceptedPayment reads the payment that an action led to. One that was released is not
// there; of one that was voided after that only the refusal is left.
func (s *System) acceptedPayment(ctx context.Context, id retryproof.ID) (p Payment, there bool, err error) {
	p, err = s.deps.Store.Ledger.Payment(ctx, id)
	if retryproof.CodeOf(err) == retryproof.CodeNotFound {
		return Payment{}, false, nil
	}
	return p, err == nil && !p.neverBegan(), err
}
