package effect

import (
	"time"

	"github.com/retryproof/retryproof"
)

// Verdict is what a request must be told, or do.
type Verdict int

const (
	// Run: the caller owns the effect and may run it.
	Run Verdict = iota + 1
	// Replay: the effect is final; Decision.Answer or Decision.Guard has it.
	Replay
	// Pointer: it is not final and nobody must run it; render the guard.
	Pointer
	// Busy: another owner's lease is alive; ask again after RetryAfter.
	Busy
	// Mismatch: the key was used for another request; nothing ran.
	Mismatch
	// Voided: the key was voided; it never ran and never will.
	Voided
	// Takeover: the owner's lease is stale; adopt, then decide again.
	Takeover
	// Abandon: a stale owner left PENDING and nobody may run again: make it
	// UNKNOWN, then answer with the pointer.
	Abandon
	// Broken: the claim points to a guard that is not there.
	Broken
)

// String names the verdict, as in "takeover".
func (v Verdict) String() string {
	switch v {
	case Run:
		return "run"
	case Replay:
		return "replay"
	case Pointer:
		return "pointer"
	case Busy:
		return "busy"
	case Mismatch:
		return "mismatch"
	case Voided:
		return "voided"
	case Takeover:
		return "takeover"
	case Abandon:
		return "abandon"
	case Broken:
		return "broken"
	}
	return "no verdict"
}

// Rerun says when an effect may be run again after its owner vanished.
type Rerun int

const (
	// RerunNever: what a vanished owner left is UNKNOWN until somebody settles it.
	// Right for a handler whose outside calls take no key.
	RerunNever Rerun = iota
	// RerunPending: a PENDING effect whose lease is stale is run again by the next
	// repeat; an UNKNOWN one is left to a resolver. Right when the outside call
	// carries a derived key and a resolver runs.
	RerunPending
	// RerunAlways: UNKNOWN ones are run again too. Right when the outside calls
	// carry derived keys, or the whole effect is one database transaction.
	RerunAlways
)

// Policy is what the machine must know beyond the records.
type Policy struct {
	// Rerun says whether a repeat may run what a vanished owner left.
	Rerun Rerun
	// Margin is how long after its end a lease still holds others back.
	Margin time.Duration
}

// Decision is the machine's output.
type Decision struct {
	Verdict Verdict
	// State is the effect's, as far as it is known: Succeeded or Failed with Replay.
	// Empty for Mismatch, and when only a claim without an answer was read.
	State State
	// Answer is the stored final answer, when the claim has it.
	Answer *Answer
	// Guard is the guard as read, when it was.
	Guard *Guard
	// Claim is the claim as read; nil when it is absent, or when it belongs to a
	// request with another meaning than the guard's.
	Claim *Claim
	// RetryAfter is how long until the owner's lease can be stale (Busy).
	RetryAfter time.Duration
	// CompleteClaim says that nobody else will end the claim: it belongs to the asker, or
	// to an owner that is gone. It is completed from a guard that stays; one that may
	// still be released (Busy) gets no pointer.
	CompleteClaim bool
}

// Err is nil for Run and for Replay; else it says why there is no answer yet, or never
// will be one:
//   - Busy: Unknown, CodeInProgress, with RetryAfter;
//   - Pointer: Unknown, CodeUnknown: it is not final;
//   - Mismatch: NotDone, CodeKeyReused: this request did not run and never will;
//   - Voided: NotDone, CodeVoid;
//   - any other: Unknown, CodeUnknown.
//
// A Replay of a failure is an answer: see State.
func (d Decision) Err() error {
	switch d.Verdict {
	case Run, Replay:
		return nil
	case Busy:
		return &retryproof.Error{Code: retryproof.CodeInProgress, RetryAfter: d.RetryAfter,
			Message: "the first request with this key is still running", Hint: "send it again with the same key"}
	case Mismatch:
		return retryproof.Refused(retryproof.CodeKeyReused, "this key was used for a different request; nothing ran", nil)
	case Voided:
		return retryproof.Refused(retryproof.CodeVoid, "this key was voided; send a new intent with a new key", nil)
	}
	return &retryproof.Error{Code: retryproof.CodeUnknown, RetryAfter: time.Second,
		Message: "the outcome is not known yet", Hint: "ask again with the same key"}
}

