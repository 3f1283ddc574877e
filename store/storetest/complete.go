package storetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

func completeCases() []effectCase {
	return []effectCase{
		{name: "FinalAnswerIsNeverReplaced", run: finalAnswerStays},
		{name: "PointerIsRewrittenByItsOwner", run: pointerRewritten},
		{name: "CompletionByAnotherOwnerChangesNothing", run: foreignCompletion},
		{name: "AnswersComeBackByteForByte", run: answersExact},
		{name: "LargeAnswersAreKeptOrRefused", run: largeAnswers},
		{name: "CallersMayChangeWhatTheyPassedAndGot", run: copies},
		{name: "ReleaseUndoesABegin", run: releaseUndoes},
		{name: "ReleaseByAnotherOwnerChangesNothing", run: foreignRelease},
		{name: "ReleaseLeavesWhatHasMovedOn", run: releaseAfterMove},
		{name: "ReleaseGivesBackAClaimWithoutItsGuard", run: releaseClaimAlone},
		{name: "LookFindsClaimAndGuardEachAlone", run: lookEachAlone},
	}
}

func finalAnswerStays(s *subject) {
	s.begin("A1", 0.02)
	check(s.world, "completed", s.complete("A1", ok200("final"), 3600), true)
	s.unchanged("completing a final claim again", 1, func() {
		check(s.world, "the same again", s.complete("A1", ok200("final"), 3600), true)
		check(s.world, "another answer", s.complete("A1", ok200("other"), 3600), false)
		other := ok200("final")
		other.Status = 500
		check(s.world, "another status", s.complete("A1", other, 3600), false)
		check(s.world, "a pointer", s.complete("A1", nil, 3600), false)
		m := s.settlement("A1", effect.Unknown, 1)
		m.From = nil
		m.Claim = s.completion("A1", ok200("other"), 3600)
		s.settle(m)
	})
	m := s.settlement("A1", effect.Succeeded, 2)
	m.Claim = s.completion("A1", ok200("other"), 7200)
	got := s.settle(m)
	check(s.world, "moved", got.Moved, true)
	check(s.world, "completed with another answer", got.Completed, false)
	check(s.world, "the answer", describeAnswer(s.look(3).Claim.Answer), describeAnswer(ok200("final")))
}

// Mission B4
func pointerRewritten(s *subject) {
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Unknown, 5.02)
	m.Claim = s.completion("A1", nil, 3605.02)
	check(s.world, "completed", s.settle(m).Completed, true)
	seen := s.look(10)
	s.wantClaim(seen.Claim, effect.Complete, "A1")
	check(s.world, "a pointer has no answer", describeAnswer(seen.Claim.Answer), "none")
	check(s.world, "a pointer again", s.complete("A1", nil, 3605.02), true)
	s.unchanged("rewriting another owner's pointer", 11, func() {
		check(s.world, "rewritten", s.complete("A2", ok200("final"), 3605.02), false)
	})
	check(s.world, "rewritten", s.complete("A1", ok200("final"), 3605.02), true)
	seen = s.look(12)
	check(s.world, "the answer", describeAnswer(seen.Claim.Answer), describeAnswer(ok200("final")))
	sameTime(s.world, "the expiry", seen.Claim.ExpiresAt, at(3605.02))
	s.unchanged("the repeat", 12, func() {
		check(s.world, "rewritten again", s.complete("A1", ok200("final"), 3605.02), true)
		check(s.world, "back to a pointer", s.complete("A1", nil, 3605.02), false)
	})
}

func foreignCompletion(s *subject) {
	check(s.world, "nobody's claim", s.complete("A1", ok200("final"), 3600), false)
	s.begin("A1", 0.02)
	s.unchanged("a completion by another owner", 1, func() {
		for _, owner := range []string{"A2", "", "a1"} {
			check(s.world, fmt.Sprintf("by %q", owner), s.complete(owner, ok200("final"), 3600), false)
			check(s.world, fmt.Sprintf("pointer by %q", owner), s.complete(owner, nil, 3600), false)
		}
	})
}

