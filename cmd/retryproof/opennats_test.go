package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/internal/testservice"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/store/memory"
)

// A server with JetStream's defaults loses acknowledged messages in a power failure,
// and does not tell: who starts the program is told.
func TestServerWhoseSyncCannotBeSeenIsWarnedOf(t *testing.T) {
	t.Parallel()
	url := testservice.NATS(t)
	stream := fmt.Sprintf("warned-%d", time.Now().UnixNano())
	var log bytes.Buffer
	q, err := openNATS(t.Context(), url, stream, "", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.close() })
	if got := strings.Count(log.String(), "sync_interval: always"); got != 1 {
		t.Errorf("got %d warnings, want 1, in: %s", got, log.String())
	}
}

func TestTheQueueAndTheOldestEventAreMeasured(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	q, err := openNATS(t.Context(), "", "EVENTS", t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.close() })
	if err := q.Send(t.Context(), queue.Message{ID: "e", Group: "m", Body: make([]byte, 1000)}); err != nil {
		t.Fatal(err)
	}
	s := memory.New()
	if err := s.Within(func(tx *memory.Tx) error {
		return tx.Publish(t.Context(), retryproof.Event{ID: "e", Group: "m", At: now.Add(-90 * time.Second)})
	}); err != nil {
		t.Fatal(err)
	}
	m := newPromMetrics()
	watchQueue(m, q)
	watchOutbox(m, s.Outbox(), clocktest.New(now))
	page := httptest.NewRecorder()
	m.handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"\nretryproof_queue_messages 1\n", "\nretryproof_queue_bytes 11", "\nretryproof_outbox_oldest_seconds 90\n", "\nretryproof_outbox_waiting 1\n"} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("got no line %q in:\n%s", want, page.Body)
		}
	}
}
