package sim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
)

// A node's loop looks for work when there may be some. In production it looks every few
// milliseconds and mostly finds nothing; here the world knows, from what went through
// its seams, when the next thing can become due. Now and then a node looks all the
// same, so that faults meet such looks, too, and so that nothing depends on the world
// being right: it only makes looks rarer.

// rows are the events in the outbox, in the order in which they were stored.
type rows []outRow

type outRow struct {
	id, group string
	// free is when a relay may claim it, by the clocks.
	free time.Time
}

// at is the place of an event, -1 when it is not there.
func (r rows) at(id string) int {
	return slices.IndexFunc(r, func(o outRow) bool { return o.id == id })
}

// free sets when an event may be claimed.
func (w *World) free(id string, when time.Time) {
	if i := w.rows.at(id); i >= 0 {
		w.rows[i].free = when
		w.stir("relay")
	}
}

// gone: the outbox does not have the event any more.
func (w *World) gone(id string) {
	if i := w.rows.at(id); i >= 0 {
		w.rows = slices.Delete(w.rows, i, i+1)
		w.stir("relay") // for the next of its group
	}
}

// stored: a settlement has moved and brought events.
func (w *World) stored(s effect.Settle) {
	for _, e := range s.Events {
		w.rows = append(w.rows, outRow{id: e.ID, group: e.Group})
	}
	if len(s.Events) > 0 {
		w.stir("relay")
	}
}

// claimed: a relay has leased events.
func (w *World) claimed(c outbox.Claim, got []outbox.Row) {
	for _, r := range got {
		if i := w.rows.at(r.ID); i >= 0 {
			w.rows[i].free = c.Until.Add(clock.Precision)
		}
	}
}

// next is when the first event may be claimed. One waits for those of its group before
// it.
func (r rows) next() (time.Time, bool) {
	first, some := time.Time{}, false
	for i, o := range r {
		behind := slices.ContainsFunc(r[:i], func(before outRow) bool { return before.group == o.group })
		if !behind && (!some || o.free.Before(first)) {
			first, some = o.free, true
		}
	}
	return first, some
}

// overdue is when a notification that nobody has tried is due.
const overdue = 5 * time.Minute

// notices are the notifications that are not sent yet, in the order in which they were
// stored.
type notices []notice

type notice struct {
	key notify.Key
	// due is when the notifier may claim it, by the clocks.
	due time.Time
}

// next is when the first notification may be claimed.
func (all notices) next() (time.Time, bool) {
	first, some := time.Time{}, false
	for _, n := range all {
		if !some || n.due.Before(first) {
			first, some = n.due, true
		}
	}
	return first, some
}

// intended: messages were applied that are to be announced.
func (w *World) intended(intents []notify.Intent) {
	for _, i := range intents {
		w.notices = append(w.notices, notice{i.Key, i.CreatedAt.Add(overdue)})
	}
	w.stir("notifier")
}

// postponed: a notification is due at another time.
func (w *World) postponed(k notify.Key, due time.Time) {
	for i := range w.notices {
		if w.notices[i].key == k {
			w.notices[i].due = due
		}
	}
	w.stir("notifier")
}

// announced: a notification needs nobody any more.
func (w *World) announced(k notify.Key) {
	w.notices = slices.DeleteFunc(w.notices, func(n notice) bool { return n.key == k })
}

// guarded: a guard is now as given; a final one needs nobody.
func (a *auditor) guarded(f *facts, g *effect.Guard) {
	f.state = g.State
	i := slices.Index(a.unfinished, f)
	if g.State.Final() {
		if i >= 0 {
			a.unfinished = slices.Delete(a.unfinished, i, i+1)
		}
		return
	}
	if i < 0 {
		a.unfinished = append(a.unfinished, f)
	}
	f.due = g.Until.Add(a.w.margin)
	if g.State == effect.Unknown && g.NextAt.After(f.due) {
		f.due = g.NextAt
	}
	a.w.stir("resolver")
}

