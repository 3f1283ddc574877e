package embedded_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/nats"
	"github.com/retryproof/retryproof/queue/nats/embedded"
)

// lines is a log that may be written and read at the same time.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), what)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func TestStreamThatWasDeletedIsMadeAgainAndThatIsSaid(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	var log lines
	cfg := nats.Config{MaxWait: 20 * time.Millisecond, Log: log.logger()}
	sender, receiver := dial(t, srv, cfg), dial(t, srv, cfg)
	send(t, sender, message("lost", "g"))
	receive(t, receiver)
	js, err := jetstream.New(connect(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "RETRYPROOF_EVENTS"); err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), message("m1", "g")); retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("Send to a deleted stream: got %v, want not done", err)
	}
	until(t, "a stream that takes messages", func() bool { return sender.Send(t.Context(), message("m1", "g")) == nil })
	var got []string
	until(t, "the message", func() bool {
		ds, err := receiver.Receive(t.Context(), 1)
		for _, d := range ds {
			got = append(got, d.ID)
			if _, err := receiver.Finish(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		return err == nil && len(got) > 0
	})
	if got[0] != "m1" || log.count("was made again") != 1 {
		t.Errorf("got %q, and %d lines in the log, want m1 and one", got, log.count("was made again"))
	}
}

func TestConsumerThatWasDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	var log lines
	q := dial(t, srv, nats.Config{Partitions: 2, MaxWait: 20 * time.Millisecond, Log: log.logger()})
	js, err := jetstream.New(connect(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(t.Context(), "RETRYPROOF_EVENTS", "lane-0"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		send(t, q, message(fmt.Sprint("m", i), fmt.Sprint("g", i)))
	}
	if got := len(finishAll(t, q, 20)); got != 20 {
		t.Errorf("got %d messages, want 20", got)
	}
	if got := log.count("consumer was gone and was made again"); got != 1 {
		t.Errorf("got %d lines in the log, want one", got)
	}
}

// What others wrote into the stream reaches the receiver, which can set it aside; the
// partition goes on.
func TestForeignMessageIsDeliveredUnderItsPlaceInTheStream(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	var log lines
	q := dial(t, srv, nats.Config{Partitions: 1, Log: log.logger()})
	nc := connect(t, srv)
	if err := nc.Publish("retryproof.events.stranger", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	send(t, q, message("m1", "g"))
	got := receive(t, q)
	if !regexp.MustCompile(`^foreign:RETRYPROOF_EVENTS:1:[0-9]{19}$`).MatchString(got.ID) {
		t.Errorf("got the id %q, want the stream, its place and its time", got.ID)
	}
	want := queue.Message{ID: got.ID, Group: "retryproof.events.0.stranger", Body: []byte("x")}
	if fmt.Sprint(got.Message) != fmt.Sprint(want) || log.count("was not sent by this driver") != 1 {
		t.Errorf("got %+v and %d lines in the log, want %+v and one", got.Message, log.count("was not sent by this driver"), want)
	}
	finish(t, q, got)
	if got := receive(t, q); got.ID != "m1" {
		t.Errorf("got %q, want m1", got.ID)
	}
}

// A stream that is made again counts from 1 again.
func TestForeignMessagesOfTwoStreamsOfOneNameAreTwo(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	q := dial(t, srv, nats.Config{Partitions: 1, MaxWait: 20 * time.Millisecond})
	nc := connect(t, srv)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 2 {
		if _, err := js.Publish(t.Context(), "retryproof.events.stranger", []byte("x")); err != nil {
			t.Fatal(err)
		}
		until(t, "the stranger's message", func() bool {
			ds, err := q.Receive(t.Context(), 1)
			for _, d := range ds {
				got = append(got, d.ID)
			}
			return err == nil && len(ds) > 0
		})
		if err := js.DeleteStream(t.Context(), "RETRYPROOF_EVENTS"); err != nil {
			t.Fatal(err)
		}
		until(t, "a stream that takes messages", func() bool {
			_, err := q.Receive(t.Context(), 1)
			_, there := js.Stream(t.Context(), "RETRYPROOF_EVENTS")
			return err == nil && there == nil
		})
	}
	if len(got) != 2 || got[0] == got[1] || !strings.HasPrefix(got[1], "foreign:RETRYPROOF_EVENTS:1:") {
		t.Errorf("got %q, want the first place twice, under two ids", got)
	}
}
