package effect

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/ledger"
)

// Attempt is one owner's run of one effect. It ends with exactly one of Finish,
// Unknown and Release; an attempt that ends with none goes stale and is taken
// over or swept. Not safe for concurrent use, but for Key, Begin, NothingDone, Begun and Ended: a
// handler may go on in a goroutine of its own when nobody waits for it any more.
type Attempt struct {
	engine   *Engine
	request  Request
	owner    string
	until    time.Time
	guard    Guard
	adopted  bool // claim and guard were an earlier owner's
	tookOver bool // … who may have run
	begun    atomic.Bool
	within   atomic.Pointer[handed]   // what a transaction of the caller's was given; see FinishWith
	ended    atomic.Pointer[Decision] // how, once it is
}

// ID names the effect.
func (a *Attempt) ID() retryproof.ID { return a.request.GuardID }

// Format keeps fmt from printing what an attempt holds, the client's key among it.
func (a *Attempt) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "attempt:"+string(a.ID())) }

// Owner is the attempt's token.
func (a *Attempt) Owner() string { return a.owner }

// Guard is the durable record as this attempt found it.
func (a *Attempt) Guard() Guard { return a.guard }

// TookOver reports that an earlier owner vanished and may have run.
func (a *Attempt) TookOver() bool { return a.tookOver }

// Until is the end of the lease: no new side effect may start after it.
func (a *Attempt) Until() time.Time { return a.until }

// Key derives the name of an outside call from the effect's id, the same for
// every attempt: a.Key("charge"). Asking for it marks the attempt as begun.
func (a *Attempt) Key(parts ...string) string {
	a.begun.Store(true)
	return a.request.GuardID.Sub(parts...)
}

// Begin marks that something outside may have happened from now on.
func (a *Attempt) Begin() { a.begun.Store(true) }

// NothingDone takes back Begin and Key: no outside call of this attempt was taken, for
// certain, as when there was no connection or the other side refused before it looked.
// An error of run that says NotDone then frees the key. A later Begin or Key counts
// again.
func (a *Attempt) NothingDone() { a.begun.Store(false) }

// Begun reports whether something outside may have happened: Key or Begin was
// called and not taken back, or an earlier owner vanished.
func (a *Attempt) Begun() bool { return a.begun.Load() || a.tookOver }

// Ended reports whether the attempt was ended, and how.
func (a *Attempt) Ended() (Decision, bool) {
	if d := a.ended.Load(); d != nil {
		return *d, true
	}
	return Decision{}, false
}

// Context is ctx without its cancellation, bounded by the attempt's deadline: a
// caller that goes away does not stop what it has started (case 8).
func (a *Attempt) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	c := a.engine.config.Clock
	return c.WithTimeout(context.WithoutCancel(ctx), a.until.Sub(c.Now()))
}

// Finish is a final outcome and what is written with it.
type Finish struct {
	// State is Succeeded or Failed.
	State State
	// Answer is kept for repeats.
	Answer Answer
	// Result is kept with the guard after the answer has expired.
	Result []byte
	// Row carries the business fields to update.
	Row      any
	Postings []ledger.Posting
	Events   []retryproof.Event
	// Ref is the other side's name of what happened, such as "ch_1"; may be empty.
	Ref string
	// Seen says what the outcome was concluded from. Resolvers keep it as evidence;
	// an attempt that saw the answer itself does not.
	Seen string
}

// Finish settles the effect: the guard, postings, events and the claim's
// completion in one transaction. The decision is Replay with the answer; when
// the attempt was taken over meanwhile nothing was written and the decision is
// what the record says. After FinishWith it only finds out whether that transaction
// has committed: f is not used, and the decision is Pointer when it has not.
//
// An error is Unknown: the effect stands and nobody recorded it yet; the guard
// stays PENDING and is swept. When the store refused f as such its cause says
// CodeInvalid: end the attempt with another Finish, or with Unknown.
func (a *Attempt) Finish(ctx context.Context, f Finish) (Decision, error) {
	if a.within.Load() != nil {
		return a.end(ctx, a.unknown())
	}
	s, err := a.settlement(f)
	if err != nil {
		return Decision{}, notRecorded(err)
	}
	return a.end(ctx, s)
}

