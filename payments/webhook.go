package payments

import (
	"bytes"
	"context"
	"net/http"
	"sync"

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
	body := messages.Get().(*bytes.Buffer)
	defer giveBack(body)
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
	setJSON(w.Header())
	_, _ = w.Write(append(appendText([]byte(`{"result":`), what), "}\n"...)) //nolint:gosec // JSON, said to be JSON; the PSP is gone: it sends again
}

// messages are buffers for the bodies of webhooks.
var messages = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// giveBack lets the next webhook use a buffer, unless it has grown large.
func giveBack(b *bytes.Buffer) {
	if b.Cap() <= 64<<10 {
		b.Reset()
		messages.Put(b)
	}
}

// hook is what the PSP says about one effect of ours, in a message or in an answer.
type hook struct {
	id retryproof.ID
	// source says in what it said so: "a webhook".
	source  string
	engine  *effect.Engine
	finding resolve.Finding
	// evidence is where the effect's evidence is read.
	evidence resolve.Store
	// state is the effect's when it was read, ref what it is known by at the PSP.
	state effect.State
	ref   string
	// absent: the message is about an effect that is not here; moved: and says that money
	// was moved.
	absent, moved bool
}

// readWebhook finds what the message is about.
func (s *System) readWebhook(ctx context.Context, e psp.WebhookEvent) (hook, bool, error) {
	switch {
	case e.Charge.Reference != "":
		h := hook{id: retryproof.ID(e.Charge.Reference), source: "a webhook", engine: s.engine, evidence: s.deps.Store.Due}
		p, err := s.deps.Store.Ledger.Payment(ctx, h.id)
		if retryproof.CodeOf(err) == retryproof.CodeNotFound {
			h.absent, h.moved, err = true, e.Charge.State == psp.Succeeded, nil
		} else if err == nil {
			h.finding, h.state, h.ref = s.finding(p, e.Charge), p.State, p.ChargeID
		}
		return h, true, err
	case e.Refund.Reference != "":
		h := hook{id: retryproof.ID(e.Refund.Reference), source: "a webhook", engine: s.refunds.engine, evidence: s.deps.Store.DueRefunds}
		p, err := s.deps.Store.Ledger.Payment(ctx, retryproof.ID(e.Refund.Payment))
		var r Refund
		if err == nil {
			r, err = s.refundByID(ctx, p.ID, h.id)
		}
		if retryproof.CodeOf(err) == retryproof.CodeNotFound {
			h.absent, h.moved, err = true, e.Refund.State == psp.Succeeded, nil
		} else if err == nil {
			h.finding, h.state, h.ref = s.refundFinding(r, p, e.Refund), r.State, r.RefundID
		}
		return h, true, err
	}
	return hook{}, false, nil
}

// contradict keeps a contradiction beside the effect, and before that tells a person,
// once: a crash in between tells them again. With a key the message is recorded in the
// same transaction (case 25).
func (s *System) contradict(ctx context.Context, h hook, by, name, says string, key *retryproof.InboxKey) (effect.Settled, error) {
	now := s.deps.Clock.Now()
	note := resolve.ConflictNote(name, by, h.source+" about "+h.finding.Ref+": "+says, now)
	told := resolve.Told(ctx, h.evidence, h.id, note.Name)
	if !told {
		s.contradicted(string(h.id), note.Seen)
	}
	keep := effect.Settle{ID: h.id, To: effect.Succeeded, By: by, Now: now, Inbox: key, Note: note} // no From: it moves nothing
	out, err := h.engine.Settle(ctx, keep)
	if err == nil && out.Repeat && !told { // the message was recorded, and what speaks against us was not
		keep.Inbox = nil
		if _, err := h.engine.Settle(ctx, keep); err != nil {
			return out, err
		}
	}
	return out, err
}

// applyWebhook records the event and moves what it is about, in one transaction.
func (s *System) applyWebhook(ctx context.Context, e psp.WebhookEvent, h hook) (string, error) {
	key := retryproof.InboxKey{Consumer: consumerWebhook, Source: sourcePSP, EventID: e.ID}
	now, by := s.deps.Clock.Now(), "webhook-"+e.ID
	if h.absent {
		if h.moved { // money that we know nothing of
			s.contradicted(string(h.id), "a webhook says that it succeeded, and it is not here")
		}
		s.deps.Log.Warn("a webhook is about something that is not here", "event", e.ID, "reference", h.id)
		return "unknown payment", nil
	}
	if name, says := h.finding.Against(h.state, h.ref); says != "" {
		out, err := s.contradict(ctx, h, by, name, says, &key)
		return map[bool]string{true: "repeats dropped", false: "conflict"}[out.Repeat], err
	}
	if !h.finding.State.Final() {
		first, err := s.deps.Store.Inbox.Apply(ctx, inbox.Apply{Key: key, Now: now})
		return map[bool]string{true: "no move", false: "repeats dropped"}[first], err
	}
	f := h.finding.Finish
	out, err := h.engine.Settle(ctx, effect.Settle{ID: h.id, From: []effect.State{effect.Pending, effect.Unknown}, To: f.State,
		By: by, Now: now, Row: f.Row, Postings: f.Postings, Events: f.Events, Inbox: &key,
		Evidence: resolve.VerdictNote(by, "a webhook said "+h.finding.Ref+": "+string(h.finding.State), now)})
	switch {
	case err != nil:
		return "", err
	case out.Moved:
		return "moves", nil
	case out.Repeat:
		return "repeats dropped", nil
	}
	// It became final between the read and the settlement. What contradicts the message
	// is noted apart; after a crash in between, the message's repeat or the
	// reconciliation finds it.
	if out.Guard != nil {
		if name, says := h.finding.Against(out.Guard.State, refIn(*out.Guard)); says != "" {
			if _, err := s.contradict(ctx, h, by, name, says, nil); err != nil {
				return "", err
			}
		}
	}
	return "late", nil
}

// finish settles an attempt by a definite answer: it is evidence, also when it comes so
// late that somebody else has the effect by now. While that one knows nothing, the answer
// settles it; when they have recorded something else, a person's verdict perhaps, it is
// told and kept.
func (s *System) finish(ctx context.Context, a *effect.Attempt, h hook, f effect.Finish) (effect.Decision, error) {
	d, err := a.Finish(ctx, f)
	if err != nil || d.Guard != nil && d.Guard.SettledBy == a.Owner() {
		return d, err
	}
	now := s.deps.Clock.Now()
	late := effect.Settle{ID: h.id, From: []effect.State{effect.Unknown}, To: f.State, By: a.Owner(), Now: now, Row: f.Row,
		Postings: f.Postings, Events: f.Events,
		Evidence: resolve.VerdictNote("attempt-"+a.Owner(), h.source+" gave "+h.finding.Ref+": "+string(h.finding.State), now)}
	out, lateErr := h.engine.Settle(ctx, late)
	switch {
	case lateErr != nil || out.Guard == nil:
		s.deps.Log.Error("a late answer could not be kept", "id", h.id, "error", lateErr)
	case out.Moved:
		_, _ = h.engine.Rewrite(ctx, *out.Guard, f.Answer) // failing is harmless: pointers are rendered
	case out.Guard.State.Final():
		name, says := h.finding.Against(out.Guard.State, refIn(*out.Guard))
		if says == "" {
			break
		}
		if _, err := s.contradict(ctx, h, "attempt-"+a.Owner(), name, says, nil); err != nil {
			s.deps.Log.Error("a contradiction could not be kept", "id", h.id, "error", err)
		}
	}
	return d, nil // PENDING: its new owner asks with the same key
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
