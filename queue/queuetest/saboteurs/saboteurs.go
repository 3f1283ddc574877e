// Package saboteurs holds queue drivers that are each wrong in one place. They
// judge the suite of queue/queuetest: it must reject every one of them. A suite
// that lets one pass has lost a case.
//
// Each wraps queue/memory, which passes.
package saboteurs

import (
	"context"
	"testing"
	"time"

	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/queue/queuetest"
)

// TooLargeBytes is a body that the honest driver refuses.
const TooLargeBytes = 128<<10 + 1

// Traits are the traits of every driver of this package.
func Traits() queuetest.Traits { return queuetest.Traits{TooLargeBytes: TooLargeBytes} }

// Saboteur is one wrong driver.
type Saboteur struct {
	// Name says what is wrong.
	Name string
	// CaughtBy is a case of the suite that must fail.
	CaughtBy string
	// Open opens the driver.
	Open queuetest.Open
}

// Honest opens queue/memory as it is, with a restart that keeps everything.
func Honest(t testing.TB, w queuetest.Windows) queuetest.Driver {
	t.Helper()
	return open(t, memory.Config{DedupWindow: w.DedupWindow, Visibility: w.Visibility}, func(q queue.Queue) queue.Queue { return q })
}

// open opens queue/memory with the configuration, inside a wrapper.
func open(t testing.TB, cfg memory.Config, wrap func(queue.Queue) queue.Queue) queuetest.Driver {
	t.Helper()
	cfg.MaxMessageBytes = TooLargeBytes - 1
	clk := clocktest.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	inner, err := memory.New(clk, cfg)
	if err != nil {
		t.Fatal(err)
	}
	q := wrap(inner)
	return queuetest.Driver{Queue: q, Advance: clk.Advance, Reopen: func(testing.TB) queue.Queue { return q }}
}

// configured is a saboteur that is the honest driver with other windows than it
// was asked for.
func configured(name, caughtBy string, change func(*memory.Config)) Saboteur {
	return Saboteur{name, caughtBy, func(t testing.TB, w queuetest.Windows) queuetest.Driver {
		cfg := memory.Config{DedupWindow: w.DedupWindow, Visibility: w.Visibility}
		change(&cfg)
		return open(t, cfg, func(q queue.Queue) queue.Queue { return q })
	}}
}

// wrapped is a saboteur that changes calls on their way.
func wrapped(name, caughtBy string, wrap func(queue.Queue) queue.Queue) Saboteur {
	return Saboteur{name, caughtBy, func(t testing.TB, w queuetest.Windows) queuetest.Driver {
		return open(t, memory.Config{DedupWindow: w.DedupWindow, Visibility: w.Visibility}, wrap)
	}}
}

// hooks is a queue whose methods can be replaced one by one.
type hooks struct {
	queue.Queue
	send    func(ctx context.Context, m queue.Message) error
	receive func(ctx context.Context, limit int) ([]queue.Delivery, error)
	finish  func(ctx context.Context, d queue.Delivery) (bool, error)
	retry   func(ctx context.Context, d queue.Delivery, delay time.Duration) error
}

func (h *hooks) Send(ctx context.Context, m queue.Message) error {
	if h.send != nil {
		return h.send(ctx, m)
	}
	return h.Queue.Send(ctx, m)
}

func (h *hooks) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	if h.receive != nil {
		return h.receive(ctx, limit)
	}
	return h.Queue.Receive(ctx, limit)
}

func (h *hooks) Finish(ctx context.Context, d queue.Delivery) (bool, error) {
	if h.finish != nil {
		return h.finish(ctx, d)
	}
	return h.Queue.Finish(ctx, d)
}

func (h *hooks) Retry(ctx context.Context, d queue.Delivery, delay time.Duration) error {
	if h.retry != nil {
		return h.retry(ctx, d, delay)
	}
	return h.Queue.Retry(ctx, d, delay)
}

// onSend replaces what is sent.
func onSend(change func(*queue.Message)) func(queue.Queue) queue.Queue {
	return func(q queue.Queue) queue.Queue {
		return &hooks{Queue: q, send: func(ctx context.Context, m queue.Message) error {
			change(&m)
			return q.Send(ctx, m)
		}}
	}
}

// onReceive replaces what is delivered.
func onReceive(change func(*queue.Delivery)) func(queue.Queue) queue.Queue {
	return func(q queue.Queue) queue.Queue {
		return &hooks{Queue: q, receive: func(ctx context.Context, limit int) ([]queue.Delivery, error) {
			ds, err := q.Receive(ctx, limit)
			for i := range ds {
				change(&ds[i])
			}
			return ds, err
		}}
	}
}

// renamed sends under another id or group than it shows to receivers: rename
// returns what the queue below sees, and deliveries carry the names as sent.
func renamed(q queue.Queue, rename func(queue.Message) queue.Message) *hooks {
	type names struct{ id, group string }
	var shown lockedMap[string, names]
	h := &hooks{Queue: q}
	h.send = func(ctx context.Context, m queue.Message) error {
		inner := m
		if m.ID != "" && m.Group != "" { // the honest driver refuses the rest
			inner = rename(m)
			shown.putIfAbsent(inner.ID+"\x00in\x00"+inner.Group, names{m.ID, m.Group})
		}
		return q.Send(ctx, inner)
	}
	h.receive = func(ctx context.Context, limit int) ([]queue.Delivery, error) {
		ds, err := q.Receive(ctx, limit)
		for i := range ds {
			n, _ := shown.get(ds[i].ID + "\x00in\x00" + ds[i].Group)
			ds[i].ID, ds[i].Group = n.id, n.group
		}
		return ds, err
	}
	return h
}