// settlement is what Finish asks of the store.
func (a *Attempt) settlement(f Finish) (Settle, error) {
	if f.State != Succeeded && f.State != Failed {
		return Settle{}, retryproof.Refused(retryproof.CodeInvalid, "effect: Finish takes Succeeded or Failed", nil)
	}
	answer := f.Answer
	answer.State = f.State
	now := a.engine.config.Clock.Now()
	return Settle{ID: a.request.GuardID, From: []State{Pending, Unknown}, To: f.State, By: a.owner, Fenced: true,
		Now: now, Result: f.Result, Row: f.Row, Postings: f.Postings, Events: f.Events,
		Claim: &Completion{Scope: a.request.Scope, Owner: a.owner, Answer: &answer, ExpiresAt: now.Add(a.engine.config.AnswerTTL)}}, nil
}

// Unknown records that the outcome is not known: the guard becomes UNKNOWN, the
// claim a pointer to it, and a resolver may ask at once. The decision is Pointer,
// or what the record says when the attempt was taken over, or when a transaction of
// FinishWith has committed.
func (a *Attempt) Unknown(ctx context.Context) (Decision, error) {
	return a.end(ctx, a.unknown())
}

func (a *Attempt) unknown() Settle {
	now := a.engine.config.Clock.Now()
	return Settle{ID: a.request.GuardID, From: []State{Pending, Unknown}, To: Unknown, By: a.owner, Fenced: true, Now: now, NextAt: now,
		Claim: &Completion{Scope: a.request.Scope, Owner: a.owner, ExpiresAt: now.Add(a.engine.config.AnswerTTL)}}
}

// Release undoes the claim and the guard because nothing was done: the same key
// may be sent again and then runs as a first request. It reports false, and
// leaves the guard, when the attempt was taken over, when a transaction of FinishWith
// has committed, and when evidence is kept beside the guard: somebody has seen that
// something was done. End it with Unknown then. Call it only when nothing outside can
// have happened.
func (a *Attempt) Release(ctx context.Context) (bool, error) {
	ctx, cancel := a.engine.writeContext(ctx)
	defer cancel()
	var gone bool
	err := a.engine.retry(ctx, a.request, func() (err error) {
		gone, err = a.engine.store.Release(ctx, Release{Scope: a.request.Scope, GuardID: a.request.GuardID, Owner: a.owner})
		return err
	})
	if err != nil {
		return false, err
	}
	switch {
	case gone:
		a.ended.Store(&Decision{})
		a.engine.saw(SawReleased, a.request)
	case a.within.Load() == nil:
		a.engine.saw(SawFenced, a.request)
	}
	return gone, nil
}

// end settles, and answers from the record when another owner was faster, or this one
// itself, by a transaction of its own.
func (a *Attempt) end(ctx context.Context, s Settle) (Decision, error) {
	out, err := a.engine.settle(ctx, a.request, s)
	if err != nil {
		return Decision{}, notRecorded(err)
	}
	d := Decision{Guard: out.Guard}
	switch g := out.Guard; {
	case !out.Moved && g != nil && g.SettledBy == a.owner && g.State.Final():
		if _, before := a.Ended(); !before {
			a.engine.saw(SawSettled, a.request)
		}
		if own := a.within.Load(); own != nil && own.settle.To == g.State {
			if !own.completed {
				_, _ = a.engine.store.Complete(ctx, *own.settle.Claim) // else it goes stale
			}
			d.Verdict, d.State, d.Answer = Replay, g.State, own.settle.Claim.Answer
		} else if d, err = a.fromRecord(ctx); err != nil {
			return Decision{}, err
		}
	case !out.Moved:
		a.engine.saw(SawFenced, a.request)
		if d, err = a.fromRecord(ctx); err != nil {
			return Decision{}, err
		}
	case s.To == Unknown:
		a.engine.saw(SawUnknown, a.request)
		d.Verdict, d.State = Pointer, Unknown
	default:
		d.Verdict, d.State, d.Answer = Replay, s.To, s.Claim.Answer
		a.engine.saw(SawSettled, a.request)
	}
	a.ended.Store(&d)
	return d, nil
}

// fromRecord answers an attempt that was taken over (case 18).
func (a *Attempt) fromRecord(ctx context.Context) (Decision, error) {
	e := a.engine
	ctx, cancel := e.writeContext(ctx)
	defer cancel()
	var seen Seen
	err := e.retry(ctx, a.request, func() (err error) {
		seen, err = e.store.Look(ctx, Look{Scope: a.request.Scope, GuardID: a.request.GuardID, Now: e.config.Clock.Now()})
		return err
	})
	if err != nil {
		return Decision{}, notRecorded(err)
	}
	d := Next(seen, a.owner, a.request.Fingerprint, e.config.Clock.Now(), e.policy)
	switch d.Verdict {
	case Run, Takeover, Abandon, Broken: // another owner is between two writes
		d.Verdict, d.RetryAfter, d.CompleteClaim = Busy, time.Second, false
	}
	e.tidyClaim(ctx, a, d) // whoever settled the guard may not know of this claim
	return d, nil
}

