package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/store/sqlite"
)

// refusedStart is a start of serve that must be refused.
func refusedStart(t *testing.T, hint string, args ...string) {
	t.Helper()
	code, stdout, stderr := runHere(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	if code != exitMisuse || stdout != "" || !strings.Contains(stderr, hint) {
		t.Errorf("got %d, %q, %q, want 2 and %q", code, stdout, stderr, hint)
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		found, err := filepath.Glob(p)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: got %v %v, want something to remove", p, found, err)
		}
		for _, f := range found {
			if err := os.RemoveAll(f); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// accountOf is the name of the processor whose file this is.
func accountOf(t *testing.T, path string) string {
	t.Helper()
	journal, err := sqlite.OpenJournal(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close() //nolint:errcheck // only read
	core, err := emulator.New(t.Context(), emulator.Config{Journal: journal})
	if err != nil || core.Account() == "" {
		t.Fatalf("got %q %v, want a name", core.Account(), err)
	}
	return core.Account()
}

func TestAProcessorThatLostItsFileIsRefused(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serve(t, data)
	if got := s.pay("key-1", 3000); got.status != http.StatusCreated {
		t.Fatalf("got %+v, want 201", got)
	}
	s.stop()
	remove(t, filepath.Join(data, "psp.db*"))
	for range 2 { // the first try makes a new file, which is as wrong
		refusedStart(t, "psp.db was lost", "--data", data)
	}
	remove(t, filepath.Join(data, "psp.db*"))
	writeFile(t, filepath.Join(data, "psp.id"), "") // as a crash of an earlier version may have left it
	refusedStart(t, "psp.db was lost", "--data", data)
}

func TestAFolderOfAnEarlierVersionGoesOn(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serve(t, data)
	s.stop()
	name := accountOf(t, filepath.Join(data, "psp.db"))
	// An earlier version kept the processor's name beside its file, and none of the queue's.
	remove(t, filepath.Join(data, "psp.db*"), filepath.Join(data, "queue", "ledger.id"))
	writeFile(t, filepath.Join(data, "psp.db"), "")
	writeFile(t, filepath.Join(data, "psp.id"), name)
	for range 2 {
		s = serve(t, data)
		if got := s.pay("key-1", 3000); got.status != http.StatusCreated {
			t.Errorf("got %+v, want 201", got)
		}
		s.eventually("/merchants/m1/balance", `"balance":15000`)
		s.stop()
	}
	remove(t, filepath.Join(data, "psp.db*"))
	refusedStart(t, "psp.db was lost", "--data", data)
}

func TestAQueueOfAnotherLedgerIsRefused(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serve(t, data)
	if got := s.pay("key-1", 3000); got.status != http.StatusCreated {
		t.Fatalf("got %+v, want 201", got)
	}
	s.eventually("/merchants/m1/balance", `"balance":15000`)
	s.stop()
	refusedStart(t, "another ledger", "--data", data, "--store", "sqlite:"+filepath.Join(t.TempDir(), "other.db"))
	remove(t, filepath.Join(data, "ledger.db*"))
	refusedStart(t, "another ledger", "--data", data)
	remove(t, filepath.Join(data, "queue"))
	s = serve(t, data)
	if got := s.pay("key-1", 3000); got.status != http.StatusCreated {
		t.Errorf("got %+v, want 201", got)
	}
	s.eventually("/merchants/m1/balance", `"balance":15000`) // credited, although it has the id of the first
	s.wantCharges(1)
	s.stop()
}

func TestAForgetfulStoreNeedsAForgetfulQueue(t *testing.T) {
	t.Parallel()
	refusedStart(t, "give --queue memory too", "--data", t.TempDir(), "--store", "memory")
	refusedStart(t, "give --queue memory too", "--data", t.TempDir(), "--store", "memory", "--queue", "nats://127.0.0.1:1")
	refusedStart(t, "give --store memory too", "--data", t.TempDir(), "--queue", "memory")
}
