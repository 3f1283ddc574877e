package nats

import (
	"context"
	"errors"
	"slices"
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
	// removed says, per lane, up to where its messages were removed one subject at a
	// time, so that this is not asked for again. Only the trim that runs uses it.
	removed []uint64
	// created tells a stream that was made again, whose messages count from 1.
	created time.Time
}

// trimIfDue trims four times per dedup window. Many processes may do it: a
// message is removed only when its consumer's acknowledgements have passed it.
// A message that is never finished keeps what was sent after it to its own
// partition, and that is not finished either.
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
	bound, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := q.trimOnce(bound)
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
	if !info.Created.Equal(q.trim.created) {
		q.trim.created, q.trim.removed = info.Created, make([]uint64, len(q.lanes))
	}
	first := info.State.FirstSeq
	upTo, err := q.olderThanWindow(ctx, info)
	if err != nil || upTo < first {
		return err
	}
	finished := make([]uint64, len(q.lanes))
	for i := range finished {
		if finished[i], err = q.finishedUpTo(ctx, i, upTo); err != nil {
			return err
		}
	}
	floor := slices.Min(finished)
	if floor >= first {
		if err := q.stream.Purge(ctx, jetstream.WithPurgeSequence(floor+1)); err != nil {
			return err
		}
	}
	return q.trimLanes(ctx, floor, finished)
}

// trimLanes removes what is finished behind the first message that is not. It is
// lane by lane, since one merchant's bad message must not fill the disk of all.
func (q *Queue) trimLanes(ctx context.Context, floor uint64, finished []uint64) error {
	for i, upTo := range finished {
		if upTo <= max(floor, q.trim.removed[i]) {
			continue
		}
		subject := q.cfg.consumerConfig(i).FilterSubject
		if err := q.stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(upTo+1)); err != nil {
			return err
		}
		q.trim.removed[i] = upTo
	}
	return nil
}

// olderThanWindow returns the newest message whose id the server has forgotten, 0
// for none. It goes by the server's clock alone, as the server does, and keeps
// nothing in this process, which may never be older than the window itself.
func (q *Queue) olderThanWindow(ctx context.Context, info *jetstream.StreamInfo) (uint64, error) {
	if info.TimeStamp.IsZero() {
		return 0, errors.New("the server does not tell its time")
	}
	window := max(q.cfg.DedupWindow, info.Config.Duplicates)
	old := func(stored time.Time) bool { return info.TimeStamp.Sub(stored) > window }
	state := info.State
	switch {
	case state.Msgs == 0 || !old(state.FirstTime):
		return 0, nil
	case old(state.LastTime):
		return state.LastSeq, nil
	}
	oldest, young := state.FirstSeq, state.LastSeq
	for oldest+1 < young {
		middle := oldest + (young-oldest)/2
		m, err := q.stream.GetMsg(ctx, middle, jetstream.WithGetMsgSubject(q.cfg.Subject+".>")) // it, or the next that is there
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			young = middle
		case err != nil:
			return 0, err
		case old(m.Time):
			oldest = max(middle, m.Sequence)
		default:
			young = middle
		}
	}
	return oldest, nil
}

// finishedUpTo lowers upTo so that no message of the lane up to it is unfinished. A
// lane is worked off in order, so everything up to its consumer's floor is
// finished, and the next message of the lane is the first that is not. The consumer
// is asked first: what is finished afterwards only makes the answer too low.
func (q *Queue) finishedUpTo(ctx context.Context, lane int, upTo uint64) (uint64, error) {
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

// Stats is what the stream holds.
type Stats struct {
	// Messages are those that are not finished and those that are, within the dedup
	// window.
	Messages uint64
	// Bytes is their size on disk.
	Bytes uint64
}

// Stats asks the server what the stream holds. An error is NotDone.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	if err := q.ready(); err != nil {
		return Stats{}, err
	}
	ctx, cancel := bounded(ctx, answerTimeout)
	defer cancel()
	info, err := q.stream.Info(ctx)
	if err != nil {
		return Stats{}, unavailable("the server did not say what the stream holds", err)
	}
	return Stats{Messages: info.State.Msgs, Bytes: info.State.Bytes}, nil
}
