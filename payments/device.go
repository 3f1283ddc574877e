package payments

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/version"
)

// An app that was installed anew has lost its journal, and with it the keys of what it
// sent. So each device may number its payments with one counter, and the server keeps
// the last one that it accepted, for ever: the app asks "what was my last action?"
// before it lets its user act again (mission C6). The number orders nothing and stops
// nothing; the key does that.
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

// accept keeps the device's action as its last one, before anything is charged. An
// older one than the last changes nothing, and runs.
func (s *System) accept(ctx context.Context, d deviceAction, p Payment) error {
	if d.device == "" {
		return nil
	}
	value, err := json.Marshal(acceptedAction{p.ID})
	if err != nil {
		panic("payments: an action of one string cannot be encoded: " + err.Error())
	}
	got, err := s.deps.Store.Versions.Apply(ctx, version.Write{
		Line:    version.Line{Stream: streamPayments, Caller: p.Caller, Device: d.device},
		Version: d.number, Action: string(p.ID), Value: value, Now: s.deps.Clock.Now(),
	})
	if err == nil && got.Verdict == version.Mismatch {
		err = invalid("the device has used this number for another payment: ask for its last action, and count on from there")
	}
	return err
}

// lastAction answers "what was my last action?" for one device of the caller.
func (s *System) lastAction(w http.ResponseWriter, r *http.Request) {
	caller, err := s.caller(r)
	device := r.PathValue("device")
	if err == nil && !isDevice(device) {
		err = invalid("a device's id is 1 to 64 visible ASCII characters")
	}
	var mark *version.Mark
	if err == nil {
		mark, err = s.deps.Store.Versions.Last(r.Context(), version.Line{Stream: streamPayments, Caller: caller, Device: device})
	}
	if err == nil && mark == nil {
		err = retryproof.Refused(retryproof.CodeNotFound, "nothing of this device was accepted", nil)
	}
	var p Payment
	if err == nil {
		p, err = s.deps.Store.Ledger.Payment(r.Context(), retryproof.ID(mark.Action))
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, map[string]any{"device": device, "action": mark.Version, "accepted_at": mark.At, "payment": bodyOf(p)})
}
