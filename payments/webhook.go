package payments

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/resolve"
)

// webhook takes the PSP's word about a payment or a refund: recorded once per event
// id, and applied as an allowed move. Every delivery of a message that is ours ends
// 2xx, or the PSP would send it for days.
func (s *System) webhook(w http.ResponseWriter, r *http.Request) {
	// Room for what is announced, so that it need not grow; not for any claim.
	room := min(max(r.ContentLength, 0), 64<<10)
	body := bytes.NewBuffer(make([]byte, 0, room+bytes.MinRead))
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, 1<<20)); err != nil {
		writeError(w, retryproof.Refused(retryproof.CodeTooLarge, "the message is too large or was cut off", nil))
		return
	}
	e, err := s.deps.PSP.Webhook(body.Bytes(), r.Header, s.deps.Clock.Now())
	if err != nil {
		s.deps.Metrics.Add("retryproof_webhooks_total", 1, "what", "refused")
		writeError(w, retryproof.Refused(retryproof.CodeInvalid, "the message is not signed by the processor, or too old", nil))
		return
	}
	hook, ours, err := s.readWebhook(r.Context(), e)
	if err != nil {
		writeError(w, err)
		return
	}
	if !ours { // genuine, and not about anything of ours
		w.WriteHeader(http.StatusNoContent)
		return
	}
	what, err := s.applyWebhook(r.Context(), e, hook)
	if err != nil {
		writeError(w, err)
		return
	}
	s.deps.Metrics.Add("retryproof_webhooks_total", 1, "what", what)
	s.saw(hook.id, hopWebhook, what)
	writeJSON(w, map[string]string{"result": what})
}

// hook is what a message says about one effect of ours.
type hook struct {
	id      retryproof.ID
	engine  *effect.Engine
	finding resolve.Finding
	// state is the effect's when it was read, ref what it is known by at the PSP.
	state effect.State
	ref   string
	// absent: the message is about an effect that is not here.
	absent bool
}

// readWebhook finds what the message is about.
func (s *System) readWebhook(ctx context.Context, e psp.WebhookEvent) (hook, bool, error) {
	switch {
	case e.Charge.Reference != "":
		h := hook{id: retryproof.ID(e.Charge.Reference), engine: s.engine}
		p, err := s.deps.Store.Ledger.Payment(ctx, h.id)
		if retryproof.CodeOf(err) == retryproof.CodeNotFound {
			h.absent, err = true, nil
		} else if err == nil {
			h.finding, h.state, h.ref = s.finding(p, e.Charge), p.State, p.ChargeID
		}
		return h, true, err
	case e.Refund.Reference != "":
		h := hook{id: retryproof.ID(e.Refund.Reference), engine: s.refunds.engine}
		p, err := s.deps.Store.Ledger.Payment(ctx, retryproof.ID(e.Refund.Payment))
		var r Refund
		if err == nil {
			r, err = s.refundByID(ctx, p.ID, h.id)
		}
		if retryproof.CodeOf(err) == retryproof.CodeNotFound {
			h.absent, err = true, nil
		} else if err == nil {
			h.finding, h.state, h.ref = s.refundFinding(r, p, e.Refund), r.State, r.RefundID
		}
		return h, true, err
	}
	return hook{}, false, nil
}

// contradiction is what a message says against what is final here; empty when it does
// not. That a payment is paid by another charge, or paid although it had failed, is
// for a person.
func (h hook) contradiction(state effect.State, ref string) string {
	f := h.finding
	switch {
	case f.Differs != "":
		return f.Differs
	case !state.Final() || f.State != effect.Succeeded:
		return ""
	case state != effect.Succeeded:
		return fmt.Sprintf("it succeeded there and is %s here", state)
	case ref != "" && f.Ref != ref:
		return fmt.Sprintf("it succeeded there as %s and here as %s", f.Ref, ref)
	}
	return ""
}

// applyWebhook records the event and moves what it is about, in one transaction.
func (s *System) applyWebhook(ctx context.Context, e psp.WebhookEvent, h hook) (string, error) {
	key := retryproof.InboxKey{Consumer: consumerWebhook, Source: sourcePSP, EventID: e.ID}
	now, by := s.deps.Clock.Now(), "webhook-"+e.ID
	if h.absent {
		s.deps.Log.Warn("a webhook is about something that is not here", "event", e.ID, "reference", h.id)
		return "unknown payment", nil
	}
	note := func(against string) *effect.Evidence {
		return &effect.Evidence{Name: resolve.ConflictName(h.finding.Ref), Kind: effect.EvidenceConflict, By: by, Seen: "a webhook about " + h.finding.Ref + ": " + against, At: now}
	}
	if against := h.contradiction(h.state, h.ref); against != "" {
		// Kept with the message in one transaction, so that it is told once (case 25).
		out, err := h.engine.Settle(ctx, effect.Settle{ID: h.id, To: effect.Succeeded, By: by, Now: now, Inbox: &key, Note: note(against)})
		if err == nil && out.Noted {
			s.contradicted(string(h.id), note(against).Seen)
		}
		return map[bool]string{true: "repeats dropped", false: "conflict"}[out.Repeat], err
	}
	if !h.finding.State.Final() {
		first, err := s.deps.Store.Inbox.Apply(ctx, inbox.Apply{Key: key, Now: now})
		return map[bool]string{true: "no move", false: "repeats dropped"}[first], err
	}
	f := h.finding.Finish
	out, err := h.engine.Settle(ctx, effect.Settle{ID: h.id, From: []effect.State{effect.Pending, effect.Unknown}, To: f.State,
		By: by, Now: now, Row: f.Row, Postings: f.Postings, Events: f.Events, Inbox: &key,
		Evidence: &effect.Evidence{Name: "verdict", Kind: effect.EvidenceVerdict, By: by, At: now,
			Seen: fmt.Sprintf("a webhook said %s: %s", h.finding.Ref, h.finding.State)}})
	switch {
	case err != nil:
		return "", err
	case out.Moved:
		return "moves", nil
	case out.Repeat:
		return "repeats dropped", nil
	}
	// It became final between the read and the settlement. Whether that contradicts the
	// message is noted apart; a crash in between leaves it to the reconciliation.
	if out.Guard != nil {
		if against := h.contradiction(out.Guard.State, refIn(*out.Guard)); against != "" {
			again, err := h.engine.Settle(ctx, effect.Settle{ID: h.id, To: effect.Succeeded, By: by, Now: now, Note: note(against)})
			if err == nil && again.Noted {
				s.contradicted(string(h.id), note(against).Seen)
			}
		}
	}
	return "late", nil
}

// refIn is the PSP's name of what a guard is about.
func refIn(g effect.Guard) string {
	switch row := g.Row.(type) {
	case Payment:
		return row.ChargeID
	case Refund:
		return row.RefundID
	}
	return ""
}
