package effect_test

import (
	"context"

	"github.com/retryproof/retryproof/effect"
)

// jumbledStore, jumbledKeys and jumbledGuards pass each call of a process through its
// seam.
type jumbledStore struct {
	p *process
	s effect.Store
}

func (s jumbledStore) Begin(ctx context.Context, in effect.Begin) (out effect.Seen, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.Begin(ctx, in); return err })
	return out, err
}

func (s jumbledStore) Adopt(ctx context.Context, in effect.Adopt) (out effect.Seen, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.Adopt(ctx, in); return err })
	return out, err
}

func (s jumbledStore) Settle(ctx context.Context, in effect.Settle) (out effect.Settled, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.Settle(ctx, in); return err })
	return out, err
}

func (s jumbledStore) Complete(ctx context.Context, in effect.Completion) (out bool, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.Complete(ctx, in); return err })
	return out, err
}

func (s jumbledStore) Release(ctx context.Context, in effect.Release) (out bool, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.Release(ctx, in); return err })
	return out, err
}

func (s jumbledStore) Look(ctx context.Context, in effect.Look) (out effect.Seen, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.Look(ctx, in); return err })
	return out, err
}

type jumbledKeys struct {
	p *process
	s effect.Keys
}

func (s jumbledKeys) ClaimKey(ctx context.Context, in effect.Begin) (out *effect.Claim, err error) {
	err = s.p.call(s.p.j.keysDown, func() (err error) { out, err = s.s.ClaimKey(ctx, in); return err })
	return out, err
}

func (s jumbledKeys) AdoptKey(ctx context.Context, in effect.Adopt) (out *effect.Claim, err error) {
	err = s.p.call(s.p.j.keysDown, func() (err error) { out, err = s.s.AdoptKey(ctx, in); return err })
	return out, err
}

func (s jumbledKeys) CompleteKey(ctx context.Context, in effect.Completion) (out bool, err error) {
	err = s.p.call(s.p.j.keysDown, func() (err error) { out, err = s.s.CompleteKey(ctx, in); return err })
	return out, err
}

func (s jumbledKeys) ReleaseKey(ctx context.Context, in effect.Release) error {
	return s.p.call(s.p.j.keysDown, func() error { return s.s.ReleaseKey(ctx, in) })
}

func (s jumbledKeys) LookKey(ctx context.Context, in effect.Look) (out *effect.Claim, err error) {
	err = s.p.call(s.p.j.keysDown, func() (err error) { out, err = s.s.LookKey(ctx, in); return err })
	return out, err
}

type jumbledGuards struct {
	p *process
	s effect.Guards
}

func (s jumbledGuards) RecordGuard(ctx context.Context, in effect.Begin) (out *effect.Guard, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.RecordGuard(ctx, in); return err })
	return out, err
}

func (s jumbledGuards) AdoptGuard(ctx context.Context, in effect.Adopt) (out *effect.Guard, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.AdoptGuard(ctx, in); return err })
	return out, err
}

func (s jumbledGuards) SettleGuard(ctx context.Context, in effect.Settle) (out effect.Settled, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.SettleGuard(ctx, in); return err })
	return out, err
}

func (s jumbledGuards) ReleaseGuard(ctx context.Context, in effect.Release) (out bool, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.ReleaseGuard(ctx, in); return err })
	return out, err
}

func (s jumbledGuards) LookGuard(ctx context.Context, in effect.Look) (out *effect.Guard, err error) {
	err = s.p.call(s.p.j.guardsDown, func() (err error) { out, err = s.s.LookGuard(ctx, in); return err })
	return out, err
}
