package saga

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
)

// State is the state of a saga.
type State string

// The states of a saga and the moves between them: RUNNING → COMPLETED, or
// RUNNING → COMPENSATING → COMPENSATED. COMPLETED and COMPENSATED are final.
const (
	Running      State = "RUNNING"
	Compensating State = "COMPENSATING"
	Completed    State = "COMPLETED"
	Compensated  State = "COMPENSATED"
)

// Final reports whether the saga is at its end. Until then readers must take what
// its steps wrote as not final: it may be undone.
func (s State) Final() bool { return s == Completed || s == Compensated }

// CanMove reports whether a record may be saved with the state to. A saga stays in
// its state while its log grows.
func CanMove(from, to State) bool {
	switch from {
	case Running:
		return to == Running || to == Compensating || to == Completed
	case Compensating:
		return to == Compensating || to == Compensated
	}
	return false
}

// EntryState is what is known of one call.
type EntryState string

const (
	// Started: it is recorded and may have been made; a crash leaves it so.
	Started EntryState = "STARTED"
	// Unknown: its last try ended without a definite answer.
	Unknown EntryState = "UNKNOWN"
	// NotDone: its last try was not done and is made again.
	NotDone EntryState = "NOT_DONE"
	// Refused: an action's last try was not done, and trying again cannot help.
	Refused EntryState = "REFUSED"
	// Done: it happened, on evidence.
	Done EntryState = "DONE"
)

// Entry is one call in the log.
type Entry struct {
	Step   string `json:"step"`
	Cancel bool   `json:"cancel,omitempty"`
	// Key is the key that its tries carry.
	Key   string     `json:"key"`
	State EntryState `json:"state"`
	// Tries counts tries that were recorded, each before it was made.
	Tries int `json:"tries"`
	// Alerted is Tries when a person was last told; 0 when nobody was.
	Alerted int `json:"alerted,omitempty"`
	// Result is what a call that is DONE returned, at most MaxResultBytes.
	Result []byte `json:"result,omitempty"`
	// ResultDropped says that the result was too large to keep.
	ResultDropped bool `json:"result_dropped,omitempty"`
	// Code and Message are those of the last error.
	Code    retryproof.Code `json:"code,omitempty"`
	Message string          `json:"message,omitempty"`
	BegunAt time.Time       `json:"begun_at"`
	// UpdatedAt is when State was last recorded.
	UpdatedAt time.Time `json:"updated_at"`
}

// MaxResultBytes is the most that Entry.Result holds; a larger one is dropped.
const MaxResultBytes = 8 << 10

// MaxInputBytes is the most that Record.Input holds: the record is written twice
// per call. Keep large things elsewhere and put their ids in.
const MaxInputBytes = 64 << 10

// Record is one saga as a store holds it.
type Record struct {
	ID retryproof.ID
	// Name is the definition's.
	Name        string
	Fingerprint retryproof.Fingerprint
	Input       []byte
	State       State
	// Log has the actions in order, and the compensations in theirs.
	Log []Entry
	// Reason says why the saga turned; empty while it did not.
	Reason string
	// Version is raised by one with every write, leases too. A record that was
	// just started has version 1.
	Version int64
	// Owner is the token of the runner that advances it; empty without one.
	Owner string
	// Until is the end of the owner's lease; zero without an owner.
	Until time.Time
	// SavedBy is the owner that made the last Save, when nothing was written
	// since; a Save whose answer was lost is recognised by it.
	SavedBy string
	// NextAt is when it is due.
	NextAt    time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Entry returns the call of a step; false when it was not begun.
func (r Record) Entry(step string, cancel bool) (Entry, bool) {
	if i := r.index(step, cancel); i >= 0 {
		return r.Log[i], true
	}
	return Entry{}, false
}

func (r Record) index(step string, cancel bool) int {
	return slices.IndexFunc(r.Log, func(e Entry) bool { return e.Step == step && e.Cancel == cancel })
}

// Clone returns a copy that shares nothing with r.
func (r Record) Clone() Record {
	r.Input, r.Log = slices.Clone(r.Input), CloneLog(r.Log)
	return r
}

// CloneLog returns a copy that shares nothing with log.
func CloneLog(log []Entry) []Entry {
	out := slices.Clone(log)
	for i := range out {
		out[i].Result = slices.Clone(out[i].Result)
	}
	return out
}

// EncodeLog is the form in which drivers keep a log: JSON, the same bytes for the
// same log.
func EncodeLog(log []Entry) ([]byte, error) {
	if log == nil {
		log = []Entry{}
	}
	b, err := json.Marshal(log)
	if err != nil {
		return nil, retryproof.Refused(retryproof.CodeInvalid, "the log cannot be stored as JSON", err)
	}
	return b, nil
}

// DecodeLog reads EncodeLog's form.
func DecodeLog(b []byte) ([]Entry, error) {
	var log []Entry
	if err := json.Unmarshal(b, &log); err != nil {
		return nil, fmt.Errorf("a stored log is broken: %w", err)
	}
	return log, nil
}
