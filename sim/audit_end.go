package sim

import (
	"slices"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
)

// settled reports whether nothing is left to do.
func (w *World) settled() bool {
	if w.audit.waiting() {
		return false
	}
	a, err := w.stores.Ledger.Audit(background)
	return err == nil && a.OutboxWaiting == 0 && a.IntentsPending == 0 &&
		a.ByState[effect.Pending] == 0 && a.RefundsByState[effect.Pending] == 0 &&
		a.Credits == a.ByState[effect.Succeeded] && a.Debits == a.RefundsByState[effect.Succeeded] &&
		a.ByState[effect.Unknown] == w.audit.unproved(w.audit.payments) && a.RefundsByState[effect.Unknown] == w.audit.unproved(w.audit.refunds)
}

// waiting reports that a payment that was settled was not credited or pushed yet, as
// seen from outside: the ledger need not be asked.
func (a *auditor) waiting() bool {
	return !a.blind && slices.ContainsFunc(a.payments, func(f *facts) bool {
		return f.settledAs == effect.Succeeded && (f.credits == 0 || f.pushes == 0)
	}) || slices.ContainsFunc(a.refunds, a.silentReversal)
}

// silentReversal reports a refund that the bank sent back and that has succeeded here,
// and nothing here says so.
func (a *auditor) silentReversal(f *facts) bool {
	return f.reversed && f.settledAs == effect.Succeeded && !a.kept(f, effect.EvidenceConflict)
}

// unproved counts what must stay UNKNOWN, and of which a person was told, unless there
// is one who will decide it.
func (a *auditor) unproved(all []*facts) int64 {
	n := int64(0)
	for _, f := range all {
		if len(f.charges) == 0 && f.settledAs == "" && !a.w.operated && a.unprovable(f) && a.alerted(f) {
			n++
		}
	}
	return n
}

// row is a payment's or a refund's, as the ledger has it.
type row struct {
	state   effect.State
	amount  int64
	created int64 // microseconds since the beginning
	due     resolve.Store
}

func (a *auditor) row(f *facts) (row, error) {
	s := a.w.stores
	if f.of == "" {
		p, err := s.Ledger.Payment(background, idOf(f.id))
		return row{p.State, p.Amount, p.CreatedAt.Sub(Epoch).Microseconds(), s.Due}, err
	}
	all, err := s.Ledger.Refunds(background, idOf(f.of))
	if err != nil {
		return row{}, err
	}
	at := slices.IndexFunc(all, func(r payments.Refund) bool { return string(r.ID) == f.id })
	if at < 0 {
		return row{}, retryproof.Refused(retryproof.CodeNotFound, "there is no such refund", nil)
	}
	return row{all[at].State, all[at].Amount, all[at].CreatedAt.Sub(Epoch).Microseconds(), s.DueRefunds}, nil
}

// unprovable reports that nobody can ever prove what became of something UNKNOWN that
// the processor does not hold, so that it stays UNKNOWN, rightly: the processor keeps
// an error for its key, or may have forgotten the key by now.
func (a *auditor) unprovable(f *facts) bool {
	if f == nil || len(f.charges) > 0 {
		return false
	}
	r, err := a.row(f)
	if err != nil || r.state != effect.Unknown {
		return false
	}
	c := a.w.options.Config
	age := a.w.now.Microseconds() - r.created
	forgotten := c.PSPWindow > 0 && age > (c.PSPWindow-c.PSPWindowMargin-2*a.w.chaos.Skew).Microseconds()
	return f.saved500 || forgotten
}

// kept reports whether the ledger keeps evidence of a kind.
func (a *auditor) kept(f *facts, kind effect.EvidenceKind) bool {
	due := a.w.stores.Due
	if f.of != "" {
		due = a.w.stores.DueRefunds
	}
	all, err := due.Evidence(background, idOf(f.id))
	return err == nil && slices.ContainsFunc(all, func(e effect.Evidence) bool { return e.Kind == kind })
}

