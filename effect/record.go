package effect

import (
	"fmt"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
)

// State is the state of a guard, and so of the effect itself.
type State string

// The states of an effect and the moves between them (mission D1):
// PENDING → UNKNOWN, SUCCEEDED or FAILED; UNKNOWN → SUCCEEDED, FAILED or VOID. VOID
// is inserted before an effect could begin, or set by a person who vouches that it
// never ran. SUCCEEDED, FAILED and VOID are final.
const (
	Pending   State = "PENDING"
	Unknown   State = "UNKNOWN"
	Succeeded State = "SUCCEEDED"
	Failed    State = "FAILED"
	Void      State = "VOID"
)

// Final reports whether no move leaves the state.
func (s State) Final() bool { return s == Succeeded || s == Failed || s == Void }

// CanMove reports whether the move is allowed. UNKNOWN → UNKNOWN is: it records
// that somebody asked and still does not know.
func CanMove(from, to State) bool {
	switch from {
	case Pending:
		return to == Unknown || to == Succeeded || to == Failed
	case Unknown:
		return to == Unknown || to == Succeeded || to == Failed || to == Void
	}
	return false
}

// ClaimState is the state of a claim in the key store.
type ClaimState string

const (
	// InProgress: an owner works on it until Claim.Until.
	InProgress ClaimState = "IN_PROGRESS"
	// Complete: the owner is done. With an Answer it is final; without one it
	// is a pointer, rendered from the guard whenever it is read.
	Complete ClaimState = "COMPLETE"
	// ClaimVoid: the key was voided; it never can run.
	ClaimVoid ClaimState = "VOID"
)

// Answer is what the caller was told, kept for repeats. Status and Header are
// HTTP's; users without HTTP may leave them empty.
type Answer struct {
	// State is Succeeded or Failed. The engine sets it, so that a repeat knows how the
	// effect ended when its guard is not read.
	State  State               `json:"state,omitempty"`
	Status int                 `json:"status,omitempty"`
	Header map[string][]string `json:"header,omitempty"`
	Body   []byte              `json:"body,omitempty"`
	// BodyDropped says that the body was too large to keep: a repeat learns that
	// the effect is done, not its words.
	BodyDropped bool `json:"body_dropped,omitempty"`
}

// Claim is a record in the key store.
type Claim struct {
	Scope       retryproof.Scope
	GuardID     retryproof.ID
	Fingerprint retryproof.Fingerprint
	State       ClaimState
	// Owner is the token of the attempt that works or worked on it.
	Owner string
	// Until is the end of the owner's lease (in_progress_until).
	Until time.Time
	// ExpiresAt is when a COMPLETE or VOID claim counts as absent: when
	// ExpiresAt < now, judged by whoever reads. Zero while in progress.
	ExpiresAt time.Time
	// Answer is the final answer; nil while in progress and for a pointer.
	Answer *Answer
}

// Format prints as %+v for every verb. Behind a pointer fmt prints raw what a verb
// does not fit, and with it the client's key.
func (c Claim) Format(s fmt.State, _ rune) {
	type plain Claim
	_, _ = fmt.Fprintf(s, "%+v", plain(c))
}

// Expired reports whether a reader must treat the claim as absent.
func (c *Claim) Expired(now time.Time) bool {
	return c == nil || (!c.ExpiresAt.IsZero() && c.ExpiresAt.Before(now.Truncate(clock.Precision)))
}

// Stale reports whether an owner whose lease ends at until may be taken over: only
// when now is later than until + margin. At exactly until + margin it may not. Times
// count to clock.Precision, as stores keep them.
func Stale(until, now time.Time, margin time.Duration) bool {
	return now.Truncate(clock.Precision).After(until.Add(margin))
}

// Guard is the durable record of an effect.
type Guard struct {
	ID    retryproof.ID
	Scope retryproof.Scope
	// Fingerprint is empty on a VOID guard that never saw a request.
	Fingerprint retryproof.Fingerprint
	State       State
	// Owner is the token of whoever works on it, an attempt or a resolver; empty
	// when it was settled.
	Owner string
	// Until is the end of the owner's lease; zero without an owner.
	Until time.Time
	// SettledBy is the token of whoever made the last move; a settlement whose
	// COMMIT answer was lost is recognised by it.
	SettledBy string
	// Tries counts how often the outcome was asked for.
	Tries int
	// NextAt is when a resolver should ask (again).
	NextAt    time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
	// Result is what the owner left for repeats after the claim has expired, at
	// most MaxResultBytes. Stores with a business row may have no place for it.
	Result []byte
	// Row is the business row behind the guard, in the type of the store that
	// keeps it (payments.Payment for the payments table); nil in the generic
	// guard table.
	Row any
}

// Format prints as %+v for every verb; see Claim.Format.
func (g Guard) Format(s fmt.State, _ rune) {
	type plain Guard
	_, _ = fmt.Fprintf(s, "%+v", plain(g))
}

// MaxResultBytes is the most that Guard.Result holds: a guard lives long, so it
// stays small.
const MaxResultBytes = 8 << 10

// Seen is what a store holds about one effect: nil is absent. An expired claim is
// absent. A store may leave Guard nil when the claim carries a final answer.
type Seen struct {
	Claim *Claim
	Guard *Guard
}
