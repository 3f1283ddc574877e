package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// claims is the key store: one claim per scope.
type claims struct {
	byScope map[retryproof.Scope]*effect.Claim
	// running holds IN_PROGRESS claims by the end of their lease, expiring the
	// others by their expiry.
	running, expiring index[*effect.Claim]
}

func newClaims() claims {
	return claims{
		byScope: map[retryproof.Scope]*effect.Claim{},
		running: index[*effect.Claim]{compare: func(a, b *effect.Claim) int {
			return cmp.Or(a.Until.Compare(b.Until), compareScopes(a.Scope, b.Scope))
		}},
		expiring: index[*effect.Claim]{compare: func(a, b *effect.Claim) int {
			return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), compareScopes(a.Scope, b.Scope))
		}},
	}
}

func compareScopes(a, b retryproof.Scope) int {
	return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Key, b.Key))
}

// live returns the claim unless it is absent or expired.
func (c *claims) live(s retryproof.Scope, now time.Time) *effect.Claim {
	if held := c.byScope[s]; !held.Expired(now) {
		return held
	}
	return nil
}

func (c *claims) indexOf(held *effect.Claim) *index[*effect.Claim] {
	if held.State == effect.InProgress {
		return &c.running
	}
	return &c.expiring
}

// put writes a claim, in place of held when one was there.
func (c *claims) put(held *effect.Claim, fresh effect.Claim) *effect.Claim {
	if held == nil {
		held = &fresh
		c.byScope[fresh.Scope] = held
	} else {
		c.indexOf(held).remove(held)
		*held = fresh
	}
	if held.State == effect.InProgress || !held.ExpiresAt.IsZero() { // zero: never expires
		c.indexOf(held).add(held)
	}
	return held
}

func (c *claims) drop(s retryproof.Scope) {
	if held := c.byScope[s]; held != nil {
		c.indexOf(held).remove(held)
		delete(c.byScope, s)
	}
}

// claim is step 1 of Begin: written if absent or expired.
func (c *claims) claim(b effect.Begin) *effect.Claim {
	held := c.byScope[b.Scope]
	if held.Expired(round(b.Now)) {
		held = c.put(held, newClaim(b))
	}
	return held
}

func newClaim(b effect.Begin) effect.Claim {
	if b.Void {
		return effect.Claim{Scope: b.Scope, GuardID: b.GuardID, State: effect.ClaimVoid, Owner: b.Owner, ExpiresAt: round(b.Until)}
	}
	return effect.Claim{
		Scope: b.Scope, GuardID: b.GuardID, Fingerprint: b.Fingerprint,
		State: effect.InProgress, Owner: b.Owner, Until: round(b.Until),
	}
}

// mine reports whether the claim is the owner's and not complete.
func mine(c *effect.Claim, owner string) bool {
	return c != nil && c.State == effect.InProgress && c.Owner == owner
}

func isPointer(c *effect.Claim) bool { return c.State == effect.Complete && c.Answer == nil }

// takes reports whether the claim part of an Adopt changes the claim.
func (c *claims) takes(a effect.Adopt) bool {
	now := round(a.Now)
	held := c.live(a.Scope, now)
	switch {
	case held == nil:
		return true
	case held.Owner != a.ClaimFrom:
		return false
	case held.State == effect.InProgress:
		return effect.Stale(held.Until, now, a.Margin)
	}
	return isPointer(held)
}

// adoptable reports whether the claim part of an Adopt holds: it changes the
// claim, or did before.
func (c *claims) adoptable(a effect.Adopt) bool {
	return c.takes(a) || mine(c.live(a.Scope, round(a.Now)), a.Owner)
}

// adopt writes the claim part of an Adopt that is adoptable.
func (c *claims) adopt(a effect.Adopt) {
	if !c.takes(a) {
		return
	}
	held, fresh := c.byScope[a.Scope], newClaim(beginOf(a))
	if !held.Expired(round(a.Now)) {
		fresh.GuardID, fresh.Fingerprint = held.GuardID, held.Fingerprint
	}
	c.put(held, fresh)
}

