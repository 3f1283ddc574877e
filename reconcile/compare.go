package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/retryproof/retryproof/effect"
)

// Entry is one effect as one side holds it.
type Entry struct {
	// Reference is our own name of it, the same on both sides; empty on their side for
	// what was not made by us.
	Reference string `json:"reference"`
	// Ref is their name of it, such as "ch_1"; empty on our side until it is known.
	Ref string `json:"ref"`
	// Amount is in minor units of Currency.
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	// State is Succeeded, Failed, Void, or not final.
	State effect.State `json:"state"`
	// At is when that side made it: our record, their effect.
	At time.Time `json:"at"`
}

// Kind is a kind of difference.
type Kind string

// The kinds of differences.
const (
	// MissingHere: it succeeded there and we have no record of it.
	MissingHere Kind = "missing-here"
	// MissingThere: it is SUCCEEDED here and they do not hold it.
	MissingThere Kind = "missing-there"
	// OtherAmount: both have it, with another amount or currency.
	OtherAmount Kind = "other-amount"
	// OtherOutcome: it succeeded there and is FAILED or VOID here, or the reverse.
	OtherOutcome Kind = "other-outcome"
	// OtherRef: it succeeded on both sides, and we know it by a name that theirs does
	// not have.
	OtherRef Kind = "other-ref"
	// Several: it succeeded more than once there.
	Several Kind = "several"
	// SettledLate: they made it long after our record: a late original, or a repeat.
	SettledLate Kind = "settled-late"
	// Closable: we do not know, and they do. Report.Settled counts those that were
	// closed by it.
	Closable Kind = "closable"
	// Unproved: we do not know, and they do not hold it or have not decided, or it
	// failed there and what stands beside that was not listed. It stays UNKNOWN.
	Unproved Kind = "unproved"
)

// Difference is one thing in which the sides do not agree.
type Difference struct {
	Kind Kind `json:"kind"`
	// Here and There are what each side holds; nil when it holds nothing.
	Here  *Entry `json:"here,omitempty"`
	There *Entry `json:"there,omitempty"`
	// What says it in words.
	What string `json:"what"`
	// Settled says that our unknown was closed by There.
	Settled bool `json:"settled,omitempty"`
	// Error is why closing it failed, in the words of Ledger.Settle's error; empty
	// when it did not fail. One whose answer was lost may have landed: run it again.
	Error string `json:"error,omitempty"`
}

// Compare finds the differences between our entries and theirs, matched by
// Reference, ordered by (reference, kind). there must hold all that they have of each
// entry of ours: a decline closes an unknown only when nothing stands beside it. late is
// how long after our record theirs may be made. It is pure.
func Compare(here, there []Entry, late time.Duration) []Difference {
	return compare(here, there, late, func(*Entry) bool { return true })
}

// compare is Compare, where whole reports whether there holds all that they have of one
// of our entries.
func compare(here, there []Entry, late time.Duration, whole func(*Entry) bool) []Difference {
	ours := map[string]*Entry{}
	for i := range here {
		ours[here[i].Reference] = &here[i]
	}
	theirs := map[string][]*Entry{}
	var out []Difference
	for i := range there {
		t := &there[i]
		if t.Reference == "" || ours[t.Reference] == nil {
			if t.State == effect.Succeeded {
				out = append(out, Difference{Kind: MissingHere, There: t, What: fmt.Sprintf("%s of %s succeeded there and is not here", t.Ref, amount(t))})
			}
			continue
		}
		theirs[t.Reference] = append(theirs[t.Reference], t)
	}
	for i := range here {
		out = append(out, compareOne(&here[i], theirs[here[i].Reference], late, whole(&here[i]))...)
	}
	slices.SortStableFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.reference(), b.reference()), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

func (d Difference) reference() string {
	if d.Here != nil {
		return d.Here.Reference
	}
	return d.There.Reference
}

func amount(e *Entry) string { return fmt.Sprintf("%d %s", e.Amount, e.Currency) }

