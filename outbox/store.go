package outbox

import (
	"context"
	"time"

	"github.com/retryproof/retryproof"
)

// Row is a stored event that has not been deleted yet.
type Row struct {
	retryproof.Event
	// Seq orders rows: the order of insertion within a group.
	Seq int64
	// Attempts counts how often the row was claimed since it was inserted or
	// redriven, this time included.
	Attempts int
}

// Store keeps the outbox. The rows are inserted by the effect's own transaction
// (effect.Settle.Events, inbox.Apply.Events, or a driver's Within); the event id
// is unique, and inserting one that is there changes nothing. An event without an
// id or a group is refused there with CodeInvalid: no queue could take it later.
//
// No position is kept: a row is there until it is deleted, so that one whose
// transaction commits late is not skipped, before or after a dump and restore.
type Store interface {
	// Claim leases up to c.Limit rows to c.Relay and returns them ordered by
	// Seq. A row can be leased when it is not parked, its NextAt has come and
	// nobody's lease on it is alive (leased until < now). A group's rows are taken
	// from its head on without a gap: a row is left when an earlier row of its
	// group, parked ones aside, is leased to another or waits for its NextAt. Two
	// relays that claim at once never share a group.
	Claim(ctx context.Context, c Claim) ([]Row, error)
	// Delete removes sent rows that are leased to relay, in one transaction, and
	// returns the ids of those that it removed, in the order in which they were
	// given. One that is not leased to relay is left, and spoils nothing.
	Delete(ctx context.Context, relay string, eventIDs []string) ([]string, error)
	// Defer gives the lease back and sets the time of the next try. False when
	// the row is not leased to the relay.
	Defer(ctx context.Context, d Defer) (bool, error)
	// Park sets a row aside with a reason, for a person. A parked row does not
	// hold back its group. False when the row is not leased to the relay.
	Park(ctx context.Context, p Park) (bool, error)
	// Redrive puts a parked row back as if it had never been tried: Attempts counts
	// from 0 again, so that its next failure does not park it. It gets another body
	// when one is given. False when the row is not parked.
	Redrive(ctx context.Context, r Redrive) (bool, error)
	// Stats counts rows.
	Stats(ctx context.Context) (Stats, error)
}

// Claim asks for a batch.
type Claim struct {
	// Relay is the token of the relay that asks.
	Relay string
	Now   time.Time
	// Until is the end of the lease.
	Until time.Time
	Limit int
}

// Defer gives a row back to be tried at NextAt.
type Defer struct {
	Relay, EventID string
	NextAt         time.Time
	Reason         string
	// Untried takes this claim off Attempts: the row was not sent.
	Untried bool
}

// Park sets a row aside.
type Park struct {
	Relay, EventID string
	Now            time.Time
	Reason         string
}

// Redrive puts a parked row back.
type Redrive struct {
	EventID string
	Now     time.Time
	// Body replaces the stored body when it is not nil.
	Body []byte
}

// Stats counts the outbox.
type Stats struct {
	// Waiting rows are neither deleted nor parked.
	Waiting int64
	// Parked rows wait for a person.
	Parked int64
	// OldestAt is when the oldest waiting row was inserted (its event's At);
	// zero when none waits. Its age is how long a failing head holds back its group.
	OldestAt time.Time
}

// Parked is a row that was set aside, for a person.
type Parked struct {
	retryproof.Event
	// Attempts counts how often it was claimed.
	Attempts int
	// Reason is why it was set aside.
	Reason   string
	ParkedAt time.Time
}

// ListParked asks for a page of parked rows.
type ListParked struct {
	// After continues behind a row: what is listed is greater than its (ParkedAt,
	// ID). The zero Parked begins at the start.
	After Parked
	// Limit is how many at most, greater than 0.
	Limit int
}

// ParkedStore lists what was set aside. Store.Redrive puts it back.
type ParkedStore interface {
	// ListParked lists parked rows ordered by (ParkedAt, ID).
	ListParked(ctx context.Context, l ListParked) ([]Parked, error)
}
