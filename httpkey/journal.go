package httpkey

import (
	"context"
	"encoding/json"
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

// Entry is one intent in a journal. No form of it for people or logs shows the key:
// not fmt's, not slog's, not its JSON. Who writes a Journal stores the fields.
type Entry struct {
	// Intent is the application's name of it; for a key that belongs to one call
	// it is "key:" and a digest.
	Intent string
	// Attempt counts the keys that the intent has had, from 1.
	Attempt int
	// Key is what every send carries.
	Key retryproof.Key
	// Fingerprint is the meaning of the request.
	Fingerprint retryproof.Fingerprint
	// Method and URL say where it was sent, for people and for resuming; the URL
	// is without query and user, which may hold secrets.
	Method string
	URL    string
	State  EntryState
	// Doubtful counts the calls that have sent it, or are about to, and have not
	// been told that they ran nothing. At 0 the request may still be corrected under
	// the same key, and a refusal lets the key go.
	Doubtful int
	// Revision counts the changes of this entry, from 1; Save compares it.
	Revision int
	// CreatedAt is when the key was made, UpdatedAt the last change.
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Format prints as %+v for every verb, so that none prints the key.
func (e Entry) Format(s fmt.State, _ rune) {
	type plain Entry
	_, _ = fmt.Fprintf(s, "%+v", plain(e))
}

// entryJSON is the JSON of an entry: with a digest of the key for people, with the key
// itself in a FileJournal's file.
type entryJSON struct {
	Intent      string                 `json:"intent"`
	Attempt     int                    `json:"attempt"`
	Key         string                 `json:"key"`
	Fingerprint retryproof.Fingerprint `json:"fingerprint"`
	Method      string                 `json:"method"`
	URL         string                 `json:"url"`
	State       EntryState             `json:"state"`
	Doubtful    int                    `json:"doubtful"`
	Revision    int                    `json:"revision"`
	CreatedAt   time.Time              `json:"created_at"`
	UpdatedAt   time.Time              `json:"updated_at"`
}

func (e Entry) withKey(key string) entryJSON {
	return entryJSON{e.Intent, e.Attempt, key, e.Fingerprint, e.Method, e.URL, e.State, e.Doubtful, e.Revision, e.CreatedAt, e.UpdatedAt}
}

func (j entryJSON) entry() Entry {
	return Entry{j.Intent, j.Attempt, retryproof.Key(j.Key), j.Fingerprint, j.Method, j.URL, j.State, j.Doubtful, j.Revision, j.CreatedAt, j.UpdatedAt}
}

// MarshalJSON writes the entry for logs: the key is replaced by what Key.String
// returns. An entry that must be kept is kept by its fields.
func (e Entry) MarshalJSON() ([]byte, error) { return json.Marshal(e.withKey(e.Key.String())) }

// UnmarshalJSON refuses, since the JSON of an entry does not hold its key.
func (e *Entry) UnmarshalJSON([]byte) error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeInvalid,
		Message: "the JSON of an entry is for logs and does not hold the key", Hint: "keep the entry by its fields"}
}

// valid refuses an entry that no journal was given: damaged, or written by somebody
// else. Its key would be sent as a header.
func (e Entry) valid() bool {
	_, err := retryproof.ParseKey(string(e.Key))
	known := e.State == EntryOpen || e.State == EntryDone || e.State == EntryLetGo
	return err == nil && known && e.Attempt >= 1 && e.Revision >= 1 && e.Doubtful >= 0
}

// Journal remembers the keys of intents, durably before their first send
// (mission A1). Implementations are safe for concurrent use by everybody who shares
// the journal: two calls of one intent may end in any order, and the one that knows
// less must not overwrite the one that knows more.
type Journal interface {
	// Open returns the entry of e.Intent when it was not let go. Otherwise it stores
	// e, with the next attempt number and revision 1, and returns it and true once
	// it is durable. Of several openers at one time one gets true, and all get the
	// same key.
	Open(ctx context.Context, e Entry) (entry Entry, made bool, err error)
	// Save is a compare-and-set. It replaces the entry of e.Intent, durably, when
	// that has the key, attempt and revision of e, and the stored entry gets the next
	// revision. It changes nothing when they differ, when there is no such entry, and
	// when the entry is done and e is not. It returns the entry that stands then, the
	// zero Entry for none, and whether it is e.
	Save(ctx context.Context, e Entry) (stands Entry, saved bool, err error)
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
	e.Attempt, e.Revision = have.Attempt+1, 1
	if m.entries == nil {
		m.entries = map[string]Entry{}
	}
	m.entries[e.Intent] = e
	return e, true, nil
}

// Save implements Journal.
func (m *MemoryJournal) Save(_ context.Context, e Entry) (Entry, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.entries[e.Intent]
	if !replaces(e, have) {
		return have, false, nil
	}
	e.Revision++
	if leaves(e) {
		delete(m.entries, e.Intent)
	} else {
		m.entries[e.Intent] = e
	}
	return e, true, nil
}

// replaces reports whether Save may put e in the place of have.
func replaces(e, have Entry) bool {
	return have.Attempt > 0 && have.Key == e.Key && have.Attempt == e.Attempt && have.Revision == e.Revision &&
		(have.State != EntryDone || e.State == EntryDone)
}

// leaves reports a finished entry that need not be remembered: its name holds the
// key, so it cannot come back with another one.
func leaves(e Entry) bool { return e.State != EntryOpen && callEntry(e.Intent) }

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
