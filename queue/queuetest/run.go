package queuetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/queue"
)

// run is one case on one driver.
type run struct {
	testing.TB
	tr         Traits
	openDriver Open

	q       queue.Queue
	d       Driver
	w       Windows
	began   time.Time
	virtual time.Duration
	asked   time.Duration // when the last Receive began
}

// open opens the driver with windows that no case outlasts.
func (r *run) open() { r.openWith(Windows{DedupWindow: 5 * time.Minute, Visibility: 30 * time.Second}) }

// openShort opens the driver with a visibility timeout that a case can wait for.
func (r *run) openShort() {
	r.openWith(Windows{DedupWindow: 5 * time.Minute, Visibility: r.tr.Short})
}

func (r *run) openWith(w Windows) {
	r.Helper()
	r.w = w
	r.d = r.openDriver(r.TB, w)
	r.q = r.d.Queue
	r.began = clock.System().Now()
}

// elapsed is the time since the driver was opened, virtual if the driver is.
func (r *run) elapsed() time.Duration {
	if r.d.Advance != nil {
		return r.virtual
	}
	return clock.System().Now().Sub(r.began)
}

// pass lets up to d go by: all of it in virtual time, a moment in real time,
// where the caller looks again what the time is.
func (r *run) pass(d time.Duration) {
	if r.d.Advance != nil {
		r.virtual += d
		r.d.Advance(d)
		return
	}
	_ = clock.System().Sleep(context.Background(), min(d, 2*time.Millisecond))
}

// message builds a message whose body is derived from its id.
func message(id, group string) queue.Message {
	return queue.Message{ID: id, Group: group, Type: "test.happened", Body: fmt.Appendf(nil, `{"id":%q}`, id)}
}

func (r *run) send(ms ...queue.Message) {
	r.Helper()
	for _, m := range ms {
		if err := r.q.Send(context.Background(), m); err != nil {
			r.Fatalf("Send(%q): got error %v, want nil", m.ID, err)
		}
	}
}

func (r *run) receive(limit int) []queue.Delivery {
	r.Helper()
	r.asked = r.elapsed()
	ds, err := r.q.Receive(context.Background(), limit)
	if err != nil {
		r.Fatalf("Receive: got error %v, want nil", err)
	}
	return ds
}

func (r *run) finish(d queue.Delivery) {
	r.Helper()
	if deleted, err := r.q.Finish(context.Background(), d); !deleted || err != nil {
		r.Fatalf("Finish(%q): got %v and error %v, want it deleted", d.ID, deleted, err)
	}
}

// finishTooLate finishes with a receipt that is no longer current.
func (r *run) finishTooLate(d queue.Delivery) {
	r.Helper()
	if deleted, err := r.q.Finish(context.Background(), d); deleted || err != nil {
		r.Fatalf("Finish(%q) with an old receipt: got %v and error %v, want false", d.ID, deleted, err)
	}
}

func (r *run) retry(d queue.Delivery, delay time.Duration) {
	r.Helper()
	if err := r.q.Retry(context.Background(), d, delay); err != nil {
		r.Fatalf("Retry(%q): got error %v, want nil", d.ID, err)
	}
}

// next returns the message that is due now and wants it to be the given one.
func (r *run) next(id string) queue.Delivery {
	r.Helper()
	return r.nextAt(0, id)
}

// nextAt waits for the next delivery and wants it to be the message with the
// given id, at the moment due and not earlier.
func (r *run) nextAt(due time.Duration, id string) queue.Delivery {
	r.Helper()
	due = max(due, 0)
	for {
		if ds := r.receive(1); len(ds) > 0 {
			if ds[0].ID != id {
				r.Fatalf("delivered at %v: got %q, want %q", r.elapsed(), ds[0].ID, id)
			}
			if at := r.elapsed(); at < due-r.tr.Slack {
				r.Fatalf("delivered %q too early: got %v, want %v", id, at, due)
			}
			return ds[0]
		}
		now := r.elapsed()
		if now > due+r.tr.Patience+r.tr.Slack || (r.d.Advance != nil && now >= due) {
			r.Fatalf("not delivered: got nothing up to %v, want %q at %v", now, id, due)
		}
		r.pass(r.step(due))
	}
}

// step is how far virtual time may go without jumping over the last moment
// before due or over due itself.
func (r *run) step(due time.Duration) time.Duration {
	now := r.elapsed()
	if last := due - clock.Precision; now < last {
		return min(r.tr.Short/7, last-now)
	}
	return max(due-now, clock.Precision)
}

// quietUntil wants nothing delivered until the given moment.
func (r *run) quietUntil(until time.Duration) {
	r.Helper()
	for {
		if ds := r.receive(10); len(ds) > 0 {
			r.Fatalf("delivered at %v: got %q, want nothing", r.elapsed(), ds[0].ID)
		}
		now := r.elapsed()
		if now >= until {
			return
		}
		r.pass(min(r.tr.Short/7, until-now))
	}
}

// quiet wants nothing delivered now.
func (r *run) quiet() {
	r.Helper()
	r.quietUntil(r.elapsed() + r.tr.Settle)
}

// drain receives and finishes until want messages are finished and nothing more
// comes for a while. It returns what came, in order.
func (r *run) drain(want int) []queue.Delivery {
	r.Helper()
	var out []queue.Delivery
	until := r.elapsed() + r.tr.Patience
	if want == 0 {
		until = r.elapsed() + r.tr.Settle
	}
	for {
		ds := r.receive(10)
		for _, d := range ds {
			r.finish(d)
		}
		out = append(out, ds...)
		now := r.elapsed()
		switch {
		case len(ds) > 0:
			// A message that keeps coming would come forever.
			if len(out) > want {
				r.Fatalf("got %d deliveries %q, want %d", len(out), ids(out), want)
			}
			until = now + r.tr.Patience
			if len(out) == want {
				until = now + r.tr.Settle
			}
		case now >= until && len(out) < want:
			r.Fatalf("got %d deliveries %q, want %d", len(out), ids(out), want)
		case now >= until:
			return out
		default:
			r.pass(until - now)
		}
	}
}

func ids(ds []queue.Delivery) []string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = d.ID
	}
	return out
}
