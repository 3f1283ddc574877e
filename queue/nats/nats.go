// Package nats is a first-in-first-out queue on NATS JetStream: a stream with a
// dedup window on disk, and one durable consumer per partition that hands out
// one message at a time.
//
// It promises what package queue asks, as far as JetStream can keep it:
//
//   - The dedup id is the message's ID, in the Nats-Msg-Id header. The window is
//     per stream. Finished messages stay in the stream until the window has
//     passed, since a restarted server knows the ids of stored messages only.
//   - Order and one at a time hold per partition. Groups are spread over
//     [Config].Partitions partitions by the server; groups that share a partition
//     wait for each other.
//   - Several processes, and several callers of Receive in one, share the work.
//
// It does not promise:
//
//   - A fenced receipt. JetStream takes an acknowledgement of an older delivery
//     for one of the newer, so the driver asks who holds the message before it
//     acknowledges late. Between question and acknowledgement a redelivery can
//     slip in; then the older receiver's word counts. The inbox behind the queue
//     makes that harmless.
//   - Safety from a power failure, unless the server syncs every write. Its default
//     is to acknowledge first and to sync every two minutes, and a client cannot
//     read that setting: see [VerifySync] and docs/decisions/queue-nats-sync.md.
//     With a remote server its operator must set jetstream { sync_interval: always }
//     or run the stream with three replicas on machines that do not lose power
//     together. The server of package embedded syncs every write.
//
// A stream that is deleted while processes run is recreated, and what it held is lost:
// Config.Log is told. A message that somebody else wrote into the stream is delivered
// under an id that names its place and time ("foreign:STREAM:SEQUENCE:NANOSECONDS"), so
// that whoever receives it can set it aside and its partition goes on.
//
// A crash of a sender leaves Unknown: it sends again with the same id. A crash of
// a receiver leaves its deliveries to the visibility timeout. A crash of the
// server may lose the newest acknowledgements, and those messages come again.
package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/queue"
)

var _ queue.Queue = (*Queue)(nil)

// answerTimeout bounds the wait for an answer when the caller's context does not.
const answerTimeout = 5 * time.Second

// Config of a [Queue]. The zero value works.
type Config struct {
	// Stream is the name of the JetStream stream. Defaults to RETRYPROOF_EVENTS.
	Stream string
	// Subject is the prefix of the stream's subjects: messages are published to
	// Subject.GROUP and stored under Subject.PARTITION.GROUP. Defaults to
	// retryproof.events.
	Subject string
	// Partitions is how many messages can be in flight at a time, over all
	// receivers. It cannot be changed while the stream exists. Defaults to 16.
	Partitions int
	// DedupWindow is how long the stream remembers an id. Defaults to 5 minutes.
	DedupWindow time.Duration
	// Visibility is how long a delivery is its receiver's alone. Defaults to 30
	// seconds.
	Visibility time.Duration
	// MaxWait is how long Receive waits when nothing is due. Defaults to 250
	// milliseconds.
	MaxWait time.Duration
	// Replicas is how many servers of a cluster store the stream. Defaults to 1.
	Replicas int
	// Domain is the JetStream domain, for a server behind a leaf node. Defaults to
	// "", the server's own.
	Domain string
	// Log is told when finished messages could not be removed from the stream, when the
	// stream or a consumer was gone and was made again, and of messages that others
	// wrote into the stream. Defaults to a logger that writes nothing.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Stream == "" {
		c.Stream = "RETRYPROOF_EVENTS"
	}
	if c.Subject == "" {
		c.Subject = "retryproof.events"
	}
	if c.Partitions == 0 {
		c.Partitions = 16
	}
	if c.DedupWindow == 0 {
		c.DedupWindow = 5 * time.Minute
	}
	if c.Visibility == 0 {
		c.Visibility = 30 * time.Second
	}
	if c.MaxWait == 0 {
		c.MaxWait = 250 * time.Millisecond
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if strings.ContainsAny(c.Stream, " .*>/\\\t\r\n") {
		bad("Stream must be a name without blanks, dots, slashes and wildcards, is %q", c.Stream)
	}
	for token := range strings.SplitSeq(c.Subject, ".") {
		if token == "" || strings.ContainsAny(token, " *>\t\r\n") || strings.HasPrefix(c.Subject, "$") {
			bad("Subject must be non-empty tokens between dots, without wildcards, blanks and a leading $, is %q", c.Subject)
			break
		}
	}
	if c.Partitions < 1 || c.Partitions > 1024 {
		bad("1 <= Partitions <= 1024 must hold, Partitions is %d", c.Partitions)
	}
	if c.DedupWindow < 100*time.Millisecond {
		bad("DedupWindow >= 100ms must hold, DedupWindow is %v", c.DedupWindow)
	}
	if c.Visibility < 100*time.Millisecond {
		bad("Visibility >= 100ms must hold, Visibility is %v", c.Visibility)
	}
	if c.MaxWait < time.Millisecond || c.MaxWait > c.Visibility/2 {
		bad("1ms <= MaxWait <= Visibility/2 must hold, MaxWait is %v, Visibility is %v", c.MaxWait, c.Visibility)
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		bad("1 <= Replicas <= 5 must hold, Replicas is %d", c.Replicas)
	}
	return errors.Join(errs...)
}

