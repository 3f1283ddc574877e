package saga

import (
	"context"
	"time"

	"github.com/retryproof/retryproof"
)

// Store keeps sagas. Each method is one transaction.
//
// Errors: NotDone means that nothing was written; anything else is Unknown, as is a
// COMMIT without an answer. A condition that does not hold is not an error: the
// result says so. Start and Save may be repeated with the same arguments and then
// change nothing more. Stores read the primary only, and judge with the times that
// they are given.
type Store interface {
	// Start inserts a RUNNING saga if its id is not there, due at once, with
	// version 1 and nobody's. It returns what is now there, which may have another
	// fingerprint or name.
	Start(ctx context.Context, s Start) (Record, error)
	// Lease gives one due saga to an owner; see Lease. Nil when none is due.
	Lease(ctx context.Context, l Lease) (*Record, error)
	// Save writes a saga's progress; see Save. It reports whether it did.
	Save(ctx context.Context, s Save) (bool, error)
	// Read reads one saga; nil when there is none.
	Read(ctx context.Context, id retryproof.ID) (*Record, error)
	// List lists sagas ordered by (CreatedAt, ID).
	List(ctx context.Context, q Query) ([]Record, error)
}

// Start asks for a saga.
type Start struct {
	// ID is the saga's. Runner.Start refuses one with a ':'.
	ID          retryproof.ID
	Name        string
	Fingerprint retryproof.Fingerprint
	Input       []byte
	Now         time.Time
}

// Lease asks for the saga that is first in the order of (NextAt, ID) among those
//   - that are not final and whose name is one of Names;
//   - that are nobody's, or whose lease is stale: Until + Margin < Now;
//   - that are due: NextAt ≤ Now. With ID it is only this one, due or not.
//
// It then is Owner's until Until; Version is raised and SavedBy empty. An alive
// lease holds back its own owner too, since the answer to it may have been lost.
type Lease struct {
	// Names are the sagas that the owner knows.
	Names []string
	// ID asks for one saga; "" for whichever is first.
	ID retryproof.ID
	// Owner is the new owner's token, Until the end of its lease.
	Owner string
	Now   time.Time
	Until time.Time
	// Margin is how long after its end a lease is not yet stale.
	Margin time.Duration
}

// Save writes State, Log, Reason and NextAt when the saga is not final, is Owner's
// and has Version; else nothing. Then Version is raised, SavedBy is Owner, and
// UpdatedAt is Now. Until renews the lease; zero, or a final State, gives it back.
// Whether the lease is stale does not matter while nobody took it.
type Save struct {
	ID retryproof.ID
	// Owner and Version are those of the record that was leased or saved last.
	Owner   string
	Version int64
	Now     time.Time
	// State, Log, Reason and NextAt are written as they are, the whole log.
	State  State
	Log    []Entry
	Reason string
	NextAt time.Time
	// Until is the new end of the lease; zero gives it back.
	Until time.Time
}

// Keeps reports whether the owner stays the owner.
func (s Save) Keeps() bool { return !s.State.Final() && !s.Until.IsZero() }

// Query says what to list.
type Query struct {
	// State lists sagas in that state. Empty lists all that are not final.
	State State
	// After lists only what comes behind this one in the order: the last of the
	// page before. Its CreatedAt and ID count.
	After *Record
	Limit int
}

// Check returns why no store can take it, as NotDone.
func (s Start) Check() error {
	if s.ID == "" || s.Name == "" || s.Fingerprint == "" {
		return invalid("a saga needs an id, a name and a fingerprint")
	}
	if len(s.Input) > MaxInputBytes {
		return invalid("the input is larger than saga.MaxInputBytes")
	}
	return nil
}

// Check returns why no store can take it, as NotDone.
func (l Lease) Check() error {
	if l.Owner == "" {
		return invalid("a lease needs an owner")
	}
	if l.Until.Before(l.Now) {
		return invalid("the lease would end before it begins")
	}
	return nil
}

// Check returns why no store can take it, as NotDone.
func (s Save) Check() error {
	if s.ID == "" || s.Owner == "" {
		return invalid("a record of progress needs the saga's id and its owner")
	}
	switch s.State {
	case Running, Compensating, Completed, Compensated:
		return nil
	}
	return invalid("the state is none of a saga's")
}

func invalid(message string) error { return retryproof.Refused(retryproof.CodeInvalid, message, nil) }
