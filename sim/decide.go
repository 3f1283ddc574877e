package sim

import "time"

// The world's faults are decisions, numbered in the order in which they are asked
// for. Each is decided by a hash of the seed and its number, not by a stream, so
// that one can be taken back without changing any other: that is how a failing
// run is made shorter.

// splitmix64 is one round of Vigna's SplitMix64.
func splitmix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// chance decides whether something goes wrong, with the given probability.
func (w *World) chance(p float64) bool {
	if !w.faulty || p <= 0 {
		return false
	}
	w.decisions++
	n := w.decisions
	if float64(splitmix64(w.options.Seed^splitmix64(n))>>11)/(1<<53) >= p {
		return false
	}
	if w.options.Suppress[n] {
		return false
	}
	w.hits = append(w.hits, n)
	return true
}

// extent draws how long the fault that was just decided lasts, up to d.
func (w *World) extent(d time.Duration) time.Duration {
	return time.Duration(splitmix64(w.options.Seed+w.decisions*0x632be59bd9b4e019) % uint64(d+1))
}

// pick draws one of n for the fault that was just decided.
func (w *World) pick(n int) int {
	return int(splitmix64(w.options.Seed^w.decisions*0x9fb21c651e98df25) % uint64(n))
}
