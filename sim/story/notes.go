package story

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/push"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/sim"
)

// noting notes what a process does at the queue and at the push provider. The
// truth is what the queue and the provider count: a process that dies in the call
// cannot tell.
func (st *stage) noting(_ *sim.World, p *sim.Process, d payments.Deps) payments.Deps {
	d.Queue = notedQueue{d.Queue, st, p}
	d.Push = notedPush{d.Push, st, p}
	d.Metrics = notedAlerts{d.Metrics, st, p}
	if d.Lister == nil {
		d.Lister = emulator.Direct{Core: st.w.Core()}
	}
	if st.setting.unstamped {
		d.Arrived = nil
	}
	if st.setting.slowRow && p.Name == "api-1" {
		d.Store.Effects = slowRow{d.Store.Effects, st, d.Clock}
	}
	return d
}

// notedAlerts notes when a person is told.
type notedAlerts struct {
	payments.Metrics
	st *stage
	p  *sim.Process
}

func (a notedAlerts) Add(name string, n float64, labels ...string) {
	a.Metrics.Add(name, n, labels...)
	if name == "retryproof_unknown_alerts_total" {
		a.st.say(a.p.Name, a.st.tags[a.p.Name], "alert", "a person is told that it stays UNKNOWN")
	}
}

type notedQueue struct {
	queue.Queue
	st *stage
	p  *sim.Process
}

func (q notedQueue) Send(ctx context.Context, m queue.Message) error {
	st := q.st
	place, before, tag := st.w.Trace().Len(), st.queue(), st.tags[q.p.Name]
	defer func() {
		after := st.queue()
		id := st.names.show(m.ID)
		if after.Sends > before.Sends {
			st.sends = append(st.sends, Send{At: Seconds(st.w.Now()), Event: id, Group: m.Group, New: after.Stored > before.Stored})
		}
		switch {
		case after.Stored > before.Stored:
			st.sayAt(place, q.p.Name, tag, "send", fmt.Sprintf("sends %s, group %s", id, m.Group))
			st.sayAt(place, "queue", tag, "stored", "a new message")
		case after.Dropped > before.Dropped:
			st.sayAt(place, q.p.Name, tag, "send", "sends "+id+" again, same dedup id")
			st.sayAt(place, "queue", tag, "dropped", "accepted and not delivered: seen within the window")
		}
	}()
	return q.Queue.Send(ctx, m)
}

func (q notedQueue) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	got, err := q.Queue.Receive(ctx, limit)
	for _, d := range got {
		what := "receives " + q.st.names.show(d.ID)
		if d.Attempt > 1 {
			what += fmt.Sprintf(", delivery %d of the message", d.Attempt)
		}
		q.st.say(q.p.Name, q.st.tags[q.p.Name], "receive", what)
	}
	return got, err
}

func (q notedQueue) Finish(ctx context.Context, d queue.Delivery) (bool, error) {
	deleted, err := q.Queue.Finish(ctx, d)
	if deleted {
		q.st.say("queue", q.st.tags[q.p.Name], "finish", "the message is deleted")
	}
	return deleted, err
}

type notedPush struct {
	notify.Sender
	st *stage
	p  *sim.Process
}

func (s notedPush) Send(ctx context.Context, n push.Notification) error {
	st := s.st
	place, before, tag := st.w.Trace().Len(), st.notifications(), st.tags[s.p.Name]
	defer func() {
		after := st.notifications()
		if after.Alerts == before.Alerts {
			return
		}
		what := "pushes without a replace id"
		if n.ReplaceID != "" {
			what = "pushes, replace id " + st.names.show(n.ReplaceID)
		}
		st.sayAt(place, s.p.Name, tag, "push", what)
		st.sayAt(place, "screen", tag, "screen", fmt.Sprintf("%q: %d shown, %d %s so far", n.Body, after.Shown, after.Alerts, plural(after.Alerts, "alert")))
	}()
	return s.Sender.Send(ctx, n)
}

func plural(n int64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
