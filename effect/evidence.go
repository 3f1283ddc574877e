package effect

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
)

// Evidence says who learned what about an effect, when. It is kept beside the guard,
// as long as the guard, and never changes. Verdicts that an owner reaches in its own
// run carry none: the guard says who settled it.
type Evidence struct {
	GuardID retryproof.ID
	// Name makes it one: a second one with the same name for the same guard is left.
	// At most MaxEvidenceName bytes.
	Name string
	// Kind is what it is about.
	Kind EvidenceKind
	// By is who: a resolver's token, "webhook-evt_1", "operator alice". At most
	// MaxEvidenceName bytes.
	By string
	// Seen is what was seen, in words or JSON, at most MaxEvidenceSeen bytes. It
	// holds no key and no secret.
	Seen string
	// At is when; to whole microseconds.
	At time.Time
}

// EvidenceKind is what evidence is about.
type EvidenceKind string

const (
	// EvidenceVerdict: the guard was settled because of it.
	EvidenceVerdict EvidenceKind = "verdict"
	// EvidenceConflict: it contradicts the record, and a person must look.
	EvidenceConflict EvidenceKind = "conflict"
	// EvidenceAlert: a person was told that the effect stays UNKNOWN, or of a conflict.
	EvidenceAlert EvidenceKind = "alert"
)

// The bounds of evidence, in bytes. A guard lives long, so what is kept with it
// stays small.
const (
	MaxEvidenceName = 255
	MaxEvidenceSeen = 2 << 10
)

// Check refuses evidence that nobody could name or that is too long.
func (e Evidence) Check() error {
	switch {
	case e.Name == "" || len(e.Name) > MaxEvidenceName:
		return retryproof.Refused(retryproof.CodeInvalid, "evidence needs a name of 1 to 255 bytes", nil)
	case e.Kind != EvidenceVerdict && e.Kind != EvidenceConflict && e.Kind != EvidenceAlert:
		return retryproof.Refused(retryproof.CodeInvalid, "evidence is a verdict, a conflict or an alert", nil)
	case len(e.Seen) > MaxEvidenceSeen || len(e.By) > MaxEvidenceName:
		return retryproof.Refused(retryproof.CodeInvalid, "evidence says at most 2 KiB, by somebody of at most 255 bytes", nil)
	case !isText(e.Name) || !isText(e.By) || !isText(e.Seen):
		return retryproof.Refused(retryproof.CodeInvalid, "evidence is UTF-8 without NUL", nil)
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
