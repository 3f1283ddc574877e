package embedded_test

import (
	"errors"
	"fmt"
	"strings"
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

// A message is sent, or it is said that it never will be: one that no empty stream would
// take must not wait for room.
func TestMessageIsTakenByAnEmptyStreamOrNever(t *testing.T) {
	t.Parallel()
	const most = 8 << 10
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	dial(t, srv, nats.Config{})
	limited(t, srv, func(c *jetstream.StreamConfig) { c.MaxBytes = most })
	q := dial(t, srv, nats.Config{})
	js, err := jetstream.New(connect(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "RETRYPROOF_EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ id, group string }{{"m", "g"}, {strings.Repeat("é", 100), strings.Repeat("g", 200)}} {
		sent, refused := 0, 0
		for size := most - 2000; size < most+10; size += 7 {
			err := q.Send(t.Context(), queue.Message{ID: fmt.Sprint(c.id, size), Group: c.group, Body: make([]byte, size)})
			switch {
			case err == nil:
				sent++
				if err := stream.Purge(t.Context()); err != nil {
					t.Fatal(err)
				}
			case retryproof.CodeOf(err) == retryproof.CodePermanent:
				refused++
			default:
				t.Errorf("%d bytes in an empty stream of %d: got %v, want it sent or refused for good", size, most, err)
			}
		}
		if sent == 0 || refused == 0 {
			t.Errorf("got %d sent and %d refused, want some of both", sent, refused)
		}
	}
}
