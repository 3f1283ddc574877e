package saga

// The steps of one leased saga, each recorded before it is tried.
//
// It promises that a call is made only after STARTED is in the log, under the lease, with
// the key that every try of it has. It does not promise one try: the participants' keys and
// marks make repeats harmless.
//
// A crash after STARTED, before the answer is recorded, leaves a try whose outcome is not
// known: the next runner goes on from there, with the same keys.

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/entropy"
)

// advance drives a leased saga until it is final, must wait, or is another's. It
// reports whether the saga got on.
func (r *Runner) advance(ctx context.Context, rec Record) (Record, bool, error) {
	d := r.definitions[rec.Name]
	moved := false
	for rec.Owner != "" {
		now := r.config.Clock.Now()
		next := Next(d, rec, now)
		if ctx.Err() != nil && next.Verdict == Act { // told to stop: begin nothing
			next = Decision{Verdict: Wait, Until: rec.NextAt}
		}
		var held, got bool
		var err error
		switch next.Verdict {
		case Act:
			rec, held, got, err = r.act(ctx, d, rec, next)
		case Turn, Finish:
			rec, held, err = r.move(ctx, rec, next, now)
			got = held
		case Wait:
			rec, held, err = r.giveBack(ctx, rec, next.Until)
		default:
			rec, held, err = r.broken(ctx, rec, next, now)
		}
		moved = moved || got
		if err != nil || !held {
			return rec, moved, err
		}
	}
	return rec, moved, nil
}

// move records another state of the saga.
func (r *Runner) move(ctx context.Context, rec Record, d Decision, now time.Time) (Record, bool, error) {
	next := rec
	next.State, next.NextAt, next.Until = d.To, now, now.Add(r.config.Lease)
	if d.Verdict == Turn {
		next.Reason = d.Problem
	}
	after, held, err := r.save(ctx, rec, next)
	if held {
		r.saw(map[State]string{Compensating: SawTurned, Completed: SawCompleted, Compensated: SawCompensated}[d.To], after, Entry{})
	}
	return after, held, err
}

func (r *Runner) giveBack(ctx context.Context, rec Record, nextAt time.Time) (Record, bool, error) {
	next := rec
	next.NextAt, next.Until = nextAt, time.Time{}
	return r.save(ctx, rec, next)
}

// broken tells a person and looks again later: a newer program may know the log.
func (r *Runner) broken(ctx context.Context, rec Record, d Decision, now time.Time) (Record, bool, error) {
	r.saw(SawBroken, rec, Entry{})
	r.config.Alert(ctx, Alarm{Saga: rec, Cause: errors.New(d.Problem)})
	return r.giveBack(ctx, rec, now.Add(r.config.MaxBackoff))
}

// act records one try, makes it, and records what it told. held is false when
// another owner has the saga, before the call or after it.
func (r *Runner) act(ctx context.Context, d Definition, rec Record, next Decision) (after Record, held, definite bool, err error) {
	now := r.config.Clock.Now()
	started, i := begin(d, rec, next, now)
	if before, again := rec.Entry(started.Log[i].Step, next.Cancel); again && before.State == Started {
		// Whoever began this try ended before recording it, and told nobody.
		r.saw(SawInterrupted, rec, before)
		started.Log[i].Alerted = r.alert(ctx, rec, before, errors.New("the try was interrupted"))
	}
	started.Until = now.Add(r.config.Lease)
	rec, held, err = r.save(ctx, rec, started)
	if err != nil || !held {
		return rec, held, false, err
	}
	e := rec.Log[i]
	r.saw(SawCalled, rec, e)
	result, callErr := r.call(ctx, d.Steps[next.Step], rec, e)

	now = r.config.Clock.Now()
	ended, definite := conclude(rec, i, result, callErr, now)
	r.observeEnd(ended, i)
	ended.NextAt, ended.Until = now, now.Add(r.config.Lease)
	if !definite {
		ended.Log[i].Alerted = r.alert(ctx, ended, ended.Log[i], callErr)
		if Next(d, ended, now).Verdict != Turn {
			ended.NextAt, ended.Until = now.Add(r.wait(ended.Log[i].Tries, callErr)), time.Time{}
		}
	}
	after, held, err = r.save(ctx, rec, ended)
	return after, held, definite && held, err
}

// call makes one try. A panic in it is an outcome that is not known, like an error of no
// class; a runtime.Goexit goes on, and leaves the call STARTED.
func (r *Runner) call(ctx context.Context, s Step, rec Record, e Entry) (result []byte, err error) {
	shown := rec.Clone() // the call may change what it gets
	c := Call{Key: e.Key, OriginalKey: s.ActionKey(rec.ID), SagaID: rec.ID, Saga: rec.Name, Step: s.Name, Cancel: e.Cancel,
		Input: shown.Input, Try: e.Tries, BegunAt: e.BegunAt, log: shown.Log}
	ctx, cancel := r.config.Clock.WithTimeout(ctx, r.config.CallTimeout)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			r.saw(SawPanicked, rec, e)
			result, err = nil, &retryproof.Error{Code: retryproof.CodeUnknown, Message: "the call's outcome is not known", Err: &Panic{Value: value, Stack: debug.Stack()}}
		}
	}()
	if e.Cancel {
		return s.Cancel(ctx, c)
	}
	return s.Action(ctx, c)
}

func (r *Runner) observeEnd(rec Record, i int) {
	e := rec.Log[i]
	r.saw(map[EntryState]string{Done: SawDone, Refused: SawRefused, NotDone: SawNotDone, Unknown: SawUnknown}[e.State], rec, e)
	if e.ResultDropped {
		r.saw(SawDropped, rec, e)
	}
}

// alert tells a person if it is time, and returns what to record of it.
func (r *Runner) alert(ctx context.Context, rec Record, e Entry, cause error) int {
	if !alertDue(e, r.config.AlertAfter) {
		return e.Alerted
	}
	r.config.Alert(ctx, Alarm{Saga: rec, Entry: e, Cause: cause})
	return e.Tries
}

// wait is the backoff after so many tries, with jitter, and at least what the
// callee asked for, as far as that is not beyond MaxBackoff.
func (r *Runner) wait(tries int, err error) time.Duration {
	wait := r.config.MinBackoff
	for range tries - 1 {
		if wait >= r.config.MaxBackoff/2 {
			wait = r.config.MaxBackoff
			break
		}
		wait *= 2
	}
	wait = wait/2 + time.Duration(entropy.Fraction(r.config.Rand)*float64(wait/2))
	var e *retryproof.Error
	if errors.As(err, &e) {
		wait = max(wait, min(e.RetryAfter, r.config.MaxBackoff))
	}
	return wait
}
