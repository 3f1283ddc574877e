package version

import (
	"context"
	"math"
	"sync"

	"github.com/retryproof/retryproof"
)

// Journal is where a device keeps its counters, so that a process that was killed
// goes on behind the last number that it took.
type Journal interface {
	// Load is the highest number that was taken of the line, 0 when none was.
	Load(ctx context.Context, l Line) (int64, error)
	// Advance replaces from by to, which is higher, and reports whether it did: false
	// when the line's number is not from any more. When it returns true the number is
	// on the disk. After an error a number may have been taken for nothing.
	Advance(ctx context.Context, l Line, from, to int64) (bool, error)
}

// Counter hands out the versions of one line on a device. Safe for concurrent use,
// and by several processes when their journal is.
//
// An action takes its number once, before its first send; the app keeps the number
// with the action's key and repeats both on every retry.
type Counter struct {
	journal Journal
	line    Line
}

// NewCounter counts the line in the journal.
func NewCounter(journal Journal, line Line) (*Counter, error) {
	if err := line.Valid(); err != nil {
		return nil, err
	}
	return &Counter{journal: journal, line: line}, nil
}

// Next takes the next number. It is in the journal when Next returns, and is never
// handed out again.
func (c *Counter) Next(ctx context.Context) (int64, error) {
	for {
		have, err := c.journal.Load(ctx, c.line)
		if err != nil {
			return 0, err
		}
		if have == math.MaxInt64 {
			return 0, retryproof.Refused(retryproof.CodePermanent, "the counter is used up", nil)
		}
		took, err := c.journal.Advance(ctx, c.line, have, have+1)
		if err != nil {
			return 0, err
		}
		if took {
			return have + 1, nil
		}
	}
}

// Restore makes the counter go on behind accepted, the version of [Store].Last, after
// the app lost its journal. It never takes the counter back. Call it before the first
// action of a new installation, and when a fresh action is answered Stale or Mismatch.
func (c *Counter) Restore(ctx context.Context, accepted int64) error {
	for {
		have, err := c.journal.Load(ctx, c.line)
		if err != nil || have >= accepted {
			return err
		}
		done, err := c.journal.Advance(ctx, c.line, have, accepted)
		if err != nil || done {
			return err
		}
	}
}

// MemoryJournal forgets with its process: for tests, and for apps that ask the server
// for their last action whenever they start. The zero value is ready.
type MemoryJournal struct {
	mu    sync.Mutex
	taken map[Line]int64
}

var _ Journal = (*MemoryJournal)(nil)

// Load implements Journal.
func (j *MemoryJournal) Load(_ context.Context, l Line) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.taken[l], nil
}

// Advance implements Journal.
func (j *MemoryJournal) Advance(_ context.Context, l Line, from, to int64) (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.taken[l] != from || to <= from {
		return false, nil
	}
	if j.taken == nil {
		j.taken = map[Line]int64{}
	}
	j.taken[l] = to
	return true, nil
}
