package effect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/ledger"
)

// Attempt is one owner's run of one effect. It ends with exactly one of Finish,
// Unknown and Release; an attempt that ends with none goes stale and is taken
// over or swept. Not safe for concurrent use.
type Attempt struct {
	engine   *Engine
	request  Request
	owner    string
	until    time.Time
	guard    Guard
	adopted  bool // claim and guard were an earlier owner's
	tookOver bool // … who may have run
	begun    bool
	ended    bool
	result   Decision
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
	a.begun = true
	return a.request.GuardID.Sub(parts...)
}

// Begin marks that something outside may have happened from now on.
func (a *Attempt) Begin() { a.begun = true }

// Begun reports whether something outside may have happened: Key or Begin was
// called, or an earlier owner vanished.
func (a *Attempt) Begun() bool { return a.begun || a.tookOver }

// Ended reports whether the attempt was ended, and how.
func (a *Attempt) Ended() (Decision, bool) { return a.result, a.ended }

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
// what the record says.
//
// An error is Unknown: the effect stands and nobody recorded it yet; the guard
// stays PENDING and is swept.
func (a *Attempt) Finish(ctx context.Context, f Finish) (Decision, error) {
	if f.State != Succeeded && f.State != Failed {
		return Decision{}, &retryproof.Error{Code: retryproof.CodeInvalid, Message: "effect: Finish takes Succeeded or Failed"}
	}
	answer := f.Answer
	now := a.engine.config.Clock.Now()
	return a.end(ctx, Settle{ID: a.request.GuardID, From: []State{Pending, Unknown}, To: f.State, By: a.owner, Fenced: true,
		Now: now, Result: f.Result, Row: f.Row, Postings: f.Postings, Events: f.Events,
		Claim: &Completion{Scope: a.request.Scope, Owner: a.owner, Answer: &answer, ExpiresAt: now.Add(a.engine.config.AnswerTTL)}})
}

// Unknown records that the outcome is not known: the guard becomes UNKNOWN, the
// claim a pointer to it, and a resolver may ask at once. The decision is Pointer,
// or what the record says when the attempt was taken over.
func (a *Attempt) Unknown(ctx context.Context) (Decision, error) {
	a.engine.saw(SawUnknown, a.request)
	return a.end(ctx, a.unknown())
}

func (a *Attempt) unknown() Settle {
	now := a.engine.config.Clock.Now()
	return Settle{ID: a.request.GuardID, From: []State{Pending, Unknown}, To: Unknown, By: a.owner, Fenced: true, Now: now, NextAt: now,
		Claim: &Completion{Scope: a.request.Scope, Owner: a.owner, ExpiresAt: now.Add(a.engine.config.AnswerTTL)}}
}

// Release undoes the claim and the guard because nothing was done: the same key
// may be sent again and then runs as a first request. It reports false, and
// leaves the guard, when the attempt was taken over, and when evidence is kept beside
// the guard: somebody has seen that something was done. End it with Unknown then. Call it only when nothing
// outside can have happened.
func (a *Attempt) Release(ctx context.Context) (bool, error) {
	ctx, cancel := a.engine.writeContext(ctx)
	defer cancel()
	var gone bool
	err := a.engine.retry(ctx, func() (err error) {
		gone, err = a.engine.store.Release(ctx, Release{Scope: a.request.Scope, GuardID: a.request.GuardID, Owner: a.owner})
		return err
	})
	if err != nil {
		return false, err
	}
	a.ended = true
	if gone {
		a.engine.saw(SawReleased, a.request)
	} else {
		a.engine.saw(SawFenced, a.request)
	}
	return gone, nil
}

// end settles and answers from the record when another owner was faster.
func (a *Attempt) end(ctx context.Context, s Settle) (Decision, error) {
	out, err := a.engine.Settle(ctx, s)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Guard: out.Guard}
	switch {
	case !out.Moved:
		a.engine.saw(SawFenced, a.request)
		if d, err = a.fromRecord(ctx); err != nil {
			return Decision{}, err
		}
	case s.To == Unknown:
		d.Verdict = Pointer
	default:
		d.Verdict, d.Answer = Replay, s.Claim.Answer
		a.engine.saw(SawSettled, a.request)
	}
	a.ended, a.result = true, d
	return d, nil
}

