package saboteurs

import (
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof/locator"
	"github.com/retryproof/retryproof/store/storetest"
)

// locatorFaults are wrong in the locators.
func locatorFaults() []Saboteur {
	return []Saboteur{
		{"item-condition-on-the-folder", "a Put looks whether the item is at that place", "RetryAfterAMoveOrADeletionCreatesNothing", inLocators(func(s locator.Store) locator.Store { return itemInFolder{s} })},
		{"item-tombstone-expires", "a tombstone is forgotten after a year", "TombstoneIsFinal", inLocators(func(s locator.Store) locator.Store { return itemExpires{s} })},
		{"item-move-unconditional", "a Move takes the item from wherever it is", "MoveIsACompareAndSet", inLocators(func(s locator.Store) locator.Store { return itemMoves{s} })},
		{"item-move-any-revision", "a Move ignores the revision", "LateMoveOfAnItemThatCameBackIsSeenByItsRevision", inLocators(func(s locator.Store) locator.Store { return itemAnyRevision{s} })},
		{"item-mismatch-exists", "another item of a name is told that it exists", "AnotherItemOfTheSameNameIsRefused", inLocators(func(s locator.Store) locator.Store { return itemExists{s} })},
		{"item-of-anybody", "two owners with one id share a locator", "NamesDoNotMeet", inLocators(func(s locator.Store) locator.Store { return itemOfAnybody{s} })},
		{"item-list-reversed", "List is in another order", "ListIsOrderedAndBounded", inLocators(func(s locator.Store) locator.Store { return itemReversed{s} })},
		{"item-check-then-act", "a Put looks in one step and says in another what it did", "PutsAtOnceCreateOnce", inLocators(func(s locator.Store) locator.Store { return itemTwoSteps{s} })},
		{"item-beside-the-transaction", "PutItem writes at once", "ItemThatRollsBackIsNotThere", itemBeside},
	}
}

func inLocators(plant func(locator.Store) locator.Store) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Locators = plant(s.Locators)
		return s
	}
}

// itemInFolder finds nothing in the folder when the item has left it, and creates it
// once more.
type itemInFolder struct{ locator.Store }

func (i itemInFolder) Put(ctx context.Context, p locator.Put) (locator.Result, error) {
	out, err := i.Store.Put(ctx, p)
	if err != nil || out.Verdict == locator.Created || out.Record.Place == p.Place {
		return out, err
	}
	p.ID += " again"
	return i.Store.Put(ctx, p)
}

type itemExpires struct{ locator.Store }

func (i itemExpires) Put(ctx context.Context, p locator.Put) (locator.Result, error) {
	out, err := i.Store.Put(ctx, p)
	if out.Verdict == locator.Gone && p.Now.Sub(out.Record.ChangedAt) > 365*24*time.Hour {
		return p.Next(nil), nil
	}
	return out, err
}

type itemMoves struct{ locator.Store }

func (i itemMoves) Move(ctx context.Context, m locator.Move) (locator.Result, error) {
	if err := m.Check(); err != nil {
		return locator.Result{}, err
	}
	have, err := i.Look(ctx, m.Name)
	if err != nil {
		return locator.Result{}, err
	}
	if have != nil && have.Place != "" && have.Place != m.To {
		m.From = have.Place
	}
	return i.Store.Move(ctx, m)
}

type itemAnyRevision struct{ locator.Store }

func (i itemAnyRevision) Move(ctx context.Context, m locator.Move) (locator.Result, error) {
	if m.Revision > 0 {
		m.Revision = 0
	}
	return i.Store.Move(ctx, m)
}

type itemExists struct{ locator.Store }

func (i itemExists) Put(ctx context.Context, p locator.Put) (locator.Result, error) {
	out, err := i.Store.Put(ctx, p)
	if out.Verdict == locator.Mismatch {
		out.Verdict = locator.Exists
	}
	return out, err
}

type itemOfAnybody struct{ locator.Store }

func (i itemOfAnybody) Put(ctx context.Context, p locator.Put) (locator.Result, error) {
	if p.Owner != "" {
		p.Owner = "u1"
	}
	return i.Store.Put(ctx, p)
}

type itemReversed struct{ locator.Store }

func (i itemReversed) List(ctx context.Context, l locator.List) ([]locator.Record, error) {
	out, err := i.Store.List(ctx, l)
	slices.Reverse(out)
	return out, err
}

type itemTwoSteps struct{ locator.Store }

func (i itemTwoSteps) Put(ctx context.Context, p locator.Put) (locator.Result, error) {
	have, err := i.Look(ctx, p.Name)
	if err != nil {
		return locator.Result{}, err
	}
	goOn()
	out, err := i.Store.Put(ctx, p)
	if have == nil && err == nil {
		out.Verdict = locator.Created
	}
	return out, err
}

func itemBeside(s storetest.Stores) storetest.Stores {
	within, items := s.Within, s.Locators
	s.Within = func(ctx context.Context, fn func(tx storetest.Tx) error) error {
		return within(ctx, func(tx storetest.Tx) error { return fn(besideItems{tx, items}) })
	}
	return s
}

type besideItems struct {
	storetest.Tx
	items locator.Store
}

func (b besideItems) PutItem(ctx context.Context, p locator.Put) (locator.Result, error) {
	return b.items.Put(ctx, p)
}

func (b besideItems) MoveItem(ctx context.Context, m locator.Move) (locator.Result, error) {
	return b.items.Move(ctx, m)
}

func (b besideItems) DeleteItem(ctx context.Context, d locator.Delete) (locator.Result, error) {
	return b.items.Delete(ctx, d)
}
