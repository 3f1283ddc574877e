package queuetest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/queue"
)

func ackedSendIsDelivered(r *run) {
	r.open()
	want := message("m1", "g")
	r.send(want)
	got := r.next("m1")
	r.same(got, want)
	if got.Attempt != 1 {
		r.Errorf("Attempt of the first delivery: got %d, want 1", got.Attempt)
	}
	if got.Receipt == "" {
		r.Error("Receipt: got none, want one")
	}
	if got.SentAt.IsZero() {
		r.Error("SentAt: got none, want the time of the Send")
	}
}

// same wants the delivery to carry the message as it was sent.
func (r *run) same(d queue.Delivery, want queue.Message) {
	r.Helper()
	if d.ID != want.ID || d.Group != want.Group || d.Type != want.Type {
		r.Errorf("got id %q, group %q, type %q, want %q, %q, %q", d.ID, d.Group, d.Type, want.ID, want.Group, want.Type)
	}
	if !bytes.Equal(d.Body, want.Body) {
		r.Errorf("body of %q: got %d bytes %.40q, want %d bytes %.40q", want.ID, len(d.Body), d.Body, len(want.Body), want.Body)
	}
}

func finishedMessageNeverComesAgain(r *run) {
	r.openShort()
	r.send(message("m1", "g"))
	r.finish(r.next("m1"))
	r.quietUntil(r.elapsed() + r.w.Visibility + r.w.Visibility/2)
}

func nothingDueIsNoError(r *run) {
	r.open()
	r.quiet()
	r.send(message("m1", "g"))
	r.finish(r.next("m1"))
	r.quiet()
}

func receiveKeepsTheLimit(r *run) {
	r.open()
	const n = 30
	for _, g := range groupNames("limit", n) {
		r.send(message("of-"+g, g))
	}
	got := 0
	for range 10 {
		ds := r.receive(3)
		if len(ds) > 3 {
			r.Fatalf("Receive with limit 3: got %d deliveries", len(ds))
		}
		for _, d := range ds {
			r.finish(d)
		}
		got += len(ds)
	}
	if ds := r.receive(0); len(ds) != 0 {
		r.Errorf("Receive with limit 0: got %d deliveries, want none", len(ds))
	}
	r.drain(n - got)
}

func endedContextLosesNothing(r *run) {
	r.open()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	m := message("m1", "g")
	_ = r.q.Send(ended, m) // refused, unknown or taken: the second Send settles it
	r.send(m)
	ds, _ := r.q.Receive(ended, 10)
	for _, d := range ds {
		r.finish(d)
	}
	r.drain(1 - len(ds))
}

func bodiesArriveByteForByte(r *run) {
	r.open()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := make([]byte, 64<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(large)
	bodies := map[string][]byte{
		"nil":     nil,
		"empty":   {},
		"every":   every,
		"lines":   []byte("\r\n a: b\r\n\r\n"),
		"blanks":  []byte("  {\"a\": 1}\t\n"),
		"not-utf": {0xff, 0xfe, 0xc3, 0x28},
		"zero":    {0},
		"large":   large,
	}
	for _, id := range []string{"nil", "empty", "every", "lines", "blanks", "not-utf", "zero", "large"} {
		lent := bytes.Clone(bodies[id])
		r.send(queue.Message{ID: id, Group: "g", Type: "t", Body: lent})
		for i := range lent {
			lent[i] = 'x' // the sender's buffer is its own again
		}
	}
	for _, d := range r.drain(len(bodies)) {
		r.same(d, queue.Message{ID: d.ID, Group: "g", Type: "t", Body: bodies[d.ID]})
	}
}

// oddNames are pairwise different names that a careless encoding mixes up,
// shortens or refuses.
func oddNames() []string {
	return []string{
		"a.b", "a_b", "a b", "a+b", "a%20b", "a%2eb", "A.B", ".", "..", "*", ">", "a.*", "a.>", " a", "a ", "a", "-", "~", "%", "%%",
		"$JS.API.>", "a\nb", "a\r\nb", "a\tb", "a\x00b", "\x00", "\xff", "\xff\xfe", "\ufffd", "händler", "ha\u0308ndler", "商人", "a:b", "a/b", `a"b`, `a\b`,
		"a,b", "a=b", "a#b", strings.Repeat("x", 1000), strings.Repeat("x", 999) + "y", strings.Repeat("é.", 300),
	}
}

func oddNamesStayApart(r *run) {
	r.open()
	names := oddNames()
	for range 2 { // the second round are repeats
		for _, n := range names {
			r.send(queue.Message{ID: n, Group: n, Type: n, Body: []byte(n)})
		}
	}
	seen := map[string]bool{}
	for _, d := range r.drain(len(names)) {
		r.same(d, queue.Message{ID: d.ID, Group: d.ID, Type: d.ID, Body: []byte(d.ID)})
		seen[d.ID] = true
	}
	for _, n := range names {
		if !seen[n] {
			r.Errorf("id %.40q: got no delivery, want one", n)
		}
	}
}

// refusedForGood wants a refusal that no later try can change.
func (r *run) refusedForGood(m queue.Message) {
	r.Helper()
	err := r.q.Send(context.Background(), m)
	if err == nil {
		r.Fatalf("Send(id %q, group %q, %d bytes): got nil, want a refusal", m.ID, m.Group, len(m.Body))
	}
	if got := retryproof.OutcomeOf(err); got != retryproof.NotDone {
		r.Errorf("outcome of %v: got %v, want %v", err, got, retryproof.NotDone)
	}
	if got := retryproof.CodeOf(err); got != retryproof.CodePermanent {
		r.Errorf("code of %v: got %q, want %q", err, got, retryproof.CodePermanent)
	}
}

func namelessMessageIsRefusedForGood(r *run) {
	r.open()
	r.refusedForGood(message("", "g"))
	r.refusedForGood(message("m1", ""))
	r.quiet()
	r.send(message("m1", "g"))
	r.drain(1)
}

// case 35
func tooLargeIsRefusedForGoodAndNotesNoID(r *run) {
	if r.tr.TooLargeBytes == 0 {
		r.Skip("the driver takes bodies of any size")
	}
	r.open()
	m := message("m1", "g")
	small := m.Body
	m.Body = make([]byte, r.tr.TooLargeBytes)
	r.refusedForGood(m)
	r.refusedForGood(m)
	r.quiet()
	m.Body = small
	r.send(m)
	r.same(r.next("m1"), m)
}
