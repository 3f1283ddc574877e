package locator_test

import (
	"strings"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/locator"
	"github.com/retryproof/retryproof/store/memory"
)

var m9 = locator.Name{Kind: "mail", Owner: "u1", ID: "m9"}

func must(t *testing.T) func(locator.Result, error) locator.Result {
	return func(r locator.Result, err error) locator.Result {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// folders is the naive twin: its condition stands on the item in the folder.
type folders map[string]string // folder and id to content

func (f folders) put(folder, id, content string) {
	if _, there := f[folder+"/"+id]; !there {
		f[folder+"/"+id] = content
	}
}

func (f folders) move(id, from, to string) {
	f[to+"/"+id] = f[from+"/"+id]
	delete(f, from+"/"+id)
}

// Branch M: m9 is delivered again after its move to Archive, and after its deletion.
func TestMessageStaysWhereItIsOnlyWithALocator(t *testing.T) {
	t.Parallel()
	ctx, store, naive, ok := t.Context(), memory.New().Locators(), folders{}, must(t)
	parse := func() locator.Verdict {
		naive.put("Inbox", "m9", "blob 9")
		return ok(store.Put(ctx, locator.Put{Name: m9, Place: "Inbox", Value: []byte("blob 9")})).Verdict
	}
	inInbox := func() int {
		items, err := store.List(ctx, locator.List{Kind: "mail", Owner: "u1", Place: "Inbox", Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(items)
	}
	if got := parse(); got != locator.Created || inInbox() != 1 {
		t.Errorf("got %v and %d in Inbox, want created and 1", got, inInbox())
	}
	ok(store.Move(ctx, locator.Move{Name: m9, From: "Inbox", To: "Archive"}))
	naive.move("m9", "Inbox", "Archive")
	if got := parse(); got != locator.Exists || inInbox() != 0 {
		t.Errorf("after the move: got %v and %d in Inbox, want exists and 0", got, inInbox())
	}
	if len(naive) != 2 {
		t.Errorf("after the move: got %v, want the naive twin to have the message twice", naive)
	}
	ok(store.Delete(ctx, locator.Delete{Name: m9}))
	clear(naive)
	if got := parse(); got != locator.Gone || inInbox() != 0 {
		t.Errorf("after the deletion: got %v and %d in Inbox, want gone and 0", got, inInbox())
	}
	if len(naive) != 1 {
		t.Errorf("after the deletion: got %v, want the naive twin to have the message again", naive)
	}
}

// case 26: whoever gives the revision that it saw cannot act on an item that came back.
func TestLateMoveOfAnItemThatCameBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		revision int64
		want     locator.Verdict
		place    string
	}{{1, locator.Elsewhere, "Inbox"}, {0, locator.Moved, "Archive"}} {
		ctx, store, ok := t.Context(), memory.New().Locators(), must(t)
		archive := locator.Move{Name: m9, From: "Inbox", To: "Archive", Revision: c.revision}
		ok(store.Put(ctx, locator.Put{Name: m9, Place: "Inbox"}))
		ok(store.Move(ctx, archive))
		ok(store.Move(ctx, locator.Move{Name: m9, From: "Archive", To: "Inbox"}))
		if got := ok(store.Move(ctx, archive)); got.Verdict != c.want || got.Record.Place != c.place {
			t.Errorf("revision %d: got %v at %q, want %v at %q", c.revision, got.Verdict, got.Record.Place, c.want, c.place)
		}
	}
}

func TestTombstoneKeepsNoContent(t *testing.T) {
	t.Parallel()
	p, err := locator.Put{Name: m9, Place: "Inbox", Value: []byte("blob 9")}.Check()
	if err != nil {
		t.Fatal(err)
	}
	got := locator.Delete{Name: m9}.Next(p.Next(nil).Record)
	if got.Verdict != locator.Deleted || got.Record.Value != nil || got.Record.Place != "" || got.Record.Fingerprint != p.Fingerprint {
		t.Errorf("got %v and %+v, want a tombstone with its fingerprint alone", got.Verdict, got.Record)
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	_, long := locator.Put{Name: m9, Place: "Inbox", Value: []byte(strings.Repeat("x", locator.MaxValueBytes+1))}.Check()
	_, nowhere := locator.Put{Name: m9}.Check()
	_, nobody := locator.Put{Place: "Inbox"}.Check()
	for what, err := range map[string]error{
		"a value too long": long, "no place": nowhere, "no name": nobody,
		"a move to where it is": locator.Move{Name: m9, From: "Inbox", To: "Inbox"}.Check(),
		"a move from nowhere":   locator.Move{Name: m9, To: "Inbox"}.Check(),
		"revision -1":           locator.Move{Name: m9, From: "Inbox", To: "Archive", Revision: -1}.Check(),
		"a deletion of nothing": locator.Delete{Name: locator.Name{Kind: "mail", Owner: "u1"}}.Check(),
	} {
		if retryproof.CodeOf(err) != retryproof.CodeInvalid || retryproof.OutcomeOf(err) != retryproof.NotDone {
			t.Errorf("%s: got error %v, want one that is invalid and NotDone", what, err)
		}
	}
}
