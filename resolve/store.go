package resolve

import (
	"context"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// Store lists what has to be asked about.
type Store interface {
	// Due lists guards whose lease is stale (Until + Margin < Now, as Adopt asks
	// for; a guard without a lease always is) and that are PENDING, or UNKNOWN with
	// NextAt ≤ Now, ordered by (UpdatedAt, ID).
	Due(ctx context.Context, d Due) ([]effect.Guard, error)
	// Evidence lists what is kept beside a guard, ordered by (At, Name); none when
	// there is no such guard.
	Evidence(ctx context.Context, id retryproof.ID) ([]effect.Evidence, error)
}

// Due says what to list.
type Due struct {
	Now    time.Time
	Margin time.Duration
	// UnknownOnly leaves PENDING guards to their callers' repeats.
	UnknownOnly bool
	Limit       int
}
