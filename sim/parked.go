package sim

import (
	"context"

	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/outbox"
)

type parkedEvents struct {
	x  *seam
	in outbox.ParkedStore
}

func (p parkedEvents) ListParked(ctx context.Context, l outbox.ListParked) ([]outbox.Parked, error) {
	return call(p.x, ctx, "store", "parked events", "", func() ([]outbox.Parked, error) { return p.in.ListParked(background, l) })
}

type parkedMessages struct {
	x  *seam
	in inbox.ParkedStore
}

func (p parkedMessages) Park(ctx context.Context, m inbox.Parked) (bool, error) {
	return call(p.x, ctx, "store", "inbox park", m.ID, func() (bool, error) { return p.in.Park(background, m) })
}

func (p parkedMessages) Parked(ctx context.Context, k inbox.ParkedKey) (*inbox.Parked, error) {
	return call(p.x, ctx, "store", "inbox parked", k.ID, func() (*inbox.Parked, error) { return p.in.Parked(background, k) })
}

func (p parkedMessages) ListParked(ctx context.Context, l inbox.ListParked) ([]inbox.Parked, error) {
	return call(p.x, ctx, "store", "parked messages", "", func() ([]inbox.Parked, error) { return p.in.ListParked(background, l) })
}

func (p parkedMessages) CountParked(ctx context.Context, consumer string) (int64, error) {
	return call(p.x, ctx, "store", "count parked", consumer, func() (int64, error) { return p.in.CountParked(background, consumer) })
}

func (p parkedMessages) Unpark(ctx context.Context, k inbox.ParkedKey) (bool, error) {
	return call(p.x, ctx, "store", "inbox unpark", k.ID, func() (bool, error) { return p.in.Unpark(background, k) })
}
