package sim

import (
	"math/rand/v2"
	"time"
)

// Chaos are the probabilities, per call, of what goes wrong while faults are on.
// The zero value is a world in which nothing does.
type Chaos struct {
	// Refuse: the call fails before it has an effect, and says so.
	Refuse float64
	// Lose: it has its effect and the answer is lost (a COMMIT without an answer,
	// a cut connection).
	Lose float64
	// Late: the caller is told "no answer", and the effect comes later.
	Late float64
	// Slow: it takes up to MaxSlow longer.
	Slow float64
	// Copy: the network delivers it twice (HTTP to the API and to the processor,
	// sends to the queue).
	Copy float64
	// Crash: the process dies at this call, before or after its effect.
	Crash float64
	// Pause: the process stands still after this call, up to MaxPause.
	Pause float64
	// Conflict: the store says that a lock is held.
	Conflict float64
	// Decline: the processor declines the card, for this key forever.
	Decline float64
	// Error500: the processor answers 500 and keeps saying so for this key.
	Error500 float64
	// WebhookOdd: the webhook comes early, late, twice or never.
	WebhookOdd float64
	// Queue: a request waits up to MaxQueue behind the balancer's stamp. Stamp: the
	// stamp is missing, wrong, of somebody whom nobody trusts, or joined by a client's.
	Queue, Stamp float64
	MaxQueue     time.Duration
	// Skew is the largest clock offset, either way; Drift the largest drift.
	Skew  time.Duration
	Drift float64
	// MaxSlow and MaxPause bound slowness and pauses.
	MaxSlow, MaxPause time.Duration
}

// swarm draws a Chaos: every kind of fault is either off or has an intensity of
// its own, so that some runs meet one kind in earnest and others many at once.
func swarm(r *rand.Rand) Chaos {
	draw := func(most float64) float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return most * r.Float64() * r.Float64()
	}
	c := Chaos{
		Refuse: draw(0.15), Lose: draw(0.15), Late: draw(0.08), Slow: draw(0.2), Copy: draw(0.25), Crash: draw(0.03), Pause: draw(0.02),
		Conflict: draw(0.15), Decline: draw(0.2), Error500: draw(0.15), WebhookOdd: draw(1),
		MaxSlow: time.Duration(1+r.IntN(8000)) * time.Millisecond, MaxPause: time.Duration(1+r.IntN(20)) * time.Second,
	}
	if r.IntN(2) == 0 {
		c.Skew = time.Duration(r.IntN(450)) * time.Millisecond
		c.Drift = 1e-5 * r.Float64()
	}
	c.Queue, c.MaxQueue, c.Stamp = draw(0.3), time.Duration(1+r.IntN(20))*time.Second, draw(0.3)
	return c
}

// Counts are what a batch of runs met; a batch that never met one of them has
// proved less than it says.
type Counts struct {
	Crashes     int `json:"crashes"`
	Pauses      int `json:"pauses"`
	Takeovers   int `json:"takeovers"`
	Fenced      int `json:"fenced_writes"`
	LostCommits int `json:"lost_commits"`
	Refusals    int `json:"refusals"`
	Redelivered int `json:"redeliveries"`
	Replays     int `json:"replays"`
	Resolved    int `json:"resolved"`
	Webhooks    int `json:"webhooks"`
	Copies      int `json:"copies"`
	LostReplies int `json:"lost_replies"`
	Repeats     int `json:"inbox_repeats"`
	Declines    int `json:"declines"`
	// Unprovable payments and refunds stayed UNKNOWN, since the processor keeps a 500
	// for their key and holds nothing; a person was told of each.
	Unprovable int `json:"unprovable"`
	// Queued requests waited behind the balancer; TooLate ones were refused for it.
	Queued  int `json:"queued"`
	TooLate int `json:"too_late"`
	// StampsIgnored were missing, unreadable, in the future or not the balancer's.
	StampsIgnored int `json:"stamps_ignored"`
	// Questions are what buyers asked about their keys, Voids the keys that a question
	// voided, VoidMet the requests that met such a key.
	Questions int `json:"questions"`
	Voids     int `json:"voids"`
	VoidMet   int `json:"void_met"`
	// Refunds were made by the processor, RefundsResolved settled by the resolver,
	// RefundsRefused more than what was left.
	Refunds         int `json:"refunds"`
	RefundsResolved int `json:"refunds_resolved"`
	RefundsRefused  int `json:"refunds_refused"`
	// Verdicts were given by an operator, VerdictsMoved came too late to change
	// anything.
	Verdicts      int `json:"verdicts"`
	VerdictsMoved int `json:"verdicts_moved"`
	// LateNotices are notifications that were left to the loop of those that are due.
	LateNotices int `json:"late_notices"`
}

// Add adds another run's counts.
func (c *Counts) Add(o Counts) {
	c.Crashes += o.Crashes
	c.Pauses += o.Pauses
	c.Takeovers += o.Takeovers
	c.Fenced += o.Fenced
	c.LostCommits += o.LostCommits
	c.Refusals += o.Refusals
	c.Redelivered += o.Redelivered
	c.Replays += o.Replays
	c.Resolved += o.Resolved
	c.Webhooks += o.Webhooks
	c.Copies += o.Copies
	c.LostReplies += o.LostReplies
	c.Repeats += o.Repeats
	c.Declines += o.Declines
	c.Unprovable += o.Unprovable
	c.Queued += o.Queued
	c.TooLate += o.TooLate
	c.StampsIgnored += o.StampsIgnored
	c.Questions += o.Questions
	c.Voids += o.Voids
	c.VoidMet += o.VoidMet
	c.Refunds += o.Refunds
	c.RefundsResolved += o.RefundsResolved
	c.RefundsRefused += o.RefundsRefused
	c.Verdicts += o.Verdicts
	c.VerdictsMoved += o.VerdictsMoved
	c.LateNotices += o.LateNotices
}

// Missing names what a batch never met although it should have: faults that no run
// had prove nothing.
func (c Counts) Missing() []string {
	var out []string
	for _, x := range []struct {
		name string
		n    int
	}{
		{"crashes", c.Crashes}, {"takeovers", c.Takeovers}, {"fenced writes", c.Fenced}, {"lost commits", c.LostCommits},
		{"redeliveries", c.Redelivered}, {"replays", c.Replays}, {"pauses", c.Pauses}, {"resolved", c.Resolved}, {"inbox repeats", c.Repeats},
		{"queued requests", c.Queued}, {"requests too late", c.TooLate}, {"stamps ignored", c.StampsIgnored}, {"questions", c.Questions}, {"voids", c.Voids},
		{"void keys met", c.VoidMet}, {"refunds", c.Refunds}, {"refunds resolved", c.RefundsResolved}, {"refunds refused", c.RefundsRefused},
		{"verdicts", c.Verdicts}, {"verdicts too late", c.VerdictsMoved}, {"late notices", c.LateNotices},
	} {
		if x.n == 0 {
			out = append(out, x.name)
		}
	}
	return out
}
