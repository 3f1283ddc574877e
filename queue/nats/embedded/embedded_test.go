package embedded_test

import (
	"testing"
	"time"

	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/nats"
	"github.com/retryproof/retryproof/queue/nats/embedded"
	"github.com/retryproof/retryproof/queue/queuetest"
)

func start(t testing.TB, cfg embedded.Config) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close of the server: got %v, want nil", err)
		}
	})
	return s
}

func dial(t testing.TB, s *embedded.Server, cfg nats.Config) *nats.Queue {
	t.Helper()
	q, err := s.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("Close of the queue: got %v, want nil", err)
		}
	})
	return q
}

// traits of JetStream in real time. Its server forgets ids up to 50 ms late.
var traits = queuetest.Traits{
	Slack:         100 * time.Millisecond,
	Patience:      20 * time.Second,
	Settle:        150 * time.Millisecond,
	TooLargeBytes: 1<<20 + 1,
	SharedLanes:   true,
}

func TestSuite(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, traits, func(t testing.TB, w queuetest.Windows) queuetest.Driver {
		dir := t.TempDir()
		cfg := nats.Config{DedupWindow: w.DedupWindow, Visibility: w.Visibility, MaxWait: 20 * time.Millisecond}
		srv, err := embedded.Start(embedded.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		q, err := srv.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		shut := func() {
			if err := q.Close(); err != nil {
				t.Errorf("Close of the queue: got %v, want nil", err)
			}
			if err := srv.Close(); err != nil {
				t.Errorf("Close of the server: got %v, want nil", err)
			}
		}
		t.Cleanup(func() { shut() })
		return queuetest.Driver{Queue: q, Reopen: func(t testing.TB) queue.Queue {
			shut()
			if srv, err = embedded.Start(embedded.Config{Dir: dir}); err != nil {
				t.Fatal(err)
			}
			if q, err = srv.Open(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			return q
		}}
	})
}
