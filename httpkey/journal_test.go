package httpkey_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
)

// journals runs a test on every journal.
func journals(t *testing.T, test func(t *testing.T, j httpkey.Journal)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, new(httpkey.MemoryJournal))
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		test(t, openJournal(t, filepath.Join(t.TempDir(), "a", "b")))
	})
}

func openJournal(t *testing.T, dir string) *httpkey.FileJournal {
	t.Helper()
	j, err := httpkey.OpenFileJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func entry(intent, key string, at time.Time) httpkey.Entry {
	return httpkey.Entry{Intent: intent, Key: retryproof.Key(key), Fingerprint: retryproof.FingerprintOf(retryproof.Text("x", intent)),
		State: httpkey.EntryOpen, CreatedAt: at, UpdatedAt: at}
}

func open(t *testing.T, j httpkey.Journal, e httpkey.Entry) (httpkey.Entry, bool) {
	t.Helper()
	got, made, err := j.Open(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	return got, made
}

// save saves e with another state and returns what stands then.
func save(t *testing.T, j httpkey.Journal, e httpkey.Entry, state httpkey.EntryState) (httpkey.Entry, bool) {
	t.Helper()
	e.State = state
	stands, saved, err := j.Save(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	return stands, saved
}

func TestJournalKeepsTheFirstKeyUntilItIsLetGo(t *testing.T) {
	t.Parallel()
	journals(t, func(t *testing.T, j httpkey.Journal) {
		e1, made := open(t, j, entry("i", "K1", start))
		if !made || e1.Attempt != 1 {
			t.Errorf("got %+v %v, want attempt 1, made", e1, made)
		}
		if got, made := open(t, j, entry("i", "K2", start)); made || got.Key != "K1" || got != e1 {
			t.Errorf("got %+v %v, want K1's entry as it was", got, made)
		}
		save(t, j, e1, httpkey.EntryLetGo)
		e2, made := open(t, j, entry("i", "K2", start))
		if !made || e2.Attempt != 2 || e2.Key != "K2" {
			t.Errorf("got %+v %v, want K2 as attempt 2", e2, made)
		}
		if stands, saved := save(t, j, e1, httpkey.EntryOpen); saved || stands != e2 { // somebody slow
			t.Errorf("got %+v %v, want K2's entry untouched", stands, saved)
		}
		if got, _ := open(t, j, entry("i", "K3", start)); got != e2 {
			t.Errorf("got %+v, want K2: an old key came back", got)
		}
	})
}

// case 27
func TestSaveOfAnOutdatedEntryChangesNothing(t *testing.T) {
	t.Parallel()
	journals(t, func(t *testing.T, j httpkey.Journal) {
		read, _ := open(t, j, entry("i", "K1", start))
		done, saved := save(t, j, read, httpkey.EntryDone)
		if !saved || done.Revision != read.Revision+1 {
			t.Fatalf("got %+v %v, want it saved as the next revision", done, saved)
		}
		for _, late := range []httpkey.Entry{read, done} { // done is not left with the right revision either
			if stands, saved := save(t, j, late, httpkey.EntryLetGo); saved || stands != done {
				t.Errorf("got %+v %v, want done untouched", stands, saved)
			}
		}
		if got, made := open(t, j, entry("i", "K2", start)); made || got != done {
			t.Errorf("got %+v %v, want K1 done", got, made)
		}
		if n, err := j.Forget(context.Background(), start.Add(time.Second)); n != 1 || err != nil {
			t.Fatalf("Forget: got %d %v", n, err)
		}
		if stands, saved := save(t, j, done, httpkey.EntryDone); saved || stands != (httpkey.Entry{}) {
			t.Errorf("got %+v %v, want nothing: it was forgotten", stands, saved)
		}
		e2, _ := open(t, j, entry("i", "K2", start)) // attempt 1, revision 1 again
		if stands, saved := save(t, j, read, httpkey.EntryDone); saved || stands != e2 {
			t.Errorf("got %+v %v, want K2's entry untouched", stands, saved)
		}
	})
}

// A key that was handed out as durable is found again, whatever Forget removes.
//
// case 27
func TestForgetNeverLosesAKeyThatCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shared := new(httpkey.MemoryJournal)
	for name, journal := range map[string]func() httpkey.Journal{
		"memory": func() httpkey.Journal { return shared },
		"file":   func() httpkey.Journal { return openJournal(t, dir) }, // as another process would
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := journal(), journal()
			for i := range 60 {
				intent := "i" + strconv.Itoa(i)
				old, _ := open(t, a, entry(intent, "K1", start))
				slow := old
				save(t, a, old, httpkey.EntryLetGo)
				var got httpkey.Entry
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := a.Forget(context.Background(), start.Add(time.Second)); err != nil {
						t.Error(err)
					}
				})
				wg.Go(func() { save(t, a, slow, httpkey.EntryLetGo) })
				wg.Go(func() { got, _ = open(t, b, entry(intent, "K2", start.Add(time.Minute))) })
				wg.Wait()
				if again, made := open(t, b, entry(intent, "K3", start.Add(time.Minute))); made || again.Key != got.Key || got.Key != "K2" {
					t.Fatalf("%s: got %q then %q, made %v; want K2 twice", intent, string(got.Key), string(again.Key), made)
				}
			}
		})
	}
}

