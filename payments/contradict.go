package payments

import (
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/internal/clip"
	"github.com/retryproof/retryproof/resolve"
)

// contradict keeps a contradiction beside the effect and tells a person, once (case 25).
// Whoever's note is kept tells, and notes that they have told. Who finds the note without
// that mark does not know whether its owner still lives: while it is young a message is
// refused, so that it comes again; afterwards the owner is taken for dead, and the person
// is told. A crash after they were told and before the mark tells them twice. With a key
// the message is recorded with the note, in one transaction.
func (s *System) contradict(ctx context.Context, h hook, by, name, says string, key *retryproof.InboxKey) (effect.Settled, error) {
	now := s.deps.Clock.Now()
	note := resolve.ConflictNote(name, by, h.source+" about "+h.finding.Ref+": "+says, now)
	keep := effect.Settle{ID: h.id, To: effect.Succeeded, By: by, Now: now, Inbox: key, Note: note} // no From: it moves nothing
	out, err := h.engine.Settle(ctx, keep)
	if err != nil {
		return out, err
	}
	kept := out.Noted
	if out.Repeat { // the message was recorded; what spoke against us may not have been
		keep.Inbox = nil
		again, err := h.engine.Settle(ctx, keep)
		if err != nil {
			return out, err
		}
		kept = again.Noted
	}
	if !kept {
		if kept, err = s.untold(ctx, h, note, key != nil); err != nil || !kept {
			return out, err
		}
	}
	s.contradicted(string(h.id), note.Seen)
	told := &effect.Evidence{Name: toldName(note), Kind: effect.EvidenceAlert, By: note.By, Seen: "a person was told of the " + name, At: now}
	told.Seen = clip.Text(told.Seen, effect.MaxEvidenceSeen)
	_, _ = h.engine.Settle(ctx, effect.Settle{ID: h.id, To: effect.Succeeded, By: by, Now: now, Note: told}) // failing is harmless: they are told twice
	return out, nil
}

// toldName names the mark of a contradiction that a person was told of.
func toldName(note *effect.Evidence) string {
	return clip.Text("told of "+note.Name, effect.MaxEvidenceName)
}

// untold reports whether a person has to be told of a contradiction whose note was there
// already. The error asks a message that may come again to do so.
func (s *System) untold(ctx context.Context, h hook, note *effect.Evidence, again bool) (bool, error) {
	all, err := h.evidence.Evidence(ctx, h.id)
	if err != nil {
		return false, err
	}
	named := func(name string) int {
		return slices.IndexFunc(all, func(e effect.Evidence) bool { return e.Name == name })
	}
	at := named(note.Name)
	switch {
	case named(toldName(note)) >= 0:
		return false, nil
	case at < 0, // nothing was kept, so nobody was told
		all[at].By == note.By && all[at].At.Equal(note.At.Truncate(time.Microsecond)), // ours: its COMMIT had no answer
		note.At.Sub(all[at].At) > s.config.Deadline+s.config.Margin:
		return true, nil
	case again:
		return false, &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeUnavailable, RetryAfter: s.config.Margin,
			Message: "somebody else is telling of this message", Hint: "send it again"}
	}
	return false, nil
}
