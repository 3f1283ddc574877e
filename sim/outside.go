package sim

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/push"
	"github.com/retryproof/retryproof/queue"
)

// queueSeam is the queue as a process reaches it.
type queueSeam struct {
	x  *seam
	in queue.Queue
}

func (q queueSeam) Send(ctx context.Context, m queue.Message) error {
	w := q.x.w
	if w.chance(w.chaos.Copy) {
		// The network delivers the send once more, later.
		w.counts.Copies++
		w.After(w.extent(2*time.Second), func() {
			_ = q.in.Send(background, m)
			w.stir("worker")
			w.trace.add(w.now, q.x.p.Name, "queue send", "copy", m.ID)
		})
	}
	_, err := call(q.x, ctx, "queue", "queue send", m.ID, func() (struct{}, error) {
		w.audit.sent(m)
		err := q.in.Send(background, m)
		w.stir("worker")
		return struct{}{}, err
	})
	return err
}

func (q queueSeam) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	w := q.x.w
	return call(q.x, ctx, "queue", "queue receive", "", func() ([]queue.Delivery, error) {
		got, err := q.in.Receive(background, limit)
		for _, d := range got {
			w.audit.received(q.x.p, d)
			if d.Attempt > 1 {
				w.counts.Redelivered++
			}
		}
		return got, err
	})
}

func (q queueSeam) Finish(ctx context.Context, d queue.Delivery) (bool, error) {
	return call(q.x, ctx, "queue", "queue finish", d.ID, func() (bool, error) {
		deleted, err := q.in.Finish(background, d)
		q.x.w.stir("worker") // for the next of its group
		return deleted, err
	})
}

func (q queueSeam) Retry(ctx context.Context, d queue.Delivery, delay time.Duration) error {
	_, err := call(q.x, ctx, "queue", "queue retry", d.ID, func() (struct{}, error) {
		err := q.in.Retry(background, d, delay)
		q.x.w.stir("worker")
		return struct{}{}, err
	})
	return err
}

// pushSeam is the push provider as a worker reaches it.
type pushSeam struct {
	x  *seam
	in notify.Sender
}

func (s pushSeam) Send(ctx context.Context, n push.Notification) error {
	_, err := call(s.x, ctx, "push", "push send", n.ReplaceID, func() (struct{}, error) {
		err := s.in.Send(background, n)
		if err == nil {
			s.x.w.audit.pushed(s.x.p, n)
		}
		return struct{}{}, err
	})
	return err
}

// future is an answer on its way.
type future struct {
	w       *World
	done    bool
	waiting *task
}

// resolve brings the answer; whoever waits goes on now.
func (f *future) resolve() {
	if f.done {
		return
	}
	f.done = true
	if f.waiting != nil {
		f.w.wakeEarly(f.waiting, errAnswered)
	}
}

var errAnswered = errors.New("sim: answered")

// await parks until the answer is there, the context ends or patience does; it
// reports whether the answer came.
func (f *future) await(ctx context.Context, p *Process, patience time.Duration) bool {
	if !f.done {
		f.waiting = f.w.current
		_ = f.w.wait(waitable(ctx), patience)
		f.waiting = nil
	}
	p.resumeAfterPause()
	return f.done
}

// pspSeam is the processor as a process reaches it: a message there and an answer
// back. What was sent arrives even when its sender has died.
type pspSeam struct {
	x  *seam
	in payments.PSP
}

// pspPatience is how long a caller without a deadline waits for the processor.
const pspPatience = 30 * time.Second

// ask sends one question to the processor and waits for the answer.
func ask[T any](s pspSeam, ctx context.Context, op, about string, do func() (T, error)) (T, error) {
	w, p := s.x.w, s.x.p
	if p.dead {
		panic(killed{})
	}
	p.resumeAfterPause()
	f := w.fate(p, "psp")
	if f.crashBefore {
		w.crash(p, op, about)
	}
	var answer T
	var err error
	reply := &future{w: w}
	there := w.options.Latency["psp"] + f.slow
	if w.options.Jitter > 0 {
		there += w.upTo(w.options.Jitter)
	}
	if f.refuse {
		w.counts.Refusals++
		w.trace.add(w.now, p.Name, op, "refused", about)
		_ = w.wait(waitable(ctx), there)
		return answer, refused(op)
	}
	deliver := func(after time.Duration, copied bool) {
		w.Go(w.processor, after, func() {
			got, gotErr := do()
			w.trace.add(w.now, "psp", op, how(gotErr), about)
			if copied || f.lose || w.unheard() || w.loseReply(op) {
				w.counts.LostReplies++
				w.trace.add(w.now, "psp", op, "answer lost", about)
				return
			}
			w.After(w.options.Latency["psp"], func() { answer, err = got, gotErr; reply.resolve() })
		})
	}
	deliver(there, false)
	if w.chance(w.chaos.Copy) {
		w.counts.Copies++
		deliver(there+w.extent(3*time.Second), true)
	}
	if f.crashAfter {
		w.crash(p, op, about)
	}
	if !reply.await(ctx, p, pspPatience) {
		w.trace.add(w.now, p.Name, op, "gave up", about)
		return *new(T), noAnswer(op)
	}
	return answer, err
}

func (s pspSeam) Charge(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error) {
	w := s.x.w
	return ask(s, ctx, "psp charge", r.Reference, func() (psp.Charge, error) {
		w.spoilCharge()
		c, err := s.in.Charge(background, r)
		// What it charged, even when it then answered 500.
		if err != nil || !c.Replayed {
			for _, charge := range w.core.ChargesAfter(w.audit.counted) {
				w.audit.counted++
				w.audit.charged(charge)
			}
		}
		if retryproof.CodeOf(err) == retryproof.CodeUnknown {
			w.audit.of(r.Reference).saved500 = true
		}
		if err == nil && c.State == psp.Declined && !c.Replayed {
			w.counts.Declines++
		}
		w.pumpWebhooks()
		return c, err
	})
}

func (s pspSeam) Retrieve(ctx context.Context, id string) (psp.Charge, error) {
	return ask(s, ctx, "psp retrieve", id, func() (psp.Charge, error) { return s.in.Retrieve(background, id) })
}

func (s pspSeam) Find(ctx context.Context, reference string) ([]psp.Charge, error) {
	return ask(s, ctx, "psp find", reference, func() ([]psp.Charge, error) { return s.in.Find(background, reference) })
}

func (s pspSeam) Refund(ctx context.Context, r psp.RefundRequest) (psp.Refund, error) {
	w := s.x.w
	return ask(s, ctx, "psp refund", r.Reference, func() (psp.Refund, error) {
		fate := w.spoilRefund()
		got, err := s.in.Refund(background, r)
		w.audit.gaveBack(fate)
		if code := retryproof.CodeOf(err); code == retryproof.CodeUnknown || code == retryproof.CodePermanent || code == retryproof.CodeInvalid {
			w.audit.ofRefund(r.Reference, r.Payment).saved500 = true
		}
		w.pumpWebhooks()
		return got, err
	})
}

func (s pspSeam) FindRefunds(ctx context.Context, reference, chargeID string) ([]psp.Refund, error) {
	return ask(s, ctx, "psp find refunds", reference, func() ([]psp.Refund, error) { return s.in.FindRefunds(background, reference, chargeID) })
}

func (s pspSeam) Webhook(payload []byte, header http.Header, now time.Time) (psp.WebhookEvent, error) {
	return s.in.Webhook(payload, header, now)
}
