package story

import (
	"fmt"
	"time"

	"github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/sim"
)

// hopSteps are events 1 to 19, with another fault for w1.
func hopSteps(p Params, fault sim.ScriptedFault) []step {
	steps := append(graySteps(p), tailSteps(p)...)
	for i := range steps {
		if steps[i].tag == "work 1" {
			steps[i].faults = []sim.ScriptedFault{fault}
		}
	}
	return steps
}

func queueBranches() []scenario {
	steps := func(p Params) []step { return hopSteps(p, workerDiesAfter) }
	return []scenario{{
		group: "Queue, log and notification branches", id: "content-dedup", title: "The queue compares bodies, and the body counts attempts",
		moral: "Every repeat looks new to the queue; the inbox still credits once.",
		needs: mainNeeds,
		world: func(Params) setting {
			return setting{queue: memory.Config{ContentBasedDedup: true}, twins: []sim.Twin{countedBody()}}
		},
		steps:  steps,
		expect: func(p Params, r *Result, c *checks) { expectRepeats(p, r, c, never) },
	}, {
		group: "Queue, log and notification branches", id: "group-change", title: "A repeat comes in another message group",
		moral: "The queue compares within a group only, so a repeat that changes its group is not recognised; the inbox still credits once.",
		needs: mainNeeds,
		world: func(Params) setting {
			return setting{queue: memory.Config{DedupScope: memory.PerGroup}, twins: []sim.Twin{changedGroup()}}
		},
		steps:  steps,
		expect: func(p Params, r *Result, c *checks) { expectRepeats(p, r, c, newGroup) },
	}}
}

// expectRepeats checks a queue that recognises no repeat.
func expectRepeats(p Params, r *Result, c *checks, d dedup) {
	q := predict(p, d)
	c.given("repeats that the queue recognised", r.Queue.Dropped, 0)
	c.given("messages", r.Queue.Stored, len(q.sends))
	var want []Send
	for i, at := range q.sends {
		group := merchant
		if d == newGroup && i > 0 {
			group = fmt.Sprintf("%s, try %d", merchant, i+1)
		}
		want = append(want, Send{At: Seconds(at), Event: "ev_7", Group: group, New: true})
	}
	c.chosen("the sends", fmt.Sprint(r.Sends), fmt.Sprint(want))
	expectTail(p, r, c, q)
	c.given("charged in total", r.ChargedTotal, p.Amount)
}

func noticeBranches() []scenario {
	pushes := func(p Params) []step { return hopSteps(p, workerDiesAfter) }
	early := func(p Params) []step {
		return hopSteps(p, sim.ScriptedFault{Node: "w1", Op: "push send", Do: "crash-before"})
	}
	return []scenario{{
		group: "Queue, log and notification branches", id: "N-none", title: "A worker without a notification record and without a replace id",
		moral: "Every delivery stacks another notification.",
		needs: mainNeeds,
		world: func(Params) setting { return setting{twins: []sim.Twin{unrecorded(false)}} },
		steps: pushes,
		expect: func(p Params, r *Result, c *checks) {
			expectPushes(p, r, c, func(deliveries int64) int64 { return deliveries })
		},
	}, {
		group: "Queue, log and notification branches", id: "N-replace", title: "A replace id, and still no notification record",
		moral: "The screen shows one notification, and the phone rang every time.",
		needs: mainNeeds,
		world: func(Params) setting { return setting{twins: []sim.Twin{unrecorded(true)}} },
		steps: pushes,
		expect: func(p Params, r *Result, c *checks) {
			expectPushes(p, r, c, func(deliveries int64) int64 { return min(deliveries, 1) })
		},
	}, {
		group: "Queue, log and notification branches", id: "R", title: "A repeat that is only acknowledged",
		moral: "The merchant was credited and the buyer is never told: the retry took done for notified.",
		needs: mainNeeds,
		world: func(Params) setting { return setting{twins: []sim.Twin{onlyAcknowledges()}} },
		steps: early,
		expect: func(p Params, r *Result, c *checks) {
			expectTold(p, r, c, false)
		},
	}, {
		group: "Queue, log and notification branches", id: "R-rule", title: "A repeat that finishes what is unfinished",
		moral: "The same crash, and the redelivery sends the notification.",
		needs: mainNeeds,
		steps: early,
		expect: func(p Params, r *Result, c *checks) {
			expectTold(p, r, c, true)
		},
	}}
}

// expectPushes checks a worker that pushes on every delivery.
func expectPushes(p Params, r *Result, c *checks, shown func(deliveries int64) int64) {
	q := predict(p, byID)
	show := func(n Notifications) string { return fmt.Sprintf("%d shown, %d alerts", n.Shown, n.Alerts) }
	if second := p.WorkAt + p.Visibility; second < p.RelayLastAt {
		n := before(q.deliveries, second)
		c.given("after 18: the screen", show(r.snapshot("P4").Notifications), show(Notifications{shown(n), n}))
	}
	n := before(q.deliveries, max(p.RelayLastAt, p.WorkAt+p.Visibility))
	c.given("after 19: the screen", show(r.Notifications), show(Notifications{shown(n), n}))
	c.given("m1 at the end", r.Balances[merchant], p.Opening+p.Amount)
	c.chosen("credits", creditList(r.Credits), fmt.Sprintf("%s to m1 for ev_7", amount(p.Amount)))
}

// expectTold checks whether a push that a worker died before is sent at all: with
// the rule, by the next delivery.
func expectTold(p Params, r *Result, c *checks, rule bool) {
	q := predict(p, byID)
	var alerts []time.Duration
	switch died := len(q.deliveries) > 0 && q.deliveries[0] == p.WorkAt; {
	case !died:
		alerts = q.deliveries[:1]
	case rule:
		alerts = q.deliveries[1:2]
	}
	count := func(at time.Duration) Notifications {
		n := before(alerts, at)
		return Notifications{n, n}
	}
	if second := p.WorkAt + p.Visibility; second < p.RelayLastAt {
		c.given("after 18: shown and alerts", r.snapshot("P4").Notifications, count(second))
	}
	c.given("at the end: shown and alerts", r.Notifications, count(max(p.RelayLastAt, p.WorkAt+p.Visibility)))
	c.given("m1 at the end", r.Balances[merchant], p.Opening+p.Amount)
	c.chosen("credits", creditList(r.Credits), fmt.Sprintf("%s to m1 for ev_7", amount(p.Amount)))
	c.given("pushes", moments(r.moments("push")), moments(alerts))
}
