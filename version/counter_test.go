package version_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/version"
)

// journals are empty journals, with a second one on the same data.
func journals(t *testing.T) map[string]func() version.Journal {
	t.Helper()
	memory, dir := &version.MemoryJournal{}, filepath.Join(t.TempDir(), "journal")
	return map[string]func() version.Journal{
		"memory": func() version.Journal { return memory },
		"file": func() version.Journal {
			j, err := version.OpenFileJournal(dir)
			if err != nil {
				t.Fatal(err)
			}
			return j
		},
	}
}

func counter(t *testing.T, j version.Journal, l version.Line) *version.Counter {
	t.Helper()
	c, err := version.NewCounter(j, l)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func next(t *testing.T, c *version.Counter) int64 {
	t.Helper()
	n, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCounterGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	other := phone
	other.Device = "D2"
	for name, open := range journals(t) {
		var got []int64
		for range 3 { // three lives of the app
			c := counter(t, open(), phone)
			got = append(got, next(t, c), next(t, c))
		}
		got = append(got, next(t, counter(t, open(), other)))
		if want := []int64{1, 2, 3, 4, 5, 6, 1}; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestCounterNeverGivesANumberTwice(t *testing.T) {
	t.Parallel()
	for name, open := range journals(t) {
		const callers, each = 6, 12
		var mu sync.Mutex
		var got []int64
		var wg sync.WaitGroup
		for range callers {
			c := counter(t, open(), phone) // a process of its own
			wg.Go(func() {
				for range each {
					n, err := c.Next(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					got = append(got, n)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		slices.Sort(got)
		if unique := slices.Compact(slices.Clone(got)); len(unique) != callers*each {
			t.Errorf("%s: got %d different numbers of %d, want %d", name, len(unique), len(got), callers*each)
		}
	}
}

// A reinstalled app goes on behind what the server accepted, and is never taken back.
func TestRestoreOnlyGoesForward(t *testing.T) {
	t.Parallel()
	for name, open := range journals(t) {
		c := counter(t, open(), phone)
		for _, step := range []struct{ accepted, want int64 }{{0, 1}, {42, 43}, {7, 44}, {44, 45}, {44, 46}} {
			if err := c.Restore(t.Context(), step.accepted); err != nil {
				t.Fatal(err)
			}
			if got := next(t, c); got != step.want {
				t.Errorf("%s: after %d: got %d, want %d", name, step.accepted, got, step.want)
			}
		}
		if err := c.Restore(t.Context(), math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Next(t.Context()); retryproof.OutcomeOf(err) != retryproof.NotDone {
			t.Errorf("%s: behind the largest number: got error %v, want one that is NotDone", name, err)
		}
	}
}

func TestCounterOfNoLineIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := version.NewCounter(&version.MemoryJournal{}, version.Line{}); retryproof.CodeOf(err) != retryproof.CodeInvalid {
		t.Errorf("got error %v, want CodeInvalid", err)
	}
}

// A number that was removed by whoever went on, and created again by a latecomer, is
// nobody's.
func TestLatecomerDoesNotGetAnOldNumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := version.OpenFileJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := counter(t, j, phone)
	for range 5 {
		next(t, c)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("got files %v and error %v, want 1", names, err)
	}
	for _, from := range []int64{0, 2, 4} {
		if took, err := j.Advance(t.Context(), phone, from, from+1); took || err != nil {
			t.Errorf("from %d: got %v and error %v, want a refusal", from, took, err)
		}
	}
	if err := os.WriteFile(names[0][:len(names[0])-1]+"3", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := next(t, c); got != 6 {
		t.Errorf("got %d, want 6", got)
	}
}

func TestJournalThatFailsGivesNoNumber(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	j, err := version.OpenFileJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	c := counter(t, j, phone)
	if n, err := c.Next(t.Context()); n != 0 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %d and error %v, want the file system's error", n, err)
	}
	if err := c.Restore(t.Context(), 5); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v, want the file system's", err)
	}
}
