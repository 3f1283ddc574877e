package effect

import (
	"context"
	"fmt"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/ledger"
)

// Store keeps claims and guards in one database. Each method is one transaction,
// closed: it carries all it needs, so that a driver may commit many callers'
// operations together, each with its own verdict.
//
// Errors: NotDone means that nothing was written (CodeUnavailable,
// CodeReadOnly, CodeConflict when a lock is held and trying again may help,
// CodeInvalid); anything else is Unknown, as is a COMMIT without an answer. A
// condition that does not hold is not an error: the result says so. Every method
// may be repeated with the same arguments and then changes nothing more.
//
// Stores read the primary only, and judge with the times that they are given.
type Store interface {
	// Begin claims and records in one go:
	//  1. the claim is written if it is absent or expired at b.Now;
	//  2. if the claim is then b.Owner's and IN_PROGRESS, a PENDING guard with
	//     b.Row is inserted if absent.
	// It returns what is now there. A caller that finds its own token in both
	// may run.
	//
	// A scope has one guard. When step 2, of a void too, meets a guard of the scope
	// with another id, nothing is written and the error is NotDone with CodeInvalid.
	//
	// With b.Void it records the opposite, that the effect must never run:
	//  1. a VOID guard is inserted if there is none, without a fingerprint and a row,
	//     settled by b.Owner;
	//  2. if the guard is then VOID, the claim is written VOID, until b.Until, if it
	//     is absent or expired at b.Now. A claim that is there is left.
	// The guard's unique row decides between the two.
	Begin(ctx context.Context, b Begin) (Seen, error)
	// Adopt takes an effect over from an owner whose lease is stale; see Adopt.
	Adopt(ctx context.Context, a Adopt) (Seen, error)
	// Settle moves the guard and writes what goes with the move; see Settle.
	Settle(ctx context.Context, s Settle) (Settled, error)
	// Complete stores a final answer or a pointer in the claim alone; see
	// Completion. It reports whether the claim was changed, or already held it.
	Complete(ctx context.Context, c Completion) (bool, error)
	// Release undoes an owner's Begin when nothing was done: the claim is deleted
	// if it is IN_PROGRESS and r.Owner's, the guard if it is PENDING and
	// r.Owner's. A guard with evidence beside it is never deleted:
	// somebody has seen that something was done. It reports whether the guard is gone.
	Release(ctx context.Context, r Release) (bool, error)
	// Look reads both records. An expired claim is absent.
	Look(ctx context.Context, l Look) (Seen, error)
}

// Begin asks for the claim and the guard.
type Begin struct {
	Scope       retryproof.Scope
	GuardID     retryproof.ID
	Fingerprint retryproof.Fingerprint
	// Owner is the attempt's token.
	Owner string
	Now   time.Time
	// Until is the end of the lease: arrival + deadline. With Void it is when the
	// VOID claim expires; the guard never does.
	Until time.Time
	// Row is the business row to record; nil for the generic guard table and with
	// Void. A row may carry a condition of its store, such as a cap that must hold;
	// when it fails nothing is written and the error is NotDone with CodeExceeds.
	Row any
	// Void records that the effect must never run, instead of asking to run it.
	// Fingerprint and Row are not used.
	Void bool
}

// Adopt takes over. In one transaction, all or nothing:
//   - the guard: when present, it must be PENDING or UNKNOWN, belong to
//     GuardFrom, and its lease must be stale (Until + Margin < Now); then Owner
//     and Until are set, State becomes To, and Tries is raised by one. When it is
//     absent and Insert is set, it is inserted PENDING as in Begin.
//   - the claim, unless GuardOnly: when present it must be IN_PROGRESS, belong
//     to ClaimFrom and be stale, or be a pointer that belongs to ClaimFrom; then
//     it becomes IN_PROGRESS with Owner and Until. When absent it is inserted.
//
// If any condition fails nothing is written. When only a guard of the scope with another
// id stands against an insert, that is an error as in Begin. A guard and claim that already
// belong to Owner count as adopted: the repeat of a lost answer. A guard that was
// settled to UNKNOWN has no owner ("") and a zero Until, which is always stale.
type Adopt struct {
	// Scope names the claim, GuardID the guard.
	Scope   retryproof.Scope
	GuardID retryproof.ID
	// Fingerprint is that of the request; a claim or guard that is inserted gets it.
	Fingerprint retryproof.Fingerprint
	// ClaimFrom and GuardFrom are the owners that were seen there, "" for none.
	ClaimFrom string
	GuardFrom string
	// Owner is the new owner's token, Until the end of its lease.
	Owner string
	Now   time.Time
	Until time.Time
	// Margin is how long after its end a lease is not yet stale.
	Margin time.Duration
	// To is the guard's state after the adoption: Pending or Unknown. An UNKNOWN
	// guard stays UNKNOWN.
	To State
	// GuardOnly leaves the claim alone: resolvers use it.
	GuardOnly bool
	// Insert allows the guard to be absent; Row is then recorded.
	Insert bool
	Row    any
}

