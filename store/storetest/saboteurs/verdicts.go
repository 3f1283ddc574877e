package saboteurs

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/store/storetest"
)

// verdictFaults are wrong about voids and about evidence.
func verdictFaults() []Saboteur {
	return []Saboteur{
		{"void-overwrites-pending", "a void overwrites a PENDING guard and its claim", "VoidLeavesWhatIsThere", inEffects(voidOverwritesPending)},
		{"void-writes-only-the-claim", "a void writes no guard", "VoidOfNothingVoidsClaimAndGuard", inEffects(voidWritesOnlyTheClaim)},
		{"void-writes-only-the-guard", "a void writes no claim", "VoidOfNothingVoidsClaimAndGuard", inEffects(voidWritesOnlyTheGuard)},
		{"void-claim-beside-a-guard", "a void voids an expired claim although the guard is not VOID", "VoidOfAnExpiredClaimLeavesItsGuard", inEffects(voidClaimBesideAGuard)},
		{"void-claim-without-a-guard", "a void overwrites the claim of a guard that is there", "VoidLeavesWhatIsThere", inEffects(voidIgnoresTheGuard)},
		{"void-claim-completes", "a VOID claim can be completed by its owner", "NothingMovesAVoidedEffect", inEffects(voidClaimCompletes)},
		{"void-ends-with-its-claim", "an original runs when the VOID claim has expired", "OriginalAfterAVoidIsRefusedForEver", inEffects(voidEndsWithItsClaim)},
		{"void-check-then-act", "a void looks first and believes what it saw", "ClaimAndVoidAtOnceHaveOneWinner", inEffects(voidCheckThenAct)},
		{"void-keeps-a-fingerprint", "a void keeps the fingerprint that it was given", "VoidOfNothingVoidsClaimAndGuard", inEffects(voidKeepsAFingerprint)},
		{"void-is-never-a-verdict", "an UNKNOWN guard cannot be voided", "PersonMayVoidAnUnknownEffect", inEffects(voidIsNeverAVerdict)},
		{"evidence-overwritten", "a second evidence of a name replaces the first", "SecondEvidenceOfANameIsLeft", evidenceOverwritten},
		{"evidence-without-a-move", "evidence is kept although the guard did not move", "EvidenceWithoutAMoveIsDropped", inEffects(evidenceWithoutAMove)},
		{"evidence-cut", "what evidence says is cut at its bound instead of refused", "EvidenceOverItsBoundsIsRefusedAndWritesNothing", inEffects(evidenceCut)},
		{"evidence-by-name", "evidence is listed by its name alone", "EvidenceIsOrderedByTimeAndName", inDue(func(s resolve.Store) resolve.Store { return evidenceByName{s} })},
		{"note-only-with-a-move", "a note is dropped when the guard does not move", "NoteIsKeptWithoutAMove", inEffects(noteOnlyWithAMove)},
		{"note-of-a-repeat", "a note is kept although the delivery is a repeat", "NoteOfARepeatedDeliveryIsDropped", inEffects(noteOfARepeat)},
		{"release-despite-evidence", "Release says that a guard with evidence beside it is gone", "EvidenceHoldsTheGuard", inEffects(releaseDespiteEvidence)},
		{"noted-always", "Settle says that a note was kept when its name was there", "NoteIsKeptWithoutAMove", inEffects(notedAlways)},
	}
}

func releaseDespiteEvidence(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, release: func(ctx context.Context, r effect.Release) (bool, error) {
		seen, err := right.Look(ctx, effect.Look{Scope: r.Scope, GuardID: r.GuardID})
		if err != nil {
			return false, err
		}
		gone, err := right.Release(ctx, r)
		return gone || seen.Guard != nil && seen.Guard.State == effect.Pending && seen.Guard.Owner == r.Owner, err
	}}
}

// voiding is a store that voids in another way.
func voiding(right effect.Store, void func(ctx context.Context, b effect.Begin) (effect.Seen, error)) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		if b.Void {
			return void(ctx, b)
		}
		return right.Begin(ctx, b)
	}}
}

func lookAt(b effect.Begin) effect.Look {
	return effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now}
}

func voidOverwritesPending(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return voiding(right, func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Look(ctx, lookAt(b))
		if err == nil && seen.Guard != nil && seen.Guard.State == effect.Pending {
			_, err = right.Release(ctx, effect.Release{Scope: b.Scope, GuardID: b.GuardID, Owner: seen.Guard.Owner})
		}
		if err != nil {
			return seen, err
		}
		return right.Begin(ctx, b)
	})
}

func voidWritesOnlyTheClaim(right effect.Store, keys effect.Keys, _ effect.Guards) effect.Store {
	return voiding(right, func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Look(ctx, lookAt(b))
		if err == nil && seen.Guard == nil {
			seen.Claim, err = keys.ClaimKey(ctx, b)
			return seen, err
		}
		return right.Begin(ctx, b)
	})
}

func voidWritesOnlyTheGuard(right effect.Store, _ effect.Keys, guards effect.Guards) effect.Store {
	return voiding(right, func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		if _, err := guards.RecordGuard(ctx, b); err != nil {
			return effect.Seen{}, err
		}
		return right.Look(ctx, lookAt(b))
	})
}

func voidClaimBesideAGuard(right effect.Store, keys effect.Keys, _ effect.Guards) effect.Store {
	return voiding(right, func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Begin(ctx, b)
		if err == nil {
			seen.Claim, err = keys.ClaimKey(ctx, b)
		}
		return seen, err
	})
}

