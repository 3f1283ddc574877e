package queuetest

import "time"

func comesAgainAfterTheTimeout(r *run) {
	r.openShort()
	want := message("m1", "g")
	r.send(want)
	r.next("m1")
	for range 2 {
		r.same(r.nextAt(r.asked+r.w.Visibility, "m1"), want)
	}
}

func attemptCountsDeliveries(r *run) {
	r.openShort()
	r.send(message("m1", "g"), message("m2", "g"))
	d := r.next("m1")
	sentAt := d.SentAt
	check := func(want int) {
		r.Helper()
		if d.Attempt != want {
			r.Errorf("Attempt: got %d, want %d", d.Attempt, want)
		}
		if !d.SentAt.Equal(sentAt) {
			r.Errorf("SentAt of delivery %d: got %v, want %v", want, d.SentAt, sentAt)
		}
	}
	check(1)
	r.retry(d, 0)
	d = r.next("m1")
	check(2)
	d = r.nextAt(r.asked+r.w.Visibility, "m1")
	check(3)
	at := r.elapsed()
	r.retry(d, r.w.Visibility/4)
	d = r.nextAt(at+r.w.Visibility/4, "m1")
	check(4)
	r.finish(d)
	if d = r.next("m2"); d.Attempt != 1 {
		r.Errorf("Attempt of the next message: got %d, want 1", d.Attempt)
	}
}

// staleReceiptChangesNothing lets a receiver lose its delivery to another one
// and then come back.
func staleReceiptChangesNothing(r *run) {
	r.openShort()
	r.send(message("m1", "g"), message("m2", "g"))
	stale := r.next("m1")
	r.nextAt(r.asked+r.w.Visibility, "m1")
	second := r.asked
	r.finishTooLate(stale)
	r.retry(stale, 0)
	r.retry(stale, time.Hour)
	d := r.nextAt(second+r.w.Visibility, "m1")
	if d.Attempt != 3 {
		r.Errorf("Attempt: got %d, want 3", d.Attempt)
	}
	r.finish(d)
	r.finish(r.next("m2"))
	r.quiet()
}

func usedReceiptChangesNothing(r *run) {
	r.open()
	r.send(message("m1", "g"), message("m2", "g"))
	first := r.next("m1")
	r.finish(first)
	r.finishTooLate(first)
	second := r.next("m2")
	r.finishTooLate(first)
	r.retry(first, 0)
	r.quiet()
	at := r.elapsed()
	r.retry(second, r.tr.Short/2)
	r.finishTooLate(second)
	r.finish(r.nextAt(at+r.tr.Short/2, "m2"))
	r.quiet()
}

func retryDelaysTheGroup(r *run) {
	r.openShort()
	r.send(message("m1", "g"), message("m2", "g"))
	for _, delay := range []time.Duration{r.w.Visibility / 3, r.w.Visibility * 3 / 2} { // shorter and longer than the timeout
		d := r.next("m1")
		at := r.elapsed()
		r.retry(d, delay)
		d = r.nextAt(at+delay, "m1")
		r.retry(d, 0)
	}
	r.finish(r.next("m1"))
	r.finish(r.next("m2"))
}

func retryWithoutDelayIsDueAtOnce(r *run) {
	r.open()
	r.send(message("m1", "g"))
	r.retry(r.next("m1"), 0)
	r.retry(r.next("m1"), -time.Second)
	r.next("m1")
}

func (r *run) reopen() {
	r.Helper()
	if r.d.Reopen == nil {
		r.Skip("the driver does not outlive a restart")
	}
	r.q = r.d.Reopen(r.TB)
}

func restartKeepsMessages(r *run) {
	r.openShort()
	r.send(message("m1", "g"), message("m2", "g"), message("m3", "g"))
	r.finish(r.next("m1"))
	r.send(message("n1", "h"))
	r.reopen()
	seen := map[string]bool{}
	var order []string
	for _, d := range r.drain(3) {
		seen[d.ID] = true
		if d.Group == "g" {
			order = append(order, d.ID)
		}
		r.same(d, message(d.ID, d.Group))
	}
	if !seen["n1"] || len(order) != 2 || order[0] != "m2" || order[1] != "m3" {
		r.Errorf("after the restart: got %q of group g and %v, want m2, m3 and n1 of group h", order, seen)
	}
	r.reopen()
	r.quiet()
}

func restartKeepsTheDedupIDs(r *run) {
	r.openShort()
	finished, inFlight, waiting := message("m1", "g"), message("m2", "g"), message("m3", "g")
	r.send(finished, inFlight, waiting)
	r.finish(r.next("m1"))
	r.next("m2")
	r.reopen()
	r.send(finished, inFlight, waiting)
	at := r.elapsed()
	latest := at + r.w.Visibility + r.tr.Short/7 + r.tr.Patience // m2 comes when its timeout has passed
	for r.elapsed() <= latest {
		ds := r.receive(1)
		if len(ds) == 0 {
			r.pass(r.tr.Short / 7)
			continue
		}
		if ds[0].ID != "m2" {
			r.Fatalf("after the restart: got %q, want m2", ds[0].ID)
		}
		r.finish(ds[0])
		r.finish(r.next("m3"))
		r.quiet()
		return
	}
	r.Fatal("after the restart: m2, which was in flight, did not come again")
}
