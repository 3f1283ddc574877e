package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// streamConfig is the stream as this driver needs it. The server computes the
// partition, so that every sender agrees on it.
func (c Config) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        c.Stream,
		Description: "retryproof events: one partition per group, finished messages kept for the dedup window",
		Subjects:    []string{c.Subject + ".*"},
		SubjectTransform: &jetstream.SubjectTransformConfig{
			Source:      c.Subject + ".*",
			Destination: fmt.Sprintf("%s.{{partition(%d,1)}}.{{wildcard(1)}}", c.Subject, c.Partitions),
		},
		Retention:  jetstream.LimitsPolicy,
		Storage:    jetstream.FileStorage,
		Discard:    jetstream.DiscardNew,
		Duplicates: c.DedupWindow,
		Replicas:   c.Replicas,
	}
}

// findStream returns the stream, and whether it had to be made.
func (q *Queue) findStream(ctx context.Context) (s jetstream.Stream, made bool, err error) {
	want := q.cfg.streamConfig()
	s, err = q.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = q.js.CreateStream(ctx, want)
		made = err == nil
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody else was faster
			s, err = q.js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("stream %s: %w", want.Name, err)
	}
	if err := verifyStream(s.CachedInfo().Config, want); err != nil {
		return nil, false, fmt.Errorf("stream %s exists with settings that cannot be used:\n%w", want.Name, err)
	}
	return s, made, nil
}

// verifyStream returns everything in got that would break a promise.
func verifyStream(got, want jetstream.StreamConfig) error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(got.Storage == jetstream.FileStorage, "storage is %v: a restart would lose acknowledged messages; want file", got.Storage)
	check(got.PersistMode == jetstream.DefaultPersistMode, "persist_mode is asynchronous: an acknowledged message may not be on disk; want default")
	check(!got.NoAck, "no_ack is set: a send would never be acknowledged; want it unset")
	check(got.Retention == jetstream.LimitsPolicy, "retention is %v: ids of finished messages would be forgotten at a restart; want limits", got.Retention)
	check(got.Duplicates >= want.Duplicates, "duplicate_window >= DedupWindow must hold, duplicate_window is %v, DedupWindow is %v", got.Duplicates, want.Duplicates)
	check(got.MaxAge == 0, "max_age is %v: unfinished messages would be dropped; want 0", got.MaxAge)
	check(got.MaxMsgsPerSubject <= 0, "max_msgs_per_subject is %d: unfinished messages would be dropped; want no limit", got.MaxMsgsPerSubject)
	limited := got.MaxMsgs > 0 || got.MaxBytes > 0
	check(!limited || got.Discard == jetstream.DiscardNew, "max_msgs or max_bytes is set and discard is old: unfinished messages would be dropped; want discard new")
	check(got.Replicas >= want.Replicas, "num_replicas >= Replicas must hold, num_replicas is %d, Replicas is %d", got.Replicas, want.Replicas)
	check(!got.Sealed && !got.DenyPurge, "sealed or deny_purge is set: finished messages could never be removed; want both unset")
	check(got.Mirror == nil && len(got.Sources) == 0, "the stream copies from others; want no mirror and no sources")
	check(len(got.Subjects) == 1 && got.Subjects[0] == want.Subjects[0], "subjects are %q, want %q", got.Subjects, want.Subjects)
	gotTransform := "none"
	if t := got.SubjectTransform; t != nil {
		gotTransform = t.Source + " -> " + t.Destination
	}
	wantTransform := want.SubjectTransform.Source + " -> " + want.SubjectTransform.Destination
	check(gotTransform == wantTransform, "subject_transform is %q, want %q: the number of partitions cannot change while the stream holds messages; drain it and delete it, or use the old number", gotTransform, wantTransform)
	return errors.Join(errs...)
}

func (c Config) consumerName(lane int) string { return "lane-" + strconv.Itoa(lane) }

func (c Config) consumerConfig(lane int) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       c.consumerName(lane),
		FilterSubject: fmt.Sprintf("%s.%d.*", c.Subject, lane),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		ReplayPolicy:  jetstream.ReplayInstantPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       c.Visibility,
		MaxAckPending: 1,
		MaxDeliver:    -1,
		MaxWaiting:    4096,
	}
}

