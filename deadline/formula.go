package deadline

import (
	"fmt"
	"math"
	"time"
)

// Forever is the memory of a guard that is kept as long as the effect's own row.
const Forever time.Duration = math.MaxInt64

// FormulaError says which formula fails, and by which numbers.
type FormulaError struct {
	// Formula is the formula in words.
	Formula string
	// Numbers are the same words as numbers, with the relation that holds instead.
	Numbers string
	// Harm is what can happen.
	Harm string
}

// Error returns all three.
func (e *FormulaError) Error() string {
	return "deadline: " + e.Formula + " fails: " + e.Numbers + ": " + e.Harm
}

// Formula1 checks that a guard remembers a key at least as long as a retry may still
// come: memory ≥ horizon. The horizon is counted from the first send to the last
// retry, a person's own tap included. The memory of a durable row is Forever. The
// error is a *FormulaError (mission C3).
func Formula1(memory, horizon time.Duration) error {
	e := &FormulaError{Formula: "formula 1, how long the guard remembers a key ≥ retry horizon"}
	switch {
	case memory < 0 || horizon <= 0:
		e.Numbers, e.Harm = fmt.Sprintf("%s and %s", Show(memory), Show(horizon)), "the memory must not be negative and the horizon must be positive"
	case memory < horizon:
		e.Numbers, e.Harm = fmt.Sprintf("%s < %s", Show(memory), Show(horizon)), "a later retry looks new and runs again"
	default:
		return nil
	}
	return e
}

// Formula2 checks that a request has begun, or never will, when its client gives up:
// deadline + wait + offset < clientTimeout. The wait is the longest time between the
// client's send and the arrival stamp; the offset is how far the stamping clock may be
// ahead of the one that reads the stamp, 0 when they are one. The error is a
// *FormulaError (mission C3).
func Formula2(deadline, wait, offset, clientTimeout time.Duration) error {
	e := &FormulaError{Formula: "formula 2, server deadline + longest wait before the arrival stamp + clock offset < client timeout"}
	total := sum(deadline, wait, offset)
	switch {
	case deadline <= 0 || wait < 0 || offset < 0 || clientTimeout <= 0:
		e.Numbers = fmt.Sprintf("%s, %s, %s and %s", Show(deadline), Show(wait), Show(offset), Show(clientTimeout))
		e.Harm = "the deadline and the timeout must be positive, the others must not be negative"
	case total >= clientTimeout:
		e.Numbers = fmt.Sprintf("%s + %s + %s = %s ≥ %s", Show(deadline), Show(wait), Show(offset), Show(total), Show(clientTimeout))
		e.Harm = "a request can still begin after its client has given up and started again with a new key"
	default:
		return nil
	}
	return e
}

// sum adds and stays at Forever instead of overflowing.
func sum(parts ...time.Duration) time.Duration {
	var total time.Duration
	for _, d := range parts {
		if d > 0 && total > Forever-d {
			return Forever
		}
		total += d
	}
	return total
}

// Show prints a duration as people write it: 5s, 24h, 30d, forever.
func Show(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == Forever:
		return "forever"
	case d != 0 && d%day == 0 && (d > 2*day || d < -2*day):
		return fmt.Sprintf("%dd", d/day)
	case d != 0 && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d != 0 && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
