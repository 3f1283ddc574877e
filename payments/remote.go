package payments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/resolve"
)

// chargeRemote is the card processor as the resolver of payments asks it.
type chargeRemote struct{ s *System }

// Repeat implements resolve.Remote.
func (r chargeRemote) Repeat(ctx context.Context, g effect.Guard) (resolve.Finding, error) {
	p, err := paymentIn(g)
	if err != nil {
		return resolve.Finding{}, err
	}
	r.s.saw(p.ID, hopPSP, "calls")
	c, err := r.s.deps.PSP.Charge(ctx, chargeRequest(p.ID.Sub("charge"), p))
	if err == nil && c.State == psp.Processing {
		// The key keeps saying "processing", whatever happened since.
		c, err = r.s.deps.PSP.Retrieve(ctx, c.ID)
	}
	if err != nil {
		return resolve.Finding{}, err
	}
	return r.s.finding(p, c), nil
}

// LookUp implements resolve.Remote.
func (r chargeRemote) LookUp(ctx context.Context, g effect.Guard) ([]resolve.Finding, error) {
	p, err := paymentIn(g)
	if err != nil {
		return nil, err
	}
	found, err := r.s.deps.PSP.Find(ctx, string(p.ID))
	out := make([]resolve.Finding, len(found))
	for i, c := range found {
		out[i] = r.s.finding(p, c)
	}
	return out, err
}

func paymentIn(g effect.Guard) (Payment, error) {
	p, ok := g.Row.(Payment)
	if !ok {
		return Payment{}, fmt.Errorf("payments: guard %s has no payment", g.ID)
	}
	return p, nil
}

// alert tells a person that a payment or a refund stays UNKNOWN, or that the
// processor contradicts it.
func (s *System) alert(_ context.Context, g effect.Guard, cause error) {
	var c *resolve.Conflict
	if errors.As(cause, &c) {
		s.contradicted(string(g.ID), c.Seen)
	}
	if g.State.Final() { // an answer that came after a verdict
		return
	}
	s.deps.Metrics.Add("retryproof_unknown_alerts_total", 1)
	s.deps.Log.Error("an outcome stays UNKNOWN: a person must look", "id", g.ID, "tries", g.Tries,
		"since", g.CreatedAt.Format(time.RFC3339), "error", cause)
}

// contradicted tells a person that the processor's record and ours disagree. Ours
// keeps its state: a wrong amount is no evidence of the right one.
func (s *System) contradicted(id, seen string) {
	s.deps.Metrics.Add("retryproof_psp_conflicts_total", 1)
	s.deps.Log.Error("the processor's record does not match ours: a person must look", "id", id, "seen", seen)
}
