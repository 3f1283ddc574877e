package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"

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

func (q *Queue) openStream(ctx context.Context) error {
	want := q.cfg.streamConfig()
	s, err := q.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = q.js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody else was faster
			s, err = q.js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", want.Name, err)
	}
	if err := verifyStream(s.CachedInfo().Config, want); err != nil {
		return fmt.Errorf("stream %s exists with settings that cannot be used:\n%w", want.Name, err)
	}
	q.stream = s
	return nil
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

func (q *Queue) openConsumers(ctx context.Context) error {
	for i := range q.lanes {
		want := q.cfg.consumerConfig(i)
		c, err := q.stream.Consumer(ctx, want.Durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			c, err = q.stream.CreateConsumer(ctx, want)
			if errors.Is(err, jetstream.ErrConsumerExists) { // somebody else was faster
				c, err = q.stream.Consumer(ctx, want.Durable)
			}
		}
		if err != nil {
			return fmt.Errorf("consumer %s of stream %s: %w", want.Durable, q.cfg.Stream, err)
		}
		if err := verifyConsumer(c.CachedInfo().Config, want); err != nil {
			return fmt.Errorf("consumer %s of stream %s exists with settings that cannot be used:\n%w", want.Durable, q.cfg.Stream, err)
		}
		q.lanes[i].consumer = c
	}
	return nil
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
