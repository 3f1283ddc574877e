//go:build unix && !aix && !solaris

package httpkey_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hold takes a lock file's lock, as another process would.
func hold(t *testing.T, path string) (release func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { _ = f.Close() }
}

func TestAJournalsLockIsWaitedForNoLongerThanTheCall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	open(t, j, entry("i", "K1", start))
	locks, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	if err != nil || len(locks) != 1 {
		t.Fatalf("got %v %v, want one lock file", locks, err)
	}
	release := hold(t, locks[0]) // as a process that was stopped does
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 { // one waits for the other process, two for the first
		wg.Go(func() {
			if e, made, err := j.Open(ctx, entry("i", "K2", start)); err == nil {
				t.Errorf("got %v %v, want the context's error", e, made)
			}
		})
	}
	wg.Wait()
	release()
	if got, made := open(t, j, entry("i", "K2", start)); made || got.Key != "K1" {
		t.Errorf("got %+v %v, want the entry", got, made)
	}
}
