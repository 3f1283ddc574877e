package effect

import (
	"context"
	"errors"
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
	err := config.Validate()
	if store == nil {
		err = errors.Join(errors.New("effect: the store is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Engine{store: store, config: config, policy: Policy{Rerun: config.Rerun, Margin: config.Margin}}, nil
}

// Config returns the configuration with its defaults filled in.
func (e *Engine) Config() Config { return e.config }

// Request asks for one effect.
type Request struct {
	// Scope is whose key it is, and for what.
	Scope retryproof.Scope
	// Fingerprint is the request's meaning: another one under the key is a Mismatch.
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
// An error says that this request ran nothing. It is NotDone only when no other can
// have run either: CodeInvalid, CodeExceeds when a condition of the row fails, or
// CodeTooLate when the request was the first with its key and was taken back. It is
// Unknown when an earlier request may have run, or what this one recorded may still be
// swept: CodeUnavailable when the records do not answer, CodeTooLate when the request
// is older than its deadline, CodeUnknown when it is not known whether it was recorded.
// Keep the key and send it again.
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
	err := e.retry(ctx, r, func() (err error) {
		now := e.config.Clock.Now()
		if now.After(a.until) {
			return e.tooLate(r, retryproof.NotDone)
		}
		*seen, err = e.store.Begin(ctx, Begin{Scope: r.Scope, GuardID: r.GuardID, Fingerprint: r.Fingerprint,
			Owner: a.owner, Now: now, Until: a.until, Row: r.Row})
		lost = lost || err != nil && retryproof.OutcomeOf(err) == retryproof.Unknown
		return err
	})
	switch {
	case err == nil:
		return nil
	case !lost: // nothing of this request is there; what is there nobody has seen
		return unavailable(err, retryproof.Unknown)
	case !e.undo(ctx, a):
		return perhapsRecorded(err)
	}
	return unavailable(err, retryproof.NotDone) // there is no guard, so nobody ran
}

// perhapsRecorded says that the guard may be there and nobody could take it back: a
// takeover or the sweep will run it. The caller must keep the key.
func perhapsRecorded(err error) error {
	return &retryproof.Error{Code: retryproof.CodeUnknown, RetryAfter: time.Second, Err: err,
		Message: "it is not known whether the request was recorded", Hint: "send it again with the same key"}
}

// undo takes back what this attempt claimed, on the condition that it is still
// its own, and reports whether its guard is gone. Failing leaves a claim that goes
// stale.
func (e *Engine) undo(ctx context.Context, a *Attempt) bool {
	ctx, cancel := e.writeContext(ctx)
	defer cancel()
	gone, err := e.store.Release(ctx, Release{Scope: a.request.Scope, GuardID: a.request.GuardID, Owner: a.owner})
	return err == nil && gone
}

// tooLate is NotDone only for the first request with its key: a repeat that comes too
// late says nothing of the one before.
func (e *Engine) tooLate(r Request, known retryproof.Outcome) error {
	e.saw(SawTooLate, r)
	return &retryproof.Error{Outcome: known, Code: retryproof.CodeTooLate,
		Message: "the request waited longer than its deadline", Hint: "this request ran nothing; send it again with the same key"}
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
			err = e.tooLate(a.request, retryproof.NotDone)
			if !e.undo(ctx, a) {
				err = perhapsRecorded(err)
			}
			return Decision{}, nil, err
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
			return Decision{}, nil, e.tooLate(a.request, retryproof.Unknown)
		case d.Verdict == Broken:
			err = &retryproof.Error{Code: retryproof.CodeUnavailable, Message: "the claim points to a record that is not there"}
		default:
			return e.answer(ctx, a, d)
		}
		if err != nil {
			return Decision{}, nil, unavailable(err, retryproof.Unknown)
		}
	}
	return Decision{}, nil, unavailable(&retryproof.Error{Code: retryproof.CodeConflict, Message: "the record kept changing"}, retryproof.Unknown)
}

// answer says what the record says. A claim that this request wrote for nothing,
// in place of one that had expired, must not stand in the way of others.
func (e *Engine) answer(ctx context.Context, a *Attempt, d Decision) (Decision, *Attempt, error) {
	if (d.Verdict == Mismatch || d.Verdict == Voided) && a.owns(d.Claim) {
		e.undo(ctx, a)
	}
	e.tidyClaim(ctx, a, d)
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
	err := e.retry(ctx, a.request, func() (err error) {
		ask.Now = e.config.Clock.Now()
		*seen, err = e.store.Adopt(ctx, ask)
		return err
	})
	a.adopted = err == nil && seen.Guard != nil && seen.Guard.Owner == a.owner
	a.tookOver = a.adopted && (!ask.Insert || pointer(d.Claim)) // without a guard the vanished owner had not run
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
	return e.retry(ctx, a.request, func() (err error) {
		*seen, err = e.store.Look(ctx, Look{Scope: a.request.Scope, GuardID: a.request.GuardID, Now: e.config.Clock.Now()})
		return err
	})
}

// tidyClaim ends a claim that nobody else will end. While the guard stays, UNKNOWN or
// final, the claim is completed with what it says: the record of an expired key, or of
// an owner that died after settling. While another owner works on it (Busy) the guard
// may still be released, and a pointer would then block the key: the asker's own claim
// is given back. Failing is harmless: the next repeat does it, or the claim goes stale.
func (e *Engine) tidyClaim(ctx context.Context, a *Attempt, d Decision) {
	if !d.CompleteClaim || d.Claim == nil {
		return
	}
	switch d.Verdict {
	case Busy:
		if a.owns(d.Claim) {
			e.undo(ctx, a)
		}
		return
	case Replay, Pointer:
	default:
		return
	}
	done := Completion{Scope: a.request.Scope, Owner: d.Claim.Owner, ExpiresAt: e.config.Clock.Now().Add(e.config.AnswerTTL)}
	if d.Verdict == Replay && d.Guard != nil && a.request.Render != nil {
		answer := a.request.Render(*d.Guard)
		answer.State = d.Guard.State
		done.Answer = &answer
	}
	_, _ = e.store.Complete(ctx, done)
}

// owns reports whether a claim is this attempt's own.
func (a *Attempt) owns(c *Claim) bool {
	return c != nil && c.State == InProgress && c.Owner == a.owner
}

// retry asks again after a conflict or a lost answer: every store method may be
// repeated with the same arguments.
func (e *Engine) retry(ctx context.Context, r Request, ask func() error) error {
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
			e.saw(SawLostCommit, r)
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

// unavailable says that this request ran nothing, and what is known of the effect. What
// is wrong with the request itself stays what it is.
func unavailable(err error, known retryproof.Outcome) error {
	message, code := "the durable record cannot be reached", retryproof.CodeUnavailable
	var e *retryproof.Error
	switch c := retryproof.CodeOf(err); {
	case c == retryproof.CodeInvalid || c == retryproof.CodeExceeds:
		return err
	case errors.As(err, &e) && c == retryproof.CodeTooLate:
		message, code = e.Message, c
	}
	return &retryproof.Error{Outcome: known, Code: code, RetryAfter: time.Second,
		Message: message, Hint: "this request ran nothing; send it again with the same key", Err: err}
}
