package effect

import (
	"context"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/entropy"
)

// Engine runs effects once. It keeps nothing in memory: any number of engines in
// any number of processes may share a store. Safe for concurrent use.
type Engine struct {
	store  Store
	config Config
	policy Policy
}

// New returns an engine on a store, or everything that is wrong with the
// configuration.
func New(store Store, config Config) (*Engine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Engine{store: store, config: config, policy: Policy{Rerun: config.Rerun, Margin: config.Margin}}, nil
}

// Config returns the configuration with its defaults filled in.
func (e *Engine) Config() Config { return e.config }

// Request asks for one effect.
type Request struct {
	Scope       retryproof.Scope
	Fingerprint retryproof.Fingerprint
	// GuardID names the effect. Defaults to retryproof.Of("effect", Scope).
	GuardID retryproof.ID
	// Row is the business row to record before anything runs; nil for the generic
	// guard table.
	Row any
	// Arrived is when the request arrived, from a trusted stamp. The lease ends at
	// Arrived + Deadline. Defaults to now.
	Arrived time.Time
	// Wait is how long to wait for another owner to finish, at most
	// Config.MaxWait, before "in progress" is said. Defaults to 0.
	Wait time.Duration
	// Render makes the answer of a final guard whose claim has expired, so that
	// the claim can keep it again. Defaults to nothing: the claim stays a pointer.
	Render func(Guard) Answer
}

// Begin claims the effect, or says why not. The attempt is not nil exactly when
// the verdict is Run; the caller then runs and ends it with Finish, Unknown or
// Release. Other verdicts are Replay, Pointer, Busy, Mismatch and Voided.
//
// A request whose own deadline has passed, while it waited or while the store was
// slow, is answered but never runs.
//
// Errors are NotDone: CodeTooLate when the request is older than its deadline,
// CodeInvalid, CodeExceeds when a condition of the row fails, or CodeUnavailable when the guard cannot be reached; nothing ran.
// One is Unknown, with CodeUnknown: the store never said whether the guard was
// recorded, and it could not be taken back. Nothing ran yet, but a sweep may run it.
func (e *Engine) Begin(ctx context.Context, r Request) (Decision, *Attempt, error) {
	now := e.config.Clock.Now()
	if r.Arrived.IsZero() {
		r.Arrived = now
	}
	if r.GuardID == "" {
		r.GuardID = retryproof.Of("effect", r.Scope)
	}
	if err := checkRequest(r); err != nil {
		return Decision{}, nil, err
	}
	a := &Attempt{engine: e, request: r, owner: entropy.Token(e.config.Rand), until: r.Arrived.Add(e.config.Deadline)}
	var seen Seen
	if err := e.claim(ctx, a, &seen); err != nil {
		return Decision{}, nil, err
	}
	return e.decide(ctx, a, seen)
}

// claim asks the store for the claim and the guard, as long as the request may still
// run. What it may have left behind when it gives up is undone, so that no claim
// blocks the retry (case 28).
func (e *Engine) claim(ctx context.Context, a *Attempt, seen *Seen) error {
	r := a.request
	lost := false
	err := e.retry(ctx, func() (err error) {
		now := e.config.Clock.Now()
		if now.After(a.until) {
			return e.tooLate(r)
		}
		*seen, err = e.store.Begin(ctx, Begin{Scope: r.Scope, GuardID: r.GuardID, Fingerprint: r.Fingerprint,
			Owner: a.owner, Now: now, Until: a.until, Row: r.Row})
		lost = lost || err != nil && retryproof.OutcomeOf(err) == retryproof.Unknown
		return err
	})
	switch {
	case err == nil:
		return nil
	case lost && !e.undo(ctx, a):
		// The guard may be there and nobody could take it back: a takeover or the
		// sweep will run it. The caller must keep the key.
		return &retryproof.Error{Code: retryproof.CodeUnknown, RetryAfter: time.Second, Err: err,
			Message: "it is not known whether the request was recorded", Hint: "send it again with the same key"}
	}
	return unavailable(err)
}

// undo takes back what this attempt claimed, on the condition that it is still
// its own, and reports whether the store answered. Failing leaves a claim that
// goes stale.
func (e *Engine) undo(ctx context.Context, a *Attempt) bool {
	ctx, cancel := e.writeContext(ctx)
	defer cancel()
	_, err := e.store.Release(ctx, Release{Scope: a.request.Scope, GuardID: a.request.GuardID, Owner: a.owner})
	return err == nil
}

