package saga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
)

// cancelPart is the second part of every compensation's key.
const cancelPart = "cancel"

// MaxNameBytes is the longest name of a saga, a step or a compensation.
const MaxNameBytes = 64

// Func makes one call of a saga. It must hand c.Key to whatever it calls, since it
// may run again, in another process, also while an earlier run has not ended.
//
// What it returns is classified by retryproof.OutcomeOf:
//   - nil or Done: it happened; the result is kept for later steps;
//   - NotDone, and [Permanent]: it was refused; an action makes the saga turn, a
//     compensation is tried again, since a refusal is no evidence that it was undone;
//   - NotDone otherwise: it is tried again;
//   - anything else, and a panic: UNKNOWN, tried again with the same key. A panic does
//     not go on; the alarm's cause has it as a [*Panic].
//
// An error after an outside call is Unknown, whatever a database says of its own
// transaction.
type Func func(ctx context.Context, c Call) (result []byte, err error)

// Call is what a Func is told.
type Call struct {
	// Key names the call, the same on every try: the idempotency key for whoever
	// is called.
	Key string
	// OriginalKey is the action's key. A compensation undoes, or refuses forever,
	// what carries it; for an action it is Key.
	OriginalKey string
	// SagaID and Saga are the saga's id and its definition's name.
	SagaID retryproof.ID
	Saga   string
	// Step is the step's name, also in its compensation.
	Step string
	// Cancel says that it is the compensation.
	Cancel bool
	// Input is the saga's, as it was started.
	Input []byte
	// Try counts from 1 and includes tries that a crash cut short.
	Try int
	// BegunAt is when the first try was recorded. A callee forgets keys after its
	// window (often 24 h): afterwards look it up instead of sending the key again.
	BegunAt time.Time

	log []Entry
}

// Result is what the action of an earlier step, or of the step that is being
// compensated, returned. It is false when that is not DONE, or the result was too
// large to keep.
func (c Call) Result(step string) ([]byte, bool) {
	for _, e := range c.log {
		if e.Step == step && !e.Cancel {
			return slices.Clone(e.Result), e.State == Done && !e.ResultDropped
		}
	}
	return nil, false
}

// Step is one action with its compensation.
type Step struct {
	// Name is the step's word, for example "charge": the action's key is
	// id.Sub(Name). Up to MaxNameBytes of printable ASCII without spaces and ':', and
	// not "cancel".
	Name string
	// Action does it.
	Action Func
	// Cancel undoes the action. It is called whether the action is DONE, was
	// refused, or is in doubt, and must be right in all three: undo what happened,
	// and where nothing did, leave a mark that refuses a late original. It returns
	// nil only when the action's effect is gone and cannot come any more. Nil when
	// there is nothing to undo, as for a step that only reads.
	Cancel Func
	// CancelName is the compensation's word, for example "refund": its key is
	// id.Sub("cancel", CancelName). Made of the same bytes as Name. Defaults to Name.
	CancelName string
	// MaxTries makes the saga turn when the action is not DONE after so many tries.
	// It needs Cancel, since the action is then in doubt. Defaults to 0: never.
	MaxTries int
}

// ActionKey is the key of the step's action in a saga.
func (s Step) ActionKey(id retryproof.ID) string { return id.Sub(s.Name) }

// CancelKey is the key of the step's compensation in a saga.
func (s Step) CancelKey(id retryproof.ID) string { return id.Sub(cancelPart, s.cancelName()) }

func (s Step) cancelName() string {
	if s.CancelName == "" {
		return s.Name
	}
	return s.CancelName
}

// Definition is a kind of saga: what to do, in order. While sagas of it are
// running, steps may be added behind the last one, but none may be renamed, moved
// or taken away: their keys would change. A runner that meets a log that does not
// fit stops there and tells a person.
type Definition struct {
	// Name is stored with every saga.
	Name string
	// Steps are done in order and undone in reverse.
	Steps []Step
}

// Validate returns everything that is wrong with the definition at once.
func (d Definition) Validate() error {
	errs := []error{checkName("the saga", d.Name)}
	if len(d.Steps) == 0 {
		errs = append(errs, errors.New("it has no steps"))
	}
	used := map[string]string{} // key → what has it
	claim := func(key, what string) {
		if other, taken := used[key]; taken {
			errs = append(errs, fmt.Errorf("%s has the key of %s: %s", what, other, key))
		}
		used[key] = what
	}
	for i, s := range d.Steps {
		what := fmt.Sprintf("step %d %q", i+1, s.Name)
		nameErr := checkName(what, s.Name)
		errs = append(errs, nameErr)
		if s.Name == cancelPart {
			errs = append(errs, fmt.Errorf("%s: this word is the compensations'", what))
		}
		if nameErr == nil {
			claim(s.ActionKey("id"), "the action of "+what)
		}
		if s.Action == nil {
			errs = append(errs, fmt.Errorf("%s has no action", what))
		}
		if s.MaxTries < 0 {
			errs = append(errs, fmt.Errorf("%s: MaxTries %d must not be negative", what, s.MaxTries))
		}
		if s.Cancel == nil {
			if s.CancelName != "" || s.MaxTries > 0 {
				errs = append(errs, fmt.Errorf("%s has a CancelName or MaxTries and no Cancel", what))
			}
			continue
		}
		cancelErr := checkName("the compensation of "+what, s.cancelName())
		if cancelErr == nil {
			claim(s.CancelKey("id"), "the compensation of "+what)
		}
		if s.CancelName != "" { // else it was said above
			errs = append(errs, cancelErr)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("saga %q: %w", d.Name, err)
	}
	return nil
}

// checkName keeps names such that they are parts of keys, and keys fit a header.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s has no name", what)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%s: the name has more than %d bytes", what, MaxNameBytes)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }):
		return fmt.Errorf("%s: a name is printable ASCII without spaces and ':'", what)
	}
	return nil
}

// fits returns what keeps the definition from going on with a log, or "".
func (d Definition) fits(id retryproof.ID, log []Entry) string {
	actions := 0
	for _, e := range log {
		i := slices.IndexFunc(d.Steps, func(s Step) bool { return s.Name == e.Step })
		switch {
		case i < 0:
			return fmt.Sprintf("the log has step %q, which the definition lacks", e.Step)
		case !e.Cancel && i != actions:
			return fmt.Sprintf("step %q is number %d in the definition and %d in the log", e.Step, i+1, actions+1)
		case e.Cancel && d.Steps[i].Cancel == nil:
			return fmt.Sprintf("the compensation of step %q was begun, and the definition lacks it", e.Step)
		case !e.Cancel && e.Key != d.Steps[i].ActionKey(id), e.Cancel && e.Key != d.Steps[i].CancelKey(id):
			return fmt.Sprintf("step %q was begun with the key %s, which is not the definition's", e.Step, e.Key)
		}
		if !e.Cancel {
			actions++
		}
	}
	return ""
}