// alerted reports that a person was told that it stays UNKNOWN.
func (a *auditor) alerted(f *facts) bool { return f != nil && a.kept(f, effect.EvidenceAlert) }

// end judges what is left when everything should be settled.
func (a *auditor) end() {
	for _, f := range slices.Concat(a.payments, a.refunds) {
		a.endOf(f)
	}
	audit, err := a.w.stores.Ledger.Audit(background)
	if err != nil {
		a.harm(HarmStuck, "the ledger cannot be audited: %v", err)
		return
	}
	if audit.Unbalanced > 0 || audit.WrongBalance > 0 || audit.WrongRefunded > 0 || audit.DebitSum != audit.RefundedSum {
		a.harm(HarmUnbalancedBook, "%d entries do not sum to 0, %d balances are not their sum, %d payments have not refunded what their refunds say, debits %d, refunds %d",
			audit.Unbalanced, audit.WrongBalance, audit.WrongRefunded, audit.DebitSum, audit.RefundedSum)
	}
	for _, i := range a.intents {
		said := a.told[i.Buyer+" "+i.Key]
		if i.Done == "SUCCEEDED" && len(a.orders[i.order()]) == 0 {
			a.harm(HarmContradictory, "order %s was answered SUCCEEDED and never charged", i.Order)
		}
		if said != nil && i.Done == "FAILED" && len(a.orders[i.order()]) > 0 {
			a.harm(HarmLostEffect, "order %s was answered FAILED and charged", i.Order)
		}
	}
}

func (a *auditor) endOf(f *facts) {
	r, err := a.row(f)
	ran := len(f.charges) > 0 && !f.failing && !f.reversed
	switch {
	case err != nil && ran:
		a.harm(HarmLostEffect, "%s was done at the processor, as %s, and is not here", f.id, f.charges[0])
	case err != nil:
	case (r.state == effect.Failed || r.state == effect.Void) && ran:
		a.harm(HarmLostEffect, "%s is %s and was done at the processor, as %s", f.id, r.state, f.charges[0])
	case a.unprovable(f) && !a.w.operated:
		a.w.counts.Unprovable++
		if !a.alerted(f) {
			a.harm(HarmStuck, "%s stays UNKNOWN and nobody was told", f.id)
		}
	case !r.state.Final():
		a.harm(HarmStuck, "%s is still %s", f.id, r.state)
	case f.byOther && !a.blind && !a.kept(f, effect.EvidenceVerdict):
		a.harm(HarmNoEvidence, "%s was settled as %s and nothing says from what", f.id, r.state)
	case a.silentReversal(f):
		a.harm(HarmNoEvidence, "%s is SUCCEEDED, came back from the bank, and nothing says so", f.id)
	case r.state == effect.Succeeded:
		a.endSucceeded(f, r.amount)
	}
}

func (a *auditor) endSucceeded(f *facts, amount int64) {
	switch {
	case len(f.charges) == 0 || f.failing:
		a.harm(HarmContradictory, "%s is SUCCEEDED and was never done at the processor", f.id)
	case f.credits == 0 && f.sent == 0:
		a.harm(HarmLostEvent, "%s is SUCCEEDED and its event was never sent", f.id)
	case f.credits == 0:
		a.harm(HarmLostEffect, "%s is SUCCEEDED and the merchant's account does not have it", f.id)
	case f.credited != amount:
		a.harm(HarmWrongAmount, "%s of %d is %d in the merchant's account", f.id, amount, f.credited)
	case f.pushes == 0:
		a.harm(HarmMissingNotice, "%s is SUCCEEDED and nobody was told", f.id)
	default:
		intent, err := a.w.stores.Notify.Intent(background, notify.Key{EventID: f.id + ":SUCCEEDED", Channel: "push"})
		if err == nil && intent != nil && intent.State == notify.Pending && !a.blind {
			a.harm(HarmStuck, "the notification of %s is still PENDING", f.id)
		}
	}
}
