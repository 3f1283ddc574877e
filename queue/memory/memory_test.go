package memory_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/queue/queuetest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func open(t testing.TB, cfg memory.Config) (*memory.Queue, *clocktest.Clock) {
	t.Helper()
	clk := clocktest.New(start)
	q, err := memory.New(clk, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q, clk
}

func TestSuite(t *testing.T) {
	t.Parallel()
	for _, scope := range []memory.DedupScope{memory.PerQueue, memory.PerGroup} {
		t.Run(fmt.Sprintf("scope=%d", scope), func(t *testing.T) {
			t.Parallel()
			traits := queuetest.Traits{TooLargeBytes: 1<<20 + 1, DedupPerGroup: scope == memory.PerGroup}
			queuetest.Run(t, traits, func(t testing.TB, w queuetest.Windows) queuetest.Driver {
				q, clk := open(t, memory.Config{DedupScope: scope, DedupWindow: w.DedupWindow, Visibility: w.Visibility})
				return queuetest.Driver{Queue: q, Advance: clk.Advance}
			})
		})
	}
}

func send(t *testing.T, q *memory.Queue, id, group, body string) {
	t.Helper()
	if err := q.Send(t.Context(), queue.Message{ID: id, Group: group, Body: []byte(body)}); err != nil {
		t.Fatalf("Send(%q): got error %v, want nil", id, err)
	}
}

func receive(t *testing.T, q *memory.Queue, want ...string) []queue.Delivery {
	t.Helper()
	ds, err := q.Receive(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range ds {
		got = append(got, d.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("delivered: got %q, want %q", got, want)
	}
	return ds
}

// The times of the story: first send at 0, received and finished at 1, repeats
// at 200, 299.9 and 300.1, and one in another group.
//
// case 38
func TestFiveMinuteWindowIsNotExtendedAndOutlivesTheMessage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		scope memory.DedupScope
		g2    []string
	}{
		{"scope of the queue", memory.PerQueue, nil},
		{"scope of the group", memory.PerGroup, []string{"X"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q, clk := open(t, memory.Config{DedupScope: tt.scope})
			at := func(seconds float64) {
				clk.Advance(start.Add(time.Duration(seconds * float64(time.Second))).Sub(clk.Now()))
			}
			send(t, q, "X", "g1", "")
			at(1)
			if _, err := q.Finish(t.Context(), receive(t, q, "X")[0]); err != nil {
				t.Fatal(err)
			}
			for _, s := range []float64{200, 299.9} {
				at(s)
				send(t, q, "X", "g1", "")
				receive(t, q)
			}
			send(t, q, "X", "g2", "")
			receive(t, q, tt.g2...)
			at(300.1)
			send(t, q, "X", "g1", "")
			receive(t, q, "X")
			wantDropped := int64(3 - len(tt.g2))
			if got := q.Stats().Dropped; got != wantDropped {
				t.Errorf("Dropped: got %d, want %d", got, wantDropped)
			}
		})
	}
}

func TestWindowAndVisibilityEndExactlyAtTheirEnd(t *testing.T) {
	t.Parallel()
	q, clk := open(t, memory.Config{})
	send(t, q, "X", "g", "")
	receive(t, q, "X")
	clk.Advance(30*time.Second - clock.Precision)
	receive(t, q)
	clk.Advance(clock.Precision)
	if _, err := q.Finish(t.Context(), receive(t, q, "X")[0]); err != nil {
		t.Fatal(err)
	}
	clk.Advance(270*time.Second - clock.Precision)
	send(t, q, "X", "g", "")
	receive(t, q)
	clk.Advance(clock.Precision)
	send(t, q, "X", "g", "")
	receive(t, q, "X")
}

func TestReceiptEndsWithItsVisibility(t *testing.T) {
	t.Parallel()
	q, clk := open(t, memory.Config{})
	send(t, q, "X", "g", "")
	d := receive(t, q, "X")[0]
	clk.Advance(30 * time.Second)
	if deleted, err := q.Finish(t.Context(), d); deleted || err != nil {
		t.Fatalf("got %v, %v, want false", deleted, err)
	}
	receive(t, q, "X") // although nobody had received it again yet
}

func TestContentBasedDedupComparesBodiesOnly(t *testing.T) {
	t.Parallel()
	q, _ := open(t, memory.Config{ContentBasedDedup: true})
	send(t, q, "a", "g1", `{"attempt":1}`)
	send(t, q, "b", "g2", `{"attempt":1}`) // another id, the same body
	send(t, q, "a", "g3", `{"attempt":2}`) // the same id looks new
	receive(t, q, "a", "a")
	if got, want := q.Stats().Dropped, int64(1); got != want {
		t.Errorf("Dropped: got %d, want %d", got, want)
	}
}

// case 35
func TestRefusedSendNotesNoID(t *testing.T) {
	t.Parallel()
	q, _ := open(t, memory.Config{MaxMessageBytes: 4})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	m := queue.Message{ID: "X", Group: "g", Body: []byte("1234")}
	err := q.Send(ended, m)
	if got, want := retryproof.OutcomeOf(err), retryproof.NotDone; got != want {
		t.Errorf("outcome of %v: got %v, want %v", err, got, want)
	}
	m.Body = []byte("12345")
	err = q.Send(t.Context(), m)
	if got, want := retryproof.CodeOf(err), retryproof.CodePermanent; got != want {
		t.Errorf("code of %v: got %q, want %q", err, got, want)
	}
	if got := q.Stats(); got != (memory.Stats{}) {
		t.Errorf("stats after refusals: got %+v, want none", got)
	}
	send(t, q, "X", "g", "1234")
	receive(t, q, "X")
}

// steppedClock is a machine's clock that somebody sets.
type steppedClock struct {
	clock.Clock
	now time.Time
}

func (c *steppedClock) Now() time.Time { return c.now }

func TestClockThatStepsBackUndoesNothing(t *testing.T) {
	t.Parallel()
	clk := &steppedClock{clock.System(), start}
	q, err := memory.New(clk, memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	send(t, q, "X", "g", "")
	receive(t, q, "X")
	clk.now = start.Add(30 * time.Second)
	q.Stats() // the queue sees the end of the timeout
	clk.now = start.Add(10 * time.Second)
	receive(t, q, "X")
}

func TestDeliveredBodyIsACopy(t *testing.T) {
	t.Parallel()
	q, _ := open(t, memory.Config{})
	send(t, q, "X", "g", "body")
	d := receive(t, q, "X")[0]
	copy(d.Body, "xxxx")
	if err := q.Retry(t.Context(), d, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := receive(t, q, "X")[0].Body, []byte("body"); !bytes.Equal(got, want) {
		t.Errorf("body: got %q, want %q", got, want)
	}
}

func TestStatsCountWhatIsHeldAndSeen(t *testing.T) {
	t.Parallel()
	q, clk := open(t, memory.Config{})
	for _, id := range []string{"a", "b", "c", "d", "a"} {
		send(t, q, id, "g-"+id, "")
	}
	ds := receive(t, q, "a", "b", "c", "d")
	if _, err := q.Finish(t.Context(), ds[0]); err != nil {
		t.Fatal(err)
	}
	if err := q.Retry(t.Context(), ds[1], time.Minute); err != nil {
		t.Fatal(err)
	}
	want := memory.Stats{Depth: 3, InFlight: 2, Delayed: 1, Remembered: 4, Sent: 4, Dropped: 1, Delivered: 4, Finished: 1}
	if got := q.Stats(); got != want {
		t.Errorf("stats: got %+v, want %+v", got, want)
	}
	clk.Advance(5 * time.Minute)
	want.InFlight, want.Delayed, want.Remembered = 0, 0, 0
	if got := q.Stats(); got != want {
		t.Errorf("stats after the windows: got %+v, want %+v", got, want)
	}
}

func TestValidateNamesAllProblems(t *testing.T) {
	t.Parallel()
	err := memory.Config{DedupWindow: -1, DedupScope: 7, Visibility: -1, MaxMessageBytes: -1}.Validate()
	if err == nil {
		t.Fatal("got nil, want four problems")
	}
	if got, want := bytes.Count([]byte(err.Error()), []byte("\n"))+1, 4; got != want {
		t.Errorf("problems: got %d in %q, want %d", got, err, want)
	}
	if _, err := memory.New(clock.System(), memory.Config{Visibility: -1}); err == nil {
		t.Error("New: got nil, want the configuration refused")
	}
}

// BenchmarkSendReceiveFinish runs in a steady state: each operation also forgets
// the id of one sent five minutes ago.
func BenchmarkSendReceiveFinish(b *testing.B) {
	q, clk := open(b, memory.Config{})
	ctx := b.Context()
	body := make([]byte, 256)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		clk.Advance(10 * time.Millisecond)
		m := queue.Message{ID: fmt.Sprintf("pay_%d:SUCCEEDED", i), Group: fmt.Sprintf("m%d", i%100), Body: body}
		if err := q.Send(ctx, m); err != nil {
			b.Fatal(err)
		}
		ds, err := q.Receive(ctx, 1)
		if err != nil || len(ds) != 1 {
			b.Fatalf("got %d deliveries, %v", len(ds), err)
		}
		if _, err := q.Finish(ctx, ds[0]); err != nil {
			b.Fatal(err)
		}
	}
}
