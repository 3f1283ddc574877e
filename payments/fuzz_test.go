package payments

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/resolve"
)

// What is accepted is an amount in its bounds; the rest is the client's mistake.
func FuzzParseRefund(f *testing.F) {
	for _, s := range []string{`{"amount":1000}`, `{"amount":1e3}`, `{"amount":-0}`, `{"amount":1,"amount":2}`, `{"amount":99999999}`, `{"amount":100000000}`, "[]", "", "\xff", `{"x":{"amount":1}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		amount, err := parseRefund(body)
		switch {
		case err == nil && (amount < 1 || amount > MaxAmount || !utf8.Valid(body)):
			t.Errorf("%q: got %d", body, amount)
		case err != nil && (retryproof.CodeOf(err) != retryproof.CodeInvalid || retryproof.OutcomeOf(err) != retryproof.NotDone):
			t.Errorf("%q: got %v, want it refused", body, err)
		}
	})
}

// A verdict that is accepted passes resolve's check and can be kept.
func FuzzParseVerdict(f *testing.F) {
	for _, s := range []string{`{"state":"SUCCEEDED","reference":"ch_1","reason":"x"}`, `{"state":"VOID","reason":"a\nb"}`, `{"state":"FAILED","reason":"\u0000"}`, `{"state":1}`, `{}`, `{"a":1,"a":1}`, "null", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := parseVerdict(body)
		if err != nil {
			if retryproof.CodeOf(err) != retryproof.CodeInvalid || retryproof.OutcomeOf(err) != retryproof.NotDone {
				t.Errorf("%q: got %v, want it refused", body, err)
			}
			return
		}
		if err := (resolve.Verdict{ID: "pay_1", By: "operator alice", Reason: v.Reason, Finish: effect.Finish{State: v.State}}).Check(); err != nil {
			t.Errorf("%q: %v", body, err)
		}
		if len(v.Reference) > MaxFieldBytes || (v.State == effect.Succeeded) && v.Reference == "" {
			t.Errorf("%q: got the reference %q", body, v.Reference)
		}
	})
}

// A cursor is read as it was written, whatever the id holds.
func FuzzCursor(f *testing.F) {
	f.Add("pay_1:cancel", int64(1_772_600_767_000_000))
	f.Add("x", int64(-1))
	f.Fuzz(func(t *testing.T, id string, micros int64) {
		if _, _, err := fromCursor(id); err != nil && retryproof.CodeOf(err) != retryproof.CodeInvalid {
			t.Errorf("%q: got %v", id, err)
		}
		at := time.UnixMicro(micros).UTC()
		gotID, gotAt, err := fromCursor(cursor(retryproof.ID(id), at))
		if id == "" {
			if err == nil {
				t.Error("a cursor without an id was read")
			}
			return
		}
		if err != nil || string(gotID) != id || !gotAt.Equal(at) {
			t.Errorf("got %q, %v, %v, want %q, %v", gotID, gotAt, err, id, at)
		}
	})
}

func TestTheEventsOfRefundsAreOfNoPayment(t *testing.T) {
	t.Parallel()
	for event, want := range map[string]retryproof.ID{
		"pay_1:SUCCEEDED": "pay_1", "pay_1:cancel:SUCCEEDED": "", "ref_1:SUCCEEDED": "", "pay_1": "", "": "", strings.Repeat(":", 3): "",
	} {
		if got := paymentOf(event); got != want {
			t.Errorf("%s: got %q, want %q", event, got, want)
		}
	}
}

// A device's number that is accepted is written as it was read; the rest is the client's
// mistake.
func FuzzReadDevice(f *testing.F) {
	for _, s := range [][2]string{{"d1", "41"}, {"d1", "0"}, {"d 1", "1"}, {"", "1"}, {"d1", "+1"}, {"d1", "01"}, {"d1", "9223372036854775808"}, {"\xff", "1"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, device, number string) {
		got, err := readDevice(http.Header{HeaderDevice: {device}, HeaderDeviceAction: {number}})
		switch {
		case err == nil && (got.device != device || device == "" || len(device) > maxDevice || got.number < 1 || strconv.FormatInt(got.number, 10) != number):
			t.Errorf("%q %q: got %+v", device, number, got)
		case err != nil && (retryproof.CodeOf(err) != retryproof.CodeInvalid || retryproof.OutcomeOf(err) != retryproof.NotDone):
			t.Errorf("%q %q: got %v, want it refused", device, number, err)
		}
	})
}
