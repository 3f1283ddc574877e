package effect_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

const (
	margin = time.Second
	tick   = time.Microsecond
	me     = "A2"
	other  = "A1"
)

var (
	now      = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h1       = retryproof.FingerprintOf(retryproof.Int("amount", 3000))
	h2       = retryproof.FingerprintOf(retryproof.Int("amount", 3500))
	answered = &effect.Answer{Status: 200, Body: []byte("paid")}
	reruns   = []effect.Rerun{effect.RerunNever, effect.RerunPending, effect.RerunAlways}
	// leases are ends of a lease as now sees them. At exactly until + margin it
	// still counts as alive.
	leases = []struct {
		name  string
		until time.Time
		stale bool
	}{
		{"live", now.Add(time.Second), false},
		{"over, inside the margin", now.Add(-tick), false},
		{"exactly until + margin", now.Add(-margin), false},
		{"stale by 1 µs", now.Add(-margin - tick), true},
	}
)

type namedClaim struct {
	name  string
	claim *effect.Claim
}

type namedGuard struct {
	name  string
	guard *effect.Guard
}

func claims() []namedClaim {
	out := []namedClaim{{"no claim", nil}}
	for _, fp := range []retryproof.Fingerprint{h1, h2} {
		add := func(name string, c effect.Claim) {
			c.Fingerprint = fp
			out = append(out, namedClaim{fmt.Sprintf("claim %s (%t)", name, fp == h1), &c})
		}
		for _, l := range leases {
			add("mine, "+l.name, effect.Claim{State: effect.InProgress, Owner: me, Until: l.until})
			add("other's, "+l.name, effect.Claim{State: effect.InProgress, Owner: other, Until: l.until})
		}
		add("final", effect.Claim{State: effect.Complete, Owner: other, Answer: answered, ExpiresAt: now.Add(time.Hour)})
		add("pointer", effect.Claim{State: effect.Complete, Owner: other, ExpiresAt: now.Add(time.Hour)})
		add("void", effect.Claim{State: effect.ClaimVoid, ExpiresAt: now.Add(time.Hour)})
	}
	return out
}

func guards() []namedGuard {
	out := []namedGuard{{"no guard", nil}, {"guard void, never asked", &effect.Guard{State: effect.Void}}}
	for _, fp := range []retryproof.Fingerprint{h1, h2} {
		add := func(name string, g effect.Guard) {
			g.Fingerprint = fp
			out = append(out, namedGuard{fmt.Sprintf("guard %s (%t)", name, fp == h1), &g})
		}
		for _, state := range []effect.State{effect.Pending, effect.Unknown} {
			for _, l := range leases {
				add(string(state)+" mine, "+l.name, effect.Guard{State: state, Owner: me, Until: l.until})
				add(string(state)+" other's, "+l.name, effect.Guard{State: state, Owner: other, Until: l.until})
			}
		}
		add("UNKNOWN free", effect.Guard{State: effect.Unknown})
		for _, state := range []effect.State{effect.Succeeded, effect.Failed, effect.Void} {
			add(string(state), effect.Guard{State: state})
		}
	}
	return out
}

