package queuetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/queue"
)

func repeatIsDroppedAndReportsSuccess(r *run) {
	r.open()
	m := message("m1", "g")
	r.send(m, m) // while it waits
	d := r.next("m1")
	r.send(m) // while it is in flight
	r.retry(d, 0)
	d = r.next("m1")
	r.send(m) // while it is in flight again
	r.finish(d)
	r.send(m) // after it is finished
	r.quiet()
}

func idIsRememberedAfterFinish(r *run) {
	r.open()
	for i := range 5 {
		m := message(fmt.Sprintf("m%d", i), "g")
		r.send(m)
		r.finish(r.next(m.ID))
		r.send(m)
	}
	r.quiet()
}

// windowIsNotExtended sends one id at the start, at two thirds and at the very
// end of the window, where it must be dropped, and after the window, where it
// must come again.
//
// case 38
func windowIsNotExtended(r *run) {
	window := 3 * r.tr.Short
	r.openWith(Windows{DedupWindow: window, Visibility: 30 * time.Second})
	// A slow machine in real time may miss the end of the window. Then nothing was
	// shown and the case starts over.
	for try := range 5 {
		if r.windowOnce(fmt.Sprintf("x%d", try), window) {
			return
		}
	}
	r.Fatal("the machine is too slow to send inside the window")
}

func (r *run) windowOnce(id string, window time.Duration) bool {
	r.Helper()
	m := message(id, "g")
	first := r.elapsed()
	r.send(m)
	accepted := r.elapsed()
	d := r.next(id)
	sentAt := d.SentAt
	r.finish(d)
	for _, at := range []time.Duration{window * 2 / 3, window - max(window/3000, r.tr.Slack)} {
		r.quietUntil(first + at)
		r.send(m)
		if r.elapsed()-first >= window {
			r.drainAny()
			return false
		}
		r.quietWithin(first + window)
	}
	for {
		r.send(m)
		sent := r.elapsed()
		if ds := r.receive(1); len(ds) > 0 {
			if sent-first < window-r.tr.Slack {
				r.Fatalf("repeat at %v was delivered, want it dropped inside the window of %v", sent-first, window)
			}
			if d := ds[0]; d.ID != id || d.Attempt != 1 || !d.SentAt.After(sentAt) {
				r.Errorf("after the window: got %q, attempt %d, sent at %v, want %q as a new message sent after %v", d.ID, d.Attempt, d.SentAt, id, sentAt)
			}
			r.finish(ds[0])
			return true
		}
		now := r.elapsed()
		if now-accepted > window+window/1000+r.tr.Patience {
			r.Fatalf("repeat at %v was dropped, want it delivered after the window of %v", now-accepted, window)
		}
		if last := first + window - clock.Precision; now < last {
			r.pass(min(window/50, last-now))
		} else {
			r.pass(window / 3000)
		}
	}
}

// quietWithin wants nothing delivered now; real time that runs past the moment
// proves nothing and is let go.
func (r *run) quietWithin(until time.Duration) {
	r.Helper()
	if ds := r.receive(10); len(ds) > 0 && r.asked < until {
		r.Fatalf("delivered at %v: got %q, want the repeat dropped", r.elapsed(), ds[0].ID)
	}
}

// drainAny finishes what is left over from an attempt that proved nothing.
func (r *run) drainAny() {
	until := r.elapsed() + r.tr.Settle
	for r.elapsed() <= until {
		for _, d := range r.receive(10) {
			r.finish(d)
		}
		r.pass(clock.Precision)
	}
}

func theIDAloneDecides(r *run) {
	r.open()
	first := message("m1", "g")
	other := queue.Message{ID: "m1", Group: "g", Type: "another.type", Body: []byte("another body")}
	twin := message("m1", "g")
	twin.ID = "m2" // the body of m1 under another id
	r.send(first, other, twin)
	ds := r.drain(2)
	r.same(ds[0], first)
	r.same(ds[1], twin)
}

func dedupScopeHolds(r *run) {
	r.open()
	r.send(message("m1", "g1"), message("m1", "g2"))
	if r.tr.DedupPerGroup {
		r.drain(2)
		return
	}
	if d := r.drain(1)[0]; d.Group != "g1" {
		r.Errorf("group of the message that was kept: got %q, want %q", d.Group, "g1")
	}
}

func concurrentSendsOfOneIDGiveOneMessage(r *run) {
	r.open()
	const senders, messages = 8, 20
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for i := range messages {
				m := message(fmt.Sprintf("m%d", i), fmt.Sprintf("g%d", i%5))
				if err := r.q.Send(context.Background(), m); err != nil {
					r.Errorf("Send(%q): got error %v, want nil", m.ID, err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]int{}
	for _, d := range r.drain(messages) {
		seen[d.ID]++
	}
	if len(seen) != messages {
		r.Errorf("got %d different messages, want %d", len(seen), messages)
	}
}
