package saboteurs

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
)

// claimFaults are wrong about who owns a claim or a guard.
func claimFaults() []Saboteur {
	return slices.Concat(scopeFaults(), lockFaults(), []Saboteur{
		{"expires-at-now", "a claim is claimed anew at exactly its expiry: <= for <", "ClaimIsAliveAtItsExpiryAndAbsentAMicrosecondLater", inEffects(expiresAtNow)},
		{"expiry-not-judged", "a read shows claims that have expired", "ClaimIsAliveAtItsExpiryAndAbsentAMicrosecondLater", inEffects(expiryNotJudged)},
		{"guard-for-a-lost-claim", "Begin inserts the guard although the claim was lost", "LostClaimInsertsNoGuard", inEffects(guardForALostClaim)},
		{"check-then-act", "Begin looks first and believes what it saw", "TwoMeaningsOfOneKeyNeverBothRun", inEffects(checkThenAct)},
		{"scope-joined", "the parts of a scope are joined with ':'", "ScopesNeverMeet", inEffects(scopeJoined)},
		{"nul-removed", "a NUL byte is removed instead of kept or refused", "TextsThatCannotBeHeldAreRefused", inEffects(nulRemoved)},
		{"fingerprint-cut", "only the newest version of a fingerprint is stored", "FingerprintsComeBackByteForByte", inEffects(fingerprintCut)},
		{"lease-in-seconds", "the end of a lease is kept in whole seconds", "AdoptAtLeaseEndPlusMarginIsRefusedAndAMicrosecondLaterAccepted", inEffects(leaseInSeconds)},
		{"adopt-at-the-margin", "a lease is stale at exactly its end + margin: >= for >", "AdoptAtLeaseEndPlusMarginIsRefusedAndAMicrosecondLaterAccepted", inEffects(adoptAtTheMargin)},
		{"adopt-in-two-steps", "the guard is adopted although the claim is refused", "AdoptRefusedByTheClaimLeavesTheGuard", inEffects(adoptInTwoSteps)},
		{"adopt-any-owner", "Adopt does not compare the owner that was read", "AdoptFromAnotherOwnerThanReadChangesNothing", inEffects(adoptAnyOwner)},
		{"release-by-anybody", "Release does not compare the owner", "ReleaseByAnotherOwnerChangesNothing", inEffects(releaseByAnybody)},
	})
}

func expiresAtNow(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Look(ctx, effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now})
		if err == nil && seen.Claim != nil && seen.Claim.ExpiresAt.Equal(b.Now) {
			b.Now = b.Now.Add(clock.Precision)
		}
		return right.Begin(ctx, b)
	}}
}

func expiryNotJudged(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, look: func(ctx context.Context, l effect.Look) (effect.Seen, error) {
		l.Now = time.Time{}
		return right.Look(ctx, l)
	}}
}

func guardForALostClaim(right effect.Store, _ effect.Keys, guards effect.Guards) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Begin(ctx, b)
		if err == nil {
			seen.Guard, err = guards.RecordGuard(ctx, b)
		}
		return seen, err
	}}
}

func checkThenAct(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		before, err := right.Look(ctx, effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now})
		if err != nil {
			return before, err
		}
		for range 200 { // the moment that such a driver spends between its two statements
			runtime.Gosched()
		}
		seen, err := right.Begin(ctx, b)
		if err == nil && before.Claim == nil && before.Guard == nil && seen.Claim != nil && seen.Guard != nil {
			seen.Claim.Owner, seen.Claim.Fingerprint = b.Owner, b.Fingerprint
			seen.Guard.Owner, seen.Guard.Fingerprint = b.Owner, b.Fingerprint
		}
		return seen, err
	}}
}

func scopeJoined(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right,
		begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
			asked := b.Scope
			b.Scope = join(b.Scope)
			seen, err := right.Begin(ctx, b)
			return named(seen, asked), err
		},
		adopt: func(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
			asked := a.Scope
			a.Scope = join(a.Scope)
			seen, err := right.Adopt(ctx, a)
			return named(seen, asked), err
		},
		settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
			if m.Claim != nil {
				joined := *m.Claim
				joined.Scope = join(joined.Scope)
				m.Claim = &joined
			}
			return right.Settle(ctx, m)
		},
		complete: func(ctx context.Context, c effect.Completion) (bool, error) {
			c.Scope = join(c.Scope)
			return right.Complete(ctx, c)
		},
		release: func(ctx context.Context, r effect.Release) (bool, error) {
			r.Scope = join(r.Scope)
			return right.Release(ctx, r)
		},
		look: func(ctx context.Context, l effect.Look) (effect.Seen, error) {
			asked := l.Scope
			l.Scope = join(l.Scope)
			seen, err := right.Look(ctx, l)
			return named(seen, asked), err
		},
	}
}

// join keeps endpoint and caller for the payment's row; the key is everything.
func join(s retryproof.Scope) retryproof.Scope {
	if s.Valid() != nil {
		return s
	}
	return retryproof.Scope{Endpoint: "all", Caller: "u1", Key: retryproof.Key(s.Endpoint + ":" + s.Caller + ":" + string(s.Key))}
}

// named gives records the scope that was asked for.
func named(seen effect.Seen, asked retryproof.Scope) effect.Seen {
	if seen.Claim != nil {
		seen.Claim.Scope = asked
	}
	if seen.Guard != nil {
		seen.Guard.Scope = asked
	}
	return seen
}

func nulRemoved(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right,
		begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
			b.Scope.Caller = strings.ReplaceAll(b.Scope.Caller, "\x00", "")
			return right.Begin(ctx, b)
		},
		look: func(ctx context.Context, l effect.Look) (effect.Seen, error) {
			l.Scope.Caller = strings.ReplaceAll(l.Scope.Caller, "\x00", "")
			return right.Look(ctx, l)
		},
	}
}

func fingerprintCut(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		newest, _, _ := strings.Cut(string(b.Fingerprint), ",")
		b.Fingerprint = retryproof.Fingerprint(newest)
		return right.Begin(ctx, b)
	}}
}

func leaseInSeconds(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		b.Until = b.Until.Truncate(time.Second)
		return right.Begin(ctx, b)
	}}
}

func adoptAtTheMargin(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, adopt: func(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
		a.Margin -= clock.Precision
		return right.Adopt(ctx, a)
	}}
}

func adoptInTwoSteps(right effect.Store, keys effect.Keys, guards effect.Guards) effect.Store {
	return store{Store: right, adopt: func(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
		guard, err := guards.AdoptGuard(ctx, a)
		if err != nil || a.GuardOnly || guard == nil || guard.Owner != a.Owner {
			return right.Adopt(ctx, a)
		}
		claim, err := keys.AdoptKey(ctx, a)
		return effect.Seen{Claim: claim, Guard: guard}, err
	}}
}

func adoptAnyOwner(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, adopt: func(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
		seen, err := right.Look(ctx, effect.Look{Scope: a.Scope, GuardID: a.GuardID, Now: a.Now})
		if err == nil && seen.Claim != nil && seen.Guard != nil {
			a.ClaimFrom, a.GuardFrom = seen.Claim.Owner, seen.Guard.Owner
		}
		return right.Adopt(ctx, a)
	}}
}

func releaseByAnybody(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, release: func(ctx context.Context, r effect.Release) (bool, error) {
		seen, err := right.Look(ctx, effect.Look{Scope: r.Scope, GuardID: r.GuardID})
		if err == nil && seen.Guard != nil {
			r.Owner = seen.Guard.Owner
		}
		return right.Release(ctx, r)
	}}
}
