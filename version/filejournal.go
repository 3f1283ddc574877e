package version

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/internal/durable"
)

// FileJournal keeps counters in a directory on a local disk. Several processes may
// use one directory.
//
// A taken number is a file whose name ends in it. Only one process can create a file,
// and a file is removed only when a higher one is there, so a number that was removed
// and created again is seen to be old. File and directory are flushed before a number
// is handed out: a crash leaves the number taken or free.
type FileJournal struct{ dir string }

var _ Journal = (*FileJournal)(nil)

// OpenFileJournal opens the journal in a directory and makes the directory when it is
// absent.
func OpenFileJournal(dir string) (*FileJournal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("version: journal: %w", err)
	}
	return &FileJournal{dir}, syncDir(filepath.Dir(filepath.Clean(dir)))
}

// Load implements Journal.
func (j *FileJournal) Load(ctx context.Context, l Line) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	taken, err := j.taken(l)
	if err != nil {
		return 0, err
	}
	var highest int64
	for _, n := range taken {
		highest = max(highest, n)
	}
	return highest, nil
}

// Advance implements Journal.
func (j *FileJournal) Advance(ctx context.Context, l Line, from, to int64) (bool, error) {
	if have, err := j.Load(ctx, l); err != nil || have != from || to <= from {
		return false, err
	}
	created, err := j.create(j.path(l, to))
	if err != nil || !created {
		return false, err
	}
	taken, err := j.taken(l)
	if err != nil {
		return false, err
	}
	for _, n := range taken {
		if n > to { // others went on meanwhile, and may have had this number
			return false, nil
		}
	}
	for _, n := range taken {
		if n < to { // what stays is removed next time
			_ = os.Remove(j.path(l, n))
		}
	}
	return true, nil
}

// create makes a file that is not there, durably, and reports whether it did.
func (j *FileJournal) create(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // in the directory that the program chose
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("version: journal: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close(), syncDir(j.dir)); err != nil {
		return false, fmt.Errorf("version: journal: %w", err)
	}
	return true, nil
}

// taken are the numbers that have a file.
func (j *FileJournal) taken(l Line) ([]int64, error) {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("version: journal: %w", err)
	}
	var out []int64
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), prefix(l))
		if n, err := strconv.ParseInt(rest, 10, 64); ok && err == nil && n > 0 {
			out = append(out, n)
		}
	}
	return out, nil
}

func (j *FileJournal) path(l Line, n int64) string {
	return filepath.Join(j.dir, prefix(l)+strconv.FormatInt(n, 10))
}

func prefix(l Line) string {
	return string(retryproof.Derive("line", l.Stream, l.Caller, l.Device)) + "-"
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	if err := durable.SyncDir(dir); err != nil {
		return fmt.Errorf("version: journal: %w", err)
	}
	return nil
}
