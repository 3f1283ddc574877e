package saga_test

import (
	"context"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/saga"
)

// case 40: the step charges at the processor, its local transaction rolls back and
// so does its own guard row, and the order fails. The step reports, wrongly, that
// nothing was done. The refund fails three times, the process ends, and another one
// goes on from the log alone.
func TestCompensationIsDoneOnEvidenceAndSurvivesARestart(t *testing.T) {
	t.Parallel()
	l, psp := newLab(t), newCallee()
	var refunds []string
	down, ends := true, true
	// definition is what each process builds again: it shares nothing but the
	// processor.
	definition := func() saga.Definition {
		return saga.Definition{Name: "order", Steps: []saga.Step{{
			Name: "charge", CancelName: "refund",
			Action: func(_ context.Context, c saga.Call) ([]byte, error) {
				psp.do(c.Key, "charged", 3000)
				return nil, retryproof.Refused(retryproof.CodeInvalid, "the order could not be stored", nil)
			},
			Cancel: func(_ context.Context, c saga.Call) ([]byte, error) {
				refunds = append(refunds, c.Key)
				switch {
				case down && c.Try == 2: // a refusal is no evidence either
					return nil, retryproof.Refused(retryproof.CodePermanent, "no such charge", nil)
				case down:
					return nil, unknown("")
				case ends: // refunded, and nobody records it
					ends = false
					psp.do(c.Key, "charged", -3000)
					die()
				}
				psp.do(c.Key, "charged", -3000)
				return nil, nil
			},
		}}}
	}
	r := l.runner(definition())
	l.start(r, "order", "pay_7")
	for try := 1; try <= 3; try++ {
		l.once(r)
		rec := l.read("pay_7")
		check(t, "the state without evidence", rec.State, saga.Compensating)
		e, _ := rec.Entry("charge", true)
		check(t, "recorded tries", e.Tries, try)
		check(t, "the refund's state", e.State, []saga.EntryState{saga.Unknown, saga.NotDone, saga.Unknown}[try-1])
		l.clock.Advance(20 * 60e9)
	}
	check(t, "people told", len(l.alarms), 1)
	check(t, "of which call", l.alarms[0].Entry.Key, "pay_7:cancel:refund")
	check(t, "charged", psp.net["charged"], 3000)

	down = false
	r = l.runner(definition()) // a restart
	_, crashed := l.once(r)
	check(t, "the process ended in the refund", crashed, true)
	check(t, "the state without a record of it", l.read("pay_7").State, saga.Compensating)

	rec := l.settle("pay_7", definition())
	check(t, "the state", rec.State, saga.Compensated)
	check(t, "net", psp.net["charged"], 0)
	check(t, "refunds tried", len(refunds), 5)
	for _, key := range refunds {
		check(t, "every try's key", key, "pay_7:cancel:refund")
	}
}
