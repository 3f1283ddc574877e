package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/locator"
)

// LocatorTx is a driver's open transaction, when the driver has a locator.Store and
// Stores.Within.
type LocatorTx interface {
	PutItem(ctx context.Context, p locator.Put) (locator.Result, error)
	MoveItem(ctx context.Context, m locator.Move) (locator.Result, error)
	DeleteItem(ctx context.Context, d locator.Delete) (locator.Result, error)
}

func (s suite) runLocators(t *testing.T) {
	if s.traits.NoLocators {
		return
	}
	s.group(t, "Locators", locatorCases())
	if !s.traits.NoPayments && !s.traits.NoWithin {
		s.group(t, "LocatorsWithin", locatorWithinCases())
	}
}

func locatorCases() []testCase {
	return []testCase{
		{"RetryAfterAMoveOrADeletionCreatesNothing", locatorRetry},
		{"MoveIsACompareAndSet", locatorMove},
		{"LateMoveOfAnItemThatCameBackIsSeenByItsRevision", locatorRevision},
		{"TombstoneIsFinal", locatorTombstone},
		{"AnotherItemOfTheSameNameIsRefused", locatorMismatch},
		{"NamesDoNotMeet", locatorNames},
		{"ListIsOrderedAndBounded", locatorList},
		{"ItemsThatCannotBeAreRefused", locatorBad},
		{"GivenAndReturnedItemsAreCopies", locatorCopies},
		{"PutsAtOnceCreateOnce", locatorRacePut},
		{"MovesAtOnceMoveOnce", locatorRaceMove},
		{"PutMoveAndDeletionAtOnceLeaveATombstone", locatorRaceAll},
		{"LocatorsOutliveARestart", locatorRestart},
		{"EndedContextCreatesNothing", locatorEnded},
	}
}

func locatorWithinCases() []testCase {
	return []testCase{
		{"ItemCommitsWithTheRest", locatorCommits},
		{"ItemThatRollsBackIsNotThere", locatorRollsBack},
		{"ItemAfterTheEndIsAnError", locatorOver},
		{"ItemAtOnceInTransactionsIsCreatedOnce", locatorWithinRace},
	}
}

// m9 is the message of the story's branch M.
var m9 = locator.Name{Kind: "mail", Owner: "u1", ID: "m9"}

func put(n locator.Name, place, value string) locator.Put {
	return locator.Put{Name: n, Place: place, Value: []byte(value), Now: at(1)}
}

func (w *world) puts(p locator.Put) locator.Result {
	w.Helper()
	return must(w, func(ctx context.Context) (locator.Result, error) { return w.Locators.Put(ctx, p) })
}

func (w *world) moves(n locator.Name, from, to string, revision int64, seconds float64) locator.Result {
	w.Helper()
	m := locator.Move{Name: n, From: from, To: to, Revision: revision, Now: at(seconds)}
	return must(w, func(ctx context.Context) (locator.Result, error) { return w.Locators.Move(ctx, m) })
}

func (w *world) deletesItem(n locator.Name, seconds float64) locator.Result {
	w.Helper()
	return must(w, func(ctx context.Context) (locator.Result, error) {
		return w.Locators.Delete(ctx, locator.Delete{Name: n, Now: at(seconds)})
	})
}

func (w *world) lookItem(n locator.Name) *locator.Record {
	w.Helper()
	return must(w, func(ctx context.Context) (*locator.Record, error) { return w.Locators.Look(ctx, n) })
}