// Settle moves a guard with retries and a read-back: after a lost COMMIT answer
// it is asked again, and the guard's SettledBy tells whether the first one
// landed. Moved is then true for the settler that moved it, however it learned of
// it.
//
// Attempts use it through Finish and Unknown; resolvers and webhooks, which act on
// evidence, call it themselves.
func (e *Engine) Settle(ctx context.Context, s Settle) (Settled, error) {
	r := Request{GuardID: s.ID}
	if s.Claim != nil {
		r.Scope = s.Claim.Scope
	}
	out, err := e.settle(ctx, r, s)
	if err != nil {
		return Settled{}, notRecorded(err)
	}
	return out, nil
}

func (e *Engine) settle(ctx context.Context, r Request, s Settle) (Settled, error) {
	ctx, cancel := e.writeContext(ctx)
	defer cancel()
	var out Settled
	lost := false
	err := e.retry(ctx, r, func() (err error) {
		out, err = e.store.Settle(ctx, s)
		lost = lost || err != nil && retryproof.OutcomeOf(err) == retryproof.Unknown
		return err
	})
	if err != nil {
		return Settled{}, err
	}
	if lost && !out.Moved && out.Guard != nil && out.Guard.SettledBy == s.By && out.Guard.State == s.To {
		out.Moved = true
	}
	return out, nil
}

// notRecorded says that the effect stands and nobody recorded it, or that nobody
// knows whether it is recorded.
func notRecorded(err error) error {
	hint := "send it again with the same key"
	if refusedAsSuch(err) {
		hint = "a repeat cannot help: what was to be recorded is not valid"
	}
	return &retryproof.Error{Code: retryproof.CodeUnknown, RetryAfter: time.Second, Message: "the outcome could not be recorded", Hint: hint, Err: err}
}

// refusedAsSuch reports that a store refused a settlement for good.
func refusedAsSuch(err error) bool {
	return retryproof.OutcomeOf(err) == retryproof.NotDone && retryproof.CodeOf(err) == retryproof.CodeInvalid
}

// Lease takes an UNKNOWN guard, or a PENDING one whose owner is stale, for a
// resolver: it becomes UNKNOWN and the token's until now + lease. False when
// somebody else was faster.
func (e *Engine) Lease(ctx context.Context, g Guard, token string, lease time.Duration) (Guard, bool, error) {
	var seen Seen
	err := e.retry(ctx, Request{Scope: g.Scope, GuardID: g.ID}, func() (err error) {
		now := e.config.Clock.Now()
		seen, err = e.store.Adopt(ctx, Adopt{Scope: g.Scope, GuardID: g.ID, Fingerprint: g.Fingerprint, GuardFrom: g.Owner,
			Owner: token, Now: now, Until: now.Add(lease), Margin: e.config.Margin, To: Unknown, GuardOnly: true})
		return err
	})
	if err != nil || seen.Guard == nil || seen.Guard.Owner != token {
		return Guard{}, false, err
	}
	return *seen.Guard, true, nil
}

// Rewrite gives a claim that is still a pointer, or whose owner is stale, the
// final answer of its guard (mission B4). It reports whether the claim changed.
func (e *Engine) Rewrite(ctx context.Context, g Guard, answer Answer) (bool, error) {
	ctx, cancel := e.writeContext(ctx)
	defer cancel()
	now := e.config.Clock.Now()
	seen, err := e.store.Look(ctx, Look{Scope: g.Scope, GuardID: g.ID, Now: now})
	if err != nil || seen.Claim == nil || !g.State.Final() {
		return false, err
	}
	c := seen.Claim
	if !c.Fingerprint.Same(g.Fingerprint) {
		return false, nil // a reused key's; see Next
	}
	answer.State = g.State
	done := Completion{Scope: g.Scope, Owner: c.Owner, Answer: &answer, ExpiresAt: c.ExpiresAt}
	switch {
	case c.State == Complete && c.Answer == nil:
	case c.State == InProgress && Stale(c.Until, now, e.config.Margin):
		done.ExpiresAt = now.Add(e.config.AnswerTTL)
	default:
		return false, nil
	}
	return e.store.Complete(ctx, done)
}

// writeContext lets a write outlive its caller, for a bounded time.
func (e *Engine) writeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return e.config.Clock.WithTimeout(context.WithoutCancel(ctx), e.config.WriteTimeout)
}
