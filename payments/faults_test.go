package payments_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/psp"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/queue"
)

// charging runs a charge.
type charging func(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error)

// processor is the way to the payment company: it counts what is asked, and a
// test may put something around the charges.
type processor struct {
	pspemulator.Direct
	mu     sync.Mutex
	calls  map[string]int
	asked  []psp.ChargeRequest
	around func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error)
	// refunds are the refund requests; aroundRefund is as around.
	refunds      []psp.RefundRequest
	aroundRefund func(ctx context.Context, r psp.RefundRequest, next refunding) (psp.Refund, error)
}

// refunding runs a refund.
type refunding func(ctx context.Context, r psp.RefundRequest) (psp.Refund, error)

func (p *processor) setRefund(f func(ctx context.Context, r psp.RefundRequest, next refunding) (psp.Refund, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aroundRefund = f
}

func (p *processor) refundRequests() []psp.RefundRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]psp.RefundRequest(nil), p.refunds...)
}

func (p *processor) Refund(ctx context.Context, r psp.RefundRequest) (psp.Refund, error) {
	p.mu.Lock()
	p.calls["refund"]++
	p.refunds = append(p.refunds, r)
	around := p.aroundRefund
	p.mu.Unlock()
	next := func(ctx context.Context, r psp.RefundRequest) (psp.Refund, error) {
		return p.Direct.Refund(context.WithoutCancel(ctx), r)
	}
	if around == nil {
		return next(ctx, r)
	}
	return around(ctx, r, next)
}

func (p *processor) set(f func(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.around = f
}

func (p *processor) count(call string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[call]
}

func (p *processor) requests() []psp.ChargeRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]psp.ChargeRequest(nil), p.asked...)
}

func (p *processor) Charge(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error) {
	p.mu.Lock()
	p.calls["charge"]++
	p.asked = append(p.asked, r)
	around := p.around
	p.mu.Unlock()
	// A caller who hangs up does not stop a payment company.
	next := func(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error) {
		return p.Direct.Charge(context.WithoutCancel(ctx), r)
	}
	if around == nil {
		return next(ctx, r)
	}
	return around(ctx, r, next)
}

func (p *processor) Retrieve(ctx context.Context, id string) (psp.Charge, error) {
	p.mu.Lock()
	p.calls["retrieve"]++
	p.mu.Unlock()
	return p.Direct.Retrieve(ctx, id)
}

func (p *processor) Find(ctx context.Context, reference string) ([]psp.Charge, error) {
	p.mu.Lock()
	p.calls["find"]++
	p.mu.Unlock()
	return p.Direct.Find(ctx, reference)
}

var errNoAnswer = &retryproof.Error{Code: pspemulator.CodeNoAnswer, Message: "nobody answered"}

// silence charges and lets the caller wait for an answer until its deadline.
func (w *world) silence(ctx context.Context, r psp.ChargeRequest, next charging) (psp.Charge, error) {
	if _, err := next(ctx, r); err != nil {
		return psp.Charge{}, err
	}
	return psp.Charge{}, w.hang(ctx)
}

// hang waits until the caller gives up.
func (w *world) hang(ctx context.Context) error {
	_ = w.clock.Sleep(ctx, time.Hour)
	return errNoAnswer
}

// effects is a store between two hooks: before may refuse, after may lose the
// answer. A process that died has a before that refuses everything.
type effects struct {
	effect.Store
	before, after func(op string) error
}

func around[T any](e effects, op string, ask func() (T, error)) (T, error) {
	var none T
	if e.before != nil {
		if err := e.before(op); err != nil {
			return none, err
		}
	}
	got, err := ask()
	if err == nil && e.after != nil {
		if err := e.after(op); err != nil {
			return none, err
		}
	}
	return got, err
}

func (e effects) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	return around(e, "begin", func() (effect.Seen, error) { return e.Store.Begin(ctx, b) })
}

func (e effects) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	return around(e, "adopt", func() (effect.Seen, error) { return e.Store.Adopt(ctx, a) })
}

