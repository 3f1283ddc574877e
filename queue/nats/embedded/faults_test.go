package embedded_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/nats"
	"github.com/retryproof/retryproof/queue/nats/embedded"
)

func message(id, group string) queue.Message {
	return queue.Message{ID: id, Group: group, Type: "t", Body: fmt.Appendf(nil, `{"id":%q}`, id)}
}

func send(t testing.TB, q *nats.Queue, ms ...queue.Message) {
	t.Helper()
	for _, m := range ms {
		if err := q.Send(t.Context(), m); err != nil {
			t.Fatalf("Send(%q): got error %v, want nil", m.ID, err)
		}
	}
}

// until polls: Receive waits MaxWait each time.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// finishAll receives and finishes until n messages are finished.
func finishAll(t testing.TB, q *nats.Queue, n int) []string {
	t.Helper()
	var got []string
	until(t, fmt.Sprintf("%d messages", n), func() bool {
		ds, err := q.Receive(t.Context(), 10)
		if err != nil {
			return false
		}
		for _, d := range ds {
			if _, err := q.Finish(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			got = append(got, d.ID)
		}
		return len(got) >= n
	})
	slices.Sort(got)
	return got
}

func connect(t testing.TB, s *embedded.Server) *natsgo.Conn {
	t.Helper()
	nc, err := natsgo.Connect("", natsgo.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestSendWithoutAServerIsNotDoneAndWorksAfterTheReconnect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	url := srv.URL()
	q, err := nats.Dial(t.Context(), url, nats.Config{}, natsgo.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	send(t, q, message("m1", "g"))
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "a Send that is certainly not done", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return retryproof.OutcomeOf(q.Send(ctx, message("m2", "g"))) == retryproof.NotDone
	})
	if _, err := q.Receive(t.Context(), 1); retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("Receive without a server: got %v, want an error that is not done", err)
	}
	srv, err = embedded.Start(embedded.Config{Dir: dir, Listen: strings.TrimPrefix(url, "nats://")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	until(t, "the reconnect", func() bool { return q.Send(t.Context(), message("m2", "g")) == nil })
	if got, want := finishAll(t, q, 2), []string{"m1", "m2"}; !slices.Equal(got, want) {
		t.Errorf("delivered: got %q, want %q", got, want)
	}
}

func TestSendWhoseAnswerIsLostIsUnknown(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	q := dial(t, srv, nats.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	if got, want := retryproof.OutcomeOf(q.Send(ctx, message("m1", "g"))), retryproof.NotDone; got != want {
		t.Errorf("context that ended before the send: got %v, want %v", got, want)
	}
	gone, err := natsgo.Connect("", natsgo.InProcessServer(srv), natsgo.CustomInboxPrefix("nobody"))
	if err != nil {
		t.Fatal(err)
	}
	q2, err := nats.Open(t.Context(), gone, nats.Config{})
	if err != nil {
		t.Fatal(err)
	}
	// A stream that never acknowledges stands for the lost answer.
	js, err := jetstream.New(connect(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "RETRYPROOF_EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.NoAck = true
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	short, cancel2 := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel2()
	if got, want := retryproof.OutcomeOf(q2.Send(short, message("m1", "g"))), retryproof.Unknown; got != want {
		t.Errorf("answer that never came: got %v, want %v", got, want)
	}
	gone.Close()
	if got, want := retryproof.OutcomeOf(q2.Send(t.Context(), message("m2", "g"))), retryproof.NotDone; got != want {
		t.Errorf("closed connection: got %v, want %v", got, want)
	}
}

func TestOpenRefusesAStreamThatBreaksPromisesAndNamesAll(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	nc := connect(t, srv)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "RETRYPROOF_EVENTS", Subjects: []string{"retryproof.events.*"}, Storage: jetstream.MemoryStorage, Duplicates: time.Minute, MaxAge: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = nats.Open(t.Context(), nc, nats.Config{})
	if err == nil {
		t.Fatal("Open: got nil, want the stream refused")
	}
	for _, want := range []string{"storage", "duplicate_window", "max_age", "subject_transform"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Open: got %q, want it to name %s", err, want)
		}
	}
}

func TestOpenRefusesOtherPartitionsAndOtherVisibility(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	dial(t, srv, nats.Config{})
	dial(t, srv, nats.Config{}) // the same again is fine
	nc := connect(t, srv)
	for _, tt := range []struct {
		cfg  nats.Config
		want string
	}{
		{nats.Config{Partitions: 8}, "partition(16,1)"},
		{nats.Config{Visibility: time.Minute}, "ack_wait is 30s, Visibility is 1m0s"},
		{nats.Config{DedupWindow: time.Hour}, "duplicate_window is 5m0s, DedupWindow is 1h0m0s"},
	} {
		if _, err := nats.Open(t.Context(), nc, tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Open(%+v): got %v, want it to say %q", tt.cfg, err, tt.want)
		}
	}
}

func TestTwoProcessesShareTheWorkAndKeepTheOrder(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	cfg := nats.Config{MaxWait: 20 * time.Millisecond}
	a, b := dial(t, srv, cfg), dial(t, srv, cfg)
	const n = 30
	for i := range n {
		send(t, a, message(fmt.Sprintf("m%02d", i), "g"))
	}
	var got, want []string
	until(t, "all messages", func() bool {
		for _, q := range []*nats.Queue{a, b} {
			ds, err := q.Receive(t.Context(), 5)
			if err != nil || len(ds) > 1 {
				t.Fatalf("got %d deliveries of one group, %v, want one at most", len(ds), err)
			}
			for _, d := range ds {
				got = append(got, d.ID)
				// The other process finishes it: a receipt is not bound to a connection.
				if _, err := map[bool]*nats.Queue{true: b, false: a}[q == a].Finish(t.Context(), d); err != nil {
					t.Fatal(err)
				}
			}
		}
		return len(got) >= n
	})
	for i := range n {
		want = append(want, fmt.Sprintf("m%02d", i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("order: got %q, want %q", got, want)
	}
}

func TestReceiptOfAnotherQueueIsRefused(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	q := dial(t, srv, nats.Config{})
	for _, r := range []string{"", "x", "1 1 retryproof.events.g", "1 1 $JS.ACK.OTHER.lane-1.1.1.1.1.1", "99 1 $JS.ACK.RETRYPROOF_EVENTS.lane-99.1.1.1.1.1", "1 1 $JS.ACK.RETRYPROOF_EVENTS.lane-1.>"} {
		_, err := q.Finish(t.Context(), queue.Delivery{Receipt: r})
		if got, want := retryproof.CodeOf(err), retryproof.CodeInvalid; got != want {
			t.Errorf("Finish(%q): got %v, want code %q", r, err, want)
		}
	}
}

func TestCloseEndsWaitingReceivers(t *testing.T) {
	t.Parallel()
	srv := start(t, embedded.Config{Dir: t.TempDir()})
	q := dial(t, srv, nats.Config{MaxWait: 14 * time.Second})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = q.Receive(t.Context(), 1)
	}()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		t.Error("Receive: still waits after Close")
	}
	if err := q.Send(t.Context(), message("m1", "g")); retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("Send after Close: got %v, want an error that is not done", err)
	}
}

func TestFolderIsUsedByOneServerAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, embedded.Config{Dir: dir})
	if s, err := embedded.Start(embedded.Config{Dir: dir}); err == nil {
		_ = s.Close()
		t.Error("second server on the folder: got nil, want it refused")
	}
}

func TestConfigNamesAllProblems(t *testing.T) {
	t.Parallel()
	err := embedded.Config{Listen: "nowhere", SyncInterval: -1, MaxStoreBytes: -1, StartTimeout: -1}.Validate()
	for _, want := range []string{"Dir", "Listen", "SyncInterval", "MaxStoreBytes", "StartTimeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: got %v, want it to name %s", err, want)
		}
	}
	if _, err := embedded.Start(embedded.Config{}); err == nil {
		t.Error("Start without a folder: got nil, want it refused")
	}
}
