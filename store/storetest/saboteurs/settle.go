package saboteurs

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/store/storetest"
)

// settleFaults are wrong about settlements and answers.
func settleFaults() []Saboteur {
	return []Saboteur{
		{"settle-by-anybody", "a fenced settlement does not compare the owner", "ZombieThatWasTakenOverChangesNothing", inEffects(settleByAnybody)},
		{"events-without-a-move", "events are stored although the guard did not move", "GuardThatDoesNotMoveWritesNoPostingsAndNoEvents", eventsWithoutAMove},
		{"inbox-with-the-move-only", "a delivery is noted only when the guard moves", "InboxIsKeptWhenTheGuardDoesNotMove", inEffects(inboxWithTheMoveOnly)},
		{"claim-holds-the-move-back", "nothing is settled when the claim cannot be completed", "ClaimOfAnotherOwnerDoesNotHoldTheMoveBack", inEffects(claimHoldsTheMoveBack)},
		{"claim-beside-the-move", "the claim is completed although the guard did not move", "GuardThatDoesNotMoveWritesNoPostingsAndNoEvents", inEffects(claimBesideTheMove)},
		{"other-entry-left-by-settle", "a settlement moves the guard without postings when a ref has another entry", "OtherEntryOfAnOldRefIsRefusedAndWritesNothing", inEffects(otherEntryLeftBySettle)},
		{"long-result-cut", "a result over the limit is cut instead of refused", "ResultIsKeptAndBounded", inEffects(longResultCut)},
		{"final-answer-replaced", "a final answer is replaced by a later one", "FinalAnswerIsNeverReplaced", inEffects(finalAnswerReplaced)},
		{"pointer-stays", "a pointer is never rewritten to the final answer", "PointerIsRewrittenByItsOwner", inEffects(pointerStays)},
		{"empty-answer-is-a-pointer", "an answer without status and body is stored as a pointer", "AnswersComeBackByteForByte", inEffects(emptyAnswerIsAPointer)},
		{"large-answer-cut", "an answer's body is cut at 1 MiB", "LargeAnswersAreKeptOrRefused", inEffects(largeAnswerCut)},
		{"headers-joined", "header values are joined with ', '", "AnswersComeBackByteForByte", inEffects(headersJoined)},
		{"answer-shared", "the store keeps the caller's slices", "CallersMayChangeWhatTheyPassedAndGot", inEffects(answerShared)},
		{"tries-not-counted", "an adoption does not raise Tries", "EveryAdoptionRaisesTries", inEffects(triesNotCounted)},
	}
}

func settleByAnybody(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		m.Fenced = false
		return right.Settle(ctx, m)
	}}
}

func eventsWithoutAMove(s storetest.Stores) storetest.Stores {
	box := s.Payments.Inbox
	return inEffects(func(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
		return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
			out, err := right.Settle(ctx, m)
			if err == nil && !out.Moved && !out.Repeat {
				for _, e := range m.Events {
					key := retryproof.InboxKey{Consumer: "saboteur", Source: m.By, EventID: e.ID}
					_, _ = box.Apply(ctx, inbox.Apply{Key: key, Now: m.Now, Events: []retryproof.Event{e}})
				}
			}
			return out, err
		}}
	})(s)
}

// state reads the guard, whatever its scope.
func state(ctx context.Context, right effect.Store, m effect.Settle) effect.State {
	seen, err := right.Look(ctx, effect.Look{GuardID: m.ID, Now: m.Now})
	if err != nil || seen.Guard == nil {
		return ""
	}
	return seen.Guard.State
}

func inboxWithTheMoveOnly(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		if !slices.Contains(m.From, state(ctx, right, m)) {
			m.Inbox = nil
		}
		return right.Settle(ctx, m)
	}}
}

func claimHoldsTheMoveBack(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		if m.Claim != nil {
			seen, err := right.Look(ctx, effect.Look{Scope: m.Claim.Scope, GuardID: m.ID, Now: m.Now})
			if err != nil || seen.Claim == nil || seen.Claim.Owner != m.Claim.Owner {
				return effect.Settled{Guard: seen.Guard}, err
			}
		}
		return right.Settle(ctx, m)
	}}
}