// Next decides what a request must do about what the store holds. It is pure:
// the engine, the simulator and the tests call the same function.
//
// The order matters: another meaning is refused before "in progress" is said
// (case 15), the guard is believed before the claim, and a claim that has expired
// was already read as absent. A claim with another meaning than its guard was
// left by a reused key after the first claim had expired; it says nothing.
func Next(seen Seen, me string, want retryproof.Fingerprint, now time.Time, p Policy) Decision {
	d := Decision{Guard: seen.Guard, Claim: seen.Claim}
	c, g := seen.Claim, seen.Guard
	if c != nil && c.State == ClaimVoid || g != nil && g.State == Void {
		d.Verdict, d.State = Voided, Void
		return d
	}
	if g != nil && !g.Fingerprint.Same(want) || g == nil && c != nil && !c.Fingerprint.Same(want) {
		d.Verdict = Mismatch
		return d
	}
	if c != nil && !c.Fingerprint.Same(want) {
		c, d.Claim = nil, nil
	}
	if c != nil && c.State == Complete && c.Answer != nil {
		d.Verdict, d.Answer, d.State = Replay, c.Answer, c.Answer.State
		if d.State == "" && g != nil { // an answer from before they had one
			d.State = g.State
		}
		return d
	}
	d.CompleteClaim = c != nil && c.State == InProgress && (c.Owner == me || Stale(c.Until, now, p.Margin))
	if g == nil {
		return withoutGuard(d, me, now, p)
	}
	d.State = g.State
	switch g.State {
	case Succeeded, Failed:
		// A pointer to a final row is rendered, not rewritten: a resolver that
		// settles the row rewrites the claim, and a reader stays one round trip.
		d.Verdict = Replay
		return d
	case Unknown:
		return unknownGuard(d, me, now, p)
	}
	return pendingGuard(d, me, now, p)
}

// withoutGuard decides when only a claim is there: its owner crashed or is about
// to record the guard (two stores), or the guard was lost.
func withoutGuard(d Decision, me string, now time.Time, p Policy) Decision {
	c := d.Claim
	d.CompleteClaim = false
	switch {
	case c == nil, pointer(c) && p.Rerun == RerunNever:
		d.Verdict = Broken
	case claimed(c, me, now, p):
		d.Verdict, d.RetryAfter = Busy, leaseLeft(c.Until, now, p.Margin)
	default:
		// A pointer without a guard was left for one that was released, or its guard is
		// lost and an attempt may have run: only an effect that may run again is run.
		d.Verdict = Takeover
	}
	return d
}

func pointer(c *Claim) bool { return c != nil && c.State == Complete && c.Answer == nil }

func pendingGuard(d Decision, me string, now time.Time, p Policy) Decision {
	g := d.Guard
	switch {
	case g.Owner == me:
		d.Verdict = Run
	case !Stale(g.Until, now, p.Margin):
		d.Verdict, d.RetryAfter = Busy, leaseLeft(g.Until, now, p.Margin)
	case claimed(d.Claim, me, now, p): // its owner is about to take over
		d.Verdict, d.RetryAfter = Busy, leaseLeft(d.Claim.Until, now, p.Margin)
	case p.Rerun == RerunNever:
		d.Verdict = Abandon
	default:
		d.Verdict = Takeover
	}
	return d
}

func unknownGuard(d Decision, me string, now time.Time, p Policy) Decision {
	g := d.Guard
	switch {
	case p.Rerun == RerunAlways && g.Owner == me:
		d.Verdict = Run
	case p.Rerun == RerunAlways && Stale(g.Until, now, p.Margin) && !claimed(d.Claim, me, now, p):
		d.Verdict = Takeover
	default:
		d.Verdict = Pointer
	}
	return d
}

// claimed reports whether somebody else works on the claim.
func claimed(c *Claim, me string, now time.Time, p Policy) bool {
	return c != nil && c.State == InProgress && c.Owner != me && !Stale(c.Until, now, p.Margin)
}

// leaseLeft is how long to wait before a takeover can be allowed: at least 1 ms,
// since at exactly until + margin it is not.
func leaseLeft(until, now time.Time, margin time.Duration) time.Duration {
	return max(until.Add(margin).Sub(now), time.Millisecond)
}
