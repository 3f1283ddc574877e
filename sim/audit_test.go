package sim

import (
	"testing"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/queue"
)

// What the auditor is there to see, shown to it.
func TestTheAuditorSeesHarmOfVoidsAndRefunds(t *testing.T) {
	t.Parallel()
	key := Message{Label: "A1", Path: "/payments", Token: "u1", Key: "k1"}
	id := string(derivedID("u1", "k1"))
	charge := emulator.ChargeRecord{ID: "ch_1", Reference: id, Amount: 3000}
	cancel := Message{Label: "A1 refund", Path: "/payments/" + id + "/cancel", Token: "u1"}
	for name, c := range map[string]struct {
		want string
		do   func(*auditor)
	}{
		"charged after it was told void": {HarmVoidedRan, func(a *auditor) { a.contradicts(key, id, "VOID", 0); a.charged(charge) }},
		"told void after it was charged": {HarmVoidedRan, func(a *auditor) { a.charged(charge); a.contradicts(key, id, "VOID", 0) }},
		"void, then succeeded":           {HarmContradictory, func(a *auditor) { a.contradicts(key, id, "VOID", 0); a.contradicts(key, id, "SUCCEEDED", 1) }},
		"void, then processing":          {HarmContradictory, func(a *auditor) { a.contradicts(key, id, "VOID", 0); a.contradicts(key, id, "PROCESSING", 1) }},
		"void in the ledger, then settled": {HarmContradictory, func(a *auditor) {
			a.becomes(a.of(id), effect.Void)
			a.becomes(a.of(id), effect.Succeeded)
		}},
		"a refund told and never made": {HarmLostEffect, func(a *auditor) {
			a.answered(cancel, Reply{Status: 201, Body: []byte(`{"id":"` + id + `:cancel","payment_id":"` + id + `","state":"SUCCEEDED","amount":3000}`)}, 0)
		}},
		"a refund of another amount": {HarmWrongAmount, func(a *auditor) {
			part := Message{Label: "A1 refund", Path: "/payments/" + id + "/refunds", Token: "u1", Key: "r1", Body: []byte(`{"amount":1000}`)}
			a.answered(part, Reply{Status: 202, Body: []byte(`{"id":"ref_1","payment_id":"` + id + `","state":"PROCESSING","amount":1001}`)}, 0)
		}},
		"a merchant debited twice": {HarmDoubleCredit, func(a *auditor) {
			f := a.ofRefund("ref_1", id)
			f.amount = 5000
			a.credited(f, -1000)
			a.credited(f, -1000)
		}},
		"a merchant credited by a refund":  {HarmWrongAmount, func(a *auditor) { a.credited(a.ofRefund("ref_1", id), 1000) }},
		"an event of a refund not settled": {HarmContradictory, func(a *auditor) { a.sent(queue.Message{ID: "ref_1:SUCCEEDED"}) }},
		"a refund of a payment not refundable": {HarmContradictory, func(a *auditor) {
			a.becomes(a.of(id), effect.Succeeded)
			a.answered(cancel, Reply{Status: 409, Body: []byte(`{"code":"moved"}`)}, 1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := boot(t, Options{Seed: 1})
			c.do(w.audit)
			if w.audit.violation == nil || w.audit.violation.Rule != c.want {
				t.Errorf("got %v, want %s", w.audit.violation, c.want)
			}
		})
	}
}