// listed are the ids at a place of u1's mail.
func (w *world) listed(place, after string, limit int) string {
	w.Helper()
	rows := must(w, func(ctx context.Context) ([]locator.Record, error) {
		return w.Locators.List(ctx, locator.List{Kind: "mail", Owner: "u1", Place: place, After: after, Limit: limit})
	})
	var ids []string
	for _, r := range rows {
		check(w, "a listed item is the locator", describeItem(&r), describeItem(w.lookItem(r.Name)))
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

func describeItem(r *locator.Record) string {
	if r == nil {
		return "no locator"
	}
	return fmt.Sprintf("%q %s at %q, revision %d, print %q, value %q (nil %v), created %s, changed %s", r.Name, r.State, r.Place, r.Revision,
		r.Fingerprint, r.Value, r.Value == nil, instant(r.CreatedAt), instant(r.ChangedAt))
}

// wantItem checks a verdict, and that the store has what the result shows.
func (w *world) wantItem(what string, got locator.Result, verdict locator.Verdict, place string, revision int64) {
	w.Helper()
	check(w, what, got.Verdict, verdict)
	if got.Record == nil {
		w.Fatalf("%s: got no locator, want one", what)
	}
	check(w, what+": the place", got.Record.Place, place)
	check(w, what+": the revision", got.Record.Revision, revision)
	check(w, what+": the locator that is there", describeItem(w.lookItem(got.Record.Name)), describeItem(got.Record))
}

// Branch M: the parse of m9 is delivered again after the move, and after the deletion.
func locatorRetry(w *world) {
	parse := put(m9, "Inbox", "blob 9")
	got := w.puts(parse)
	w.wantItem("first", got, locator.Created, "Inbox", 1)
	checked, _ := parse.Check()
	check(w, "the locator", describeItem(got.Record), describeItem(checked.Next(nil).Record))
	parse.Now = at(5)
	w.wantItem("a retry", w.puts(parse), locator.Exists, "Inbox", 1)
	w.wantItem("the move", w.moves(m9, "Inbox", "Archive", 0, 10), locator.Moved, "Archive", 2)
	w.wantItem("a retry after the move", w.puts(parse), locator.Exists, "Archive", 2)
	check(w, "Inbox after the retry", w.listed("Inbox", "", 9), "")
	check(w, "Archive after the retry", w.listed("Archive", "", 9), "m9")
	w.wantItem("the deletion", w.deletesItem(m9, 20), locator.Deleted, "", 3)
	w.wantItem("a retry after the deletion", w.puts(parse), locator.Gone, "", 3)
	check(w, "Inbox at the end", w.listed("Inbox", "", 9), "")
	check(w, "Archive at the end", w.listed("Archive", "", 9), "")
	sameTime(w, "created", w.lookItem(m9).CreatedAt, at(1))
	sameTime(w, "changed", w.lookItem(m9).ChangedAt, at(20))
}

func locatorMove(w *world) {
	check(w, "of nothing", w.moves(m9, "Inbox", "Archive", 0, 1).Verdict, locator.Absent)
	w.puts(put(m9, "Inbox", "blob 9"))
	w.wantItem("from where it is not", w.moves(m9, "Spam", "Archive", 0, 2), locator.Elsewhere, "Inbox", 1)
	w.wantItem("at another revision", w.moves(m9, "Inbox", "Archive", 2, 3), locator.Elsewhere, "Inbox", 1)
	w.wantItem("the move", w.moves(m9, "Inbox", "Archive", 1, 4), locator.Moved, "Archive", 2)
	w.wantItem("the move again", w.moves(m9, "Inbox", "Archive", 1, 5), locator.There, "Archive", 2)
	w.wantItem("by somebody who saw it in Inbox", w.moves(m9, "Inbox", "Spam", 0, 6), locator.Elsewhere, "Archive", 2)
	w.wantItem("to where it is", w.moves(m9, "Spam", "Archive", 0, 7), locator.There, "Archive", 2)
	w.wantItem("on", w.moves(m9, "Archive", "Spam", 0, 8), locator.Moved, "Spam", 3)
	sameTime(w, "changed", w.lookItem(m9).ChangedAt, at(8))
	check(w, "the value", string(w.lookItem(m9).Value), "blob 9")
}

// case 26: a late copy of a move acts again only when nobody said what was seen.
func locatorRevision(w *world) {
	w.puts(put(m9, "Inbox", "blob 9"))
	w.moves(m9, "Inbox", "Archive", 1, 2)
	w.moves(m9, "Archive", "Inbox", 2, 3)
	w.wantItem("a late copy", w.moves(m9, "Inbox", "Archive", 1, 4), locator.Elsewhere, "Inbox", 3)
}

func locatorTombstone(w *world) {
	check(w, "of nothing", w.deletesItem(m9, 1).Verdict, locator.Absent)
	check(w, "nothing is there", describeItem(w.lookItem(m9)), "no locator")
	w.puts(put(m9, "Inbox", "blob 9"))
	w.wantItem("the deletion", w.deletesItem(m9, 2), locator.Deleted, "", 2)
	grave := w.lookItem(m9)
	check(w, "state", grave.State, locator.Tombstone)
	check(w, "value", grave.Value == nil, true)
	for range 2 {
		w.wantItem("the deletion again", w.deletesItem(m9, 3), locator.Gone, "", 2)
	}
	w.wantItem("a move", w.moves(m9, "Inbox", "Archive", 0, 4), locator.Gone, "", 2)
	w.wantItem("another item", w.puts(put(m9, "Inbox", "blob 10")), locator.Gone, "", 2)
	late := put(m9, "Inbox", "blob 9")
	late.Now = at(10 * 365 * 86400)
	w.wantItem("a retry after ten years", w.puts(late), locator.Gone, "", 2)
	check(w, "the tombstone", describeItem(w.lookItem(m9)), describeItem(grave))
}

func locatorMismatch(w *world) {
	w.puts(put(m9, "Inbox", "blob 9"))
	w.wantItem("another value", w.puts(put(m9, "Inbox", "blob 10")), locator.Mismatch, "Inbox", 1)
	same := put(m9, "Spam", "blob 9")
	w.wantItem("another place", w.puts(same), locator.Exists, "Inbox", 1)
	meant := locator.Name{Kind: "mail", Owner: "u1", ID: "m10"}
	p := put(meant, "Inbox", "parsed by version 1")
	p.Fingerprint = retryproof.FingerprintOf(retryproof.Text("message", "m10"))
	w.puts(p)
	p.Value = []byte("parsed by version 2")
	w.wantItem("another value of one fingerprint", w.puts(p), locator.Exists, "Inbox", 1)
	check(w, "the value", string(w.lookItem(meant).Value), "parsed by version 1")
}

func locatorNames(w *world) {
	names := []locator.Name{
		m9, {Kind: "mail", Owner: "u2", ID: "m9"}, {Kind: "file", Owner: "u1", ID: "m9"}, {Kind: "mail", Owner: "u1", ID: "M9"},
		{Kind: "mail", Owner: "u1", ID: "m9 "}, {Kind: "mail:u1", Owner: "m9", ID: "x"}, {Kind: "mail", Owner: "u1:m9", ID: "x"},
	}
	for i, n := range names {
		w.wantItem(fmt.Sprintf("%q", n), w.puts(put(n, "Inbox", fmt.Sprint("blob ", i))), locator.Created, "Inbox", 1)
	}
	w.deletesItem(names[1], 2)
	for i, n := range names {
		if i != 1 {
			check(w, fmt.Sprintf("%q", n), string(w.lookItem(n).Value), fmt.Sprint("blob ", i))
		}
	}
	for _, n := range []locator.Name{{Kind: "mail", Owner: "u1", ID: "m9\x00"}, {Kind: "mail", Owner: "u1", ID: "none"}, {}} {
		check(w, fmt.Sprintf("a look at %q", n), describeItem(w.lookItem(n)), "no locator")
	}
}

func locatorList(w *world) {
	for _, id := range []string{"m3", "m1", "m2", "m10", "M1", "é", "m4"} {
		w.puts(put(locator.Name{Kind: "mail", Owner: "u1", ID: id}, "Inbox", id))
		w.puts(put(locator.Name{Kind: "mail", Owner: "u2", ID: id + " of u2"}, "Inbox", id))
		w.puts(put(locator.Name{Kind: "file", Owner: "u1", ID: id + " file"}, "Inbox", id))
	}
	w.moves(locator.Name{Kind: "mail", Owner: "u1", ID: "m2"}, "Inbox", "Archive", 0, 2)
	w.deletesItem(locator.Name{Kind: "mail", Owner: "u1", ID: "m4"}, 2)
	check(w, "all", w.listed("Inbox", "", 99), "M1 m1 m10 m3 é")
	check(w, "the first two", w.listed("Inbox", "", 2), "M1 m1")
	check(w, "the next two", w.listed("Inbox", "m1", 2), "m10 m3")
	check(w, "behind one that is elsewhere", w.listed("Inbox", "m2", 9), "m3 é")
	check(w, "none of none", w.listed("Inbox", "", 0), "")
	check(w, "fewer than none", w.listed("Inbox", "", -1), "")
	check(w, "the other place", w.listed("Archive", "", 9), "m2")
	check(w, "where nothing is", w.listed("Spam", "", 9), "")
	check(w, "the place of tombstones", w.listed("", "", 9), "")
	check(w, "a place that cannot be", w.listed("Inbox\x00", "", 9), "")
}

func locatorBad(w *world) {
	for what, spoil := range map[string]func(*locator.Put){ // order: each is refused alone
		"no kind":              func(p *locator.Put) { p.Kind = "" },
		"no owner":             func(p *locator.Put) { p.Owner = "" },
		"no id":                func(p *locator.Put) { p.ID = "" },
		"no place":             func(p *locator.Put) { p.Place = "" },
		"a broken fingerprint": func(p *locator.Put) { p.Fingerprint = "no" },
		"a value too long":     func(p *locator.Put) { p.Value = make([]byte, locator.MaxValueBytes+1) },
	} {
		bad := put(m9, "Inbox", "blob 9")
		spoil(&bad)
		invalid(w, what, func(ctx context.Context) (locator.Result, error) { return w.Locators.Put(ctx, bad) })
	}
	check(w, "what the refused left", describeItem(w.lookItem(m9)), "no locator")
	w.puts(put(m9, "Inbox", "blob 9"))
	for _, bad := range []locator.Move{{Name: m9, To: "Archive"}, {Name: m9, From: "Inbox"}, {Name: m9, From: "Inbox", To: "Inbox"},
		{Name: m9, From: "Inbox", To: "Archive", Revision: -1}, {From: "Inbox", To: "Archive"}} {
		invalid(w, fmt.Sprintf("%+v", bad), func(ctx context.Context) (locator.Result, error) { return w.Locators.Move(ctx, bad) })
	}
	invalid(w, "a deletion of no name", func(ctx context.Context) (locator.Result, error) {
		return w.Locators.Delete(ctx, locator.Delete{Now: at(1)})
	})
	w.wantItem("afterwards", w.puts(put(m9, "Inbox", "blob 9")), locator.Exists, "Inbox", 1)
	for _, text := range []string{"a\x00b", "a\xffb"} { // refused, or kept as it is
		odd := put(locator.Name{Kind: "mail", Owner: "u1", ID: text}, "Inbox", "odd")
		got, err := ask(w, func(ctx context.Context) (locator.Result, error) { return w.Locators.Put(ctx, odd) })
		if err != nil {
			check(w, "what a text that cannot be held is", retryproof.OutcomeOf(err), retryproof.NotDone)
			continue
		}
		w.wantItem("an odd text", got, locator.Created, "Inbox", 1)
	}
}

func locatorCopies(w *world) {
	p := put(m9, "Inbox", "blob 9")
	got := w.puts(p)
	p.Value[0], got.Record.Value[0], got.Record.Place = 'X', 'Y', "Spam"
	w.lookItem(m9).Value[0] = 'Z'
	w.puts(put(m9, "Inbox", "blob 9")).Record.Value[0] = 'V'
	w.wantItem("a retry", w.puts(put(m9, "Inbox", "blob 9")), locator.Exists, "Inbox", 1)
	check(w, "the value", string(w.lookItem(m9).Value), "blob 9")
}

func locatorRacePut(w *world) {
	all := w.instances()
	got := together(w, 30, func(ctx context.Context, i int) (locator.Result, error) {
		return all[i%len(all)].Locators.Put(ctx, put(m9, fmt.Sprint("place ", i%3), fmt.Sprint("blob ", i%2)))
	})
	stands := w.lookItem(m9)
	created := 0
	for i, one := range got {
		if one.Verdict == locator.Created {
			created++
		}
		check(w, "what everybody is shown", describeItem(one.Record), describeItem(stands))
		check(w, "a mismatch exactly when the other item won", one.Verdict == locator.Mismatch, fmt.Sprint("blob ", i%2) != string(stands.Value))
	}
	check(w, "created", created, 1)
}

func locatorRaceMove(w *world) {
	all := w.instances()
	w.puts(put(m9, "Inbox", "blob 9"))
	got := together(w, 30, func(ctx context.Context, i int) (locator.Result, error) {
		return all[i%len(all)].Locators.Move(ctx, locator.Move{Name: m9, From: "Inbox", To: fmt.Sprint("place ", i%3), Now: at(2)})
	})
	stands := w.lookItem(m9)
	moved := 0
	for i, one := range got {
		mine := fmt.Sprint("place ", i%3) == stands.Place
		if one.Verdict == locator.Moved {
			moved++
		}
		check(w, "moved or there exactly when the place won", one.Verdict != locator.Elsewhere, mine)
	}
	check(w, "moved", moved, 1)
	check(w, "revision", stands.Revision, 2)
	check(w, "Inbox", w.listed("Inbox", "", 9), "")
}

func locatorRaceAll(w *world) {
	all := w.instances()
	w.puts(put(m9, "Inbox", "blob 9"))
	got := together(w, 30, func(ctx context.Context, i int) (locator.Result, error) {
		store := all[i%len(all)].Locators
		switch i % 3 {
		case 0:
			return store.Put(ctx, put(m9, "Inbox", "blob 9"))
		case 1:
			return store.Move(ctx, locator.Move{Name: m9, From: "Inbox", To: "Archive", Now: at(2)})
		}
		return store.Delete(ctx, locator.Delete{Name: m9, Now: at(3)})
	})
	count := map[locator.Verdict]int{}
	for _, one := range got {
		count[one.Verdict]++
	}
	check(w, "created", count[locator.Created], 0)
	check(w, "deleted", count[locator.Deleted], 1)
	check(w, "moved at most once", count[locator.Moved] <= 1, true)
	stands := w.lookItem(m9)
	check(w, "state", stands.State, locator.Tombstone)
	check(w, "revision", stands.Revision, int64(2+count[locator.Moved]))
	check(w, "listed", w.listed("Inbox", "", 9)+w.listed("Archive", "", 9), "")
}

func locatorRestart(w *world) {
	other := locator.Name{Kind: "mail", Owner: "u1", ID: "m10"}
	w.puts(put(m9, "Inbox", "blob 9"))
	w.puts(put(other, "Inbox", "blob 10"))
	w.moves(other, "Inbox", "Archive", 0, 2)
	w.deletesItem(m9, 3)
	if w.Reopen == nil {
		return
	}
	w.Stores = w.Reopen(w.T)
	w.wantItem("after the deletion", w.puts(put(m9, "Inbox", "blob 9")), locator.Gone, "", 2)
	w.wantItem("after the move", w.puts(put(other, "Inbox", "blob 10")), locator.Exists, "Archive", 2)
}

func locatorEnded(w *world) {
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	if _, err := w.Locators.Put(ctx, put(m9, "Inbox", "blob 9")); retryproof.OutcomeOf(err) != retryproof.NotDone {
		w.Errorf("got error %v, want one that is NotDone", err)
	}
	check(w, "the locator", describeItem(w.lookItem(m9)), "no locator")
}

func (w *world) inLocatorTx(fn func(ctx context.Context, tx Tx, items LocatorTx) error) error {
	w.Helper()
	return w.within(func(ctx context.Context, tx Tx) error {
		items, err := locatorTx(tx)
		if err != nil {
			return err
		}
		return fn(ctx, tx, items)
	})
}

func locatorTx(tx Tx) (LocatorTx, error) {
	if items, ok := tx.(LocatorTx); ok {
		return items, nil
	}
	return nil, errors.New("the transaction has no PutItem and no trait says so")
}

func locatorCommits(w *world) {
	err := w.inLocatorTx(func(ctx context.Context, tx Tx, items LocatorTx) error {
		created, err := items.PutItem(ctx, put(m9, "Inbox", "blob 9"))
		check(w, "put", created.Verdict, locator.Created)
		again, againErr := items.PutItem(ctx, put(m9, "Spam", "blob 9"))
		check(w, "put again", again.Verdict, locator.Exists)
		moved, moveErr := items.MoveItem(ctx, locator.Move{Name: m9, From: "Inbox", To: "Archive", Revision: 1, Now: at(2)})
		check(w, "move", moved.Verdict, locator.Moved)
		return errors.Join(err, againErr, moveErr, tx.Publish(ctx, event("arrived", "u1")))
	})
	if err != nil {
		w.Fatal(err)
	}
	w.wantItem("outside", w.puts(put(m9, "Inbox", "blob 9")), locator.Exists, "Archive", 2)
	check(w, "waiting", w.stats().Waiting, 1)
	err = w.inLocatorTx(func(ctx context.Context, tx Tx, items LocatorTx) error {
		deleted, err := items.DeleteItem(ctx, locator.Delete{Name: m9, Now: at(3)})
		check(w, "delete", deleted.Verdict, locator.Deleted)
		gone, goneErr := items.PutItem(ctx, put(m9, "Inbox", "blob 9"))
		check(w, "put after the deletion", gone.Verdict, locator.Gone)
		return errors.Join(err, goneErr, tx.Publish(ctx, event("deleted", "u1"))) // the transaction is usable
	})
	if err != nil {
		w.Fatal(err)
	}
	w.wantItem("at the end", w.puts(put(m9, "Inbox", "blob 9")), locator.Gone, "", 3)
	check(w, "waiting", w.stats().Waiting, 2)
}

func locatorRollsBack(w *world) {
	rollback := errors.New("rolled back")
	err := w.inLocatorTx(func(ctx context.Context, _ Tx, items LocatorTx) error {
		_, err := items.PutItem(ctx, put(m9, "Inbox", "blob 9"))
		return errors.Join(err, rollback)
	})
	check(w, "the program's error comes back", errors.Is(err, rollback), true)
	check(w, "the locator", describeItem(w.lookItem(m9)), "no locator")
	w.puts(put(m9, "Inbox", "blob 9"))
	err = w.inLocatorTx(func(ctx context.Context, _ Tx, items LocatorTx) error {
		_, err := items.DeleteItem(ctx, locator.Delete{Name: m9, Now: at(3)})
		return errors.Join(err, rollback)
	})
	check(w, "the program's error comes back", errors.Is(err, rollback), true)
	w.wantItem("the item is there", w.puts(put(m9, "Inbox", "blob 9")), locator.Exists, "Inbox", 1)
}

func locatorOver(w *world) {
	var late LocatorTx
	err := w.inLocatorTx(func(_ context.Context, _ Tx, items LocatorTx) error {
		late = items
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	_, putErr := late.PutItem(w.Context(), put(m9, "Inbox", "blob 9"))
	_, moveErr := late.MoveItem(w.Context(), locator.Move{Name: m9, From: "Inbox", To: "Archive", Now: at(2)})
	_, deleteErr := late.DeleteItem(w.Context(), locator.Delete{Name: m9, Now: at(3)})
	check(w, "each is an error", putErr != nil && moveErr != nil && deleteErr != nil, true)
	check(w, "the locator", describeItem(w.lookItem(m9)), "no locator")
}

func locatorWithinRace(w *world) {
	all := w.instances()
	got := together(w.patient(), 6, func(ctx context.Context, i int) (first bool, err error) {
		err = all[i%len(all)].Within(ctx, func(tx Tx) error {
			items, err := locatorTx(tx)
			if err != nil {
				return err
			}
			got, err := items.PutItem(ctx, put(m9, "Inbox", "blob 9"))
			if first = got.Verdict == locator.Created; err != nil || !first {
				return err
			}
			return tx.Publish(ctx, event(fmt.Sprintf("e%d", i), "g"))
		})
		return first && err == nil, err
	})
	check(w, "created", countTrue(got), 1)
	check(w, "waiting", w.stats().Waiting, 1)
}
