package queuetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/queue"
)

func groupNames(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}

func groupKeepsItsOrder(r *run) {
	r.open()
	want := groupNames("m", 12)
	for _, id := range want {
		r.send(message(id, "g"))
	}
	for _, id := range want {
		r.finish(r.next(id))
	}
	r.quiet()
}

func groupKeepsItsOrderUnderRedelivery(r *run) {
	r.openShort()
	r.send(message("m1", "g"), message("m2", "g"), message("m3", "g"))
	r.retry(r.next("m1"), 0)
	r.next("m1") // its receiver dies
	r.finish(r.nextAt(r.asked+r.w.Visibility, "m1"))
	d := r.next("m2")
	at := r.elapsed()
	r.retry(d, r.w.Visibility/2)
	r.finish(r.nextAt(at+r.w.Visibility/2, "m2"))
	r.finish(r.next("m3"))
	r.quiet()
}

func oneOfAGroupAtATime(r *run) {
	r.open()
	r.send(message("m1", "g"), message("m2", "g"), message("m3", "g"))
	for _, id := range []string{"m1", "m2", "m3"} {
		ds := r.receiveAny(10)
		if len(ds) != 1 || ds[0].ID != id {
			r.Fatalf("got %q, want %q alone", ids(ds), id)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				ds, err := r.q.Receive(context.Background(), 10)
				if err != nil || len(ds) > 0 {
					r.Errorf("Receive while %q is in flight: got %q, %v, want nothing", id, ids(ds), err)
				}
			})
		}
		wg.Wait()
		r.finish(ds[0])
	}
	r.quiet()
}

// receiveAny returns the first deliveries that come.
func (r *run) receiveAny(limit int) []queue.Delivery {
	r.Helper()
	until := r.elapsed() + r.tr.Patience
	for {
		if ds := r.receive(limit); len(ds) > 0 {
			return ds
		}
		if r.elapsed() >= until {
			r.Fatal("got no delivery, want one")
		}
		r.pass(until - r.elapsed())
	}
}

func otherGroupsGoOn(r *run) {
	r.open()
	r.send(message("first", "blocked"), message("second", "blocked"))
	d := r.next("first")
	left := r.othersGoOn()
	r.finish(d)
	r.drain(left + 1)
}

func retryDelaysNoOtherGroup(r *run) {
	r.open()
	r.send(message("first", "blocked"), message("second", "blocked"))
	r.retry(r.next("first"), time.Hour)
	r.othersGoOn()
}

// othersGoOn sends to many groups and wants them delivered although one group is
// blocked. It returns how many were not, which is 0 unless lanes are shared.
func (r *run) othersGoOn() int {
	r.Helper()
	const n = 40
	for _, g := range groupNames("other", n) {
		r.send(message("of-"+g, g))
	}
	want := n
	if r.tr.SharedLanes {
		want = n / 2
	}
	got := 0
	until := r.elapsed() + r.tr.Patience
	for {
		ds := r.receive(10)
		for _, d := range ds {
			if d.Group == "blocked" {
				r.Fatalf("got %q of the blocked group, want other groups only", d.ID)
			}
			r.finish(d)
		}
		got += len(ds)
		now := r.elapsed()
		switch {
		case len(ds) > 0 && got >= want:
			until = now + r.tr.Settle
		case len(ds) > 0:
			until = now + r.tr.Patience
		case now >= until && got < want:
			r.Fatalf("while a group is blocked: got %d messages of %d other groups, want at least %d", got, n, want)
		case now >= until:
			return n - got
		default:
			r.pass(until - now)
		}
	}
}

// crowd checks what many receivers see together.
type crowd struct {
	mu       sync.Mutex
	busy     map[string]bool
	finished map[string]int
	total    int
}

// begin notes a delivery and returns what is wrong with it, "" for nothing.
func (c *crowd) begin(d queue.Delivery) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[d.Group] {
		return fmt.Sprintf("group %q: got %q while another is in flight, want one at a time", d.Group, d.ID)
	}
	c.busy[d.Group] = true
	if want := fmt.Sprintf("%s/%d", d.Group, c.finished[d.Group]); d.ID != want {
		return fmt.Sprintf("group %q: got %q, want %q", d.Group, d.ID, want)
	}
	return ""
}

func (c *crowd) end(d queue.Delivery, finished bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[d.Group] = false
	if finished {
		c.finished[d.Group]++
		c.total++
	}
}

func (c *crowd) done() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

func manyReceiversKeepOrder(r *run) {
	r.open()
	const receivers, each = 6, 15
	groups := groupNames("g", 12)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second+4*r.tr.Patience) // many deliveries on a busy machine
	defer cancel()
	c := &crowd{busy: map[string]bool{}, finished: map[string]int{}}
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() {
			for i := range each {
				m := message(fmt.Sprintf("%s/%d", g, i), g)
				if err := r.q.Send(ctx, m); err != nil {
					r.Errorf("Send(%q): got error %v, want nil", m.ID, err)
				}
			}
		})
	}
	for range receivers {
		wg.Go(func() {
			for c.done() < len(groups)*each && ctx.Err() == nil && !r.Failed() {
				r.workOnce(ctx, c)
			}
		})
	}
	wg.Wait()
	if got, want := c.done(), len(groups)*each; got != want {
		r.Fatalf("got %d messages finished, want %d", got, want)
	}
	r.quiet()
}

// workOnce receives and finishes; every fourth message is tried a second time.
func (r *run) workOnce(ctx context.Context, c *crowd) {
	ds, err := r.q.Receive(ctx, 3)
	if err != nil {
		r.Errorf("Receive: got error %v, want nil", err)
	}
	if len(ds) == 0 {
		_ = clock.System().Sleep(ctx, time.Millisecond) // let the others run
	}
	for _, d := range ds {
		if wrong := c.begin(d); wrong != "" {
			r.Error(wrong)
			return
		}
		again := d.Attempt == 1 && len(d.ID)%4 == 0
		c.end(d, !again) // from here the next may come
		if again {
			err = r.q.Retry(ctx, d, 0)
		} else {
			_, err = r.q.Finish(ctx, d)
		}
		if err != nil {
			r.Errorf("settling %q: got error %v, want nil", d.ID, err)
		}
	}
}
