package saga

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
)

// Config sets a runner. The zero value works.
type Config struct {
	// Batch is how many sagas one RunOnce advances. Defaults to 20.
	Batch int
	// CallTimeout bounds one call. Defaults to 20 s.
	CallTimeout time.Duration
	// WriteTimeout bounds one record, which is finished even when the runner is
	// told to stop. Defaults to 5 s.
	WriteTimeout time.Duration
	// Lease is how long a saga belongs to a runner, counted afresh before every call:
	// CallTimeout + WriteTimeout ≤ Lease. Defaults to 30 s.
	Lease time.Duration
	// Margin is added to a lease before another runner takes the saga over.
	// Defaults to 1 s.
	Margin time.Duration
	// MinBackoff is the wait after a call's first try without a definite answer; it
	// doubles, and its second half is random. Defaults to 2 s.
	MinBackoff time.Duration
	// MaxBackoff is the longest wait. Defaults to 15 min.
	MaxBackoff time.Duration
	// AlertAfter is how many tries of one call are made before Alert is called; the
	// call goes on being tried. Defaults to 10.
	AlertAfter int
	// Alert tells a person about a call that stays without a definite answer, or
	// about a log that does not fit its definition. It is told at AlertAfter tries,
	// and again each time that they have doubled. A crash may repeat it and never
	// loses it: that it was told is recorded after it returned. Defaults to nothing.
	Alert func(ctx context.Context, a Alarm)
	// Retries is how often a store is asked again after a conflict or a lost answer.
	// Defaults to 4.
	Retries int
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Rand makes tokens and jitter. Defaults to entropy.System().
	Rand entropy.Source
	// Observe is told what happens; see the Saw constants. Defaults to nothing.
	Observe func(Observation)
}

// Alarm is what a person is told.
type Alarm struct {
	Saga Record
	// Entry is the call that has no definite answer; empty when the log does not
	// fit the definition.
	Entry Entry
	// Cause is the last error. A [*Panic] is in it when the last try panicked.
	Cause error
}

// Panic is the error of a try that panicked.
type Panic struct {
	// Value is what it panicked with.
	Value any
	// Stack is where, as debug.Stack shows it.
	Stack []byte
}

// Error shows the value.
func (p *Panic) Error() string { return fmt.Sprintf("it panicked: %v", p.Value) }

// Unwrap returns the value when it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// What an Observation can say.
const (
	SawCalled      = "called"      // a call was recorded and is made now
	SawDone        = "done"        // it is DONE
	SawRefused     = "refused"     // it is REFUSED: the saga turns
	SawNotDone     = "not_done"    // it was not done and is tried again
	SawUnknown     = "unknown"     // its outcome is UNKNOWN and it is tried again
	SawTurned      = "turned"      // compensation begins
	SawCompleted   = "completed"   // final
	SawCompensated = "compensated" // final
	SawFenced      = "fenced"      // another owner has the saga: this one changed nothing
	SawBroken      = "broken"      // the log does not fit the definition
	SawLostCommit  = "lost_commit" // the answer to a write was lost and it is asked again
	SawReadBack    = "read_back"   // a write whose answer was lost was found to have landed
	SawDropped     = "dropped"     // a result was too large to keep
	SawInterrupted = "interrupted" // an earlier runner left this call STARTED
	SawPanicked    = "panicked"    // a try panicked; its outcome is UNKNOWN
)

// Observation is one thing that a runner saw.
type Observation struct {
	// What is one of the Saw… constants.
	What string
	// ID is the saga's, Saga its definition's name; "" where it is not known.
	ID   string
	Saga string
	// Step is the step's name, "" for what concerns the saga; Cancel: its cancel call.
	Step   string
	Cancel bool
}

func (c Config) withDefaults() Config {
	durations := []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.CallTimeout, 20 * time.Second}, {&c.WriteTimeout, 5 * time.Second}, {&c.Lease, 30 * time.Second},
		{&c.Margin, time.Second}, {&c.MinBackoff, 2 * time.Second}, {&c.MaxBackoff, 15 * time.Minute},
	}
	for _, d := range durations {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Batch == 0 {
		c.Batch = 20
	}
	if c.AlertAfter == 0 {
		c.AlertAfter = 10
	}
	if c.Alert == nil {
		c.Alert = func(context.Context, Alarm) {}
	}
	if c.Retries == 0 {
		c.Retries = 4
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Rand == nil {
		c.Rand = entropy.System()
	}
	if c.Observe == nil {
		c.Observe = func(Observation) {}
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Batch < 0 || c.AlertAfter < 0 || c.Retries < 0 {
		errs = append(errs, fmt.Errorf("saga: Batch %d, AlertAfter %d and Retries %d must not be negative", c.Batch, c.AlertAfter, c.Retries))
	}
	if c.CallTimeout < 0 || c.WriteTimeout < 0 || c.Lease < c.CallTimeout+c.WriteTimeout {
		errs = append(errs, fmt.Errorf("saga: 0 ≤ CallTimeout, 0 ≤ WriteTimeout and CallTimeout + WriteTimeout ≤ Lease fails: %v + %v, %v", c.CallTimeout, c.WriteTimeout, c.Lease))
	}
	if c.Margin < 0 {
		errs = append(errs, fmt.Errorf("saga: Margin %v must not be negative", c.Margin))
	}
	if c.MinBackoff < 0 || c.MaxBackoff < c.MinBackoff {
		errs = append(errs, fmt.Errorf("saga: 0 ≤ MinBackoff ≤ MaxBackoff fails: %v, %v", c.MinBackoff, c.MaxBackoff))
	}
	return errors.Join(errs...)
}
