package deadline

import (
	"context"
	"fmt"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
)

type budgetKey struct{}

// WithBudget hands down the moment after which no new side effect may start. It never
// moves an earlier one out, and ends nothing by itself.
func WithBudget(ctx context.Context, until time.Time) context.Context {
	if have, ok := ctx.Value(budgetKey{}).(time.Time); ok && have.Before(until) {
		return ctx
	}
	return context.WithValue(ctx, budgetKey{}, until)
}

// Budget is the moment after which no new side effect may start: the earlier of what
// WithBudget handed down and the lease of the effect.Attempt that runs. False when
// there is neither.
func Budget(ctx context.Context) (until time.Time, ok bool) {
	until, ok = ctx.Value(budgetKey{}).(time.Time)
	if a := effect.FromContext(ctx); a != nil && (!ok || a.Until().Before(until)) {
		return a.Until(), true
	}
	return until, ok
}

// Allow refuses a side effect that needs the given time when the budget has less left:
// the error is NotDone with CodeTooLate. It speaks of this one side effect: where an
// earlier one of the same request has been started, that one's outcome decides what
// the request is answered, and the error must not be returned as it is. Without a
// budget everything is allowed.
func Allow(ctx context.Context, c clock.Clock, need time.Duration) error {
	until, ok := Budget(ctx)
	if !ok {
		return nil
	}
	if left := until.Sub(c.Now()); left < need || left < 0 {
		return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeTooLate,
			Message: fmt.Sprintf("no time is left for another side effect: it needs %v and the budget has %v", need, max(left, 0)),
			Hint:    "this one was not started; send it again with the same key"}
	}
	return nil
}
