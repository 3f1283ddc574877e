package saga

import (
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/internal/clip"
)

// Verdict is what is to be done about a saga.
type Verdict int

const (
	// Nothing: it is final.
	Nothing Verdict = iota + 1
	// Wait: nothing before Decision.Until.
	Wait
	// Act: make the call of Decision.Step, once it is recorded.
	Act
	// Turn: undo what was begun.
	Turn
	// Finish: record the final state Decision.To.
	Finish
	// Broken: the log does not fit the definition; a person must look.
	Broken
)

// Decision is the machine's output.
type Decision struct {
	Verdict Verdict
	// Step is the step to call, by its place in the definition (Act).
	Step int
	// Cancel says that its compensation is to be called (Act).
	Cancel bool
	// To is the state to record (Turn, Finish).
	To State
	// Until is when to look again (Wait).
	Until time.Time
	// Problem says what does not fit, or why the saga turns (Broken, Turn).
	Problem string
}

// Next decides what to do about a saga. It is pure: the runner, the simulator and
// the tests call the same function.
func Next(d Definition, r Record, now time.Time) Decision {
	if r.State.Final() {
		return Decision{Verdict: Nothing}
	}
	if problem := d.fits(r.ID, r.Log); problem != "" {
		return Decision{Verdict: Broken, Problem: problem}
	}
	var next Decision
	switch r.State {
	case Running:
		next = forward(d, r)
	case Compensating:
		next = backward(d, r)
	default:
		return Decision{Verdict: Broken, Problem: "the state is none of a saga's"}
	}
	if next.Verdict == Act && r.NextAt.After(now) {
		return Decision{Verdict: Wait, Until: r.NextAt}
	}
	return next
}

// forward finds the action that is not DONE yet.
func forward(d Definition, r Record) Decision {
	for i, s := range d.Steps {
		e, begun := r.Entry(s.Name, false)
		switch {
		case !begun:
			return Decision{Verdict: Act, Step: i}
		case e.State == Done:
			continue
		case e.State == Refused:
			return Decision{Verdict: Turn, To: Compensating, Problem: reasonOf(e)}
		case s.MaxTries > 0 && e.Tries >= s.MaxTries:
			return Decision{Verdict: Turn, To: Compensating, Problem: reasonOf(e) + " after the last try"}
		}
		return Decision{Verdict: Act, Step: i}
	}
	return Decision{Verdict: Finish, To: Completed}
}

// backward finds the compensation that is not DONE yet, latest step first. That a
// step's action was begun is all that matters: see the package's comment.
func backward(d Definition, r Record) Decision {
	for i, s := range slices.Backward(d.Steps) {
		if _, begun := r.Entry(s.Name, false); !begun || s.Cancel == nil {
			continue
		}
		if e, called := r.Entry(s.Name, true); !called || e.State != Done {
			return Decision{Verdict: Act, Step: i, Cancel: true}
		}
	}
	return Decision{Verdict: Finish, To: Compensated}
}

// inDoubt returns the step whose action may have happened and has no compensation:
// a saga cannot be turned before that is settled. Empty when there is none.
func inDoubt(d Definition, r Record) string {
	for _, s := range d.Steps {
		e, begun := r.Entry(s.Name, false)
		if begun && s.Cancel == nil && e.State != Done && e.State != Refused {
			return s.Name
		}
	}
	return ""
}

func reasonOf(e Entry) string {
	return clip.Text("step "+e.Step+" is "+string(e.State)+" ("+string(e.Code)+"): "+e.Message, clip.Reason)
}

// begin returns the record with one more try of the call, STARTED.
func begin(d Definition, r Record, next Decision, now time.Time) (Record, int) {
	r = r.Clone()
	s := d.Steps[next.Step]
	i := r.index(s.Name, next.Cancel)
	if i < 0 {
		key := s.ActionKey(r.ID)
		if next.Cancel {
			key = s.CancelKey(r.ID)
		}
		i = len(r.Log)
		r.Log = append(r.Log, Entry{Step: s.Name, Cancel: next.Cancel, Key: key, BegunAt: now})
	}
	e := &r.Log[i]
	e.State, e.UpdatedAt = Started, now
	e.Tries++
	return r, i
}

// conclude returns the record with what the call's last try told. The saga goes on
// at once when that is definite.
func conclude(r Record, i int, result []byte, err error, now time.Time) (after Record, definite bool) {
	r = r.Clone()
	e := &r.Log[i]
	e.UpdatedAt, e.Code, e.Message = now, "", ""
	if err != nil {
		e.Code, e.Message = retryproof.Code(clip.Text(string(retryproof.CodeOf(err)), clip.Reason)), clip.Text(err.Error(), clip.Reason)
	}
	switch retryproof.OutcomeOf(err) {
	case retryproof.Done:
		e.State = Done
		if e.ResultDropped = len(result) > MaxResultBytes; !e.ResultDropped {
			e.Result = slices.Clone(result)
		}
		return r, true
	case retryproof.NotDone:
		e.State = NotDone
		if !e.Cancel && Permanent(err) {
			e.State = Refused
			return r, true
		}
	default:
		e.State = Unknown
	}
	return r, false
}

// alertDue reports whether a person must be told: at so many tries, and again each
// time that their number has doubled since. It hangs on what is stored, so that a
// crash at exactly that try loses nothing.
func alertDue(e Entry, after int) bool {
	return e.State != Done && e.State != Refused && e.Tries >= after && (e.Alerted == 0 || e.Tries/2 >= e.Alerted)
}

// passing are the codes with which NotDone means "not now".
var passing = []retryproof.Code{
	"", retryproof.CodeConflict, retryproof.CodeInProgress, retryproof.CodeReadOnly, retryproof.CodeTooLate,
	retryproof.CodeTooMany, retryproof.CodeUnavailable, retryproof.CodeUnknown,
}

// Permanent reports whether an error says that trying again cannot help: it is
// NotDone, and its code is there and none of conflict, in-progress, read-only,
// too-late, too-many, unavailable and unknown. A code of your own, for example
// "card-declined", is permanent.
func Permanent(err error) bool {
	return retryproof.OutcomeOf(err) == retryproof.NotDone && !slices.Contains(passing, retryproof.CodeOf(err))
}