// fromRecord answers an attempt that was taken over (case 18).
func (a *Attempt) fromRecord(ctx context.Context) (Decision, error) {
	e := a.engine
	ctx, cancel := e.writeContext(ctx)
	defer cancel()
	var seen Seen
	err := e.retry(ctx, func() (err error) {
		seen, err = e.store.Look(ctx, Look{Scope: a.request.Scope, GuardID: a.request.GuardID, Now: e.config.Clock.Now()})
		return err
	})
	if err != nil {
		return Decision{}, err
	}
	d := Next(seen, a.owner, a.request.Fingerprint, e.config.Clock.Now(), e.policy)
	switch d.Verdict {
	case Run, Takeover, Abandon, Broken: // another owner is between two writes
		d.Verdict, d.RetryAfter, d.CompleteClaim = Busy, time.Second, false
	}
	e.completeClaim(ctx, a, d) // whoever settled the guard may not know of this claim
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
	ctx, cancel := e.writeContext(ctx)
	defer cancel()
	var out Settled
	lost := false
	err := e.retry(ctx, func() (err error) {
		out, err = e.store.Settle(ctx, s)
		lost = lost || err != nil && retryproof.OutcomeOf(err) == retryproof.Unknown
		return err
	})
	if err != nil {
		return Settled{}, &retryproof.Error{Code: retryproof.CodeUnknown, RetryAfter: time.Second,
			Message: "the outcome could not be recorded", Hint: "send it again with the same key", Err: err}
	}
	if lost && !out.Moved && out.Guard != nil && out.Guard.SettledBy == s.By && out.Guard.State == s.To {
		out.Moved = true
	}
	return out, nil
}

// Lease takes an UNKNOWN guard, or a PENDING one whose owner is stale, for a
// resolver: it becomes UNKNOWN and the token's until now + lease. False when
// somebody else was faster.
func (e *Engine) Lease(ctx context.Context, g Guard, token string, lease time.Duration) (Guard, bool, error) {
	var seen Seen
	err := e.retry(ctx, func() (err error) {
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

// Do runs one effect outside HTTP: it begins, calls run when it may, and ends the
// attempt by what run returns. A run error that is NotDone releases the key; any
// other is Unknown and leaves a pointer, and so does a panic, which goes on. The
// decision tells the caller what to answer; the error is run's, or Begin's. It is
// NotDone only when the key is free again: when an earlier or a later owner may
// have run, run's error is wrapped as Unknown.
func (e *Engine) Do(ctx context.Context, r Request, run func(ctx context.Context, a *Attempt) (Finish, error)) (Decision, error) {
	d, a, err := e.Begin(ctx, r)
	if err != nil || a == nil {
		return d, err
	}
	returned := false
	defer func() {
		if !returned { // a panic or runtime.Goexit in run: what it did is unknown
			_, _ = a.Unknown(ctx)
		}
	}()
	runCtx, cancel := a.Context(ctx)
	defer cancel()
	f, err := run(NewContext(runCtx, a), a)
	returned = true
	if err == nil {
		return a.Finish(ctx, f)
	}
	return a.endFailed(ctx, err)
}

// endFailed ends an attempt whose run returned an error.
func (a *Attempt) endFailed(ctx context.Context, runErr error) (Decision, error) {
	if retryproof.OutcomeOf(runErr) == retryproof.NotDone && !a.tookOver {
		if gone, _ := a.Release(ctx); gone {
			return Decision{}, runErr
		}
		// Another owner has taken over (case 18), or evidence says that something did
		// happen: then it is not known.
	}
	d, err := a.Unknown(ctx)
	return d, notReleased(runErr, err)
}

// notReleased says Unknown where NotDone would tell the caller to try with another
// key.
func notReleased(runErr, recordErr error) error {
	if retryproof.OutcomeOf(runErr) != retryproof.NotDone && recordErr == nil {
		return runErr
	}
	return &retryproof.Error{Code: retryproof.CodeUnknown, RetryAfter: time.Second, Message: "this attempt failed and the outcome is not known",
		Hint: "send it again with the same key", Err: errors.Join(runErr, recordErr)}
}

type contextKey struct{}

// NewContext hands the attempt to whoever runs below.
func NewContext(ctx context.Context, a *Attempt) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// FromContext returns the attempt that runs, nil outside one.
func FromContext(ctx context.Context) *Attempt {
	a, _ := ctx.Value(contextKey{}).(*Attempt)
	return a
}
