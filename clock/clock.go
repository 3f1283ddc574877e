// Package clock is the only package of this module that reads the time. Every
// other package is handed a [Clock], so that the simulator can run the same code
// in virtual time.
package clock

import (
	"context"
	"time"
)

// Precision is the finest time that the module keeps. All stores round to it, so
// that a boundary is judged alike everywhere.
const Precision = time.Microsecond

// Clock tells the time and waits.
type Clock interface {
	// Now is the current time in UTC, truncated to Precision.
	Now() time.Time
	// Sleep waits for d or until ctx ends; then it returns context.Cause(ctx).
	Sleep(ctx context.Context, d time.Duration) error
	// WithTimeout is context.WithTimeout on this clock. Ask context.Cause of the
	// result, not its Err: under another clock the two may differ.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// System returns the machine's clock.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now().UTC().Truncate(Precision) }

func (system) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (system) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}
