package httpkey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/internal/durable"
)

// FileJournal keeps intents in a directory, one small JSON file per intent, so that
// a process that was killed mid-send finds its key again. Several processes may use
// one directory:
//
//   - a file is named after the digest of its intent, so that looking for it can
//     never miss it;
//   - whoever reads an entry in order to change it, or removes it, holds a lock of
//     the operating system on one of a few lock files, which ends with its process;
//   - every change is a new file that is flushed and then renamed over the old one,
//     and the directory is flushed too, so a crash leaves the old or the new entry
//     and never half of one;
//   - a file whose content is not what a journal writes is an error and never a key.
//
// Files hold keys: the directory is made with mode 0700, files have 0600. The
// directory must be on a local file system that has locks and a real fsync, and out of
// reach of what cleans up old files: lock files look unused. A process that is stopped
// while it holds a lock (SIGSTOP) holds the others up, each until its context ends.
type FileJournal struct {
	dir string
	// mu is taken before the lock file of the same number: one goroutine of this
	// process waits for another process, the rest wait for that goroutine.
	mu [lockFiles]sync.Mutex
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
	var out Entry
	made := false
	err := j.locked(ctx, e.Intent, func() error {
		have, err := j.stored(e.Intent)
		if err != nil {
			return err
		}
		if have.Attempt > 0 && have.State != EntryLetGo {
			out = have
			return syncDir(j.dir) // whoever wrote it may have died before this
		}
		e.Attempt, e.Revision = have.Attempt+1, 1
		out, made = e, true
		return j.write(e)
	})
	if err != nil {
		return Entry{}, false, err
	}
	return out, made, nil
}

// Save implements Journal.
func (j *FileJournal) Save(ctx context.Context, e Entry) (Entry, bool, error) {
	var out Entry
	saved := false
	err := j.locked(ctx, e.Intent, func() error {
		have, err := j.stored(e.Intent)
		if err != nil || !replaces(e, have) {
			out = have
			return err
		}
		e.Revision++
		out, saved = e, true
		if leaves(e) {
			return j.remove(j.path(e.Intent))
		}
		return j.write(e)
	})
	if err != nil {
		return Entry{}, false, err
	}
	return out, saved, nil
}

// Pending implements Journal. A file that cannot be read is an error that names
// it, after the entries that could be: an unreadable intent is not a finished one.
func (j *FileJournal) Pending(ctx context.Context) ([]Entry, error) {
	found, err := j.all(ctx)
	var open []Entry
	for _, e := range found {
		if e.State == EntryOpen {
			open = append(open, e)
		}
	}
	sortEntries(open)
	return open, err
}

// Forget implements Journal. It also removes what crashes left half written.
func (j *FileJournal) Forget(ctx context.Context, before time.Time) (int, error) {
	found, err := j.all(ctx)
	n := 0
	for _, e := range found {
		if !forgettable(e, before) {
			continue
		}
		lockedErr := j.locked(ctx, e.Intent, func() error {
			now, err := j.stored(e.Intent)
			if err != nil || now.Attempt == 0 || !forgettable(now, before) { // used again since
				return err
			}
			n++
			return j.remove(j.path(e.Intent))
		})
		if lockedErr != nil {
			return n, errors.Join(err, lockedErr)
		}
	}
	return n, errors.Join(err, j.removeTemps(ctx, before))
}