// cases 2 and 3
func answersExact(s *subject) {
	for i, a := range []*effect.Answer{
		{},
		{Status: 204},
		{Status: 202, Header: map[string][]string{}},
		{Status: 200, Body: []byte{}},
		{Status: 200, Body: []byte("null")}, {Status: 200, Body: []byte("0")}, {Status: 200, Body: []byte("false")}, {Status: 200, Body: []byte(`""`)},
		{Status: 200, BodyDropped: true},
		{Status: 201, Body: []byte{0x1f, 0x8b, 0, 0xff, '\n', 0xc3, 0x28}, Header: map[string][]string{
			"Link":                {`</a>; rel="next"`, `</b>; rel="last"`},
			"Content-Disposition": {`attachment; filename="a,b.txt"`},
			"Expires":             {"Sun, 06 Nov 1994 08:49:37 GMT"},
			"Location":            {"/payments/pay_7"},
			"X-Empty":             {""},
			"X-Unicode":           {"naïve, 日本, \\\"quoted\\\""},
			"X-Latin-1":           {"plain", "caf\xe9.pdf", "a\x00b"},
		}},
	} {
		one := s.subject(s.kind, fmt.Sprintf("N%d", i))
		one.begin("A1", 0.02)
		check(s.world, "completed", one.complete("A1", a, 3600), true)
		seen := one.look(1)
		one.wantClaim(seen.Claim, effect.Complete, "A1")
		if seen.Claim.Answer == nil {
			s.Errorf("answer %d became a pointer", i)
			continue
		}
		check(s.world, fmt.Sprintf("answer %d", i), describeAnswer(seen.Claim.Answer), describeAnswer(a))
		check(s.world, fmt.Sprintf("answer %d again", i), one.complete("A1", a, 3600), true)
		check(s.world, fmt.Sprintf("answer %d through Begin", i), describeAnswer(one.begin("A2", 2).Claim.Answer), describeAnswer(a))
	}
}

// case 1: the edge caps bodies before; a store keeps all that it is given, or says no.
func largeAnswers(s *subject) {
	for _, size := range []int{64 << 10, 1 << 20, 8 << 20} {
		one := s.subject(s.kind, fmt.Sprintf("L%d", size))
		one.begin("A1", 0.02)
		a := &effect.Answer{Status: 200, Body: bytes.Repeat([]byte("0123456789abcde\xff"), size/16)}
		c := *one.completion("A1", a, 3600)
		if size > s.traits.MaxAnswer {
			refused(s.world, "an answer that is too large", func(ctx context.Context) (bool, error) { return one.store.Complete(ctx, c) })
			one.wantClaim(one.look(1).Claim, effect.InProgress, "A1")
			continue
		}
		check(s.world, "completed", must(s.world, func(ctx context.Context) (bool, error) { return one.store.Complete(ctx, c) }), true)
		check(s.world, fmt.Sprintf("%d bytes are kept", size), bytes.Equal(one.look(1).Claim.Answer.Body, a.Body), true)
	}
}

func copies(s *subject) {
	s.begin("A1", 0.02)
	answer := ok200("final")
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Claim, m.Result = s.completion("A1", answer, 3600), []byte("result")
	if s.kind.business() {
		m.Result = nil
	}
	s.settle(m)
	want := describe(s.look(2))
	answer.Body[0], answer.Header["Content-Type"][0], answer.Header["X"] = 'X', "changed", []string{"added"}
	if m.Result != nil {
		m.Result[0] = 'X'
	}
	check(s.world, "after the caller changed what it passed", describe(s.look(2)), want)
	got := s.look(2)
	got.Claim.Answer.Body[0], got.Claim.Answer.Header["Content-Type"][0] = 'Y', "changed"
	got.Claim.Owner, got.Guard.State = "changed", effect.Failed
	if len(got.Guard.Result) > 0 {
		got.Guard.Result[0] = 'Y'
	}
	check(s.world, "after the caller changed what it got", describe(s.look(2)), want)
}