// rules are what must hold whatever the store holds.
var rules = []struct {
	name  string
	holds func(c *effect.Claim, g *effect.Guard, p effect.Policy, d effect.Decision) bool
}{
	{"there is a verdict", func(_ *effect.Claim, _ *effect.Guard, _ effect.Policy, d effect.Decision) bool {
		return d.Verdict >= effect.Run && d.Verdict <= effect.Broken
	}},
	{"void wins, and only void is void", func(c *effect.Claim, g *effect.Guard, _ effect.Policy, d effect.Decision) bool {
		return (d.Verdict == effect.Voided) == isVoid(c, g)
	}},
	{"another meaning is refused before anything else", func(c *effect.Claim, g *effect.Guard, _ effect.Policy, d effect.Decision) bool { // case 15
		return (d.Verdict == effect.Mismatch) == (!isVoid(c, g) && differs(c, g))
	}},
	{"run only what is recorded as mine", func(_ *effect.Claim, g *effect.Guard, p effect.Policy, d effect.Decision) bool {
		return d.Verdict != effect.Run || g != nil && g.Owner == me &&
			(g.State == effect.Pending || g.State == effect.Unknown && p.Rerun == effect.RerunAlways)
	}},
	{"a final guard is replayed", func(c *effect.Claim, g *effect.Guard, _ effect.Policy, d effect.Decision) bool {
		final := g != nil && (g.State == effect.Succeeded || g.State == effect.Failed)
		return !final || isVoid(c, g) || differs(c, g) || d.Verdict == effect.Replay
	}},
	{"replay only what is final", func(c *effect.Claim, g *effect.Guard, _ effect.Policy, d effect.Decision) bool {
		return d.Verdict != effect.Replay || d.Answer != nil || g != nil && g.State.Final()
	}},
	{"the answer is the claim's", func(c *effect.Claim, _ *effect.Guard, _ effect.Policy, d effect.Decision) bool {
		return d.Answer == nil || d.Verdict == effect.Replay && c.Answer == d.Answer && c.Fingerprint.Same(h1)
	}},
	{"busy only with a live owner, and not for ever", func(c *effect.Claim, g *effect.Guard, p effect.Policy, d effect.Decision) bool {
		if d.Verdict != effect.Busy {
			return d.RetryAfter == 0
		}
		at, later := now, d
		for range 2 { // the guard's lease may end before the claim's
			at = at.Add(later.RetryAfter + tick)
			later = effect.Next(effect.Seen{Claim: c, Guard: g}, me, h1, at, p)
		}
		return d.RetryAfter >= time.Millisecond && (liveClaim(c) || liveGuard(g)) && later.Verdict != effect.Busy
	}},
	{"nobody alive is taken over", func(c *effect.Claim, g *effect.Guard, _ effect.Policy, d effect.Decision) bool {
		moves := d.Verdict == effect.Takeover || d.Verdict == effect.Abandon
		return !moves || !liveGuard(g) && (!liveClaim(c) || !c.Fingerprint.Same(h1))
	}},
	{"takeover is what the policy allows", func(c *effect.Claim, g *effect.Guard, p effect.Policy, d effect.Decision) bool {
		switch {
		case d.Verdict != effect.Takeover:
			return true
		case g == nil:
			return c != nil && (c.State == effect.InProgress || p.Rerun != effect.RerunNever)
		case g.State == effect.Unknown:
			return p.Rerun == effect.RerunAlways
		}
		return g.State == effect.Pending && p.Rerun != effect.RerunNever
	}},
	{"abandon is for PENDING that nobody may run again", func(_ *effect.Claim, g *effect.Guard, p effect.Policy, d effect.Decision) bool {
		return d.Verdict != effect.Abandon || g != nil && g.State == effect.Pending && p.Rerun == effect.RerunNever
	}},
	{"a pointer is rendered from UNKNOWN", func(_ *effect.Claim, g *effect.Guard, _ effect.Policy, d effect.Decision) bool {
		return d.Verdict != effect.Pointer || g != nil && g.State == effect.Unknown
	}},
	{"broken is a claim without its guard", func(c *effect.Claim, g *effect.Guard, _ effect.Policy, d effect.Decision) bool {
		return d.Verdict != effect.Broken || g == nil && (c == nil || c.State == effect.Complete && c.Answer == nil)
	}},
	{"complete only claims that nobody else will, with this meaning", func(c *effect.Claim, g *effect.Guard, _ effect.Policy, d effect.Decision) bool {
		return !d.CompleteClaim || g != nil && d.Claim == c && c.State == effect.InProgress && c.Fingerprint.Same(g.Fingerprint) && !liveClaim(c)
	}},
	{"the decision carries what was read", func(c *effect.Claim, g *effect.Guard, _ effect.Policy, d effect.Decision) bool {
		return d.Guard == g && (d.Claim == c || d.Claim == nil && !c.Fingerprint.Same(g.Fingerprint))
	}},
}

func isVoid(c *effect.Claim, g *effect.Guard) bool {
	return c != nil && c.State == effect.ClaimVoid || g != nil && g.State == effect.Void
}

// differs compares with the guard, and with the claim only when there is none.
func differs(c *effect.Claim, g *effect.Guard) bool {
	if g != nil {
		return !g.Fingerprint.Same(h1)
	}
	return c != nil && !c.Fingerprint.Same(h1)
}

func liveClaim(c *effect.Claim) bool {
	return c != nil && c.State == effect.InProgress && c.Owner != me && !now.After(c.Until.Add(margin))
}

