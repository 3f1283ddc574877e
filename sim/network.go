package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/retryproof/retryproof/psp/emulator"
)

// Message is an HTTP request on its way to the API.
type Message struct {
	// Label names it in the trace: "A1".
	Label string
	// Path is the path with its query; Method defaults to POST.
	Method, Path string
	Token, Key   string
	Header       http.Header
	Body         []byte
	// Queued is how long it waits between the balancer's stamp and the node.
	Queued time.Duration
	// stamps and remote are the balancer's; stamp is room for the usual one.
	stamps []string
	stamp  [1]string
	remote string
	// event is its name in the trace.
	event string
}

// Reply is an answer of the API.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
	// At is when the server had written it, Began when it saw the request.
	At, Began time.Duration
}

var errConnection = errors.New("sim: connection refused")

// Deliver hands the message to a node after the given time: the balancer stamps it, it
// waits as long as it says, and then a task of that node serves it; answered is called
// with the reply as the server wrote it. A node that is dead by then refuses; one that
// dies meanwhile never answers.
func (w *World) Deliver(n *Node, after time.Duration, m Message, answered func(Reply, error)) {
	x := &delivery{w: w, n: n, m: m, answered: answered}
	if after <= 0 {
		x.stamp()
		return
	}
	w.After(after, x.stamp)
}

// delivery is one message on its way to one node.
type delivery struct {
	w        *World
	n        *Node
	p        *Process // n's life that serves it
	m        Message
	answered func(Reply, error)
}

func (x *delivery) stamp() {
	x.m.event = "http " + x.m.Label
	x.w.stamp(&x.m)
	if x.m.Queued == 0 {
		x.arrive()
		return
	}
	x.w.After(x.m.Queued, x.arrive)
}

// arrive lets the node's present life serve the message.
func (x *delivery) arrive() {
	w, n := x.w, x.n
	if n.p.dead {
		w.trace.add(w.now, n.Name, x.m.event, "refused", "")
		x.answered(Reply{}, errConnection)
		return
	}
	x.p = n.p
	w.Go(n.p, 0, x.serve)
}

func (x *delivery) serve() {
	w, p, handler := x.w, x.p, x.n.System.Handler()
	p.resumeAfterPause()
	began := w.now
	w.trace.add(w.now, p.Name, x.m.event, "arrives", "")
	rec := w.answer(handler, &x.m)
	w.trace.add(w.now, p.Name, x.m.event, statusText(rec.status), "")
	x.answered(Reply{Status: rec.status, Header: rec.header, Body: rec.body, At: w.now, Began: began}, nil)
}

func statusText(status int) string {
	switch status {
	case 200:
		return "200"
	case 201:
		return "201"
	case 202:
		return "202"
	case 402:
		return "402"
	case 409:
		return "409"
	case 422:
		return "422"
	case 503:
		return "503"
	}
	return fmt.Sprint(status)
}

// apiNode picks the API node that the load balancer sends a request to; nil when
// none is alive.
func (w *World) apiNode() *Node {
	alive := make([]*Node, 0, 8)
	for _, n := range w.nodes {
		if n.Role == "api" && !n.p.dead {
			alive = append(alive, n)
		}
	}
	if len(alive) == 0 {
		return nil
	}
	return alive[w.rand.IntN(len(alive))]
}

// Exchange sends a message from a process that is not part of the system and waits
// for the answer, up to the timeout. False is no answer: nobody knows.
func (w *World) Exchange(p *Process, m Message, timeout time.Duration) (Reply, bool) {
	x := &exchange{w: w, m: m, answer: future{w: w}}
	w.After(w.oneWay(), func() { x.send(false) })
	if w.chance(w.chaos.Copy) {
		w.counts.Copies++
		w.After(w.oneWay()+w.extent(4*time.Second), func() { x.send(true) })
	}
	ok := x.answer.await(background, p, timeout) && x.failed == nil
	return x.reply, ok
}

// exchange is a message and what came back.
type exchange struct {
	w      *World
	m      Message
	answer future
	reply  Reply
	failed error
}

// oneWay is how long the network takes.
func (w *World) oneWay() time.Duration {
	d := w.options.Latency["net"]
	if w.options.Jitter > 0 {
		d += w.upTo(w.options.Jitter)
	}
	if w.chance(w.chaos.Slow) {
		d += w.extent(w.chaos.MaxSlow)
	}
	return d
}