func voidIgnoresTheGuard(right effect.Store, keys effect.Keys, _ effect.Guards) effect.Store {
	return voiding(right, func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Look(ctx, lookAt(b))
		if err == nil && seen.Claim != nil && seen.Claim.State == effect.InProgress {
			err = keys.ReleaseKey(ctx, effect.Release{Scope: b.Scope, GuardID: b.GuardID, Owner: seen.Claim.Owner})
		}
		if err == nil {
			_, err = keys.ClaimKey(ctx, b)
		}
		if err != nil {
			return seen, err
		}
		return right.Begin(ctx, b)
	})
}

func voidClaimCompletes(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	var last sync.Map
	return store{Store: right,
		complete: func(ctx context.Context, c effect.Completion) (bool, error) {
			seen, err := right.Look(ctx, effect.Look{Scope: c.Scope})
			if err == nil && seen.Claim != nil && seen.Claim.State == effect.ClaimVoid && seen.Claim.Owner == c.Owner {
				last.Store(c.Scope, c)
				return true, nil
			}
			return right.Complete(ctx, c)
		},
		look: func(ctx context.Context, l effect.Look) (effect.Seen, error) {
			seen, err := right.Look(ctx, l)
			if c, ok := last.Load(l.Scope); ok && seen.Claim != nil {
				seen.Claim.State, seen.Claim.Answer = effect.Complete, c.(effect.Completion).Answer
			}
			return seen, err
		},
	}
}

func voidEndsWithItsClaim(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Begin(ctx, b)
		if err == nil && seen.Guard != nil && seen.Guard.State == effect.Void && seen.Claim != nil && seen.Claim.State == effect.InProgress {
			seen.Guard.State, seen.Guard.Owner, seen.Guard.Fingerprint = effect.Pending, b.Owner, b.Fingerprint
		}
		return seen, err
	}}
}

func voidCheckThenAct(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return voiding(right, func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		before, err := right.Look(ctx, lookAt(b))
		if err != nil {
			return before, err
		}
		for range 200 { // the moment that such a driver spends between its two statements
			runtime.Gosched()
		}
		seen, err := right.Begin(ctx, b)
		if err == nil && before.Guard == nil {
			seen.Guard.State = effect.Void
		}
		return seen, err
	})
}

func voidKeepsAFingerprint(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	var kept sync.Map
	return store{Store: right,
		begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
			if b.Void {
				kept.LoadOrStore(b.GuardID, b.Fingerprint)
			}
			return right.Begin(ctx, b)
		},
		look: func(ctx context.Context, l effect.Look) (effect.Seen, error) {
			seen, err := right.Look(ctx, l)
			if print, ok := kept.Load(l.GuardID); ok && seen.Guard != nil && seen.Guard.State == effect.Void {
				seen.Guard.Fingerprint = print.(retryproof.Fingerprint)
			}
			return seen, err
		},
	}
}

func voidIsNeverAVerdict(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		if m.To == effect.Void {
			m.From = nil
		}
		return right.Settle(ctx, m)
	}}
}

// nameOf tells evidence of one name about one guard.
type nameOf struct {
	id   retryproof.ID
	name string
}

type overwritesEvidence struct {
	resolve.Store
	last *sync.Map
}

func (o overwritesEvidence) Evidence(ctx context.Context, id retryproof.ID) ([]effect.Evidence, error) {
	list, err := o.Store.Evidence(ctx, id)
	for i, e := range list {
		if last, ok := o.last.Load(nameOf{id, e.Name}); ok {
			list[i] = last.(effect.Evidence)
			list[i].GuardID = id
		}
	}
	return list, err
}

func evidenceOverwritten(s storetest.Stores) storetest.Stores {
	var last sync.Map
	s = inDue(func(right resolve.Store) resolve.Store { return overwritesEvidence{right, &last} })(s)
	return inEffects(func(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
		return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
			out, err := right.Settle(ctx, m)
			if err == nil && out.Moved && m.Evidence != nil {
				last.Store(nameOf{m.ID, m.Evidence.Name}, *m.Evidence)
			}
			return out, err
		}}
	})(s)
}

func evidenceWithoutAMove(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		out, err := right.Settle(ctx, m)
		if err == nil && !out.Moved && !out.Repeat && m.Evidence != nil {
			_, err = right.Settle(ctx, effect.Settle{ID: m.ID, To: m.To, By: m.By, Now: m.Now, Note: m.Evidence})
		}
		return out, err
	}}
}

func evidenceCut(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		if m.Evidence != nil {
			short := *m.Evidence
			short.Seen = short.Seen[:min(len(short.Seen), effect.MaxEvidenceSeen)]
			m.Evidence = &short
		}
		return right.Settle(ctx, m)
	}}
}

type evidenceByName struct{ resolve.Store }

func (e evidenceByName) Evidence(ctx context.Context, id retryproof.ID) ([]effect.Evidence, error) {
	list, err := e.Store.Evidence(ctx, id)
	slices.SortFunc(list, func(a, b effect.Evidence) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list, err
}

func noteOnlyWithAMove(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		if from := state(ctx, right, m); !slices.Contains(m.From, from) || !effect.CanMove(from, m.To) {
			m.Note = nil
		}
		return right.Settle(ctx, m)
	}}
}

func noteOfARepeat(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		out, err := right.Settle(ctx, m)
		if err == nil && out.Repeat && m.Note != nil {
			_, err = right.Settle(ctx, effect.Settle{ID: m.ID, To: m.To, By: m.By, Now: m.Now, Note: m.Note})
		}
		return out, err
	}}
}

func notedAlways(right effect.Store, _ effect.Keys, _ effect.Guards) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		out, err := right.Settle(ctx, m)
		out.Noted = out.Noted || err == nil && m.Note != nil && out.Guard != nil && !out.Repeat
		return out, err
	}}
}
