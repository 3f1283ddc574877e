package embedded_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/nats"
	"github.com/retryproof/retryproof/queue/nats/embedded"
)

// limited gives the queue's stream a limit, as its operator may.
func limited(t testing.TB, s *embedded.Server, change func(*jetstream.StreamConfig)) {
	t.Helper()
	js, err := jetstream.New(connect(t, s))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "RETRYPROOF_EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	change(&cfg)
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// sendUntilRefused returns the first error of a Send and how many went before.
func sendUntilRefused(t testing.TB, q *nats.Queue, body int) (int, error) {
	t.Helper()
	for n := range 1000 {
		m := queue.Message{ID: fmt.Sprint("f", n), Group: fmt.Sprint("g", n), Body: make([]byte, body)}
		if err := q.Send(t.Context(), m); err != nil {
			return n, err
		}
	}
	return 1000, errors.New("never refused")
}

// What a full queue refuses was not stored for certain, and is no fault of the message.
func TestFullStoreTakesNothingAndBlamesNoMessage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server embedded.Config
		change func(*jetstream.StreamConfig)
	}{
		"the server's MaxStoreBytes": {embedded.Config{MaxStoreBytes: 256 << 10}, nil},
		"the stream's max_bytes":     {embedded.Config{}, func(c *jetstream.StreamConfig) { c.MaxBytes = 256 << 10 }},
		"the stream's max_msgs":      {embedded.Config{}, func(c *jetstream.StreamConfig) { c.MaxMsgs = 60 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.server.Dir = t.TempDir()
			srv := start(t, c.server)
			q := dial(t, srv, nats.Config{})
			if c.change != nil {
				limited(t, srv, c.change)
			}
			n, err := sendUntilRefused(t, q, 4<<10)
			if retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeUnavailable || n < 20 || n > 64 {
				t.Errorf("got %v after %d messages, want not done and unavailable after about 60", err, n)
			}
		})
	}
}

// One that a stream can never hold is the message's own fault.
func TestMessageLargerThanTheStreamIsRefusedForGood(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	dial(t, srv, nats.Config{})
	limited(t, srv, func(c *jetstream.StreamConfig) { c.MaxBytes = 64 << 10 })
	q := dial(t, srv, nats.Config{})
	err := q.Send(t.Context(), queue.Message{ID: "big", Group: "g", Body: make([]byte, 64<<10)})
	if retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodePermanent {
		t.Errorf("got %v, want not done and permanent", err)
	}
}
