package effect

import (
	"context"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/entropy"
)

// Resolve answers "what became of my key?" with the truth, or makes sure that it
// never will happen (mission C2): an effect that nothing is known of is voided, in
// key store and guard in one go, so that an original that is still on its way is
// refused forever. Looking alone would leave the asker with "not found", and the
// original would run afterwards.
//
// Only r.Scope and r.GuardID are used. The verdict is Voided, Replay (final), Pointer
// (UNKNOWN, or left PENDING by an owner that is gone) or Busy (an owner works on it).
// Only Voided and Replay let go of the key. Against an original that arrives at the
// same time the guard's unique row decides: one of the two finds the other's.
//
// Errors are as Begin's: NotDone with CodeInvalid; Unknown with CodeUnavailable, or with
// CodeUnknown when the store never said whether the key was voided. In each case ask
// again with the same key.
func (e *Engine) Resolve(ctx context.Context, r Request) (Decision, error) {
	if r.GuardID == "" {
		r.GuardID = retryproof.Of("effect", r.Scope)
	}
	if err := r.Scope.Valid(); err != nil {
		return Decision{}, err
	}
	owner := entropy.Token(e.config.Rand)
	var seen Seen
	err := e.retry(ctx, r, func() (err error) {
		now := e.config.Clock.Now()
		seen, err = e.store.Begin(ctx, Begin{Scope: r.Scope, GuardID: r.GuardID, Owner: owner, Now: now, Until: now.Add(e.config.AnswerTTL), Void: true})
		return err
	})
	switch {
	case retryproof.OutcomeOf(err) == retryproof.Unknown:
		return Decision{}, &retryproof.Error{Code: retryproof.CodeUnknown, Err: err,
			Message: "it is not known whether the key was voided", Hint: "ask again with the same key"}
	case err != nil:
		return Decision{}, unavailable(err, retryproof.Unknown)
	}
	d := e.resolved(seen)
	if d.Verdict == Voided && seen.Guard != nil && seen.Guard.SettledBy == owner {
		e.saw(SawVoided, r)
	}
	return d, nil
}

// resolved is Next for an asker that brings no request of its own: whatever the first
// request meant is what is asked about, and nobody takes over.
func (e *Engine) resolved(seen Seen) Decision {
	g := seen.Guard
	if g == nil { // the store may leave it out when the claim has the final answer
		if c := seen.Claim; c != nil && c.Answer != nil {
			return Decision{Verdict: Replay, State: c.Answer.State, Answer: c.Answer, Claim: c}
		}
		return Decision{Verdict: Busy, Claim: seen.Claim}
	}
	now := e.config.Clock.Now()
	d := Decision{State: g.State, Guard: g, Claim: seen.Claim}
	switch {
	case g.State == Void:
		d.Verdict = Voided
	case g.State.Final():
		d.Verdict = Replay
		if c := seen.Claim; c != nil && c.Answer != nil && c.Fingerprint.Same(g.Fingerprint) {
			d.Answer = c.Answer
		}
	case g.State == Pending && !Stale(g.Until, now, e.config.Margin):
		d.Verdict, d.RetryAfter = Busy, leaseLeft(g.Until, now, e.config.Margin)
	default:
		d.Verdict = Pointer
	}
	return d
}