// Queue is a queue on one JetStream stream. Its methods may be called at the same
// time. Use [Dial] or [Open] to make one and Close to end it.
type Queue struct {
	cfg    Config
	nc     *natsgo.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	owned  chan struct{} // closed when the connection that Dial made is; nil after Open

	mu     sync.Mutex
	closed bool
	lanes  []lane
	next   int           // the lane that the next Receive asks first
	spare  []arrival     // arrived, but more than was asked for
	wake   chan struct{} // closed when spare or a lane has changed
	trim   trimmer
	// restored is when the stream was last looked for.
	restored time.Time
}

// Dial connects to the server at url (nats://host:port, several separated by
// commas) and opens the queue. The connection reconnects forever and buffers
// nothing while it is down, so that a Send without a connection is NotDone.
// Further options, such as credentials, are applied last.
func Dial(ctx context.Context, url string, cfg Config, options ...natsgo.Option) (*Queue, error) {
	closed := make(chan struct{})
	all := append([]natsgo.Option{
		natsgo.Name("retryproof"),
		natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(250 * time.Millisecond),
		natsgo.ReconnectBufSize(-1),
		natsgo.ClosedHandler(func(*natsgo.Conn) { close(closed) }),
	}, options...)
	nc, err := natsgo.Connect(url, all...)
	if err != nil {
		return nil, retryproof.Refused(retryproof.CodeUnavailable, "queue/nats: no connection", err)
	}
	q, err := Open(ctx, nc, cfg)
	if err != nil {
		nc.Close()
		return nil, err
	}
	q.owned = closed
	return q, nil
}

// Open opens the queue on a connection that stays the caller's. It creates the
// stream and its consumers, or verifies those that exist: one with settings that
// would lose or repeat messages, or with another number of partitions, is
// refused, and the error names all that is wrong.
//
// The connection should reconnect forever and have natsgo.ReconnectBufSize(-1);
// otherwise a Send without a connection is Unknown instead of NotDone.
func Open(ctx context.Context, nc *natsgo.Conn, cfg Config) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("queue/nats: %w", err)
	}
	cfg = cfg.withDefaults()
	q := &Queue{cfg: cfg, nc: nc, lanes: make([]lane, cfg.Partitions), wake: make(chan struct{})}
	var err error
	if cfg.Domain != "" {
		q.js, err = jetstream.NewWithDomain(nc, cfg.Domain)
	} else {
		q.js, err = jetstream.New(nc)
	}
	if err != nil {
		return nil, fmt.Errorf("queue/nats: %w", err)
	}
	ctx, cancel := bounded(ctx, 2*answerTimeout)
	defer cancel()
	if err := q.openAll(ctx); err != nil {
		return nil, fmt.Errorf("queue/nats: %w", err)
	}
	return q, nil
}

// Close gives back what has arrived and was not yet received, and drains and
// closes the connection that [Dial] made. Deliveries that are in the hands of
// receivers stay theirs: finish them first.
func (q *Queue) Close() error {
	q.mu.Lock()
	already, spare := q.closed, q.spare
	q.closed, q.spare = true, nil
	q.broadcast()
	q.mu.Unlock()
	if already {
		return nil
	}
	var errs []error
	for _, a := range spare {
		q.giveBack(a)
	}
	if q.owned == nil {
		if len(spare) > 0 {
			errs = append(errs, q.nc.FlushTimeout(answerTimeout))
		}
		return errors.Join(errs...)
	}
	if err := q.nc.Drain(); err != nil { // for example while it reconnects
		q.nc.Close()
		return errors.Join(errs...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*answerTimeout)
	defer cancel()
	select {
	case <-q.owned:
	case <-ctx.Done():
		q.nc.Close()
	}
	return errors.Join(errs...)
}

// ready refuses work that could not be started: nothing has been done then.
func (q *Queue) ready() error {
	q.mu.Lock()
	closed := q.closed
	q.mu.Unlock()
	if closed {
		return retryproof.Refused(retryproof.CodeUnavailable, "the queue is closed", nil)
	}
	if s := q.nc.Status(); s != natsgo.CONNECTED {
		return retryproof.Refused(retryproof.CodeUnavailable, "no connection to the NATS server: "+s.String(), nil)
	}
	return nil
}

// broadcast wakes the callers of Receive that wait. q.mu is held.
func (q *Queue) broadcast() {
	close(q.wake)
	q.wake = make(chan struct{})
}

// bounded gives a context without a deadline one.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
