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
	dir := t.TempDir()
	if err := durable.SyncDir(dir); err != nil {
		t.Errorf("got %v, want it flushed", err)
	}
	if err := durable.SyncDir(filepath.Join(dir, "absent")); runtime.GOOS != "windows" && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}
