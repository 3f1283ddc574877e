package httpkey

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
)

// EntryState says what is known of an intent.
type EntryState string

const (
	// EntryOpen: no definite answer yet. The key is kept and used again.
	EntryOpen EntryState = "open"
	// EntryDone: it succeeded. The key is still used when the same intent is sent
	// again, so that an application that crashed before it noted the success is
	// told of it instead of doing it twice.
	EntryDone EntryState = "done"
	// EntryLetGo: the key's last word is that nothing was done. The next use of
	// the intent makes a new key.
	EntryLetGo EntryState = "let-go"
)

// Entry is one intent in a journal.
type Entry struct {
	// Intent is the application's name of it; for a key that belongs to one call
	// it is "key:" and a digest.
	Intent string `json:"intent"`
	// Attempt counts the keys that the intent has had, from 1.
	Attempt int `json:"attempt"`
	// Key is what every send carries.
	Key retryproof.Key `json:"key"`
	// Fingerprint is the meaning of the request.
	Fingerprint retryproof.Fingerprint `json:"fingerprint"`
	// Method and URL say where it was sent, for people and for resuming; the URL
	// is without query and user, which may hold secrets.
	Method string     `json:"method"`
	URL    string     `json:"url"`
	State  EntryState `json:"state"`
	// Clean says that every send so far was refused before anything ran, so that
	// the request may still be corrected under the same key.
	Clean bool `json:"clean,omitempty"`
	// CreatedAt is when the key was made, UpdatedAt the last change.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Format prints as %+v for every verb, so that none prints the key.
func (e Entry) Format(s fmt.State, _ rune) {
	type plain Entry
	_, _ = fmt.Fprintf(s, "%+v", plain(e))
}

// Journal remembers the keys of intents, durably before their first send
// (mission A1). Implementations are safe for concurrent use, and keep entries of
// earlier attempts from ever replacing those of later ones.
type Journal interface {
	// Open returns the newest entry of e.Intent when it was not let go. Otherwise
	// it stores e, with the next attempt number, and returns it and true once it
	// is durable. Of several openers at one time one gets true, and all get the
	// same entry.
	Open(ctx context.Context, e Entry) (entry Entry, made bool, err error)
	// Save replaces the entry of the same intent and attempt, durably.
	Save(ctx context.Context, e Entry) error
	// Pending lists the entries that are open, by CreatedAt and Intent.
	Pending(ctx context.Context) ([]Entry, error)
	// Forget removes what was finished (done or let go) before the given time, and
	// returns how many intents that was. An intent that is forgotten is new: its
	// next use makes a new key. Choose a time past which the application cannot
	// ask again.
	Forget(ctx context.Context, before time.Time) (int, error)
}

// MemoryJournal keeps intents while the process lives: for tests, and for callers
// whose intents end with the process. The zero value is ready.
type MemoryJournal struct {
	mu      sync.Mutex
	entries map[string]Entry // newest per intent
}

var _ Journal = (*MemoryJournal)(nil)

// Open implements Journal.
func (m *MemoryJournal) Open(_ context.Context, e Entry) (Entry, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	have, ok := m.entries[e.Intent]
	if ok && have.State != EntryLetGo {
		return have, false, nil
	}
	e.Attempt = have.Attempt + 1
	if m.entries == nil {
		m.entries = map[string]Entry{}
	}
	m.entries[e.Intent] = e
	return e, true, nil
}

// Save implements Journal. An entry of an earlier attempt changes nothing.
func (m *MemoryJournal) Save(_ context.Context, e Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	have, ok := m.entries[e.Intent]
	switch {
	case !ok || have.Attempt != e.Attempt:
		return nil
	case e.State != EntryOpen && callEntry(e.Intent):
		delete(m.entries, e.Intent) // its name holds the key: it cannot come back
	default:
		m.entries[e.Intent] = e
	}
	return nil
}

// Pending implements Journal.
func (m *MemoryJournal) Pending(context.Context) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var open []Entry
	for _, e := range m.entries { // order: sorted below
		if e.State == EntryOpen {
			open = append(open, e)
		}
	}
	sortEntries(open)
	return open, nil
}

// Forget implements Journal.
func (m *MemoryJournal) Forget(_ context.Context, before time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.entries)
	for name, e := range m.entries { // order: each entry by itself
		if forgettable(e, before) {
			delete(m.entries, name)
		}
	}
	return n - len(m.entries), nil
}

func forgettable(e Entry, before time.Time) bool {
	return e.State != EntryOpen && e.UpdatedAt.Before(before)
}

func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.Intent, b.Intent)
	})
}

// callPrefix begins the intent names that the transport makes itself.
const callPrefix = "key:"

// callIntent names the intent of a single call after its key.
func callIntent(key retryproof.Key) string {
	return callPrefix + string(retryproof.Derive("call", string(key)))
}

func callEntry(intent string) bool { return strings.HasPrefix(intent, callPrefix) }
