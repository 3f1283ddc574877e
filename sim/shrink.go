package sim

import "slices"

// Shrunk is a failing run with as few faults as were found to be enough.
type Shrunk struct {
	Plan Plan
	// Faults is how many decisions went wrong before and after.
	FaultsBefore, FaultsAfter int
	// Runs is how many runs it took.
	Runs   int
	Result Result
}

// Shrink makes a failing run shorter: it takes back the faults that the harm does
// not need, first in large pieces and then one by one (delta debugging), and then
// the buyers and nodes that it does not need. At most maxRuns runs are made.
func Shrink(p Plan, failed Result, maxRuns int) Shrunk {
	s := Shrunk{Plan: p, Result: failed, FaultsBefore: len(failed.Hits)}
	same := func(q Plan) bool {
		if s.Runs >= maxRuns {
			return false
		}
		s.Runs++
		r, err := Run(q)
		if err != nil || r.Violation == nil || r.Violation.Rule != failed.Violation.Rule {
			return false
		}
		s.Plan, s.Result = q, r
		return true
	}
	// A run with fewer buyers is another run; the first that fails alike is taken.
	for _, less := range []func(*Plan){
		func(q *Plan) { q.Buyers = 1 }, func(q *Plan) { q.IntentsEach = 1 }, func(q *Plan) { q.Workers = 1 },
		func(q *Plan) { q.Relays = 1 }, func(q *Plan) { q.APIs = 1 },
	} {
		q := s.Plan
		less(&q)
		same(q)
	}
	for piece := len(s.Result.Hits); piece >= 1; piece /= 2 {
		for at := 0; at < len(s.Result.Hits); {
			q := s.Plan
			q.Suppress = with(q.Suppress, s.Result.Hits[at:min(at+piece, len(s.Result.Hits))])
			if !same(q) {
				at += piece
			}
		}
	}
	q := s.Plan
	q.KeepTrace = true
	if r, err := Run(q); err == nil {
		s.Plan, s.Result = q, r
	}
	s.FaultsAfter = len(s.Result.Hits)
	return s
}

// with is a copy of the set with more in it.
func with(set map[uint64]bool, more []uint64) map[uint64]bool {
	out := make(map[uint64]bool, len(set)+len(more))
	for n := range set { // order: copied into a set
		out[n] = true
	}
	for _, n := range more {
		out[n] = true
	}
	return out
}

// Timeline is what a person needs to see of a trace: the faults, the harm, and what
// happened to the payment that was harmed.
func (s Shrunk) Timeline() []Event {
	if s.Result.Trace == nil {
		return nil
	}
	quiet := []string{"outbox claim", "queue receive", "due", "outbox stats"}
	var out []Event
	for _, e := range s.Result.Trace.Events {
		if e.How == "ok" && slices.Contains(quiet, e.What) {
			continue
		}
		out = append(out, e)
	}
	return out
}
