package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
)

func TestMissingCreditsAndDebitsAreSaid(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]payments.Audit{
		"1 credit outstanding: its event is in the queue, or was lost\n": {ByState: map[effect.State]int64{effect.Succeeded: 1}},
		"2 debits outstanding: their events are waiting here, parked here, in the queue, or were lost\n": {
			RefundsByState: map[effect.State]int64{effect.Succeeded: 2}, OutboxWaiting: 1, OutboxParked: 1},
	} {
		r := report(a)
		var got bytes.Buffer
		r.print(output{stdout: &got})
		if !strings.HasSuffix(got.String(), want) || len(r.Disagreements) != 0 || r.Outstanding.Credits+2*r.Outstanding.Debits == 0 {
			t.Errorf("got %s and %+v, want %q and no disagreement", got.String(), r.Outstanding, want)
		}
	}
	if r := report(payments.Audit{ByState: map[effect.State]int64{effect.Succeeded: 3}, Credits: 3, IntentsSent: 1, IntentsPending: 1, IntentsRefused: 1}); r.IntentsRefused != 1 || len(r.Disagreements) != 0 {
		t.Errorf("one notification of each kind: got %+v", r)
	}
	if r := report(payments.Audit{Credits: 1, IntentsSent: 1}); r.Outstanding.Credits != 0 || len(r.Disagreements) == 0 {
		t.Errorf("a credit without a payment: got %+v", r)
	}
}
