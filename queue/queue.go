// Package queue holds the nouns of a first-in-first-out queue with a dedup
// window, as SQS FIFO and NATS JetStream offer it. Drivers live below it;
// queue/queuetest judges them.
//
// A queue promises: a message whose Send returned nil is on disk and will be
// delivered at least once; two Sends with one ID inside the dedup window give
// one message, and a repeat does not extend the window; messages of one group
// are delivered in order and one at a time; other groups go on meanwhile; a
// message that is not finished within the visibility timeout is delivered again.
// It does not promise exactly one delivery: that is the inbox's job. Nor does it
// promise that groups are never held back by others: a driver may map several
// groups to one lane (a NATS consumer, a Kafka partition), and then those that
// share a lane take turns. The order in which groups take turns is the driver's.
//
// A crash of a receiver leaves its deliveries to the visibility timeout. A crash
// of a sender before Send returned leaves Unknown: it sends again with the same
// ID.
package queue

import (
	"context"
	"time"
)

// Message is what a producer sends.
type Message struct {
	// ID is the dedup id: the stored event id. Any bytes, but not empty.
	ID string
	// Group orders (the merchant). Any bytes, but not empty.
	Group string
	// Type names the event, for example "payment.succeeded".
	Type string
	// Body is the event, JSON by convention. It is kept byte for byte; a nil and an
	// empty body are the same.
	Body []byte
}

// Delivery is one delivery of a message.
type Delivery struct {
	Message
	// Receipt names this delivery to the driver that made it.
	Receipt string
	// Attempt counts deliveries of this message, from 1.
	Attempt int
	// SentAt is when the queue accepted the message.
	SentAt time.Time
}

// Queue is what the drivers offer. Consumers of it declare the part they need.
type Queue interface {
	// Send returns nil only when the queue has the message on disk (or has seen
	// its ID within the window and has dropped this copy). An error is NotDone
	// with retryproof.CodePermanent when no later try can help (too large, no ID, no
	// Group), NotDone when it certainly was not taken, else Unknown: send again with
	// the same ID. A Send that was not taken notes no ID. The body is the caller's
	// again when Send returns.
	Send(ctx context.Context, m Message) error
	// Receive returns up to limit messages that are due, none when nothing is. It
	// may wait a short, driver-configured time, and returns early, with nothing and
	// without an error, when ctx ends. It may be called by many at the same time.
	Receive(ctx context.Context, limit int) ([]Delivery, error)
	// Finish deletes the message, and reports true when this call did. A receipt that
	// is no longer current (finished or retried before, or its message delivered again
	// since) changes nothing and is false, not an error: the message may come again.
	// Whether a receipt is still current between the end of its visibility timeout and
	// the next delivery is the driver's. After an error nobody knows.
	Finish(ctx context.Context, d Delivery) (bool, error)
	// Retry makes the message due again after delay; until then its group waits.
	// The delay is rounded as the driver's timers need; one of 0 or less is none. A
	// receipt that is no longer current is not an error and changes nothing.
	Retry(ctx context.Context, d Delivery, delay time.Duration) error
}
