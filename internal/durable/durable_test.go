package durable_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/retryproof/retryproof/internal/durable"
)

func TestAFolderThatIsNotThereIsNotFlushed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows flushes no folder")
	}
	dir := t.TempDir()
	if err := durable.SyncDir(dir); err != nil {
		t.Errorf("got %v, want it flushed", err)
	}
	if err := durable.SyncDir(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}
