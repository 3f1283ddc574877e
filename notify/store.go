package notify

import (
	"context"
	"time"
)

// State is the state of an intent.
type State string

const (
	// Pending: recorded with the effect; it may or may not have been sent.
	Pending State = "PENDING"
	// Sent: the provider took it.
	Sent State = "SENT"
)

// Key names one intent: one event, announced on one channel.
type Key struct {
	EventID string
	Channel string
}

// Intent is the durable wish to notify somebody, inserted in the transaction of
// the effect that it announces (mission F1); inserting one that is there changes
// nothing.
type Intent struct {
	Key
	// ReplaceID is what is announced, for example the payment id: a repeat with
	// the same one takes the first one's place on the screen.
	ReplaceID string
	// To is the person.
	To    string
	Title string
	Body  string
	State State
	// Sends counts tries, as far as they were recorded.
	Sends     int
	CreatedAt time.Time
	SentAt    time.Time
}

// Store keeps intents.
type Store interface {
	// Intent reads one; nil when there is none.
	Intent(ctx context.Context, k Key) (*Intent, error)
	// MarkSent moves PENDING to SENT at now and raises Sends; false when it was
	// not PENDING.
	MarkSent(ctx context.Context, k Key, now time.Time) (bool, error)
	// Unsent lists PENDING intents created before the given time, ordered by
	// (CreatedAt, EventID, Channel).
	Unsent(ctx context.Context, before time.Time, limit int) ([]Intent, error)
}
