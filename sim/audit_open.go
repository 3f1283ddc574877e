package sim

import "slices"

// anyOpen reports that something is left to do, as far as single rows show it, so that
// the whole ledger need not be audited: on SQLite that was half of all the time.
func (a *auditor) anyOpen() bool {
	return !a.blind && (slices.ContainsFunc(a.payments, a.open) || slices.ContainsFunc(a.refunds, a.open))
}

// open reports that a row is not final and need not stay so.
func (a *auditor) open(f *facts) bool {
	if f.settledAs != "" {
		return false
	}
	r, err := a.row(f)
	return err == nil && !r.state.Final() && (a.w.operated || !a.unprovable(f) || !a.alerted(f))
}
