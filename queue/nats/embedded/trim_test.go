package embedded_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/nats"
	"github.com/retryproof/retryproof/queue/nats/embedded"
)

const window = 300 * time.Millisecond

// receiveInto receives once, which also removes finished messages when that is due,
// and adds what came.
func receiveInto(t testing.TB, q *nats.Queue, got *[]queue.Delivery) {
	t.Helper()
	ds, err := q.Receive(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	*got = append(*got, ds...)
}

// stored asks how many messages the stream holds.
func stored(t testing.TB, q *nats.Queue) uint64 {
	t.Helper()
	s, err := q.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Messages
}

func TestUnfinishedMessageStaysThroughManyWindows(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	q := dial(t, srv, nats.Config{DedupWindow: window, MaxWait: 20 * time.Millisecond, Visibility: 2 * time.Second})
	for i := range 50 {
		send(t, q, message(fmt.Sprintf("m%d", i), fmt.Sprintf("g%d", i)))
	}
	finishAll(t, q, 50)
	send(t, q, message("kept", "g"))
	var held []queue.Delivery
	until(t, "the finished messages to be removed", func() bool {
		receiveInto(t, q, &held)
		return stored(t, q) <= 1
	})
	// It is old by now, and stays: through more than three windows, and until it is
	// delivered again.
	sent := time.Now()
	until(t, "three windows and the next delivery", func() bool {
		receiveInto(t, q, &held)
		if n := stored(t, q); n != 1 {
			t.Fatalf("got %d messages stored, want the one that was not finished", n)
		}
		return time.Since(sent) > 4*window && len(held) > 1
	})
	for _, d := range held {
		if d.ID != "kept" {
			t.Errorf("delivered: got %q, want the message that was not finished", d.ID)
		}
	}
	finish(t, q, held[len(held)-1])
	until(t, "the last message to be removed", func() bool {
		receiveInto(t, q, &held)
		return stored(t, q) == 0
	})
}

// A restarted server knows the ids of stored messages only.
func TestFinishedMessagesStayForTheWindow(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	const long = 5 * window
	q := dial(t, srv, nats.Config{DedupWindow: long, MaxWait: 20 * time.Millisecond})
	before := time.Now()
	for i := range 4 {
		send(t, q, message(fmt.Sprintf("m%d", i), fmt.Sprintf("g%d", i)))
	}
	finishAll(t, q, 4)
	var none []queue.Delivery
	until(t, "the end of the window", func() bool {
		receiveInto(t, q, &none)
		n := stored(t, q)
		over := time.Since(before) >= long
		if !over && n != 4 {
			t.Fatalf("got %d messages stored inside the window, want 4", n)
		}
		return over
	})
}

func TestFinishedMessagesAreRemovedBehindOneThatIsNotFinished(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	q := dial(t, srv, nats.Config{DedupWindow: window, MaxWait: 20 * time.Millisecond, Partitions: 4, Visibility: time.Minute})
	send(t, q, message("poison", "g"))
	poison := receive(t, q)
	for i := range 50 { // some of them wait behind it
		send(t, q, message(fmt.Sprintf("m%d", i), fmt.Sprintf("g%d", i)))
	}
	var others []queue.Delivery
	done := 0
	work := func() uint64 {
		receiveInto(t, q, &others)
		for ; done < len(others); done++ {
			finish(t, q, others[done])
		}
		return stored(t, q)
	}
	until(t, "what is finished to be removed", func() bool { return work() == uint64(1+50-done) && done > 20 })
	if done == 50 {
		t.Error("nothing waits behind the message: the test shows nothing")
	}
	finish(t, q, poison)
	until(t, "all to be removed", func() bool { return work() == 0 })
	seen := map[string]bool{}
	for _, d := range others {
		seen[d.ID] = true
	}
	if len(seen) != 50 {
		t.Errorf("got %d of 50 messages delivered", len(seen))
	}
}

// The ages of messages are the server's to tell: a process that has just started
// removes what is old.
func TestProcessThatJustStartedRemovesOldMessages(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	cfg := nats.Config{DedupWindow: window, MaxWait: 20 * time.Millisecond}
	q := dial(t, srv, cfg)
	for i := range 20 {
		send(t, q, message(fmt.Sprintf("m%d", i), fmt.Sprintf("g%d", i)))
	}
	finishAll(t, q, 20)
	begin := time.Now()
	until(t, "the window to be over", func() bool { return time.Since(begin) > window+100*time.Millisecond })
	send(t, q, message("young", "g"))
	receive(t, dial(t, srv, cfg))
	s, err := q.Stats(t.Context())
	if err != nil || s.Messages != 1 || s.Bytes == 0 {
		t.Errorf("got %+v, %v, want the young message only", s, err)
	}
}

// receive waits for one delivery.
func receive(t testing.TB, q *nats.Queue) queue.Delivery {
	t.Helper()
	var got []queue.Delivery
	until(t, "a delivery", func() bool {
		ds, err := q.Receive(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		got = ds
		return len(got) == 1
	})
	return got[0]
}

func finish(t testing.TB, q *nats.Queue, d queue.Delivery) {
	t.Helper()
	if deleted, err := q.Finish(t.Context(), d); !deleted || err != nil {
		t.Fatalf("Finish(%q): got %v, %v, want true", d.ID, deleted, err)
	}
}