func (e *Engine) tooLate(r Request) error {
	e.saw(SawTooLate, r)
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeTooLate,
		Message: "the request waited longer than its deadline", Hint: "nothing ran; send it again with the same key"}
}

func checkRequest(r Request) error {
	if err := r.Scope.Valid(); err != nil {
		return err
	}
	if r.Fingerprint.Version() == 0 {
		return retryproof.Refused(retryproof.CodeInvalid, "the request has no fingerprint", nil)
	}
	return nil
}

// decide follows the machine until the request has an answer or may run. Each
// takeover that loses its race reads what the winner wrote; the bound only stops
// a store that never agrees with itself.
func (e *Engine) decide(ctx context.Context, a *Attempt, seen Seen) (Decision, *Attempt, error) {
	waitUntil := e.config.Clock.Now().Add(min(a.request.Wait, e.config.MaxWait))
	for step := 0; step < 8+e.config.Retries; {
		now := e.config.Clock.Now()
		d := Next(seen, a.owner, a.request.Fingerprint, now, e.policy)
		late := now.After(a.until)
		var err error
		switch {
		case d.Verdict == Run && !late:
			return e.run(a, d)
		case d.Verdict == Run && !a.tookOver:
			e.undo(ctx, a)
			return Decision{}, nil, e.tooLate(a.request)
		case (d.Verdict == Run || d.Verdict == Takeover) && late: // for a younger request
			d.Verdict, d.CompleteClaim, d.RetryAfter = Busy, false, leaseLeft(a.until, now, e.config.Margin)
			return e.answer(ctx, a, d)
		case d.Verdict == Takeover:
			step++
			err = e.takeOver(ctx, a, d, &seen)
		case d.Verdict == Abandon:
			step++
			err = e.abandon(ctx, a, d, &seen)
		case (d.Verdict == Busy || d.Verdict == Pointer) && now.Before(waitUntil):
			err = e.lookAgain(ctx, a, &seen)
		case d.Verdict == Broken && seen.Claim == nil && !late: // the owner released it meanwhile
			step++
			if err := e.claim(ctx, a, &seen); err != nil {
				return Decision{}, nil, err
			}
		case d.Verdict == Broken && seen.Claim == nil:
			return Decision{}, nil, e.tooLate(a.request)
		case d.Verdict == Broken:
			err = retryproof.Refused(retryproof.CodeUnavailable, "the claim points to a record that is not there", nil)
		default:
			return e.answer(ctx, a, d)
		}
		if err != nil {
			return Decision{}, nil, unavailable(err)
		}
	}
	return Decision{}, nil, unavailable(retryproof.Refused(retryproof.CodeConflict, "the record kept changing", nil))
}

// answer says what the record says. A claim that this request wrote for nothing,
// in place of one that had expired, must not stand in the way of others.
func (e *Engine) answer(ctx context.Context, a *Attempt, d Decision) (Decision, *Attempt, error) {
	if (d.Verdict == Mismatch || d.Verdict == Voided) && d.Claim != nil && d.Claim.State == InProgress && d.Claim.Owner == a.owner {
		e.undo(ctx, a)
	}
	e.completeClaim(ctx, a, d)
	e.saw(sawVerdict(d.Verdict), a.request)
	return d, nil, nil
}

func (e *Engine) run(a *Attempt, d Decision) (Decision, *Attempt, error) {
	a.guard = *d.Guard
	if a.adopted {
		e.saw(SawTakeover, a.request)
	} else {
		e.saw(SawFirst, a.request)
	}
	return d, a, nil
}