// send hands the message to a node, and the answer back unless the message is a copy.
func (x *exchange) send(copied bool) {
	w := x.w
	n := w.apiNode()
	if n == nil || w.chance(w.chaos.Refuse) {
		w.trace.add(w.now, "net", "http "+x.m.Label, "lost", "")
		return
	}
	m := x.m
	m.Queued = w.queued(m.Label)
	w.Deliver(n, 0, m, func(r Reply, err error) {
		if err == nil {
			w.audit.answered(x.m, r, r.Began)
		}
		if copied || w.chance(w.chaos.Lose) {
			w.counts.LostReplies++
			return
		}
		w.After(w.oneWay(), func() { x.reply, x.failed = r, err; x.answer.resolve() })
	})
}

// deliverer brings the processor's webhooks to the API.
type deliverer struct{ w *World }

// Deliver implements emulator.Deliverer.
func (d deliverer) Deliver(_ context.Context, payload []byte, signature string) error {
	w := d.w
	m := Message{Label: "webhook", Path: "/webhooks/psp", Body: payload, Header: http.Header{emulator.SignatureHeader: {signature}}}
	if w.unheard() && !w.options.Silence.WebhooksHeard {
		return errConnection
	}
	if r, ok := w.Exchange(w.processor, m, 10*time.Second); ok && r.Status/100 == 2 {
		return nil
	}
	return errors.New("sim: the webhook was not taken")
}

// pumpWebhooks delivers what is due, as long as there is something.
func (w *World) pumpWebhooks() {
	if w.pumping || w.options.NoWebhooks {
		return
	}
	w.pumping = true
	w.Go(w.processor, 0, func() {
		defer func() { w.pumping = false }()
		for {
			next, ok := w.core.NextWebhook()
			if !ok {
				return
			}
			if wait := next.Sub(w.processor.clockNow()); wait > 0 {
				_ = w.wait(nil, wait)
			}
			_, _ = w.core.RunOnce(background) // what failed is due again later
		}
	})
}

// spoilCharge lets the processor misbehave with the charge that comes next.
func (w *World) spoilCharge() {
	if !w.faulty {
		return
	}
	w.spoil(append(w.refusal(emulator.OperationCharge), w.oddWebhook(emulator.OperationCharge)...))
}

// spoilRefund does so with a refund, which may also be undecided for a while, or come
// back from the bank. It says which of these the refund that comes next would meet.
func (w *World) spoilRefund() emulator.Action {
	if !w.faulty {
		return ""
	}
	faults := w.refusal(emulator.OperationRefund)
	var fate emulator.Action
	if w.chance(w.chaos.Error500) {
		fates := []emulator.Action{emulator.Processing, emulator.FailPending, emulator.FailLater}
		fate = fates[w.pick(len(fates))]
		faults = append(faults, emulator.Fault{Operation: emulator.OperationRefund, Do: fate, By: time.Second + w.extent(40*time.Second)})
	}
	w.spoil(append(faults, w.oddWebhook(emulator.OperationRefund)...))
	return fate
}

func (w *World) spoil(faults []emulator.Fault) {
	w.core.ClearFaults()
	if err := w.core.AddFaults(faults...); err != nil {
		panic(err) // the faults are fixed
	}
}

func (w *World) refusal(op emulator.Operation) (faults []emulator.Fault) {
	if w.chance(w.chaos.Decline) {
		faults = append(faults, emulator.Fault{Operation: op, Do: emulator.Decline})
	}
	if w.chance(w.chaos.Error500) {
		when := emulator.BeforeEffect
		if w.pick(2) == 0 {
			when = emulator.AfterEffect
		}
		faults = append(faults, emulator.Fault{Operation: op, Do: emulator.Error500, When: when})
	}
	return faults
}

func (w *World) oddWebhook(op emulator.Operation) []emulator.Fault {
	if !w.chance(w.chaos.WebhookOdd) {
		return nil
	}
	odd := []emulator.Fault{
		{Operation: op, Do: emulator.WebhookLate, By: time.Second + w.extent(20*time.Second)},
		{Operation: op, Do: emulator.WebhookTwice, By: w.extent(5 * time.Second)},
		{Operation: op, Do: emulator.WebhookNever},
	}
	return odd[w.pick(len(odd)):][:1]
}
