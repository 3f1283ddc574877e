// Package saboteurs holds store drivers that are each wrong in one place. They
// judge the suite: a fault that storetest does not see in a saboteur it would not
// see in a driver either. Every saboteur is the memory driver with one method in
// front of it that does the planted mistake and nothing else.
//
// Does not promise that the faults are all that a driver can have: they are those
// that real stores of this kind had, or that the interfaces' comments warn of.
package saboteurs

import (
	"context"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/memory"
	"github.com/retryproof/retryproof/store/storetest"
)

// Saboteur is one driver with a planted fault.
type Saboteur struct {
	// Name is short and stable.
	Name string
	// Fault says what is wrong, in one line.
	Fault string
	// Killer is a case of the suite that must reject it: the end of the case's
	// full name.
	Killer string
	// Plant puts the fault in front of a right driver.
	Plant func(storetest.Stores) storetest.Stores
}

// All returns the saboteurs.
func All() []Saboteur {
	var out []Saboteur
	for _, list := range [][]Saboteur{claimFaults(), settleFaults(), verdictFaults(), refundFaults(), outboxFaults(), parkedFaults(), notifyFaults(), sagaFaults(), otherFaults(), versionFaults(), locatorFaults()} {
		out = append(out, list...)
	}
	return out
}

// Right returns the driver that the faults are planted in.
func Right() storetest.Stores {
	s := memory.New()
	out := storetest.Stores{
		Sagas: s.Sagas(), Marks: s.Marks(),
		Payments: s.Payments(), Effects: s.Effects(), Due: s.Due(), Keys: s.Keys(), Guards: s.Guards(), PaymentGuards: s.PaymentGuards(), RefundGuards: s.RefundGuards(),
		Versions: s.Versions(), Locators: s.Locators(),
		Hold: func(*testing.T, []retryproof.InboxKey, []retryproof.Scope) func() { return func() {} },
		Within: func(_ context.Context, fn func(tx storetest.Tx) error) error {
			return s.Within(func(tx *memory.Tx) error { return fn(tx) })
		},
	}
	return out
}

// inEffects plants a fault in every effect store; half gives the halves that the
// store is made of.
func inEffects(plant func(right effect.Store, keys effect.Keys, guards effect.Guards) effect.Store) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Effects = plant(s.Effects, s.Keys, s.Guards)
		s.Payments.Effects = plant(s.Payments.Effects, s.Keys, s.PaymentGuards)
		s.Payments.Refunds = plant(s.Payments.Refunds, s.Keys, s.RefundGuards)
		return s
	}
}

// store is an effect.Store with some methods replaced.
type store struct {
	effect.Store
	begin    func(context.Context, effect.Begin) (effect.Seen, error)
	adopt    func(context.Context, effect.Adopt) (effect.Seen, error)
	settle   func(context.Context, effect.Settle) (effect.Settled, error)
	complete func(context.Context, effect.Completion) (bool, error)
	release  func(context.Context, effect.Release) (bool, error)
	look     func(context.Context, effect.Look) (effect.Seen, error)
}

func (s store) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	if s.begin != nil {
		return s.begin(ctx, b)
	}
	return s.Store.Begin(ctx, b)
}

func (s store) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	if s.adopt != nil {
		return s.adopt(ctx, a)
	}
	return s.Store.Adopt(ctx, a)
}

func (s store) Settle(ctx context.Context, m effect.Settle) (effect.Settled, error) {
	if s.settle != nil {
		return s.settle(ctx, m)
	}
	return s.Store.Settle(ctx, m)
}

func (s store) Complete(ctx context.Context, c effect.Completion) (bool, error) {
	if s.complete != nil {
		return s.complete(ctx, c)
	}
	return s.Store.Complete(ctx, c)
}

func (s store) Release(ctx context.Context, r effect.Release) (bool, error) {
	if s.release != nil {
		return s.release(ctx, r)
	}
	return s.Store.Release(ctx, r)
}

func (s store) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	if s.look != nil {
		return s.look(ctx, l)
	}
	return s.Store.Look(ctx, l)
}
