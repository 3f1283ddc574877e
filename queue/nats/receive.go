package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/queue"
)

// lane is what this process knows of one partition. The server knows better:
// this only saves questions.
type lane struct {
	consumer jetstream.Consumer
	number   uint64    // of the newest delivery that arrived here, 0 for none
	askedAt  time.Time // when it was asked for, which is before it was delivered
	settled  bool      // it was finished or retried
	dueAt    time.Time // when a retried message is due again
	more     bool      // more messages waited behind it
	asked    bool      // a call of Receive asks for what is due now
}

// busy reports whether asking the lane now would only find its message in
// flight, or delayed, by this process.
func (l *lane) busy(now time.Time, visibility time.Duration) bool {
	if l.settled {
		return now.Before(l.dueAt)
	}
	return l.number > 0 && now.Before(l.askedAt.Add(visibility))
}

// arrival is one delivery that reached this process.
type arrival struct {
	queue.Delivery
	ack     string
	askedAt time.Time
}

// Receive implements [queue.Queue]. It asks as many partitions at a time as it
// may return messages, first those that are known to hold more, then the others
// in turn. When nothing is due it waits for up to MaxWait for the first message.
func (q *Queue) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	if limit <= 0 || ctx.Err() != nil {
		return nil, nil
	}
	if err := q.ready(); err != nil {
		return nil, err
	}
	q.trimIfDue(ctx)
	out := q.takeSpare(limit)
	if len(out) == limit {
		return out, nil
	}
	p, err := q.newPull(limit - len(out))
	if err != nil {
		return out, q.pullError(out, err)
	}
	q.askNow(ctx, p)
	if len(out)+len(p.got) == 0 && p.err == nil {
		q.askAndWait(ctx, p)
	}
	q.endPull(p)
	if p.gone {
		q.restore(ctx)
	}
	if ctx.Err() != nil {
		q.keep(p.got)
		return out, nil
	}
	n := min(len(p.got), limit-len(out))
	q.keep(p.got[n:])
	for _, a := range p.got[:n] {
		out = append(out, a.Delivery)
	}
	return append(out, q.takeSpare(limit-len(out))...), q.pullError(out, p.err)
}

// pullError is what Receive returns: what was received counts more than what
// went wrong beside it.
func (q *Queue) pullError(out []queue.Delivery, err error) error {
	if err == nil || len(out) > 0 {
		return nil
	}
	return retryproof.Refused(retryproof.CodeUnavailable, "the server did not hand out messages", err)
}

// keep stores what arrived beyond what was asked for and wakes those who wait.
func (q *Queue) keep(more []arrival) {
	if len(more) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		for _, a := range more {
			q.giveBack(a)
		}
		return
	}
	q.spare = append(q.spare, more...)
	q.broadcast()
}

// giveBack makes a delivery that nobody received due again. An old one is left to
// its timeout: somebody else may have it by now.
func (q *Queue) giveBack(a arrival) {
	if time.Since(a.askedAt) < q.cfg.Visibility/2 {
		_ = q.nc.Publish(a.ack, []byte("-NAK")) // lost: the timeout gives it back
	}
}

// takeSpare returns deliveries that arrived earlier. Each is given its whole
// visibility timeout again; one that is so old that it may have been delivered
// elsewhere is not returned.
func (q *Queue) takeSpare(limit int) []queue.Delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []queue.Delivery
	for len(q.spare) > 0 && len(out) < limit {
		a := q.spare[0]
		q.spare = q.spare[1:]
		if time.Since(a.askedAt) > q.cfg.Visibility/4 {
			q.giveBack(a)
			continue
		}
		if err := q.nc.Publish(a.ack, []byte("+WPI")); err != nil {
			continue
		}
		out = append(out, a.Delivery)
	}
	return out
}

