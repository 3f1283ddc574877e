package httpkey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
)

// FileJournal keeps intents in a directory, one small JSON file per key, so that
// a process that was killed mid-send finds its key again. Several processes may
// use one directory, and no locks are needed:
//
//   - a file is named after the digest of its intent and its attempt number; it
//     appears by a hard link, which succeeds for one process only, and the others
//     read what that one wrote;
//   - every change is a new file that is flushed and then renamed over the old
//     one, and the directory is flushed too, so a crash leaves the old or the new
//     entry and never half of one;
//   - a new key of the same intent is a new file with the next number, and the
//     highest number counts, so that a process that was slow cannot bring an old
//     key back.
//
// Files hold keys: the directory is made with mode 0700, files have 0600. The
// directory must be on a local file system that has hard links and a real fsync.
type FileJournal struct {
	dir string
}

var _ Journal = (*FileJournal)(nil)

// OpenFileJournal opens the journal in a directory and makes the directory when
// it is absent.
func OpenFileJournal(dir string) (*FileJournal, error) {
	j := &FileJournal{dir: dir}
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return j, syncDir(dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("httpkey: journal: %w", err)
	}
	return j, syncDir(filepath.Dir(filepath.Clean(dir))) // the directory itself must survive a power cut
}

// Open implements Journal.
func (j *FileJournal) Open(ctx context.Context, e Entry) (Entry, bool, error) {
	for {
		if ctx.Err() != nil {
			return Entry{}, false, context.Cause(ctx)
		}
		have, err := j.newest(e.Intent)
		if err != nil {
			return Entry{}, false, err
		}
		if have.Attempt > 0 && have.State != EntryLetGo {
			// Another process may have written it and not flushed the directory yet.
			return have, false, syncDir(j.dir)
		}
		e.Attempt = have.Attempt + 1
		err = j.create(e)
		if !errors.Is(err, fs.ErrExist) {
			return e, err == nil, err
		}
	}
}

// Save implements Journal.
func (j *FileJournal) Save(ctx context.Context, e Entry) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	final := j.path(e.Intent, e.Attempt)
	if e.State != EntryOpen && callEntry(e.Intent) {
		return j.remove(final) // its name holds the key: it cannot come back
	}
	temp, err := j.temp(e)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, final); err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("httpkey: journal: %w", err)
	}
	return syncDir(j.dir)
}

// Pending implements Journal. A file that cannot be read is an error that names
// it, after the entries that could be: an unreadable intent is not a finished one.
func (j *FileJournal) Pending(ctx context.Context) ([]Entry, error) {
	newest, err := j.all(ctx)
	var open []Entry
	for _, e := range newest {
		if e.State == EntryOpen {
			open = append(open, e)
		}
	}
	sortEntries(open)
	return open, err
}

// Forget implements Journal. It also removes what crashes left half written.
func (j *FileJournal) Forget(ctx context.Context, before time.Time) (int, error) {
	newest, err := j.all(ctx)
	n := 0
	for _, e := range newest {
		if !forgettable(e, before) {
			continue
		}
		// The highest number goes first: a crash in between leaves keys that were
		// let go, never a gap below a key that counts.
		for attempt := e.Attempt; attempt > 0; attempt-- {
			if rmErr := j.remove(j.path(e.Intent, attempt)); rmErr != nil {
				return n, errors.Join(err, rmErr)
			}
		}
		n++
	}
	return n, errors.Join(err, j.removeTemps(before))
}

func (j *FileJournal) removeTemps(before time.Time) error {
	names, err := filepath.Glob(filepath.Join(j.dir, "*"+tempSuffix))
	if err != nil {
		return fmt.Errorf("httpkey: journal: %w", err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.ModTime().Before(before) {
			if err := j.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	entrySuffix = ".json"
	tempSuffix  = ".tmp"
)

func (j *FileJournal) path(intent string, attempt int) string {
	return filepath.Join(j.dir, string(retryproof.Derive("intent", intent))+"-"+strconv.Itoa(attempt)+entrySuffix)
}

// newest reads the entry with the highest number; Attempt is 0 when there is
// none. Numbers have no gaps, and an intent has few keys, so it counts up.
func (j *FileJournal) newest(intent string) (Entry, error) {
	var last Entry
	for attempt := 1; ; attempt++ {
		e, err := read(j.path(intent, attempt))
		if errors.Is(err, fs.ErrNotExist) {
			return last, nil
		}
		if err != nil {
			return Entry{}, err
		}
		if e.Intent != intent || e.Attempt != attempt {
			return Entry{}, fmt.Errorf("httpkey: journal: %s holds another intent than its name says", j.path(intent, attempt))
		}
		last = e
	}
}

// all reads the newest entry of every intent.
func (j *FileJournal) all(ctx context.Context) ([]Entry, error) {
	files, err := os.ReadDir(j.dir) // sorted by name: "-10" comes before "-2"
	if err != nil {
		return nil, fmt.Errorf("httpkey: journal: %w", err)
	}
	var out []Entry
	var errs []error
	at := map[string]int{} // intent → index in out
	for _, f := range files {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !strings.HasSuffix(f.Name(), entrySuffix) {
			continue
		}
		e, err := read(filepath.Join(j.dir, f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // finished meanwhile
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		i, seen := at[e.Intent]
		switch {
		case !seen:
			at[e.Intent] = len(out)
			out = append(out, e)
		case e.Attempt > out[i].Attempt:
			out[i] = e
		}
	}
	return out, errors.Join(errs...)
}

func read(path string) (Entry, error) {
	var e Entry
	text, err := os.ReadFile(path) //nolint:gosec // a digest's name in the journal's own directory
	if err != nil {
		return e, fmt.Errorf("httpkey: journal: %w", err)
	}
	if err := json.Unmarshal(text, &e); err != nil {
		// Nothing of the text is shown: it may hold a key.
		return Entry{}, fmt.Errorf("httpkey: journal: %s is damaged; it may name a request that was sent: look it up before you remove the file", path)
	}
	return e, nil
}

// create makes the entry appear if its number is free, else fs.ErrExist.
func (j *FileJournal) create(e Entry) error {
	temp, err := j.temp(e)
	if err != nil {
		return err
	}
	linkErr := os.Link(temp, j.path(e.Intent, e.Attempt))
	_ = os.Remove(temp) // left behind, it is removed by Forget
	if linkErr != nil {
		return fmt.Errorf("httpkey: journal: %w", linkErr)
	}
	return syncDir(j.dir)
}

// temp writes the entry to a flushed file beside its place.
func (j *FileJournal) temp(e Entry) (string, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("httpkey: journal: %w", err)
	}
	f, err := os.CreateTemp(j.dir, "*"+tempSuffix) // mode 0600
	if err != nil {
		return "", fmt.Errorf("httpkey: journal: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("httpkey: journal: %w", err)
	}
	return f.Name(), nil
}

func (j *FileJournal) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("httpkey: journal: %w", err)
	}
	return syncDir(j.dir)
}

// syncDir flushes a directory, so that a name that was made stays made. Windows
// has no such call and keeps names with their files.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir) //nolint:gosec // the directory that the program chose
	if err != nil {
		return fmt.Errorf("httpkey: journal: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("httpkey: journal: %w", err)
	}
	return nil
}
