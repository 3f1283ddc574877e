package sqlite

import (
	"context"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/internal/record"
)

// void is a Begin with Void: a read when everything is there, else one transaction. A
// transaction is alone with the file, so that the guard that it finds or inserts
// decides.
func (e effects) void(ctx context.Context, b effect.Begin, row []any) (effect.Seen, error) {
	look := effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now}
	seen, err := e.Look(ctx, look)
	if err != nil || record.Decided(b, seen) {
		return seen, err
	}
	err = e.s.write(ctx, func(ctx context.Context, q query) error {
		if _, err := e.record(ctx, q, b, row); err != nil {
			return err
		}
		if seen, err = e.look(ctx, q, look); err != nil || record.Decided(b, seen) {
			return err
		}
		if _, err := insertClaim(ctx, q, b); err != nil {
			return err
		}
		seen, err = e.look(ctx, q, look)
		return err
	})
	return orNothing(seen, err)
}
