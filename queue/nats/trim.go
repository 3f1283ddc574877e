package nats

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// trimmer removes finished messages whose dedup window has passed. The stream
// cannot do it by itself: with a work-queue retention a restarted server would
// forget the ids of finished messages, and with a maximum age it would drop
// unfinished ones.
type trimmer struct {
	running bool
	last    time.Time
	marks   []mark // oldest first
}

// mark says that all messages up to seq were stored before at, on this process's
// clock.
type mark struct {
	at  time.Time
	seq uint64
}

// trimIfDue trims four times per dedup window. Many processes may do it: a
// message is removed only when its consumer's acknowledgements have passed it.
// A message that is never finished keeps all that were sent after it.
func (q *Queue) trimIfDue(ctx context.Context) {
	q.mu.Lock()
	every := q.cfg.DedupWindow / 4
	due := !q.trim.running && time.Since(q.trim.last) >= every
	if due {
		q.trim.running, q.trim.last = true, time.Now()
	}
	q.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := q.trimOnce(ctx)
	q.mu.Lock()
	q.trim.running = false
	q.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		q.cfg.Log.Warn("finished messages could not be removed from the stream; trying again later", "stream", q.cfg.Stream, "error", err)
	}
}

func (q *Queue) trimOnce(ctx context.Context) error {
	info, err := q.stream.Info(ctx)
	if err != nil {
		return err
	}
	upTo := q.trim.old(time.Now(), q.cfg.DedupWindow, info.State.LastSeq)
	if upTo < info.State.FirstSeq {
		return nil
	}
	for i := range q.lanes {
		if upTo, err = q.unfinishedBefore(ctx, i, upTo); err != nil {
			return err
		}
	}
	if upTo < info.State.FirstSeq {
		return nil
	}
	return q.stream.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
}

// old notes the newest message and returns the newest one that is known to be
// older than the window. Only the trim that runs calls it.
func (t *trimmer) old(now time.Time, window time.Duration, last uint64) uint64 {
	var upTo uint64
	for len(t.marks) > 0 && now.Sub(t.marks[0].at) > window {
		upTo = t.marks[0].seq
		t.marks = t.marks[1:]
	}
	t.marks = append(t.marks, mark{now, last})
	return upTo
}

// unfinishedBefore lowers upTo so that no message of the lane up to it is
// unfinished. A lane is worked off in order, so everything up to its
// consumer's floor is finished, and the next message of the lane is the first
// that is not. The consumer is asked first: what is finished afterwards only
// makes the answer too low.
func (q *Queue) unfinishedBefore(ctx context.Context, lane int, upTo uint64) (uint64, error) {
	consumer, err := q.lanes[lane].consumer.Info(ctx)
	if err != nil {
		return 0, err
	}
	floor := consumer.AckFloor.Stream
	if floor >= upTo {
		return upTo, nil
	}
	first, err := q.stream.GetMsg(ctx, floor+1, jetstream.WithGetMsgSubject(q.cfg.consumerConfig(lane).FilterSubject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return upTo, nil // all that the lane held is finished
	}
	if err != nil {
		return 0, err
	}
	return min(upTo, first.Sequence-1), nil
}