func releaseUndoes(s *subject) {
	s.begin("A1", 0.02)
	check(s.world, "gone", s.release("A1"), true)
	check(s.world, "records", describe(s.look(1)), "no claim\n  no guard")
	check(s.world, "gone already", s.release("A1"), true)
	seen := s.begin("A2", 1)
	s.wantClaim(seen.Claim, effect.InProgress, "A2")
	s.wantGuard(seen.Guard, effect.Pending, "A2")
	sameTime(s.world, "CreatedAt", seen.Guard.CreatedAt, at(1))
}

// case 18
func foreignRelease(s *subject) {
	s.begin("A1", 0.02)
	s.unchanged("a release by another owner", 1, func() {
		for _, owner := range []string{"A2", "", "a1"} {
			check(s.world, fmt.Sprintf("gone by %q", owner), s.release(owner), false)
		}
	})
}

func releaseAfterMove(s *subject) {
	for _, state := range []effect.State{effect.Unknown, effect.Succeeded, effect.Failed} {
		one := s.subject(s.kind, string(state))
		one.begin("A1", 0.02)
		m := one.settlement("A1", state, 1)
		m.Claim = one.completion("A1", nil, 3600)
		one.settle(m)
		one.unchanged("releasing a guard that is "+string(state), 2, func() {
			check(s.world, "gone", one.release("A1"), false)
		})
	}
	swept := s.subject(s.kind, "swept")
	swept.begin("A1", 0.02)
	a := swept.adoption("R", "A1", 7)
	a.GuardOnly, a.To = true, effect.Unknown
	swept.adopt(a)
	guard := describeGuard(swept.look(8).Guard)
	check(s.world, "the guard of a resolver is gone", swept.release("A1"), false)
	check(s.world, "the guard of a resolver", describeGuard(swept.look(8).Guard), guard)
	check(s.world, "the claim is gone all the same", describeClaim(swept.look(8).Claim), "no claim")
}

// A request that claimed an expired key for nothing gives the claim back alone.
func releaseClaimAlone(s *subject) {
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Succeeded, 1)
	m.Claim = s.completion("A1", ok200("final"), 100)
	s.settle(m)
	guard := describeGuard(s.look(1).Guard)
	s.begin("A2", 200)
	check(s.world, "the guard is gone", s.release("A2"), false)
	seen := s.look(200)
	check(s.world, "the claim", describeClaim(seen.Claim), "no claim")
	check(s.world, "the guard", describeGuard(seen.Guard), guard)

	other := s.subject(s.kind, "K2")
	other.begin("A1", 0.02)
	other.complete("A1", nil, 2)
	other.begin("C", 3) // finds A1's guard PENDING
	check(s.world, "A1's guard is gone", other.release("A1"), true)
	seen = other.look(4)
	other.wantClaim(seen.Claim, effect.InProgress, "C")
	check(s.world, "A1's guard", describeGuard(seen.Guard), "no guard")
}

func lookEachAlone(s *subject) {
	s.begin("A1", 0.02)
	seen := must(s.world, func(ctx context.Context) (effect.Seen, error) {
		return s.store.Look(ctx, effect.Look{Scope: s.scope, GuardID: "pay_nobody", Now: at(1)})
	})
	s.wantClaim(seen.Claim, effect.InProgress, "A1")
	check(s.world, "the other guard", describeGuard(seen.Guard), "no guard")
	nobody := s.scope
	nobody.Caller = strings.ToUpper(nobody.Caller)
	seen = must(s.world, func(ctx context.Context) (effect.Seen, error) {
		return s.store.Look(ctx, effect.Look{Scope: nobody, GuardID: s.id, Now: at(1)})
	})
	check(s.world, "the other claim", describeClaim(seen.Claim), "no claim")
	s.wantGuard(seen.Guard, effect.Pending, "A1")
}

func describeEvent(e retryproof.Event) string {
	return fmt.Sprintf("%q %q group %q at %s: %q", e.ID, e.Type, e.Group, instant(e.At), e.Body)
}
