package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/retryproof/retryproof/store/sqlite"
)

func TestJournalGivesBackInOrderWhatWasAppendedBeforeItWasClosed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := openJournal(t, path)
	const want = 700 // more than two pages
	for i := range want {
		if err := j.Append(t.Context(), fmt.Appendf(nil, "record %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	got := 0
	err := openJournal(t, path).Replay(t.Context(), func(r []byte) error {
		if want := fmt.Sprintf("record %d", got); string(r) != want {
			t.Fatalf("got %q, want %q", r, want)
		}
		got++
		return nil
	})
	if err != nil || got != want {
		t.Errorf("got %d records and error %v, want %d", got, err, want)
	}
}

func TestJournalKeepsEveryConcurrentAppendOnce(t *testing.T) {
	t.Parallel()
	j := openJournal(t, filepath.Join(t.TempDir(), "journal.db"))
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for k := range 20 {
				if err := j.Append(t.Context(), fmt.Appendf(nil, "%d/%d", i, k)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]int{}
	if err := j.Replay(t.Context(), func(r []byte) error { seen[string(r)]++; return nil }); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 64*20 {
		t.Errorf("got %d different records, want %d", len(seen), 64*20)
	}
}

func TestJournalReplayStopsAtTheFirstErrorAndMayAppendMeanwhile(t *testing.T) {
	t.Parallel()
	j := openJournal(t, filepath.Join(t.TempDir(), "journal.db"))
	for range 3 {
		if err := j.Append(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	stop, calls := errors.New("stop"), 0
	err := j.Replay(t.Context(), func([]byte) error {
		calls++
		if err := j.Append(t.Context(), []byte("more")); err != nil {
			t.Fatal(err)
		}
		if calls == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || calls != 2 {
		t.Errorf("got %v after %d calls, want %v after 2", err, calls, stop)
	}
}

func openJournal(t testing.TB, path string) *sqlite.Journal {
	t.Helper()
	j, err := sqlite.OpenJournal(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}