func (e effects) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	return around(e, "settle", func() (effect.Settled, error) { return e.Store.Settle(ctx, s) })
}

func (e effects) Complete(ctx context.Context, c effect.Completion) (bool, error) {
	return around(e, "complete", func() (bool, error) { return e.Store.Complete(ctx, c) })
}

func (e effects) Release(ctx context.Context, r effect.Release) (bool, error) {
	return around(e, "release", func() (bool, error) { return e.Store.Release(ctx, r) })
}

func (e effects) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	return around(e, "look", func() (effect.Seen, error) { return e.Store.Look(ctx, l) })
}

// keys is a key store that may be away.
type keys struct {
	effect.Keys
	away func() error
}

func (k keys) ClaimKey(ctx context.Context, b effect.Begin) (*effect.Claim, error) {
	if err := k.away(); err != nil {
		return nil, err
	}
	return k.Keys.ClaimKey(ctx, b)
}

func (k keys) AdoptKey(ctx context.Context, a effect.Adopt) (*effect.Claim, error) {
	if err := k.away(); err != nil {
		return nil, err
	}
	return k.Keys.AdoptKey(ctx, a)
}

func (k keys) CompleteKey(ctx context.Context, c effect.Completion) (bool, error) {
	if err := k.away(); err != nil {
		return false, err
	}
	return k.Keys.CompleteKey(ctx, c)
}

func (k keys) ReleaseKey(ctx context.Context, r effect.Release) error {
	if err := k.away(); err != nil {
		return err
	}
	return k.Keys.ReleaseKey(ctx, r)
}

func (k keys) LookKey(ctx context.Context, l effect.Look) (*effect.Claim, error) {
	if err := k.away(); err != nil {
		return nil, err
	}
	return k.Keys.LookKey(ctx, l)
}

// guards is a guard store whose inserts may fail.
type guards struct {
	effect.Guards
	record func() error
}

func (g guards) RecordGuard(ctx context.Context, b effect.Begin) (*effect.Guard, error) {
	if err := g.record(); err != nil {
		return nil, err
	}
	return g.Guards.RecordGuard(ctx, b)
}

// crash is the panic of a process that dies.
type crash struct{}

// dies runs a step of a process that dies in it.
func dies(w *world, step func()) {
	w.t.Helper()
	defer func() {
		if _, died := recover().(crash); !died {
			w.t.Error("the step did not reach the crash")
		}
	}()
	step()
}

// diesBeforeDelete is an outbox whose process dies between the queue's answer and
// the delete.
type diesBeforeDelete struct{ outbox.Store }

func (diesBeforeDelete) Delete(context.Context, string, []string) ([]string, error) { panic(crash{}) }

// diesBeforeMark is a store whose process dies between a push and its mark.
type diesBeforeMark struct{ notify.Store }

func (diesBeforeMark) MarkSent(context.Context, notify.Key, time.Time) (bool, error) { panic(crash{}) }

// dyingQueue is the queue of a process that has died in a follow-up: a panic there is
// survived, a crash ends nothing any more.
type dyingQueue struct{ queue.Queue }

func (dyingQueue) Retry(context.Context, queue.Delivery, time.Duration) error { panic(crash{}) }

// flakyQueue fails some calls.
type flakyQueue struct {
	queue.Queue
	mu             sync.Mutex
	failSend       error
	finishesToFail int
	received       int
}

func (q *flakyQueue) Send(ctx context.Context, m queue.Message) error {
	q.mu.Lock()
	err := q.failSend
	q.mu.Unlock()
	if err != nil {
		return err
	}
	return q.Queue.Send(ctx, m)
}

func (q *flakyQueue) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	got, err := q.Queue.Receive(ctx, limit)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.received += len(got)
	return got, err
}

func (q *flakyQueue) Finish(ctx context.Context, d queue.Delivery) (bool, error) {
	q.mu.Lock()
	fail := q.finishesToFail > 0
	q.finishesToFail--
	q.mu.Unlock()
	if fail {
		return false, errors.New("the queue did not answer the delete")
	}
	return q.Queue.Finish(ctx, d)
}