func claimBesideTheMove(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		out, err := right.Settle(ctx, m)
		if err == nil && !out.Moved && m.Claim != nil {
			out.Completed, err = right.Complete(ctx, *m.Claim)
		}
		return out, err
	}}
}

func otherEntryLeftBySettle(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		out, err := right.Settle(ctx, m)
		if retryproof.CodeOf(err) == retryproof.CodeInvalid && ledger.Check(m.Postings) == nil {
			m.Postings = nil
			return right.Settle(ctx, m)
		}
		return out, err
	}}
}

func longResultCut(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		m.Result = m.Result[:min(len(m.Result), effect.MaxResultBytes)]
		return right.Settle(ctx, m)
	}}
}

// finalAnswerReplaced keeps each owner's last answer beside the right store.
func finalAnswerReplaced(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	var last sync.Map
	return store{Store: right,
		complete: func(ctx context.Context, c effect.Completion) (bool, error) {
			ok, err := right.Complete(ctx, c)
			if err == nil && !ok && c.Answer != nil {
				seen, lookErr := right.Look(ctx, effect.Look{Scope: c.Scope})
				if lookErr == nil && seen.Claim != nil && seen.Claim.Owner == c.Owner {
					last.Store(c.Scope, c.Answer)
					return true, nil
				}
			}
			return ok, err
		},
		look: func(ctx context.Context, l effect.Look) (effect.Seen, error) {
			seen, err := right.Look(ctx, l)
			if a, ok := last.Load(l.Scope); ok && seen.Claim != nil {
				seen.Claim.Answer = a.(*effect.Answer)
			}
			return seen, err
		},
	}
}

func pointerStays(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, complete: func(ctx context.Context, c effect.Completion) (bool, error) {
		seen, err := right.Look(ctx, effect.Look{Scope: c.Scope})
		if err == nil && c.Answer != nil && seen.Claim != nil && seen.Claim.State == effect.Complete && seen.Claim.Answer == nil {
			return false, nil
		}
		return right.Complete(ctx, c)
	}}
}

func emptyAnswerIsAPointer(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, complete: func(ctx context.Context, c effect.Completion) (bool, error) {
		if c.Answer != nil && c.Answer.Status == 0 && len(c.Answer.Body) == 0 {
			c.Answer = nil
		}
		return right.Complete(ctx, c)
	}}
}

func largeAnswerCut(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, complete: func(ctx context.Context, c effect.Completion) (bool, error) {
		if c.Answer != nil {
			short := *c.Answer
			short.Body = short.Body[:min(len(short.Body), 1<<20)]
			c.Answer = &short
		}
		return right.Complete(ctx, c)
	}}
}

func headersJoined(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, complete: func(ctx context.Context, c effect.Completion) (bool, error) {
		if c.Answer != nil {
			joined := *c.Answer
			joined.Header = maps.Clone(joined.Header)
			for name, values := range joined.Header { // order: each header alone
				joined.Header[name] = []string{strings.Join(values, ", ")}
			}
			c.Answer = &joined
		}
		return right.Complete(ctx, c)
	}}
}

func answerShared(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	var kept sync.Map
	return store{Store: right,
		settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
			out, err := right.Settle(ctx, m)
			if out.Completed && m.Claim.Answer != nil {
				kept.Store(m.Claim.Scope, m.Claim.Answer)
			}
			return out, err
		},
		look: func(ctx context.Context, l effect.Look) (effect.Seen, error) {
			seen, err := right.Look(ctx, l)
			if a, ok := kept.Load(l.Scope); ok && seen.Claim != nil && seen.Claim.Answer != nil {
				seen.Claim.Answer = a.(*effect.Answer)
			}
			return seen, err
		},
	}
}

func triesNotCounted(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	forget := func(seen effect.Seen, err error) (effect.Seen, error) {
		if seen.Guard != nil {
			seen.Guard.Tries = 0
		}
		return seen, err
	}
	return store{Store: right,
		adopt: func(ctx context.Context, a effect.Adopt) (effect.Seen, error) { return forget(right.Adopt(ctx, a)) },
		look:  func(ctx context.Context, l effect.Look) (effect.Seen, error) { return forget(right.Look(ctx, l)) },
	}
}
