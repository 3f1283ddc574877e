package effect

import (
	"context"
	"errors"

	"github.com/retryproof/retryproof"
)

// errMovedBefore is the cause of FinishWith's error when the guard did not move.
var errMovedBefore = errors.New("the guard was moved before")

// handed is an outcome that a transaction of the caller's was given.
type handed struct {
	settle    Settle
	completed bool // the claim goes with it; false when the key store is another database
}

// FinishWith gives an outcome to a transaction of the caller's, whose settle it
// calls, so that the guard, the claim's answer and the caller's own rows commit
// together. The Finish methods of the drivers' transactions call it; see store/sqlite,
// store/postgres and store/memory.
//
// An error means that the transaction must be rolled back: the store refused f, or,
// with CodeMoved, the guard has moved: another owner has taken over, or an earlier
// transaction of this attempt has committed although its answer was lost. Return the
// error from run, or from the HTTP handler: the caller is then answered from the record.
//
// Whether the transaction commits is found out when run, or the handler, has returned,
// by a compare-and-set on the guard: what it says counts, not what run returned. A
// transaction that was rolled back, or never ended, leaves UNKNOWN, or nothing when
// run's error is NotDone and nothing outside has begun. It may be called again, in
// another transaction.
func (a *Attempt) FinishWith(ctx context.Context, f Finish, settle func(context.Context, Settle) (Settled, error)) error {
	s, err := a.settlement(f)
	if err != nil {
		return err
	}
	if _, ended := a.Ended(); ended {
		return retryproof.Refused(retryproof.CodeInvalid, "the attempt has ended", nil)
	}
	a.within.CompareAndSwap(nil, &handed{}) // from now on the record says how it ended
	out, err := settle(ctx, s)
	if err != nil {
		return err
	}
	if !out.Moved {
		return &retryproof.Error{Code: retryproof.CodeMoved, Err: errMovedBefore,
			Message: "the effect is another attempt's by now, or is recorded", Hint: "roll the transaction back; the record has the answer"}
	}
	a.within.Store(&handed{settle: s, completed: out.Completed}) // the last that moved it is the one that can commit
	return nil
}

// Within reports that the outcome was given to a transaction of the caller's; see
// FinishWith.
func (a *Attempt) Within() bool { return a.within.Load() != nil }