// removeTemps removes what was being written when a process died. Whoever writes now
// holds the lock of its file.
func (j *FileJournal) removeTemps(ctx context.Context, before time.Time) error {
	names, err := filepath.Glob(filepath.Join(j.dir, "*"+tempSuffix))
	if err != nil {
		return fmt.Errorf("httpkey: journal: %w", err)
	}
	for _, name := range names {
		err := j.lockedFile(ctx, strings.TrimSuffix(filepath.Base(name), tempSuffix), func() error {
			if info, err := os.Stat(name); err != nil || !info.ModTime().Before(before) {
				return nil
			}
			return j.remove(name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	entrySuffix = ".json"
	tempSuffix  = ".tmp"
	lockSuffix  = ".lock"
	// lockFiles is how many intents can be written at one time.
	lockFiles = 32
)

// fileName names an intent's file, without its suffix.
func fileName(intent string) string { return string(retryproof.Derive("intent", intent)) }

func (j *FileJournal) path(intent string) string {
	return filepath.Join(j.dir, fileName(intent)+entrySuffix)
}

// locked does work while nobody else, in this process or another, changes the
// intent's entry.
func (j *FileJournal) locked(ctx context.Context, intent string, work func() error) error {
	return j.lockedFile(ctx, fileName(intent), work)
}

func (j *FileJournal) lockedFile(ctx context.Context, name string, work func() error) error {
	n := 0
	if name != "" {
		n = int(name[len(name)-1]) % lockFiles
	}
	if err := waitFor(ctx, func() (bool, error) { return j.mu[n].TryLock(), nil }); err != nil {
		return err
	}
	defer j.mu[n].Unlock()
	f, err := os.OpenFile(filepath.Join(j.dir, strconv.Itoa(n)+lockSuffix), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a number in the journal's own directory
	if err != nil {
		return fmt.Errorf("httpkey: journal: the lock: %w", err)
	}
	defer func() { _ = f.Close() }() // that unlocks, or the process's end does
	if err := waitFor(ctx, func() (bool, error) { return tryLock(f) }); err != nil {
		return fmt.Errorf("httpkey: journal: the lock: %w", err)
	}
	return work()
}

// waitFor tries until it succeeds or ctx ends. It looks again and again, with growing
// pauses, since no lock of the operating system can be waited for up to a moment.
func waitFor(ctx context.Context, try func() (bool, error)) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 16*time.Millisecond) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if got, err := try(); got || err != nil {
			return err
		}
		if err := clock.System().Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// stored reads an intent's entry; Attempt is 0 when there is none.
func (j *FileJournal) stored(intent string) (Entry, error) {
	e, err := read(j.path(intent))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Entry{}, nil
	case err != nil:
		return Entry{}, err
	}
	return e, nil
}

// all reads every entry.
func (j *FileJournal) all(ctx context.Context) ([]Entry, error) {
	files, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("httpkey: journal: %w", err)
	}
	var out []Entry
	var errs []error
	for _, f := range files {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !strings.HasSuffix(f.Name(), entrySuffix) {
			continue
		}
		e, err := read(filepath.Join(j.dir, f.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // finished meanwhile
		case err != nil:
			errs = append(errs, err)
		default:
			out = append(out, e)
		}
	}
	return out, errors.Join(errs...)
}

// read reads the entry of a file. Nothing of a damaged one is shown: it may hold a key.
func read(path string) (Entry, error) {
	text, err := os.ReadFile(path) //nolint:gosec // a digest's name in the journal's own directory
	if err != nil {
		return Entry{}, fmt.Errorf("httpkey: journal: %w", err)
	}
	var written entryJSON
	err = json.Unmarshal(text, &written)
	e := written.entry()
	switch {
	case err != nil || !e.valid():
		return Entry{}, fmt.Errorf("httpkey: journal: %s is damaged; it may name a request that was sent: look it up before you remove the file", path)
	case fileName(e.Intent)+entrySuffix != filepath.Base(path):
		return Entry{}, fmt.Errorf("httpkey: journal: %s holds another intent than its name says", path)
	}
	return e, nil
}

// write makes the entry the one that stands, durably.
func (j *FileJournal) write(e Entry) error {
	temp, err := j.temp(e)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, j.path(e.Intent)); err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("httpkey: journal: %w", err)
	}
	return syncDir(j.dir)
}

// temp writes the entry to a flushed file beside its place. It has one name, which only
// the holder of the intent's lock uses: what a crash left there is written over.
func (j *FileJournal) temp(e Entry) (string, error) {
	text, err := json.Marshal(e.withKey(string(e.Key)))
	if err != nil {
		return "", fmt.Errorf("httpkey: journal: %w", err)
	}
	name := filepath.Join(j.dir, fileName(e.Intent)+tempSuffix)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // a digest's name, as above
	if err != nil {
		return "", fmt.Errorf("httpkey: journal: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name)
		return "", fmt.Errorf("httpkey: journal: %w", err)
	}
	return name, nil
}

func (j *FileJournal) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("httpkey: journal: %w", err)
	}
	return syncDir(j.dir)
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	if err := durable.SyncDir(dir); err != nil {
		return fmt.Errorf("httpkey: journal: %w", err)
	}
	return nil
}
