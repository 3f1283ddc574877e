package nats_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retryproof/retryproof/internal/testservice"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/nats"
	"github.com/retryproof/retryproof/queue/queuetest"
)

// The same suite runs against the server in the process, in queue/nats/embedded;
// here it has a network and another process.
func TestSuiteOnAServer(t *testing.T) {
	t.Parallel()
	t.Run("queue=nats-server", suiteOnAServer)
}

func suiteOnAServer(t *testing.T) {
	t.Parallel()
	url := testservice.NATS(t)
	traits := queuetest.Traits{
		Slack:         100 * time.Millisecond,
		Patience:      20 * time.Second,
		Settle:        150 * time.Millisecond,
		TooLargeBytes: 64 << 20, // the most that a server can be told to take
		SharedLanes:   true,
	}
	var streams atomic.Int64
	run := time.Now().UnixNano()
	queuetest.Run(t, traits, func(t testing.TB, w queuetest.Windows) queuetest.Driver {
		name := fmt.Sprintf("test-%d-%d", run, streams.Add(1))
		cfg := nats.Config{Stream: name, Subject: name, DedupWindow: w.DedupWindow, Visibility: w.Visibility, MaxWait: 20 * time.Millisecond}
		q, err := nats.Dial(t.Context(), url, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := q.Close(); err != nil {
				t.Errorf("Close: got %v, want nil", err)
			}
			deleteStream(t, url, name)
		})
		return queuetest.Driver{Queue: q, Reopen: func(t testing.TB) queue.Queue {
			if err := q.Close(); err != nil {
				t.Errorf("Close: got %v, want nil", err)
			}
			if q, err = nats.Dial(t.Context(), url, cfg); err != nil {
				t.Fatal(err)
			}
			return q
		}}
	})
}

func deleteStream(t testing.TB, url, name string) {
	t.Helper()
	nc, err := natsgo.Connect(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := js.DeleteStream(ctx, name); err != nil {
		t.Error(err)
	}
}
