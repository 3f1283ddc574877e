package sim

import (
	"fmt"
	"strings"
	"time"
)

// Event is one line of a trace: something that happened at a seam.
type Event struct {
	// N counts from 1, At is the true virtual time.
	N  int
	At time.Duration
	// Where is the actor, What the call and How it went: "ok", "lost", "crash".
	Where, What, How string
	// About names the payment, the message or the key's holder; may be empty.
	About string
}

// String is the event as one line.
func (e Event) String() string {
	return fmt.Sprintf("%6d %12.6f %-9s %-22s %-10s %s", e.N, e.At.Seconds(), e.Where, e.What, e.How, e.About)
}

// Trace hashes every event, and keeps them when asked to.
type Trace struct {
	hash uint64
	n    int
	// Keep keeps the events, for people.
	Keep   bool
	Events []Event
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// word hashes a word: FNV-1a over eight bytes at a time, whose high bits are folded
// down, since its multiplication only carries upwards.
func (t *Trace) word(w uint64) {
	h := (t.hash ^ w) * fnvPrime
	t.hash = h ^ h>>32
}

// mix hashes a string, its length before it.
func (t *Trace) mix(s string) {
	t.word(uint64(len(s)))
	for ; len(s) >= 8; s = s[8:] {
		t.word(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56)
	}
	var rest uint64
	for i := range len(s) {
		rest |= uint64(s[i]) << (8 * i)
	}
	t.word(rest)
}

func (t *Trace) add(at time.Duration, where, what, how, about string) {
	if t.hash == 0 {
		t.hash = fnvOffset
	}
	t.n++
	t.word(uint64(at))
	t.mix(where)
	t.mix(what)
	t.mix(how)
	t.mix(about)
	if t.Keep {
		t.Events = append(t.Events, Event{N: t.n, At: at, Where: where, What: what, How: how, About: about})
	}
}

// Hash names the run: two runs of one seed have one hash.
func (t *Trace) Hash() string { return fmt.Sprintf("%016x", t.hash) }

// Len is how many events there were.
func (t *Trace) Len() int { return t.n }

// String is the whole trace, a line per event.
func (t *Trace) String() string {
	var b strings.Builder
	for _, e := range t.Events {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Hash is a running hash over the hashes of several runs.
type Hash struct{ t Trace }

// NewHash returns an empty hash.
func NewHash() *Hash { return &Hash{t: Trace{hash: fnvOffset}} }

// Add adds one run's hash.
func (h *Hash) Add(hash string) { h.t.mix(hash) }

// String is the hash.
func (h *Hash) String() string { return h.t.Hash() }