// released: a guard is gone, as if it had never been.
func (a *auditor) released(id string) {
	a.unfinished = slices.DeleteFunc(a.unfinished, func(f *facts) bool { return f.id == id })
}

// nextQuestion is when the first payment or refund may be asked about.
func (a *auditor) nextQuestion() (time.Time, bool) {
	first, some := time.Time{}, false
	for _, f := range a.unfinished {
		if a.w.options.Config.ResolveUnknownOnly && f.state != effect.Unknown {
			continue
		}
		if !some || f.due.Before(first) {
			first, some = f.due, true
		}
	}
	return first, some
}

// anyUnknown reports that a person would find something in the list of what is UNKNOWN.
func (a *auditor) anyUnknown() bool {
	return slices.ContainsFunc(a.unfinished, func(f *facts) bool { return f.state == effect.Unknown })
}

// due is when there may be work for a node, in true time; false when nothing is known
// of.
func (w *World) due(n *Node) (time.Duration, bool) {
	var when time.Time
	var some bool
	switch n.Role {
	case "relay":
		when, some = w.rows.next()
	case "resolver":
		when, some = w.audit.nextQuestion()
	case "notifier":
		when, some = w.notices.next()
	case "worker":
		if when, some = w.queue.NextDue(); some {
			return when.Sub(Epoch), true // by the queue's clock, which is right
		}
	}
	if !some {
		return 0, false
	}
	return n.p.trueTime(when.Add(2 * clock.Precision)), true
}

// look is when a resting node may look next.
func (w *World) look(n *Node) time.Duration {
	at := n.restless
	if due, some := w.due(n); some {
		at = min(at, due)
	}
	return max(at, n.notBefore)
}

// stir lets the resting nodes of a role look earlier, when there is reason to.
func (w *World) stir(role string) {
	for _, n := range w.nodes {
		if n.Role != role || n.resting == nil || n.p.dead {
			continue
		}
		if at := w.look(n) + n.lag; at < n.resting.wake.at {
			w.drop(n.resting.wake)
			n.resting.wake = w.at(at, n.resting, nil)
		}
	}
}

// rest parks a node's loop until there is reason to look, for the given pause at least.
func (w *World) rest(n *Node, p *Process, pause time.Duration) {
	most := cmp.Or(w.options.Restless, time.Minute)
	n.notBefore, n.restless = w.now+pause, w.now+w.upTo(most)
	if w.healed {
		n.restless += 10 * most
	}
	if n.lag = 0; w.rand.IntN(2) == 0 { // who is faster differs: of two nodes, and of resolver and buyers
		n.lag = w.upTo(time.Second)
		if n.Role == "resolver" {
			n.lag *= 20
		}
	}
	for at := w.look(n); at > w.now; at = w.look(n) {
		n.resting = w.current
		_ = w.wait(nil, at+n.lag-w.now)
		n.resting = nil
		p.resumeAfterPause()
	}
}

// startLoop runs the node's step again and again, with rests between.
func (w *World) startLoop(n *Node) {
	step := n.System.WorkOnce
	switch n.Role {
	case "api":
		return
	case "relay":
		step = func(ctx context.Context) (int, error) { return n.System.RelayOnce(ctx, 0) }
	case "resolver":
		step = n.System.ResolveOnce
	case "notifier":
		step = n.System.NotifyOnce
	}
	p := n.p
	w.Go(p, w.upTo(50*time.Millisecond), func() {
		const shortest, afterError, longest = 50 * time.Millisecond, time.Second, 2 * time.Minute
		pause := shortest
		for {
			w.rest(n, p, pause)
			done, err := step(background)
			due, some := w.due(n)
			switch {
			case done > 0 || !some || due > w.now:
				pause = shortest
			case err != nil:
				pause = min(16*pause, afterError)
			default: // it does not find what is due
				pause = min(16*pause, longest)
			}
		}
	})
}
