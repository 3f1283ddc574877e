package emulator

import (
	"errors"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
)

// FaultKind is what goes wrong with a send.
type FaultKind string

const (
	// FaultLoseReply accepts the send, then loses the answer.
	FaultLoseReply FaultKind = "lose_reply"
	// FaultRefuse refuses the send; nothing is shown.
	FaultRefuse FaultKind = "refuse"
	// FaultDelay only waits, before the send is taken.
	FaultDelay FaultKind = "delay"
)

// maxDelay bounds a delay, so that a typing error does not stop a phone for a day.
const maxDelay = 10 * time.Minute

// Fault goes wrong with the next sends. Faults are used up in the order in which
// they were added, one per send; a restart forgets them.
type Fault struct {
	Kind FaultKind
	// Next is for how many sends it holds. Defaults to 1.
	Next int
	// Delay is how long the send waits first; required for FaultDelay, at most ten
	// minutes. Defaults to 0.
	Delay time.Duration
	// To limits the fault to the phone of one person. Defaults to every phone.
	To string
}

// Validate reports everything that is wrong with the fault.
func (f Fault) Validate() error {
	var problems []error
	if f.Kind != FaultLoseReply && f.Kind != FaultRefuse && f.Kind != FaultDelay {
		problems = append(problems, errors.New(`kind is not "lose_reply", "refuse" or "delay"`))
	}
	if f.Next < 0 {
		problems = append(problems, errors.New("next is negative"))
	}
	if f.Delay < 0 || f.Delay > maxDelay {
		problems = append(problems, errors.New("the delay is negative or longer than 10 minutes"))
	}
	if f.Kind == FaultDelay && f.Delay == 0 {
		problems = append(problems, errors.New("a delay fault needs a delay"))
	}
	if len(f.To) > MaxToBytes {
		problems = append(problems, errors.New("to is too long"))
	}
	if len(problems) == 0 {
		return nil
	}
	return retryproof.Refused(retryproof.CodeInvalid, "the fault is invalid", errors.Join(problems...))
}

// AddFault puts a fault at the end of the script.
func (e *Emulator) AddFault(f Fault) error {
	if err := f.Validate(); err != nil {
		return err
	}
	f.Next = max(f.Next, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = append(e.faults, f)
	return nil
}

// Faults returns what is left of the script.
func (e *Emulator) Faults() []Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.faults)
}

// ClearFaults empties the script.
func (e *Emulator) ClearFaults() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = nil
}

// takeFault uses up one send of the first fault that holds for the person; the
// zero Fault is none.
func (e *Emulator) takeFault(to string) Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.faults, func(f Fault) bool { return f.To == "" || f.To == to })
	if i < 0 {
		return Fault{}
	}
	f := e.faults[i]
	if e.faults[i].Next--; e.faults[i].Next == 0 {
		e.faults = slices.Delete(e.faults, i, i+1)
	}
	return f
}
