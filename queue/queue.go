// Package queue holds the nouns of a first-in-first-out queue with a dedup
// window, as SQS FIFO and NATS JetStream offer it. Drivers live below it;
// queue/queuetest judges them.
//
// A queue promises: a message whose Send returned nil is on disk and will be
// delivered at least once; two Sends with one ID inside the dedup window give
// one message, and a repeat does not extend the window; messages of one group
// are delivered in order and one at a time; other groups go on meanwhile; a
// message that is not finished within the visibility timeout is delivered again.
// It does not promise exactly one delivery: that is the inbox's job.
package queue

import (
	"context"
	"time"
)

// Message is what a producer sends.
type Message struct {
	// ID is the dedup id: the stored event id.
	ID string
	// Group orders (the merchant).
	Group string
	// Type names the event, for example "payment.succeeded".
	Type string
	// Body is the event, JSON by convention.
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
	// with retryproof.CodePermanent when no later try can help (too large), NotDone
	// when it certainly was not taken, else Unknown: send again with the same ID.
	Send(ctx context.Context, m Message) error
	// Receive returns up to limit messages that are due, none when nothing is. It
	// may wait a short, driver-configured time, and returns early when ctx ends.
	Receive(ctx context.Context, limit int) ([]Delivery, error)
	// Finish deletes the message. A receipt that is no longer current is not an
	// error and changes nothing.
	Finish(ctx context.Context, d Delivery) error
	// Retry makes the message due again after delay; until then its group waits.
	Retry(ctx context.Context, d Delivery, delay time.Duration) error
}