func TestPendingListsOpenIntentsOldestFirst(t *testing.T) {
	t.Parallel()
	journals(t, func(t *testing.T, j httpkey.Journal) {
		for i, name := range []string{"c", "b", "a", "done", "gone"} {
			e, _ := open(t, j, entry(name, "K"+name, start.Add(-time.Duration(i)*time.Second)))
			switch name {
			case "done":
				save(t, j, e, httpkey.EntryDone)
			case "gone":
				save(t, j, e, httpkey.EntryLetGo)
			}
		}
		list, err := j.Pending(context.Background())
		if err != nil || len(list) != 3 || list[0].Intent+list[1].Intent+list[2].Intent != "abc" {
			t.Errorf("got %v %v, want a b c", list, err)
		}
		if n, err := j.Forget(context.Background(), start.Add(time.Hour)); n != 2 || err != nil {
			t.Errorf("Forget: got %d %v, want 2", n, err)
		}
		if list, err := j.Pending(context.Background()); err != nil || len(list) != 3 {
			t.Errorf("after Forget: got %v %v, want 3", list, err)
		}
		if _, made := open(t, j, entry("done", "Knew", start)); !made {
			t.Error("a forgotten intent is still there")
		}
	})
}

func TestSeveralOpenersGetOneKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shared := new(httpkey.MemoryJournal)
	for name, journal := range map[string]func() httpkey.Journal{
		"memory": func() httpkey.Journal { return shared },
		"file":   func() httpkey.Journal { return openJournal(t, dir) }, // as another process would
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			keys, makers := map[retryproof.Key]bool{}, 0
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					e, made, err := journal().Open(context.Background(), entry("i", "K"+strings.Repeat("x", i), start))
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					keys[e.Key] = true
					if made {
						makers++
					}
				})
			}
			wg.Wait()
			if len(keys) != 1 || makers != 1 {
				t.Errorf("got %d keys and %d makers, want 1 and 1", len(keys), makers)
			}
		})
	}
}

func TestJournalFilesHideWhatTheyHold(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, dir)
	e, _ := open(t, j, entry("order-42-pay", "K1", start))
	save(t, j, e, httpkey.EntryDone)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: got %v %v, want 0700", info.Mode(), err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("got %v %v, want the entry and its lock file", files, err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Perm() != 0o600 || strings.Contains(info.Name(), "order") || strings.Contains(info.Name(), "K1") {
			t.Errorf("file: got %s %v %v, want a digest or a number, with 0600", f.Name(), info, err)
		}
	}
}

func TestDamagedEntryIsAnErrorAndNeverANewKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	open(t, j, entry("i", "K1", start))
	open(t, j, entry("other", "K2", start))
	path := filepath.Join(dir, string(retryproof.Derive("intent", "i"))+".json")
	if err := os.WriteFile(path, []byte(`{"key":"K1"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if e, made, err := j.Open(context.Background(), entry("i", "K3", start)); err == nil || strings.Contains(err.Error(), "K1") {
		t.Errorf("got %v %v %v, want an error without the key", e, made, err)
	}
	list, err := j.Pending(context.Background())
	if err == nil || len(list) != 1 || list[0].Intent != "other" {
		t.Errorf("got %v %v, want the readable entry and an error", list, err)
	}
}

func TestForgetRemovesWhatACrashLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	temp := filepath.Join(dir, "123.tmp")
	if err := os.WriteFile(temp, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(temp, start, start); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Forget(context.Background(), start.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temp); !os.IsNotExist(err) {
		t.Errorf("got %v, want it gone", err)
	}
}
