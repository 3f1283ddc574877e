package effect

import (
	"context"
	"errors"
	"time"

	"github.com/retryproof/retryproof"
)

// Do runs one effect outside HTTP: it begins, calls run when it may, and ends the
// attempt by what run returns. The decision tells the caller what to answer; see
// [Decision.Err] for the verdicts that are no success.
//
// A run error that is NotDone releases the key, unless something outside may have
// begun: after [Attempt.Begin] or [Attempt.Key] every error is Unknown, since it may be
// about what came after the call, until [Attempt.NothingDone] says otherwise. Unknown
// leaves a pointer, and so does a panic, which goes on. So does a Finish that the
// store refuses as such: no repeat could record it either.
//
// The error is run's, or Begin's. It is NotDone only when the key is free again: when
// an earlier or a later owner may have run, run's error is wrapped as Unknown. It is
// Done when run failed after a transaction of [Attempt.FinishWith] had committed.
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
	if err != nil {
		return a.endFailed(ctx, err)
	}
	if d, ended := a.Ended(); ended { // by run itself
		return d, nil
	}
	if d, err = a.Finish(ctx, f); err != nil && refusedAsSuch(errors.Unwrap(err)) {
		d, recordErr := a.Unknown(ctx)
		return d, errors.Join(err, recordErr)
	}
	return d, err
}

// endFailed ends an attempt whose run returned an error.
func (a *Attempt) endFailed(ctx context.Context, runErr error) (Decision, error) {
	if retryproof.OutcomeOf(runErr) == retryproof.NotDone && !a.Begun() {
		if gone, _ := a.Release(ctx); gone {
			return Decision{}, runErr
		}
		// Another owner has taken over (case 18), or evidence says that something did
		// happen: then it is not known.
	}
	d, err := a.Unknown(ctx)
	switch {
	case err == nil && errors.Is(runErr, errMovedBefore):
		return d, nil // nothing of this attempt's is written, and the record has the answer
	case err == nil && a.within.Load() != nil && d.Guard != nil && d.Guard.SettledBy == a.owner && d.Verdict == Replay:
		return d, &retryproof.Error{Outcome: retryproof.Done, Code: retryproof.CodeOf(runErr), Err: runErr,
			Message: "the effect is done and recorded; the run failed after that"}
	}
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
