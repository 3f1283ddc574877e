package payments

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/resolve"
)

// consumerAbsent notes messages about what is not here.
const consumerAbsent = "psp-webhook-absent"

// webhook takes the PSP's word about a payment or a refund: recorded once per event
// id, and applied as an allowed move. Every delivery of a message that is ours ends
// 2xx, or the PSP would send it for days.
func (s *System) webhook(w http.ResponseWriter, r *http.Request) {
	body := messages.Get().(*bytes.Buffer)
	defer giveBack(body)
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, 1<<20)); err != nil {
		refused := retryproof.Refused(retryproof.CodeInvalid, "the message was cut off", nil)
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			refused = retryproof.Refused(retryproof.CodeTooLarge, "the message is larger than 1 MiB", nil)
		}
		writeError(w, refused)
		return
	}
	e, err := s.deps.PSP.Webhook(body.Bytes(), r.Header, s.deps.Clock.Now())
	if err == nil && !isText(e.ID) {
		err = retryproof.Refused(retryproof.CodeInvalid, "the event's id is no text", nil)
	}
	if err != nil {
		writeError(w, s.refusedWebhook(err))
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

// refusedWebhook says why a message is not taken. One that the processor has signed and
// that cannot be read is another matter than a forged one: what it says is lost, so
// somebody should see it.
func (s *System) refusedWebhook(err error) error {
	if retryproof.CodeOf(err) != retryproof.CodeInvalid {
		s.deps.Metrics.Add("retryproof_webhooks_total", 1, "what", "refused")
		return retryproof.Refused(retryproof.CodeInvalid, "the message is not signed by the processor, or too old", nil)
	}
	s.deps.Metrics.Add("retryproof_webhooks_total", 1, "what", "unreadable")
	s.deps.Log.Error("a message that the processor has signed cannot be read", "error", err)
	return retryproof.Refused(retryproof.CodeInvalid, "the message is signed by the processor and cannot be read", nil)
}

// isText reports whether a store can keep a name that comes from outside.
func isText(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.Contains(s, "\x00")
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
	case isText(e.Charge.Reference): // what is no text is no id of ours
		h := hook{id: retryproof.ID(e.Charge.Reference), source: "a webhook", engine: s.engine, evidence: s.deps.Store.Due}
		p, err := s.deps.Store.Ledger.Payment(ctx, h.id)
		if retryproof.CodeOf(err) == retryproof.CodeNotFound {
			h.absent, h.moved, err = true, e.Charge.State == psp.Succeeded, nil
		} else if err == nil {
			h.finding, h.state, h.ref = s.finding(p, e.Charge), p.State, p.ChargeID
		}
		return h, true, err
	case isText(e.Refund.Reference):
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

// What became of a webhook.
const (
	hookMoved     = "moves"
	hookRepeat    = "repeats dropped"
	hookNoMove    = "no move"
	hookConflict  = "conflict"
	hookLate      = "late"
	hookOfNothing = "unknown payment"
)

// applyWebhook records the event and moves what it is about, in one transaction. It says
// what became of the webhook.
func (s *System) applyWebhook(ctx context.Context, e psp.WebhookEvent, h hook) (string, error) {
	if h.absent {
		return s.absent(ctx, e, h)
	}
	key := retryproof.InboxKey{Consumer: consumerWebhook, Source: sourcePSP, EventID: e.ID}
	now, by := s.deps.Clock.Now(), "webhook-"+e.ID
	if name, says := h.finding.Against(h.state, h.ref); says != "" {
		out, err := s.contradict(ctx, h, by, name, says, &key)
		if out.Repeat {
			return hookRepeat, err
		}
		return hookConflict, err
	}
	if !h.finding.State.Final() {
		first, err := s.deps.Store.Inbox.Apply(ctx, inbox.Apply{Key: key, Now: now})
		if first {
			return hookNoMove, err
		}
		return hookRepeat, err
	}
	f := h.finding.Finish
	out, err := h.engine.Settle(ctx, effect.Settle{ID: h.id, From: []effect.State{effect.Pending, effect.Unknown}, To: f.State,
		By: by, Now: now, Row: f.Row, Postings: f.Postings, Events: f.Events, Inbox: &key,
		Evidence: resolve.VerdictNote(by, "a webhook said "+h.finding.Ref+": "+string(h.finding.State), now)})
	switch {
	case err != nil:
		return "", err
	case out.Moved:
		return hookMoved, nil
	case out.Repeat:
		return hookRepeat, nil
	case out.Guard == nil:
		return hookLate, nil
	}
	// It became final between the read and the settlement. What contradicts the message
	// is noted apart; after a crash in between, the message's repeat or the
	// reconciliation finds it.
	if name, says := h.finding.Against(out.Guard.State, refIn(*out.Guard)); says != "" {
		if _, err := s.contradict(ctx, h, by, name, says, nil); err != nil {
			return "", err
		}
	}
	return hookLate, nil
}

// absent notes a message about something that is not here, and tells a person, once,
// when it says that money was moved. The note is not that of a message that was applied:
// when the payment comes back, from a backup perhaps, the message's repeat settles it. A
// crash before the person is told leaves it to the reconciliation, which shows it too.
func (s *System) absent(ctx context.Context, e psp.WebhookEvent, h hook) (string, error) {
	key := retryproof.InboxKey{Consumer: consumerAbsent, Source: sourcePSP, EventID: e.ID}
	first, err := s.deps.Store.Inbox.Apply(ctx, inbox.Apply{Key: key, Now: s.deps.Clock.Now()})
	if err != nil {
		return "", err
	}
	if first && h.moved { // money that we know nothing of
		s.contradicted(string(h.id), "a webhook says that it succeeded, and it is not here")
	}
	if first {
		s.deps.Log.Warn("a webhook is about something that is not here", "event", e.ID, "reference", h.id)
	}
	return hookOfNothing, nil
}

// finish settles an attempt by a definite answer: it is evidence, even when it comes so
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
