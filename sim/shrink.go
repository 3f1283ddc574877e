package sim

import (
	"cmp"
	"slices"
	"time"
)

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

// Fault is one thing that went wrong, as a trace shows it.
type Fault struct {
	// Event is the event in which it shows: an answer that is lost, a crash, a call
	// that comes late.
	Event Event
	// Late is how much later the event comes than without the fault, for a call that
	// is only slow.
	Late time.Duration
}

// Faults finds in the trace of the shrunk run where its faults show, in their order: it
// runs the plan once more for each, without that fault. Up to it the two runs are the
// same.
func (s Shrunk) Faults() ([]Fault, error) {
	if s.Result.Trace == nil {
		return nil, nil
	}
	var out []Fault
	for _, hit := range s.Result.Hits {
		q := s.Plan
		q.Suppress = with(q.Suppress, []uint64{hit})
		r, err := Run(q)
		if err != nil {
			return nil, err
		}
		if f, ok := firstDifference(s.Result.Trace.Events, r.Trace.Events); ok {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b Fault) int { return cmp.Compare(a.Event.N, b.Event.N) })
	return out, nil
}

// firstDifference compares a trace with the one without one of its faults.
func firstDifference(faulty, without []Event) (Fault, bool) {
	at := 0
	for at < len(faulty) && at < len(without) && faulty[at] == without[at] {
		at++
	}
	if at == len(faulty) {
		return Fault{}, false
	}
	here := faulty[at]
	if at == len(without) || here.How != "ok" && here.How != "arrives" {
		return Fault{Event: here}, true
	}
	missed := without[at]
	for _, e := range faulty[at:] { // it may come later
		if e.Where == missed.Where && e.What == missed.What && e.How == missed.How && e.About == missed.About {
			return Fault{Event: e, Late: e.At - missed.At}, true
		}
	}
	return Fault{Event: here}, true
}

// Timeline is what a person needs to see of a trace: everything but the questions that
// found nothing. The events in which the faults show are always in it.
func (s Shrunk) Timeline(faults []Fault) []Event {
	if s.Result.Trace == nil {
		return nil
	}
	quiet := []string{"outbox claim", "queue receive", "due", "outbox stats"}
	var out []Event
	for _, e := range s.Result.Trace.Events {
		shows := slices.ContainsFunc(faults, func(f Fault) bool { return f.Event.N == e.N })
		if e.How == "ok" && slices.Contains(quiet, e.What) && !shows {
			continue
		}
		out = append(out, e)
	}
	return out
}