// findConsumer returns the consumer of a lane, and whether it had to be made.
func (q *Queue) findConsumer(ctx context.Context, s jetstream.Stream, lane int) (c jetstream.Consumer, made bool, err error) {
	want := q.cfg.consumerConfig(lane)
	c, err = s.Consumer(ctx, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		c, err = s.CreateConsumer(ctx, want)
		made = err == nil
		if errors.Is(err, jetstream.ErrConsumerExists) { // somebody else was faster
			c, err = s.Consumer(ctx, want.Durable)
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("consumer %s of stream %s: %w", want.Durable, q.cfg.Stream, err)
	}
	if err := verifyConsumer(c.CachedInfo().Config, want); err != nil {
		return nil, false, fmt.Errorf("consumer %s of stream %s exists with settings that cannot be used:\n%w", want.Durable, q.cfg.Stream, err)
	}
	return c, made, nil
}

// openAll finds the stream and its consumers when the queue is opened.
func (q *Queue) openAll(ctx context.Context) (err error) {
	if q.stream, _, err = q.findStream(ctx); err != nil {
		return err
	}
	for i := range q.lanes {
		if q.lanes[i].consumer, _, err = q.findConsumer(ctx, q.stream, i); err != nil {
			return err
		}
	}
	return nil
}

// restoreEvery is how often, at most, a process looks for a stream that is gone.
const restoreEvery = time.Second

// restore makes the stream and its consumers again when the server says that they do
// not exist: somebody deleted them, or the server lost its disk. What the stream held
// and was not finished is lost, and that is said aloud; without it nothing would be sent
// or received until every process had been restarted. The handles that are held stay
// good: they are names.
func (q *Queue) restore(ctx context.Context) {
	q.mu.Lock()
	due := !q.closed && time.Since(q.restored) >= restoreEvery
	if due {
		q.restored = time.Now()
	}
	q.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	s, made, err := q.findStream(ctx)
	if made {
		q.cfg.Log.Error("the stream was gone and was made again: messages that it held and that were not finished are lost", "stream", q.cfg.Stream)
	}
	for i := 0; err == nil && i < len(q.lanes); i++ {
		var again bool
		if _, again, err = q.findConsumer(ctx, s, i); !again {
			continue
		}
		if !made {
			q.cfg.Log.Error("a consumer was gone and was made again: the stored messages of its partition are delivered again", "stream", q.cfg.Stream, "consumer", q.cfg.consumerName(i))
		}
		q.mu.Lock()
		l := &q.lanes[i] // its deliveries are counted from 1 again
		l.number, l.settled, l.dueAt, l.more = 0, false, time.Time{}, false
		q.mu.Unlock()
	}
	if err != nil {
		q.cfg.Log.Warn("the stream or a consumer seems to be gone, and could not be made again; trying again later", "stream", q.cfg.Stream, "error", err)
	}
}

// verifyConsumer returns everything in got that would break a promise.
func verifyConsumer(got, want jetstream.ConsumerConfig) error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(got.FilterSubject == want.FilterSubject, "filter_subject is %q, want %q", got.FilterSubject, want.FilterSubject)
	check(got.DeliverPolicy == want.DeliverPolicy, "deliver_policy is %v: stored messages would be skipped; want all", got.DeliverPolicy)
	check(got.AckPolicy == want.AckPolicy, "ack_policy is %v, want explicit", got.AckPolicy)
	check(got.AckWait == want.AckWait, "ack_wait is %v, Visibility is %v: they must be equal; change one", got.AckWait, want.AckWait)
	check(got.MaxAckPending == 1, "max_ack_pending is %d: a group would not be in order; want 1", got.MaxAckPending)
	check(got.MaxDeliver <= 0, "max_deliver is %d: messages would be given up; want no limit", got.MaxDeliver)
	check(len(got.BackOff) == 0, "backoff is set and would replace the visibility timeout; want none")
	check(got.InactiveThreshold == 0, "inactive_threshold is %v: an idle consumer would be deleted and its place lost; want 0", got.InactiveThreshold)
	check(!got.HeadersOnly, "headers_only is set: bodies would be lost; want it unset")
	check(!got.MemoryStorage, "mem_storage is set: a restart would deliver finished messages again; want it unset")
	return errors.Join(errs...)
}
