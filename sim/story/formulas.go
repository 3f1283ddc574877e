package story

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/retryproof/retryproof/deadline"
)

// placed is one way to bound how late a request may begin.
type placed struct {
	approach string
	// wait is the longest wait before the moment that the deadline counts from.
	wait  func(Params) time.Duration
	world setting
	// stopped reports whether A1 is stopped in the world that is played.
	stopped func(Params) bool
}

func placements() []placed {
	return []placed{
		{"stamped by the load balancer", func(p Params) time.Duration { return p.Network }, setting{twoKeys: true}, tooLate},
		{"stamped by the thread that picks it up", func(p Params) time.Duration { return p.QueuedUntil - p.Network },
			setting{twoKeys: true, unstamped: true}, func(Params) bool { return false }},
		{"the same, and what waited too long is shed", func(p Params) time.Duration { return p.ShedAfter },
			setting{twoKeys: true, unstamped: true, sheds: true}, func(p Params) bool { return p.QueuedUntil-p.Network > p.ShedAfter }},
	}
}

// formula2 asks the formula itself where it begins to hold, and writes it down.
func formula2(p Params, wait time.Duration) string {
	fails := func(timeout time.Duration) bool { return deadline.Formula2(p.Deadline, wait, 0, timeout) != nil }
	sum := sort.Search(8*maxSeconds*1e6, func(micros int) bool { return !fails(time.Duration(micros+1) * time.Microsecond) })
	return verdict(Seconds(time.Duration(sum)*time.Microsecond).String(), "<", Seconds(p.ClientTimeout).String(), !fails(p.ClientTimeout))
}

func verdict(left, relation, right string, holds bool) string {
	return fmt.Sprintf("%s %s %s %s", left, relation, right, map[bool]string{true: "holds", false: "fails"}[holds])
}

// plays plays a scenario as one row of a table.
func (st *stage) plays(s scenario, approach, why string) Result {
	r, err := s.play(st.p)
	st.note(err)
	told := "nothing"
	for _, a := range r.Answers {
		if !a.Lost && a.Status/100 == 2 {
			told = a.told()
		}
	}
	st.ways = append(st.ways, Way{Approach: approach, Charges: r.Charges, ChargedTotal: r.ChargedTotal, Told: told, Order: r.ChargedTotal > 0, Why: why})
	return r
}

// playFormula2 plays the opening story with keys, once per way to bound a request.
func playFormula2(st *stage) {
	for i, w := range placements() {
		r := st.plays(scenario{id: "formula-2 " + w.approach, world: func(Params) setting { return w.world },
			steps: func(p Params) []step { return lateSteps(p, doLook) }}, w.approach, formula2(st.p, w.wait(st.p)))
		if i == 0 {
			st.best = &r
		}
	}
}

// guardsOf are the two guards of formula 1.
func guardsOf(p Params) []struct {
	id, approach string
	memory       time.Duration
} {
	return []struct {
		id, approach string
		memory       time.Duration
	}{{"main", "the durable row is the guard", deadline.Forever}, {"X", "the key record is the guard", p.KeyWindow}}
}

// formula1 asks the formula itself up to which horizon it holds, and writes it down.
func formula1(memory, horizon time.Duration) string {
	left := "for ever"
	if memory != deadline.Forever {
		past := sort.Search(2*maxSeconds*1e6, func(micros int) bool {
			return deadline.Formula1(memory, time.Duration(micros+1)*time.Microsecond) != nil
		})
		left = Seconds(time.Duration(past) * time.Microsecond).String()
	}
	return verdict(left, "≥", Seconds(horizon).String(), deadline.Formula1(memory, horizon) == nil)
}

func playFormula1(st *stage) {
	for _, g := range guardsOf(st.p) {
		s, err := find(g.id)
		if err != nil {
			st.note(err)
			return
		}
		r := st.plays(s, g.approach, formula1(g.memory, st.p.RetryAt))
		if g.id == "main" {
			st.best = &r
		}
	}
}

func formulaBranches() []scenario {
	return []scenario{{
		group: "Side traces", id: "formula-2", title: "Deadline and waiting stay below the client's timeout",
		moral:   "server deadline + longest wait before the stamp < client timeout. Where it holds, A1 has begun or never will when its phone gives up.",
		needs:   stampNeeds,
		program: playFormula2, expect: expectFormula2,
	}, {
		group: "Side traces", id: "formula-1", title: "The guard remembers at least as long as retries come",
		moral:   "How long the guard remembers a key ≥ the retry horizon. A window fails a buyer who comes back; the row does not.",
		needs:   mainNeeds,
		program: playFormula1, expect: expectFormula1,
	}}
}

// way returns a row, an empty one when there is none.
func (r *Result) way(approach string) Way {
	for _, w := range r.Ways {
		if w.Approach == approach {
			return w
		}
	}
	return Way{}
}

// promise is what a formula promises: where it holds there is one charge, else as
// many as the world makes.
func promise(holds bool, charges int) string {
	if holds {
		return "it holds, and charges: 1"
	}
	return fmt.Sprintf("it fails, and charges: %d", charges)
}

// kept is what came of the promise.
func (w Way) kept() string {
	word := map[bool]string{true: "holds", false: "fails"}[strings.HasSuffix(w.Why, " holds")]
	return fmt.Sprintf("it %s, and charges: %d", word, len(w.Charges))
}

func expectFormula2(p Params, r *Result, c *checks) {
	for _, w := range placements() {
		row := r.way(w.approach)
		sum := p.Deadline + w.wait(p)
		holds := sum < p.ClientTimeout
		c.given(w.approach+": deadline + wait < client timeout", row.Why, verdict(Seconds(sum).String(), "<", Seconds(p.ClientTimeout).String(), holds))
		charges := lateCharges(p, !w.stopped(p))
		c.given(w.approach+": charges", chargeList(row.Charges), chargeList(charges))
		c.chosen(w.approach+": what the formula promises", row.kept(), promise(holds, len(charges)))
	}
}

func expectFormula1(p Params, r *Result, c *checks) {
	q := predict(p, byID)
	for _, g := range guardsOf(p) {
		row := r.way(g.approach)
		left, holds, charged := "for ever", true, p.Amount
		if g.memory != deadline.Forever {
			left, holds = Seconds(g.memory).String(), g.memory >= p.RetryAt
			if !q.remembers(p.RetryAt + p.Network) {
				charged *= 2
			}
		}
		c.given(g.approach+": memory ≥ horizon", row.Why, verdict(left, "≥", Seconds(p.RetryAt).String(), holds))
		c.given(g.approach+": charged", dollars(row.ChargedTotal), dollars(charged))
		c.chosen(g.approach+": what the formula promises", row.kept(), promise(holds, int(charged/p.Amount)))
	}
}
