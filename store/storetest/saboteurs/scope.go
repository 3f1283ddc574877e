package saboteurs

import (
	"context"
	"errors"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// scopeFaults know guards by their ids only.
func scopeFaults() []Saboteur {
	return []Saboteur{
		{"guard-by-id-begin", "a first request inserts a second guard of its scope, with another id", "OneScopeHasOneGuard", inEffects(secondGuardByBegin)},
		{"guard-by-id-void", "a scope is voided under another id although it has a guard", "VoidOfAScopeUnderAnotherIDIsRefused", inEffects(secondGuardByVoid)},
		{"guard-by-id-resolve", "who asks under another id is told that it never happened", "ResolveUnderAnotherIDSaysNothingOfWhatSucceeded", inEffects(secondGuardByVoid)},
		{"guard-by-id-adopt", "an adoption inserts a second guard of its scope, with another id", "AdoptionInsertsNoSecondGuardOfAScope", inEffects(secondGuardByAdopt)},
		{"other-id-left-in-silence", "a first request whose scope has another guard is answered with what is there", "OneScopeHasOneGuard", inEffects(otherIDInSilence)},
		{"other-id-claims", "a first request whose scope has another guard leaves its claim", "OneScopeHasOneGuard", inEffects(otherIDClaims)},
	}
}

// beside makes a scope that nobody has, so that a guard fits in.
func beside(s retryproof.Scope) retryproof.Scope {
	s.Endpoint += " second"
	return s
}

// taken reports whether the right driver has refused a second guard.
func taken(err error) bool {
	var e *retryproof.Error
	return errors.As(err, &e) && e.Message == "this scope is recorded under another id"
}

func secondGuardByBegin(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return secondGuard(right, false)
}

func secondGuardByVoid(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return secondGuard(right, true)
}

func secondGuard(right effect.Store, void bool) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Begin(ctx, b)
		if b.Void != void || !taken(err) {
			return seen, err
		}
		asked := b.Scope
		b.Scope = beside(b.Scope)
		seen, err = right.Begin(ctx, b)
		return named(seen, asked), err
	}}
}

func secondGuardByAdopt(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, adopt: func(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
		seen, err := right.Adopt(ctx, a)
		if !taken(err) {
			return seen, err
		}
		asked := a.Scope
		a.Scope = beside(a.Scope)
		seen, err = right.Adopt(ctx, a)
		return named(seen, asked), err
	}}
}

func otherIDInSilence(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Begin(ctx, b)
		if taken(err) {
			return right.Look(ctx, effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now})
		}
		return seen, err
	}}
}

func otherIDClaims(right effect.Store, keys effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Begin(ctx, b)
		if taken(err) && !b.Void {
			_, _ = keys.ClaimKey(ctx, b)
		}
		return seen, err
	}}
}
