package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/queue"
	queuememory "github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/store/memory"
	"github.com/retryproof/retryproof/store/postgres"
	"github.com/retryproof/retryproof/store/sqlite"
)

// openedStore is a store and how to close it.
type openedStore struct {
	payments.Stores
	close func() error
	// kind is "sqlite", "postgres" or "memory".
	kind string
}

// storeKinds is what --store takes, for error messages.
const storeKinds = "a store is postgres://…, sqlite:PATH or memory"

// openStore opens the store that the URL names; fallback is the SQLite file of an
// empty one. migrate applies missing migrations.
func openStore(ctx context.Context, url, fallback string, migrate bool) (openedStore, error) {
	switch {
	case url == "memory":
		return openedStore{Stores: memory.New().Payments(), close: func() error { return nil }, kind: "memory"}, nil
	case strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://"):
		s, err := postgres.Open(ctx, postgres.Config{URL: url, Migrate: migrate})
		if err != nil {
			return openedStore{}, storeError(err)
		}
		return openedStore{Stores: s.Payments(), close: s.Close, kind: "postgres"}, nil
	case url == "" && fallback != "":
		url = "sqlite:" + fallback
	case !strings.HasPrefix(url, "sqlite:"):
		return openedStore{}, misuse{fmt.Errorf("--store %q: %s", redacted(url), storeKinds)}
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: url, Migrate: migrate})
	if err != nil {
		return openedStore{}, fmt.Errorf("--store: %w", err)
	}
	return openedStore{Stores: s.Payments(), close: s.Close, kind: "sqlite"}, nil
}

// redacted keeps a password in a mistyped URL off the screen.
func redacted(url string) string {
	if at := strings.LastIndexByte(url, '@'); at >= 0 {
		return "…" + url[at:]
	}
	return url
}

// openedQueue is a queue and how to close it.
type openedQueue struct {
	queue.Queue
	close func() error
	// stored tells how many messages and bytes it holds; nil when it does not say.
	stored func(ctx context.Context) (messages, bytes uint64, err error)
}

// openQueue opens the queue that the URL names; an empty one starts the embedded
// server in dir.
func openQueue(ctx context.Context, url, stream, dir string, log *slog.Logger) (openedQueue, error) {
	switch {
	case url == "memory":
		log.Warn("--queue memory forgets unsent messages when the process ends")
		q, err := queuememory.New(clock.System(), queuememory.Config{})
		return openedQueue{Queue: q, close: func() error { return nil }}, err
	case url == "" || strings.HasPrefix(url, "nats://") || strings.HasPrefix(url, "tls://"):
		return openNATS(ctx, url, stream, dir, log)
	}
	return openedQueue{}, misuse{fmt.Errorf("--queue %q: a queue is nats://… or memory", redacted(url))}
}