// complete stores an answer or a pointer; see effect.Completion.
func (c *claims) complete(done effect.Completion) bool {
	held := c.byScope[done.Scope]
	if held == nil || held.Owner != done.Owner {
		return false
	}
	if held.State == effect.Complete && held.Answer != nil {
		return sameAnswer(held.Answer, done.Answer)
	}
	if held.State != effect.InProgress && !isPointer(held) {
		return false
	}
	fresh := *held
	fresh.State, fresh.Answer, fresh.ExpiresAt = effect.Complete, copyAnswer(done.Answer), round(done.ExpiresAt)
	c.put(held, fresh)
	return true
}

func (c *claims) release(r effect.Release) {
	if mine(c.byScope[r.Scope], r.Owner) {
		c.drop(r.Scope)
	}
}

// forget deletes up to limit claims that expired before now or whose owner's
// lease ended before abandoned.
func (c *claims) forget(now, abandoned time.Time, limit int) int {
	old := c.expiring.first(limit, func(held *effect.Claim) bool { return held.ExpiresAt.Before(now) })
	old = append(old, c.running.first(limit-len(old), func(held *effect.Claim) bool { return held.Until.Before(abandoned) })...)
	for _, held := range old {
		c.drop(held.Scope)
	}
	return len(old)
}

// claimOut copies a claim for a caller.
func claimOut(c *effect.Claim) *effect.Claim {
	if c == nil {
		return nil
	}
	out := *c
	out.Answer = copyAnswer(c.Answer)
	return &out
}

func copyAnswer(a *effect.Answer) *effect.Answer {
	if a == nil {
		return nil
	}
	out := *a
	out.Body = bytes.Clone(a.Body)
	if a.Header != nil {
		out.Header = make(map[string][]string, len(a.Header))
		for name, values := range a.Header { // order: copies a map into a map
			out.Header[name] = slices.Clone(values)
		}
	}
	return &out
}

func sameAnswer(a, b *effect.Answer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.BodyDropped == b.BodyDropped && bytes.Equal(a.Body, b.Body) &&
		maps.EqualFunc(a.Header, b.Header, slices.Equal)
}

// keys is effect.Keys.
type keys struct{ s *Store }

func (k keys) ClaimKey(ctx context.Context, b effect.Begin) (*effect.Claim, error) {
	if err := checkOwner(b.Scope, b.Owner); err != nil {
		return nil, err
	}
	if err := k.s.lock(ctx); err != nil {
		return nil, err
	}
	defer k.s.mu.Unlock()
	return claimOut(k.s.claims.claim(b)), nil
}

func (k keys) AdoptKey(ctx context.Context, a effect.Adopt) (*effect.Claim, error) {
	if err := checkOwner(a.Scope, a.Owner); err != nil {
		return nil, err
	}
	if err := k.s.lock(ctx); err != nil {
		return nil, err
	}
	defer k.s.mu.Unlock()
	if k.s.claims.adoptable(a) {
		k.s.claims.adopt(a)
	}
	return claimOut(k.s.claims.live(a.Scope, round(a.Now))), nil
}

func (k keys) CompleteKey(ctx context.Context, c effect.Completion) (bool, error) {
	if err := k.s.lock(ctx); err != nil {
		return false, err
	}
	defer k.s.mu.Unlock()
	return k.s.claims.complete(c), nil
}

func (k keys) ReleaseKey(ctx context.Context, r effect.Release) error {
	if err := k.s.lock(ctx); err != nil {
		return err
	}
	defer k.s.mu.Unlock()
	k.s.claims.release(r)
	return nil
}

func (k keys) LookKey(ctx context.Context, l effect.Look) (*effect.Claim, error) {
	if err := k.s.lock(ctx); err != nil {
		return nil, err
	}
	defer k.s.mu.Unlock()
	return claimOut(k.s.claims.live(l.Scope, round(l.Now))), nil
}

// checkOwner refuses what could never be told apart later: a scope with a part
// missing, and an owner without a token.
func checkOwner(s retryproof.Scope, owner string) error {
	if owner == "" {
		return invalid("the owner has no token")
	}
	return s.Valid()
}
