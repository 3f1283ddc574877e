// Package backoff is the wait between two tries of one thing: it doubles from a
// shortest to a longest.
package backoff

import (
	"math"
	"time"
)

// Doubling is a wait that doubles from Min up to Max. Both are greater than 0, and
// Min is not more than Max.
type Doubling struct {
	Min, Max time.Duration
}

// After is the wait after so many failures in a row, from 1. Fewer count as 1.
func (d Doubling) After(failures int) time.Duration {
	wait := d.Min
	for range failures - 1 {
		if wait >= d.Max/2 {
			return d.Max
		}
		wait *= 2
	}
	return min(wait, d.Max)
}

// AtLeast is the shortest time that can lie between the first and the last of so
// many tries, when each wait was cut by at most a half, for jitter, and none is
// counted as longer than most: somebody who dies with a thing in hand frees it
// earlier than a long wait ends.
func (d Doubling) AtLeast(tries int, most time.Duration) time.Duration {
	total := time.Duration(0)
	for n := 1; n < tries; n++ {
		whole := d.After(n)
		wait := min(whole/2, most)
		if whole >= d.Max { // and so from here on
			rest := time.Duration(tries - n)
			if wait > 0 && rest > (math.MaxInt64-total)/wait {
				return math.MaxInt64
			}
			return total + rest*wait
		}
		total += wait
	}
	return total
}
