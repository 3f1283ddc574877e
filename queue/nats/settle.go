package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/queue"
)

// receipt names one delivery: its lane, its number among the lane's deliveries
// and the subject that acknowledges it.
type receipt struct {
	lane   int
	number uint64
	ack    string
}

func (r receipt) String() string { return fmt.Sprintf("%d %d %s", r.lane, r.number, r.ack) }

// parseReceipt reads a receipt. It must not let a caller publish to a subject
// that is not one of JetStream's acknowledgements.
func (q *Queue) parseReceipt(s string) (receipt, error) {
	bad := retryproof.Refused(retryproof.CodeInvalid, "the receipt is not one of this queue", nil)
	lane, rest, ok := strings.Cut(s, " ")
	number, ack, ok2 := strings.Cut(rest, " ")
	r := receipt{ack: ack}
	var err, err2 error
	r.lane, err = strconv.Atoi(lane)
	r.number, err2 = strconv.ParseUint(number, 10, 64)
	if !ok || !ok2 || err != nil || err2 != nil || r.lane < 0 || r.lane >= len(q.lanes) {
		return receipt{}, bad
	}
	if !strings.HasPrefix(ack, "$JS.ACK.") || strings.ContainsAny(ack, " *>\t\r\n") ||
		!strings.Contains(ack, "."+q.cfg.Stream+"."+q.cfg.consumerName(r.lane)+".") {
		return receipt{}, bad
	}
	return r, nil
}

// Finish implements [queue.Queue]. It returns nil only when the server has said
// that it took the acknowledgement.
func (q *Queue) Finish(ctx context.Context, d queue.Delivery) (bool, error) {
	return q.settle(ctx, d, []byte("+ACK"), 0)
}

// Retry implements [queue.Queue].
func (q *Queue) Retry(ctx context.Context, d queue.Delivery, delay time.Duration) error {
	delay = max(delay, 0)
	body := []byte("-NAK")
	if delay > 0 {
		arg, err := json.Marshal(struct {
			Delay time.Duration `json:"delay"`
		}{delay})
		if err != nil {
			return err
		}
		body = append(append(body, ' '), arg...)
	}
	_, err := q.settle(ctx, d, body, delay)
	return err
}

// settle says a word to the server about a delivery, and reports false when its
// receipt is no longer current: then nothing is said.
func (q *Queue) settle(ctx context.Context, d queue.Delivery, word []byte, delay time.Duration) (bool, error) {
	r, err := q.parseReceipt(d.Receipt)
	if err != nil {
		return false, err
	}
	if err := q.ready(); err != nil {
		return false, err
	}
	ctx, cancel := bounded(ctx, answerTimeout)
	defer cancel()
	current, err := q.current(ctx, r)
	if err != nil || !current {
		return false, err
	}
	if _, err := q.nc.RequestWithContext(ctx, r.ack, word); err != nil {
		if errors.Is(err, natsgo.ErrNoResponders) || errors.Is(err, natsgo.ErrReconnectBufExceeded) {
			return false, retryproof.Refused(retryproof.CodeUnavailable, "no server took the acknowledgement", err)
		}
		return false, unknown("the server did not confirm the acknowledgement", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := &q.lanes[r.lane]; l.number == r.number {
		l.settled = true
		l.dueAt = time.Now().Add(delay)
	}
	q.broadcast()
	return true, nil
}

// current reports whether the receipt's delivery is still the newest of its lane
// and not settled. JetStream itself does not check: it takes the acknowledgement
// of any delivery of a message for one of the newest.
//
// Within half the visibility timeout after the driver asked for the message the
// server cannot have delivered it again. After that the server is asked.
func (q *Queue) current(ctx context.Context, r receipt) (bool, error) {
	q.mu.Lock()
	l := q.lanes[r.lane]
	q.mu.Unlock()
	if l.number == r.number {
		if l.settled {
			return false, nil
		}
		if time.Since(l.askedAt) < q.cfg.Visibility/2 {
			return true, nil
		}
	}
	info, err := l.consumer.Info(ctx)
	if err != nil {
		return false, retryproof.Refused(retryproof.CodeUnavailable, "the server did not say whether the receipt is current", err)
	}
	return info.Delivered.Consumer == r.number && info.NumAckPending > 0, nil
}