func liveGuard(g *effect.Guard) bool {
	return g != nil && !g.State.Final() && g.Owner != me && g.Owner != "" && !now.After(g.Until.Add(margin))
}

func TestTheMachineKeepsItsRulesInEveryState(t *testing.T) {
	t.Parallel()
	combinations := 0
	for _, c := range claims() {
		for _, g := range guards() {
			for _, rerun := range reruns {
				combinations++
				policy := effect.Policy{Rerun: rerun, Margin: margin}
				claimBefore, guardBefore := copyOf(c.claim), copyOf(g.guard)
				d := effect.Next(effect.Seen{Claim: c.claim, Guard: g.guard}, me, h1, now, policy)
				for _, r := range rules {
					if !r.holds(c.claim, g.guard, policy, d) {
						t.Errorf("%s, %s, rerun %d: %q fails: verdict %d, retry after %v, complete %t", c.name, g.name, rerun, r.name, d.Verdict, d.RetryAfter, d.CompleteClaim)
					}
				}
				if !reflect.DeepEqual(claimBefore, c.claim) || !reflect.DeepEqual(guardBefore, g.guard) {
					t.Errorf("%s, %s: the machine changed what it read", c.name, g.name)
				}
			}
		}
	}
	if want := 23 * 42 * 3; combinations != want {
		t.Errorf("got %d combinations, want %d", combinations, want)
	}
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func TestTheStorysRowsOfTheMachine(t *testing.T) {
	t.Parallel()
	inProgress := func(owner string, until time.Time) *effect.Claim {
		return &effect.Claim{State: effect.InProgress, Owner: owner, Until: until, Fingerprint: h1}
	}
	pending := func(owner string, until time.Time) *effect.Guard {
		return &effect.Guard{State: effect.Pending, Owner: owner, Until: until, Fingerprint: h1}
	}
	unknown := &effect.Guard{State: effect.Unknown, Fingerprint: h1}
	succeeded := &effect.Guard{State: effect.Succeeded, Fingerprint: h1}
	pointer := &effect.Claim{State: effect.Complete, Owner: other, Fingerprint: h1}
	expired := (*effect.Claim)(nil) // read as absent
	live, atMargin, stale := now.Add(time.Second), now.Add(-margin), now.Add(-margin-tick)
	for _, c := range []struct {
		name  string
		seen  effect.Seen
		want  retryproof.Fingerprint
		rerun effect.Rerun
		then  effect.Verdict
		after time.Duration
		done  bool
	}{
		{"event 2: claimed and recorded", effect.Seen{Claim: inProgress(me, live), Guard: pending(me, live)}, h1, effect.RerunPending, effect.Run, 0, true},
		{"event 5: the network's copy", effect.Seen{Claim: inProgress(other, live), Guard: pending(other, live)}, h1, effect.RerunPending, effect.Busy, 2 * time.Second, false},
		{"event 9: a pointer to UNKNOWN", effect.Seen{Claim: pointer, Guard: unknown}, h1, effect.RerunPending, effect.Pointer, 0, false},
		{"event 13: a pointer to a final row", effect.Seen{Claim: pointer, Guard: succeeded}, h1, effect.RerunPending, effect.Replay, 0, false},
		{"event 20: claimed anew, the row answers", effect.Seen{Claim: inProgress(me, live), Guard: succeeded}, h1, effect.RerunPending, effect.Replay, 0, true},
		{"event 20, read only", effect.Seen{Claim: expired, Guard: succeeded}, h1, effect.RerunPending, effect.Replay, 0, false},
		{"3a: crashed before the row, too early", effect.Seen{Claim: inProgress(other, atMargin)}, h1, effect.RerunNever, effect.Busy, time.Millisecond, false},
		{"3a: crashed before the row", effect.Seen{Claim: inProgress(other, stale)}, h1, effect.RerunNever, effect.Takeover, 0, false},
		{"3b: crashed after PENDING, too early", effect.Seen{Claim: inProgress(other, atMargin), Guard: pending(other, atMargin)}, h1, effect.RerunPending, effect.Busy, time.Millisecond, false},
		{"3b: crashed after PENDING", effect.Seen{Claim: inProgress(other, stale), Guard: pending(other, stale)}, h1, effect.RerunPending, effect.Takeover, 0, true},
		{"3b: and nobody may run it again", effect.Seen{Claim: inProgress(other, stale), Guard: pending(other, stale)}, h1, effect.RerunNever, effect.Abandon, 0, true},
		{"3c: the zombie reads the record", effect.Seen{Claim: inProgress("A3", live), Guard: pending("A3", live)}, h1, effect.RerunPending, effect.Busy, 2 * time.Second, false},
		{"3d: another amount while a pointer", effect.Seen{Claim: pointer, Guard: unknown}, h2, effect.RerunPending, effect.Mismatch, 0, false},
		{"3d: another amount in progress", effect.Seen{Claim: inProgress(other, live), Guard: pending(other, live)}, h2, effect.RerunPending, effect.Mismatch, 0, false},
		{"key store down: the guard decides", effect.Seen{Guard: pending(other, live)}, h1, effect.RerunPending, effect.Busy, 2 * time.Second, false},
		{"key store down, first request", effect.Seen{Guard: pending(me, live)}, h1, effect.RerunNever, effect.Run, 0, false},
		{"another repeat is about to take over", effect.Seen{Claim: inProgress(other, live), Guard: pending("A0", stale)}, h1, effect.RerunPending, effect.Busy, 2 * time.Second, false},
		{"UNKNOWN with keys on every call", effect.Seen{Claim: pointer, Guard: unknown}, h1, effect.RerunAlways, effect.Takeover, 0, false},
		{"a pointer without its row, and the effect may run again", effect.Seen{Claim: pointer}, h1, effect.RerunPending, effect.Takeover, 0, false},
		{"a pointer without its row, and nobody may run it again", effect.Seen{Claim: pointer}, h1, effect.RerunNever, effect.Broken, 0, false},
	} {
		d := effect.Next(c.seen, me, c.want, now, effect.Policy{Rerun: c.rerun, Margin: margin})
		if d.Verdict != c.then || d.RetryAfter != c.after || d.CompleteClaim != c.done {
			t.Errorf("%s: got verdict %d after %v, complete %t, want %d after %v, complete %t", c.name, d.Verdict, d.RetryAfter, d.CompleteClaim, c.then, c.after, c.done)
		}
	}
}

func TestOnlyTheWrittenMovesAreAllowed(t *testing.T) {
	t.Parallel()
	states := []effect.State{effect.Pending, effect.Unknown, effect.Succeeded, effect.Failed, effect.Void, ""}
	allowed := map[[2]effect.State]bool{
		{effect.Pending, effect.Unknown}: true, {effect.Pending, effect.Succeeded}: true, {effect.Pending, effect.Failed}: true,
		{effect.Unknown, effect.Unknown}: true, {effect.Unknown, effect.Succeeded}: true, {effect.Unknown, effect.Failed}: true,
		{effect.Unknown, effect.Void}: true, // a person's verdict
	}
	for _, from := range states {
		for _, to := range states {
			if got, want := effect.CanMove(from, to), allowed[[2]effect.State{from, to}]; got != want {
				t.Errorf("%s to %s: got %v, want %v", from, to, got, want)
			}
		}
		if got, want := from.Final(), from == effect.Succeeded || from == effect.Failed || from == effect.Void; got != want {
			t.Errorf("%s: final %v, want %v", from, got, want)
		}
	}
}

// case 19
func TestALeaseIsStaleOnlyAfterItsMargin(t *testing.T) {
	t.Parallel()
	until := now.Add(5020 * time.Millisecond)
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{5020 * time.Millisecond, false}, {6020 * time.Millisecond, false}, {6020*time.Millisecond + tick, true}, {6020100 * time.Microsecond, true}, {0, false}} {
		if got := effect.Stale(until, now.Add(c.at), margin); got != c.want {
			t.Errorf("at %v: got %v, want %v", c.at, got, c.want)
		}
	}
	if !effect.Stale(time.Time{}, now, margin) {
		t.Error("a guard without a lease is not stale")
	}
}

func TestAClaimExpiresAfterItsTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claim *effect.Claim
		want  bool
	}{
		{nil, true}, {&effect.Claim{}, false}, {&effect.Claim{ExpiresAt: now}, false},
		{&effect.Claim{ExpiresAt: now.Add(tick)}, false}, {&effect.Claim{ExpiresAt: now.Add(-tick)}, true},
	} {
		if got := c.claim.Expired(now); got != c.want {
			t.Errorf("%+v: got %v, want %v", c.claim, got, c.want)
		}
	}
}