// Settle moves the guard: a compare-and-set on its state and, when Fenced, on its
// owner. Only when the guard moved are Row, Postings and Events written, in the
// same transaction. A guard that moved belongs to nobody: Owner "" and Until zero.
// Claim is tried in that transaction too when the guard moved; when the claim's
// own condition fails, the rest stands.
type Settle struct {
	ID retryproof.ID
	// From are the states that the guard may be in.
	From []State
	To   State
	// By is the settler's token, stored as SettledBy. With Fenced it must be the
	// guard's Owner.
	By     string
	Fenced bool
	Now    time.Time
	// NextAt is when a resolver should ask; used when To is Unknown.
	NextAt time.Time
	// Result is kept with the guard (generic table), at most MaxResultBytes.
	Result []byte
	// Row carries the business fields to update; nil leaves them.
	Row any
	// Postings are checked by ledger.Check before anything is written. When the
	// guard would move and a ref has another entry, the whole settlement is
	// refused, NotDone with CodeInvalid; an entry that is there exactly is left.
	Postings []ledger.Posting
	// Events need an id and a group; one whose id is there is left.
	Events []retryproof.Event
	// Inbox, when set, is recorded first; when it was there already nothing else
	// is written. It stays recorded when the guard does not move.
	Inbox *retryproof.InboxKey
	// Claim completes the claim in the same transaction.
	Claim *Completion
	// Evidence says why, for those who ask later. It is kept only when the guard
	// moved.
	Evidence *Evidence
	// Note is kept whether or not the guard moves, as long as the guard is there and
	// Inbox is no repeat: what spoke against a move leaves a trace.
	Note *Evidence
}

// Settled is the result of Settle.
type Settled struct {
	// Moved: this call moved the guard. False for the repeat of a call whose
	// answer was lost; then Guard.SettledBy and State tell.
	Moved bool
	// Repeat: Inbox was there already.
	Repeat bool
	// Completed: the claim was completed.
	Completed bool
	// Noted: Note was kept by this call. False when one of its name was there.
	Noted bool
	// Guard is the guard afterwards, nil when there is none.
	Guard *Guard
}

// Completion stores an answer, or a pointer when Answer is nil, in a claim that
// belongs to Owner and is IN_PROGRESS or a pointer. A final answer is never
// replaced. A completed claim is COMPLETE and expires at ExpiresAt.
type Completion struct {
	Scope     retryproof.Scope
	Owner     string
	Answer    *Answer
	ExpiresAt time.Time
}

// Format prints as %+v for every verb; see Claim.Format.
func (c Completion) Format(s fmt.State, _ rune) {
	type plain Completion
	_, _ = fmt.Fprintf(s, "%+v", plain(c))
}

// Release names what to release.
type Release struct {
	Scope   retryproof.Scope
	GuardID retryproof.ID
	Owner   string
}

// Look names what to read.
type Look struct {
	Scope   retryproof.Scope
	GuardID retryproof.ID
	Now     time.Time
}

// Keys is the claim half of a Store, for a key store that is a database of its
// own (mission B2, B7). Its methods are the claim parts of Store's.
type Keys interface {
	// ClaimKey is step 1 of Store.Begin; with b.Void it is step 2 of the void, without
	// its look at the guard.
	ClaimKey(ctx context.Context, b Begin) (*Claim, error)
	// AdoptKey is the claim part of Store.Adopt.
	AdoptKey(ctx context.Context, a Adopt) (*Claim, error)
	// CompleteKey is Store.Complete.
	CompleteKey(ctx context.Context, c Completion) (bool, error)
	// ReleaseKey is the claim part of Store.Release.
	ReleaseKey(ctx context.Context, r Release) error
	// LookKey reads the claim; nil when absent or expired.
	LookKey(ctx context.Context, l Look) (*Claim, error)
}

// Guards is the guard half of a Store.
type Guards interface {
	// RecordGuard is step 2 of Store.Begin: insert PENDING if absent, return
	// what is there. With b.Void it inserts VOID if absent.
	RecordGuard(ctx context.Context, b Begin) (*Guard, error)
	// AdoptGuard is the guard part of Store.Adopt.
	AdoptGuard(ctx context.Context, a Adopt) (*Guard, error)
	// SettleGuard is Store.Settle without its Claim.
	SettleGuard(ctx context.Context, s Settle) (Settled, error)
	// ReleaseGuard is the guard part of Store.Release.
	ReleaseGuard(ctx context.Context, r Release) (bool, error)
	// LookGuard reads the guard; nil when absent.
	LookGuard(ctx context.Context, l Look) (*Guard, error)
}
