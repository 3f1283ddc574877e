package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/retryproof/retryproof/queue/nats"
	"github.com/retryproof/retryproof/queue/nats/embedded"
)

// openNATS connects to a server, or starts the embedded one when url is empty. The
// embedded one syncs every message to disk before it is acknowledged.
func openNATS(ctx context.Context, url, stream, dir string, log *slog.Logger) (openedQueue, error) {
	// The stream's name is its subjects' too, so that two ledgers never share one.
	config := nats.Config{Log: log, Stream: stream, Subject: "retryproof." + stream}
	if url != "" {
		q, err := nats.Dial(ctx, url, config)
		if err != nil {
			return openedQueue{}, fmt.Errorf("--queue: %w", err)
		}
		warnUnsynced(ctx, q, log)
		return openedQueue{Queue: q, close: q.Close, stored: storedIn(q)}, nil
	}
	// The server tells of its start at length; only its warnings are for us.
	server, err := embedded.Start(embedded.Config{Dir: dir, Log: slog.New(warningsOnly{log.Handler()})})
	if err != nil {
		return openedQueue{}, fmt.Errorf("the embedded queue: %w", err)
	}
	q, err := server.Open(ctx, config)
	if err != nil {
		return openedQueue{}, errors.Join(fmt.Errorf("the embedded queue: %w", err), server.Close())
	}
	return openedQueue{Queue: q, close: func() error { return errors.Join(q.Close(), server.Close()) }, stored: storedIn(q)}, nil
}

// warnUnsynced says once what nobody can see from here: whether the server syncs.
func warnUnsynced(ctx context.Context, q *nats.Queue, log *slog.Logger) {
	if err := q.VerifySync(ctx); err != nil {
		log.Warn("the queue's server may acknowledge before it syncs: its default loses up to two minutes of events in a power failure. "+
			"Have its operator set jetstream { sync_interval: always }", "error", err)
	}
}

// storedIn tells what a stream holds.
func storedIn(q *nats.Queue) func(ctx context.Context) (messages, bytes uint64, err error) {
	return func(ctx context.Context) (uint64, uint64, error) {
		s, err := q.Stats(ctx)
		return s.Messages, s.Bytes, err
	}
}

// watchQueue shows what the queue holds, if it says so.
func watchQueue(m *promMetrics, q openedQueue) {
	if q.stored == nil {
		return
	}
	read := func(pick func(messages, bytes uint64) uint64) func() float64 {
		return func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			messages, bytes, err := q.stored(ctx)
			if err != nil {
				return -1
			}
			return float64(pick(messages, bytes))
		}
	}
	m.gauge("retryproof_queue_messages", read(func(messages, _ uint64) uint64 { return messages }))
	m.gauge("retryproof_queue_bytes", read(func(_, bytes uint64) uint64 { return bytes }))
}

// warningsOnly drops what is below a warning.
type warningsOnly struct{ slog.Handler }

// Enabled reports whether a line of this level is written.
func (h warningsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}