// compareOne compares one of our entries with theirs of its name. When these are not
// the whole of it, a success among them is evidence all the same; that nothing stands
// beside a decline is not, nor is that a success is not among them.
func compareOne(h *Entry, theirs []*Entry, late time.Duration, whole bool) []Difference {
	t, successes := theirVerdict(theirs, h.Ref)
	var out []Difference
	say := func(k Kind, format string, args ...any) {
		out = append(out, Difference{Kind: k, Here: h, There: t, What: fmt.Sprintf(format, args...)})
	}
	if successes > 1 {
		say(Several, "it succeeded %d times there", successes)
	}
	switch {
	case t != nil && (t.Amount != h.Amount || t.Currency != h.Currency) && counts(h, t):
		say(OtherAmount, "%s %s there, %s %s here", amount(t), shownState(t), amount(h), h.State)
		return out // an entry that does not fit is no evidence
	case !h.State.Final():
		if kind, what := unknownHere(h, t, successes, whole); kind != "" {
			say(kind, "%s", what)
		}
	default:
		if kind, what := finalHere(h, t, whole); kind != "" {
			say(kind, "%s", what)
		}
	}
	if t != nil && t.State == effect.Succeeded && t.At.Sub(h.At) > late {
		say(SettledLate, "they made it %v after our record", t.At.Sub(h.At).Round(time.Second))
	}
	return out
}

// unknownHere says whether t, the one of theirs that counts, closes our unknown; nothing
// when it succeeded more than once there.
func unknownHere(h, t *Entry, successes int, whole bool) (Kind, string) {
	switch failed := t != nil && t.State == effect.Failed; {
	case successes == 1 || failed && whole:
		return Closable, fmt.Sprintf("it is %s here and %s there", h.State, t.State)
	case failed:
		return Unproved, fmt.Sprintf("it is %s here and %s there, but our record is of %s, outside the period: what they hold beside it was not listed; compare that period",
			h.State, t.State, h.At.UTC().Format(time.RFC3339))
	case successes == 0:
		return Unproved, fmt.Sprintf("it is %s here, and they have no outcome of it: that proves nothing", h.State)
	}
	return "", ""
}

// finalHere says how t, the one of theirs that counts, differs from what is final here;
// nothing when it does not.
func finalHere(h, t *Entry, whole bool) (Kind, string) {
	there := t != nil && t.State == effect.Succeeded
	switch {
	case h.State != effect.Succeeded && there:
		return OtherOutcome, fmt.Sprintf("it is %s here and %s there", h.State, shownState(t))
	case h.State != effect.Succeeded:
		return "", ""
	case !whole && (t == nil || !there && t.Ref != h.Ref):
		return "", "" // its success may be where we did not look: the record's own period tells
	case t == nil:
		return MissingThere, "it is SUCCEEDED here and not there"
	case !there:
		return OtherOutcome, fmt.Sprintf("it is %s here and %s there", h.State, shownState(t))
	case h.Ref != "" && t.Ref != h.Ref:
		return OtherRef, fmt.Sprintf("it is %s here and %s there", h.Ref, t.Ref)
	}
	return "", ""
}

// counts reports whether another amount matters between the two: money moved on both
// sides, or their entry would close our unknown. What is VOID or FAILED here and
// succeeded there is another outcome, whatever the amount.
func counts(h, t *Entry) bool {
	return !h.State.Final() && t.State != effect.Unknown || h.State == effect.Succeeded && t.State == effect.Succeeded
}

// shownState is the state in words: what they have and have not decided is not
// unknown to them.
func shownState(e *Entry) string {
	if e.State == effect.Unknown && e.Ref != "" {
		return "undecided"
	}
	return string(e.State)
}

// theirVerdict picks the entry that counts: a success before anything else, the one
// that we know before others, and a definite failure only when there is nothing
// beside it.
func theirVerdict(theirs []*Entry, ref string) (*Entry, int) {
	var picked *Entry
	successes := 0
	for _, t := range theirs {
		if t.State == effect.Succeeded {
			if successes == 0 || ref != "" && t.Ref == ref {
				picked = t
			}
			successes++
		}
	}
	if successes == 0 && len(theirs) == 1 {
		picked = theirs[0]
	}
	return picked, successes
}
