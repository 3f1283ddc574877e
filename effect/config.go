package effect

import (
	"errors"
	"fmt"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
)

// Config sets the three clocks of a key and what an engine may do. The zero
// value works.
type Config struct {
	// Deadline is how long an attempt may work, from its arrival; it is also the
	// lease. Defaults to 5 s.
	Deadline time.Duration
	// Margin is added to a lease before anybody takes over: more than the worst
	// clock offset between two machines. Defaults to 1 s.
	Margin time.Duration
	// AnswerTTL is how long an answer is kept after completion. The guard answers
	// afterwards. Defaults to 24 h.
	AnswerTTL time.Duration
	// MaxWait bounds Request.Wait. Defaults to 30 s.
	MaxWait time.Duration
	// PollEvery is how often a waiting repeat looks again. Defaults to 50 ms.
	PollEvery time.Duration
	// WriteTimeout bounds each write of the store that must not be given up with
	// the caller's context: settlements and completions. Defaults to 5 s.
	WriteTimeout time.Duration
	// Retries is how often a conflict or a lost COMMIT answer is asked again
	// within one call. Defaults to 4.
	Retries int
	// Rerun says when an effect may run again after its owner vanished.
	// Defaults to RerunNever.
	Rerun Rerun
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Rand makes owner tokens and jitter. Defaults to entropy.System().
	Rand entropy.Source
	// Observe is told what happened, for metrics; it must not block.
	// Defaults to nothing.
	Observe func(Observation)
}

// Observation is something worth counting.
type Observation struct {
	// What is one of the Saw… constants.
	What string
	// GuardID names the effect.
	GuardID string
	// Endpoint is the scope's.
	Endpoint string
}

// What an engine reports to Config.Observe.
const (
	SawFirst      = "first"       // a first request claimed and recorded
	SawReplay     = "replay"      // a repeat was answered from a record
	SawPointer    = "pointer"     // a repeat was answered "not final yet"
	SawBusy       = "in_progress" // a repeat found a live owner
	SawMismatch   = "mismatch"    // a key was reused for another request
	SawVoid       = "void"        // a voided key was used
	SawVoided     = "voided"      // somebody asked and the key was voided
	SawTakeover   = "takeover"    // a stale owner was taken over
	SawAbandon    = "abandon"     // a stale owner's effect became UNKNOWN
	SawFenced     = "fenced"      // an owner that was taken over tried to write
	SawLostCommit = "lost_commit" // a COMMIT without an answer was read back
	SawUnknown    = "unknown"     // an attempt ended without knowing
	SawReleased   = "released"    // nothing was done and the key is free again
	SawSettled    = "settled"     // an attempt reached a final state
	SawTooLate    = "too_late"    // a request was older than its deadline
)

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.Deadline, 5*time.Second)
	set(&c.Margin, time.Second)
	set(&c.AnswerTTL, 24*time.Hour)
	set(&c.MaxWait, 30*time.Second)
	set(&c.PollEvery, 50*time.Millisecond)
	set(&c.WriteTimeout, 5*time.Second)
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
	positive := func(name string, d time.Duration) {
		if d < 0 {
			errs = append(errs, fmt.Errorf("effect: %s is %v, must not be negative", name, d))
		}
	}
	positive("Deadline", c.Deadline)
	positive("Margin", c.Margin)
	positive("MaxWait", c.MaxWait)
	positive("PollEvery", c.PollEvery)
	positive("WriteTimeout", c.WriteTimeout)
	if c.Retries < 0 {
		errs = append(errs, fmt.Errorf("effect: Retries is %d, must not be negative", c.Retries))
	}
	if c.Rerun < RerunNever || c.Rerun > RerunAlways {
		errs = append(errs, fmt.Errorf("effect: Rerun is %d, must be RerunNever, RerunPending or RerunAlways", c.Rerun))
	}
	if c.AnswerTTL < c.Deadline+c.Margin {
		errs = append(errs, fmt.Errorf("effect: AnswerTTL ≥ Deadline + Margin fails: %v < %v + %v: an answer would expire while its own request "+
			"can still be repeated by a takeover", c.AnswerTTL, c.Deadline, c.Margin))
	}
	return errors.Join(errs...)
}