// pull is one call of Receive: an inbox and the lanes that were asked to answer
// to it. At most one question is open per lane.
type pull struct {
	limit   int
	sub     *natsgo.Subscription
	inbox   string
	answers chan *natsgo.Msg
	open    map[int]time.Time // lane -> when it was asked
	claimed []int
	got     []arrival
	err     error
	gone    bool // a lane's consumer seems to be gone
}

func (q *Queue) newPull(limit int) (*pull, error) {
	p := &pull{
		limit:   limit,
		inbox:   q.nc.NewInbox(),
		answers: make(chan *natsgo.Msg, 4*len(q.lanes)),
		open:    map[int]time.Time{},
	}
	var err error
	p.sub, err = q.nc.ChanSubscribe(p.inbox+".*", p.answers)
	return p, err
}

// pullRequest is the body of a JetStream pull request.
type pullRequest struct {
	Batch   int           `json:"batch"`
	Expires time.Duration `json:"expires,omitempty"`
	NoWait  bool          `json:"no_wait,omitempty"`
}

func (q *Queue) ask(p *pull, lane int, r pullRequest) {
	body, err := json.Marshal(r)
	if err == nil {
		subject := q.apiPrefix() + "CONSUMER.MSG.NEXT." + q.cfg.Stream + "." + q.cfg.consumerName(lane)
		err = q.nc.PublishRequest(subject, p.inbox+"."+strconv.Itoa(lane), body)
	}
	if err != nil {
		p.err = err
		return
	}
	p.open[lane] = time.Now()
}

func (q *Queue) apiPrefix() string {
	if q.cfg.Domain != "" {
		return "$JS." + q.cfg.Domain + ".API."
	}
	return "$JS.API."
}

// patience is how long an answer to a question that needs no waiting may take.
// After that the lane's message is in flight at another process, and the lane is
// not counted among those that may still deliver.
const patience = 10 * time.Millisecond

