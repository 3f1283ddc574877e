package version_test

import (
	"testing"

	"github.com/retryproof/retryproof/store/memory"
	"github.com/retryproof/retryproof/version"
)

// Branch V: with versions the post ends unliked, without them it ends liked.
func TestTheLateLikeOnlyWinsWithoutVersions(t *testing.T) {
	t.Parallel()
	store, unversioned := memory.New().Versions(), ""
	var versioned version.Mark
	for _, w := range []version.Write{write(41, "liked"), write(42, "unliked"), write(41, "liked")} {
		r, err := store.Apply(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		versioned, unversioned = r.Mark, string(w.Value)
	}
	if string(versioned.Value) != "unliked" || unversioned != "liked" {
		t.Errorf("got %q with versions and %q without, want unliked and liked", versioned.Value, unversioned)
	}
}

// An app that was installed again and does not ask is never taken for its old self: its
// numbers are old, so they are refused, and Restore puts it right.
func TestReinstalledAppThatDidNotAskIsTold(t *testing.T) {
	t.Parallel()
	store := memory.New().Versions()
	send := func(n int64, value string) version.Result {
		r, err := store.Apply(t.Context(), write(n, value))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	send(1, "liked")
	send(2, "unliked")
	c := counter(t, &version.MemoryJournal{}, phone)
	if got := send(next(t, c), "liked").Verdict; got != version.Stale {
		t.Errorf("got %v, want stale", got)
	}
	if got := send(next(t, c), "liked").Verdict; got != version.Mismatch {
		t.Errorf("got %v, want mismatch", got)
	}
	last, err := store.Last(t.Context(), phone)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Restore(t.Context(), last.Version); err != nil {
		t.Fatal(err)
	}
	if got := send(next(t, c), "liked"); got.Verdict != version.Applied || got.Mark.Version != 3 {
		t.Errorf("got %v of version %d, want applied of 3", got.Verdict, got.Mark.Version)
	}
}