// takeOver adopts an effect whose owner's lease is stale, on the condition that
// nothing changed since it was read.
func (e *Engine) takeOver(ctx context.Context, a *Attempt, d Decision, seen *Seen) error {
	ask := Adopt{Scope: a.request.Scope, GuardID: a.request.GuardID, Fingerprint: a.request.Fingerprint,
		Owner: a.owner, Margin: e.config.Margin, Until: a.until, To: Pending, Row: a.request.Row, Insert: d.Guard == nil}
	if d.Claim != nil {
		ask.ClaimFrom = d.Claim.Owner
	}
	ask.GuardOnly = d.Claim == nil && seen.Claim != nil // another request's; see Next
	if d.Guard != nil {
		ask.GuardFrom, ask.To = d.Guard.Owner, d.Guard.State
	}
	err := e.retry(ctx, func() (err error) {
		ask.Now = e.config.Clock.Now()
		*seen, err = e.store.Adopt(ctx, ask)
		return err
	})
	a.adopted = err == nil && seen.Guard != nil && seen.Guard.Owner == a.owner
	a.tookOver = a.adopted && !ask.Insert // without a guard the vanished owner had not run
	return err
}

// abandon makes what a vanished owner left UNKNOWN, since nobody may run it again.
func (e *Engine) abandon(ctx context.Context, a *Attempt, d Decision, seen *Seen) error {
	d.Guard.State = Unknown // the state to adopt into; the store compares the owner
	if err := e.takeOver(ctx, a, d, seen); err != nil || !a.tookOver {
		return err
	}
	e.saw(SawAbandon, a.request)
	out, err := e.Settle(ctx, a.unknown())
	if err != nil {
		return err
	}
	seen.Guard = out.Guard
	return nil
}

func (e *Engine) lookAgain(ctx context.Context, a *Attempt, seen *Seen) error {
	if err := e.config.Clock.Sleep(ctx, e.config.PollEvery); err != nil {
		return err
	}
	return e.retry(ctx, func() (err error) {
		*seen, err = e.store.Look(ctx, Look{Scope: a.request.Scope, GuardID: a.request.GuardID, Now: e.config.Clock.Now()})
		return err
	})
}

// completeClaim gives a claim that nobody else will complete what the guard says:
// the record of an expired key, or of an owner that died after settling. Failing
// is harmless: the next repeat does it.
func (e *Engine) completeClaim(ctx context.Context, a *Attempt, d Decision) {
	if !d.CompleteClaim || d.Claim == nil || (d.Verdict != Replay && d.Verdict != Pointer && d.Verdict != Busy) {
		return
	}
	done := Completion{Scope: a.request.Scope, Owner: d.Claim.Owner, ExpiresAt: e.config.Clock.Now().Add(e.config.AnswerTTL)}
	if d.Verdict == Replay && d.Guard != nil && a.request.Render != nil {
		answer := a.request.Render(*d.Guard)
		done.Answer = &answer
	}
	_, _ = e.store.Complete(ctx, done)
}

// retry asks again after a conflict or a lost answer: every store method may be
// repeated with the same arguments.
func (e *Engine) retry(ctx context.Context, ask func() error) error {
	var err error
	for try := range e.config.Retries + 1 {
		if try > 0 {
			if e.config.Clock.Sleep(ctx, backoff(try, e.config.Rand)) != nil {
				return err
			}
		}
		if err = ask(); err == nil {
			return nil
		}
		if retryproof.OutcomeOf(err) == retryproof.Unknown {
			e.config.Observe(Observation{What: SawLostCommit})
		} else if retryproof.CodeOf(err) != retryproof.CodeConflict {
			return err
		}
	}
	return err
}

// backoff doubles from 2 ms, with full jitter.
func backoff(try int, r entropy.Source) time.Duration {
	return time.Duration(entropy.Fraction(r)*float64(2*time.Millisecond<<min(try, 6))) + time.Millisecond
}

func (e *Engine) saw(what string, r Request) {
	e.config.Observe(Observation{What: what, GuardID: string(r.GuardID), Endpoint: r.Scope.Endpoint})
}

func sawVerdict(v Verdict) string {
	switch v {
	case Replay:
		return SawReplay
	case Pointer:
		return SawPointer
	case Busy:
		return SawBusy
	case Mismatch:
		return SawMismatch
	}
	return SawVoid
}

// unavailable says that nothing ran. An error of the caller stays what it is.
func unavailable(err error) error {
	switch retryproof.CodeOf(err) {
	case retryproof.CodeInvalid, retryproof.CodeExceeds, retryproof.CodeTooLate:
		return err
	}
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeUnavailable, RetryAfter: time.Second,
		Message: "the durable record cannot be reached", Hint: "nothing ran; send it again with the same key", Err: err}
}