// askNow asks the lanes for what is due now, never more at a time than may still
// be returned.
func (q *Queue) askNow(ctx context.Context, p *pull) {
	todo := q.lanesToAsk()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for p.err == nil && ctx.Err() == nil {
		now, waiting := time.Now(), 0
		for _, at := range p.open {
			if now.Sub(at) < patience {
				waiting++
			}
		}
		for len(todo) > 0 && len(p.got)+waiting < p.limit && p.err == nil {
			if q.claim(p, todo[0]) {
				q.ask(p, todo[0], pullRequest{Batch: 1, NoWait: true})
				waiting++
			}
			todo = todo[1:]
		}
		if waiting == 0 || len(p.got) >= p.limit {
			return
		}
		timer.Reset(patience)
		select {
		case m := <-p.answers:
			q.take(p, m)
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// claim reserves a lane for one call of Receive: a second question would only
// wait behind the first.
func (q *Queue) claim(p *pull, lane int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := &q.lanes[lane]
	if l.asked || l.busy(time.Now(), q.cfg.Visibility) {
		return false
	}
	l.asked = true
	p.claimed = append(p.claimed, lane)
	return true
}

// lanesToAsk returns the lanes that may hold something due, in this call's order.
func (q *Queue) lanesToAsk() []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	var known, others []int
	now := time.Now()
	for i := range q.lanes {
		n := (q.next + i) % len(q.lanes)
		switch l := &q.lanes[n]; {
		case l.busy(now, q.cfg.Visibility):
		case l.more:
			known = append(known, n)
		default:
			others = append(others, n)
		}
	}
	q.next = (q.next + 1) % len(q.lanes)
	return append(known, others...)
}

// askAndWait asks all lanes and waits for the first message.
func (q *Queue) askAndWait(ctx context.Context, p *pull) {
	for i := range q.lanes {
		if _, asked := p.open[i]; !asked {
			q.ask(p, i, pullRequest{Batch: 1, Expires: q.cfg.MaxWait})
		}
	}
	timer := time.NewTimer(q.cfg.MaxWait)
	defer timer.Stop()
	for len(p.got) == 0 && p.err == nil {
		q.mu.Lock()
		wake, spare := q.wake, len(q.spare)
		closed := q.closed
		q.mu.Unlock()
		if spare > 0 || closed {
			return
		}
		select {
		case m := <-p.answers:
			q.take(p, m)
		case <-wake:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// withdrawTimeout bounds the wait for a server that has gone silent.
const withdrawTimeout = time.Second

// endPull withdraws the questions that are still open. A message may be on its
// way as an answer to one; after the round trip it has arrived.
func (q *Queue) endPull(p *pull) {
	defer func() { _ = p.sub.Unsubscribe() }()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, lane := range p.claimed {
			q.lanes[lane].asked = false
		}
	}()
	if len(p.open) > 0 && p.sub.Drain() == nil {
		_ = q.nc.FlushTimeout(withdrawTimeout) // else the visibility timeout gives them back
	}
	for {
		select {
		case m := <-p.answers:
			q.take(p, m)
		default:
			return
		}
	}
}

// take reads one answer: a message or a status.
func (q *Queue) take(p *pull, m *natsgo.Msg) {
	if status := m.Header.Get("Status"); status != "" && strings.HasPrefix(m.Subject, p.inbox) {
		if lane, err := strconv.Atoi(m.Subject[len(p.inbox)+1:]); err == nil {
			delete(p.open, lane)
		}
		// 404: nothing there; 408: the wait is over, or others wait already; 503: no
		// such consumer; 409: among others, it was deleted.
		p.gone = p.gone || status == "503" || status == "409"
		if status != "404" && status != "408" {
			p.err = fmt.Errorf("pull request: %s %s", status, m.Header.Get("Description"))
		}
		return
	}
	a, r, pending, err := q.arrived(m)
	if err != nil {
		p.err = err
		return
	}
	a.askedAt = p.open[r.lane]
	delete(p.open, r.lane)
	p.got = append(p.got, a)
	q.mu.Lock()
	defer q.mu.Unlock()
	l := &q.lanes[r.lane]
	l.number, l.askedAt, l.settled, l.more = r.number, a.askedAt, false, pending > 0
}

// arrived decodes a message of the stream.
func (q *Queue) arrived(m *natsgo.Msg) (arrival, receipt, uint64, error) {
	meta, err := m.Metadata()
	if err != nil {
		return arrival{}, receipt{}, 0, err
	}
	id, err1 := unescape(m.Header.Get(jetstream.MsgIDHeader))
	group, err2 := unescape(m.Header.Get(headerGroup))
	kind, err3 := unescape(m.Header.Get(headerType))
	number, err4 := strconv.Atoi(strings.TrimPrefix(meta.Consumer, "lane-"))
	if err4 != nil || number < 0 || number >= len(q.lanes) {
		return arrival{}, receipt{}, 0, fmt.Errorf("message %d of stream %s came from consumer %q, which is none of this driver's", meta.Sequence.Stream, meta.Stream, meta.Consumer)
	}
	if err1 != nil || err2 != nil || err3 != nil || id == "" || group == "" {
		// Somebody else wrote into the stream. It is handed out as it is, under its
		// place: refused here, it would block its partition, and nobody could set it
		// aside. A stream that is made again counts from 1, so the time is in it too.
		id, group, kind = fmt.Sprintf("foreign:%s:%d:%d", meta.Stream, meta.Sequence.Stream, meta.Timestamp.UnixNano()), m.Subject, ""
		q.cfg.Log.Warn("a message of the stream was not sent by this driver", "stream", meta.Stream, "sequence", meta.Sequence.Stream, "subject", m.Subject)
	}
	r := receipt{lane: number, number: meta.Sequence.Consumer, ack: m.Reply}
	return arrival{ack: m.Reply, Delivery: queue.Delivery{
		Message: queue.Message{ID: id, Group: group, Type: kind, Body: m.Data},
		Receipt: r.String(),
		Attempt: int(meta.NumDelivered),
		SentAt:  meta.Timestamp.UTC().Truncate(clock.Precision),
	}}, r, meta.NumPending, nil
}
