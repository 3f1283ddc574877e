package retryproof

import "time"

// Event announces an effect. It is stored in the effect's own transaction and
// every send repeats the stored id (mission E1).
type Event struct {
	// ID is the stable id, derived from the effect: payment id + ":SUCCEEDED".
	// It is the dedup id of every queue and the key of every inbox.
	ID string
	// Type names what happened, for example "payment.succeeded".
	Type string
	// Group orders: events of one group are delivered in the order in which they
	// were stored, and one at a time. The payments system uses the merchant.
	Group string
	// Body is the event itself, JSON by convention.
	Body []byte
	// At is when the effect was settled.
	At time.Time
}

// InboxKey names one message as one consumer sees it (mission E3). The consumer
// is part of it so that two consumers can share a database, the source so that
// two senders cannot meet in one id.
type InboxKey struct {
	Consumer string
	Source   string
	EventID  string
}
