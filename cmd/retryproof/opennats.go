package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

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
		return openedQueue{Queue: q, close: q.Close}, nil
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
	return openedQueue{Queue: q, close: func() error { return errors.Join(q.Close(), server.Close()) }}, nil
}

// warningsOnly drops what is below a warning.
type warningsOnly struct{ slog.Handler }

// Enabled reports whether a line of this level is written.
func (h warningsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}
