package embedded_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/nats"
	"github.com/retryproof/retryproof/queue/nats/embedded"
)

// Another stream that took over the subjects has other promises.
func TestSendGoesToItsOwnStreamOnly(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	q := dial(t, srv, nats.Config{})
	js, err := jetstream.New(connect(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "RETRYPROOF_EVENTS"); err != nil {
		t.Fatal(err)
	}
	other, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"retryproof.events.*"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Send(t.Context(), message("m1", "g")); retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("got %v, want not done", err)
	}
	if info, err := other.Info(t.Context()); err != nil || info.State.Msgs != 0 {
		t.Errorf("got %+v, %v, want no message in the other stream", info, err)
	}
}

// The first receiver's process still remembers that the newest delivery was its own.
func TestReceiptIsOverOnceAnotherProcessHasTheMessage(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	cfg := nats.Config{Visibility: 500 * time.Millisecond, MaxWait: 20 * time.Millisecond}
	first, second := dial(t, srv, cfg), dial(t, srv, cfg)
	send(t, first, message("m1", "g"))
	late := receive(t, first)
	again := receive(t, second)
	if deleted, err := first.Finish(t.Context(), late); deleted || err != nil {
		t.Errorf("late Finish: got %v, %v, want false", deleted, err)
	}
	finish(t, second, again)
}

// overfetched returns a queue that waited for one message and was sent many at once,
// so that it holds some that nobody received; another queue; and what was received of
// how many.
func overfetched(t *testing.T, visibility time.Duration) (holds, other *nats.Queue, got []queue.Delivery, n int) {
	t.Helper()
	srv := start(t, embedded.Config{Dir: t.TempDir(), SyncInterval: time.Minute})
	cfg := nats.Config{Visibility: visibility, MaxWait: visibility / 2}
	holds, other = dial(t, srv, cfg), dial(t, srv, cfg)
	received := make(chan []queue.Delivery, 1)
	go func() {
		got, _ := holds.Receive(t.Context(), 1)
		received <- got
	}()
	begin := time.Now()
	until(t, "the receiver to wait", func() bool { return time.Since(begin) > 100*time.Millisecond })
	nc := connect(t, srv)
	for n = range 64 { // all at once, which Send is too careful for
		if err := nc.Publish(fmt.Sprint("retryproof.events.g", n), nil); err != nil {
			t.Fatal(err)
		}
	}
	return holds, other, <-received, n + 1
}

// What one process has fetched and not handed out goes to others when it closes, and
// need not wait for its visibility timeout.
func TestCloseGivesBackWhatNobodyReceived(t *testing.T) {
	t.Parallel()
	holds, other, got, n := overfetched(t, 10*time.Minute)
	for _, d := range got {
		finish(t, holds, d)
	}
	if err := holds.Close(); err != nil {
		t.Fatal(err)
	}
	finishAll(t, other, n-len(got))
}

// After its visibility timeout it may be another process's, or finished.
func TestOldFetchedMessagesAreNotHandedOut(t *testing.T) {
	t.Parallel()
	holds, other, got, n := overfetched(t, 1500*time.Millisecond)
	for _, d := range got {
		finish(t, holds, d)
	}
	finishAll(t, other, n-len(got))
	if late, err := holds.Receive(t.Context(), n); len(late) > 0 || err != nil {
		t.Errorf("got %d deliveries of finished messages, %v, want none", len(late), err)
	}
}

func TestManyReceiversMayWaitAtOnePartition(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	q := dial(t, srv, nats.Config{Partitions: 1, MaxWait: 2 * time.Second})
	var waiting sync.WaitGroup
	for range 700 { // a server lets 512 wait, unless it is told otherwise
		waiting.Go(func() {
			if ds, err := q.Receive(t.Context(), 1); len(ds) > 0 || err != nil {
				t.Errorf("got %d deliveries, %v, want none", len(ds), err)
			}
		})
	}
	waiting.Wait()
}
