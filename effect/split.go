package effect

import (
	"context"

	"github.com/retryproof/retryproof"
)

// Split joins a key store and a guard store that are two databases (mission B2,
// B7). The guard decides: when the key store does not answer, requests are
// answered from the guard alone and the claim is left for a later repeat.
//
// Crash points: after the claim and before the guard nothing has run, and the
// claim goes stale; after a settlement and before the claim's completion the
// guard is final, and repeats are answered from it.
func Split(keys Keys, guards Guards) Store { return split{keys, guards} }

type split struct {
	keys   Keys
	guards Guards
}

// Begin claims, then records. A guard that cannot be recorded gives the claim
// back, so that no claim blocks the retry (case 28); when the guard is there after
// all, it decides.
func (s split) Begin(ctx context.Context, b Begin) (Seen, error) {
	if b.Void {
		return s.void(ctx, b)
	}
	claim, keyErr := s.keys.ClaimKey(ctx, b)
	if retryproof.CodeOf(keyErr) == retryproof.CodeConflict {
		return Seen{}, keyErr // the key store is there and busy: ask it again
	}
	if keyErr == nil && claim != nil && (claim.Owner != b.Owner || claim.State != InProgress) {
		return s.withGuard(ctx, claim, Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now})
	}
	guard, err := s.guards.RecordGuard(ctx, b)
	if err == nil {
		return Seen{Claim: claim, Guard: guard}, nil
	}
	if keyErr == nil {
		_ = s.keys.ReleaseKey(ctx, Release{Scope: b.Scope, GuardID: b.GuardID, Owner: b.Owner})
	}
	return Seen{}, err
}

// void asks the guard first: its unique row decides against an original. A key store
// that does not answer is left as it is; a late original meets the guard.
func (s split) void(ctx context.Context, b Begin) (Seen, error) {
	guard, err := s.guards.RecordGuard(ctx, b)
	if err != nil {
		return Seen{}, err
	}
	if guard == nil || guard.State != Void {
		claim, keyErr := s.keys.LookKey(ctx, Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now})
		if keyErr != nil {
			claim = nil
		}
		return Seen{Claim: claim, Guard: guard}, nil
	}
	claim, keyErr := s.keys.ClaimKey(ctx, b)
	if keyErr != nil {
		claim = nil
	}
	return Seen{Claim: claim, Guard: guard}, nil
}

// withGuard reads the guard unless the claim has the final answer already.
func (s split) withGuard(ctx context.Context, claim *Claim, l Look) (Seen, error) {
	if claim != nil && claim.State == Complete && claim.Answer != nil {
		return Seen{Claim: claim}, nil
	}
	guard, err := s.guards.LookGuard(ctx, l)
	return Seen{Claim: claim, Guard: guard}, err
}

// Adopt takes the guard over, which is the fence, and then the claim. The claim
// of a guard that is not the adopter's is never touched.
func (s split) Adopt(ctx context.Context, a Adopt) (Seen, error) {
	look := Look{Scope: a.Scope, GuardID: a.GuardID, Now: a.Now}
	if a.Insert {
		// Without a guard the claim decides who may insert it.
		claim, err := s.keys.AdoptKey(ctx, a)
		if err != nil {
			return Seen{}, err
		}
		if claim == nil || claim.Owner != a.Owner {
			return s.withGuard(ctx, claim, look)
		}
	}
	guard, err := s.guards.AdoptGuard(ctx, a)
	if err != nil {
		if a.Insert && retryproof.OutcomeOf(err) == retryproof.NotDone {
			_ = s.keys.ReleaseKey(ctx, Release{Scope: a.Scope, GuardID: a.GuardID, Owner: a.Owner})
		}
		return Seen{}, err
	}
	if a.GuardOnly {
		return Seen{Guard: guard}, nil
	}
	claim, err := s.keys.LookKey(ctx, look)
	if err == nil && !a.Insert && guard != nil && guard.Owner == a.Owner {
		claim, err = s.keys.AdoptKey(ctx, a)
	}
	if err != nil {
		claim = nil // the guard decides
	}
	return Seen{Claim: claim, Guard: guard}, nil
}

func (s split) Settle(ctx context.Context, set Settle) (Settled, error) {
	done := set.Claim
	set.Claim = nil
	out, err := s.guards.SettleGuard(ctx, set)
	if err != nil || done == nil {
		return out, err
	}
	landed := out.Moved || out.Guard != nil && out.Guard.SettledBy == set.By && out.Guard.State == set.To
	if landed {
		// A claim that cannot be completed goes stale; the guard answers.
		out.Completed, _ = s.keys.CompleteKey(ctx, *done)
	}
	return out, nil
}

func (s split) Complete(ctx context.Context, c Completion) (bool, error) {
	return s.keys.CompleteKey(ctx, c)
}

// Release frees the guard first: while it is there, nobody else may run. The claim
// goes even when the guard is another owner's, as in Store.Release.
func (s split) Release(ctx context.Context, r Release) (bool, error) {
	gone, err := s.guards.ReleaseGuard(ctx, r)
	if err != nil {
		return false, err
	}
	_ = s.keys.ReleaseKey(ctx, r) // else it goes stale
	return gone, nil
}

func (s split) Look(ctx context.Context, l Look) (Seen, error) {
	claim, err := s.keys.LookKey(ctx, l)
	if err != nil {
		claim = nil
	}
	return s.withGuard(ctx, claim, l)
}
