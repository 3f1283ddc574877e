package retryproof

import (
	"errors"
	"time"
)

// Outcome is what a caller knows after it asked for something. The zero value is
// Unknown: what nobody classified is unknown.
type Outcome int

const (
	// Unknown: it may have happened, may yet happen, or never will. Unknown is
	// never final; it is asked again in a way that is safe either way.
	Unknown Outcome = iota
	// NotDone: it certainly did not happen and will not by this attempt.
	NotDone
	// Done: it certainly happened.
	Done
)

// String returns "unknown", "not done" or "done".
func (o Outcome) String() string {
	switch o {
	case NotDone:
		return "not done"
	case Done:
		return "done"
	}
	return "unknown"
}

// Code is a stable, machine-readable name of a refusal. Over HTTP it is the
// "code" member of the problem document and the end of its "type".
type Code string

// The codes of this module. Callers may branch on them; they do not change.
const (
	CodeKeyMissing   Code = "key-missing"   // 400
	CodeKeyMalformed Code = "key-malformed" // 400
	CodeInvalid      Code = "invalid"       // 400
	CodeUnauthorized Code = "unauthorized"  // 401
	CodeForbidden    Code = "forbidden"     // 403
	CodeNotFound     Code = "not-found"     // 404
	CodeInProgress   Code = "in-progress"   // 409 with Retry-After
	CodeVoid         Code = "void"          // 409, forever
	CodeTooLarge     Code = "too-large"     // 413
	CodeKeyReused    Code = "key-reused"    // 422
	CodeExceeds      Code = "exceeds"       // 422: more than what is left
	CodeMoved        Code = "moved"         // 409: it is in another state by now
	CodeTooMany      Code = "too-many"      // 429 with Retry-After
	CodeTooLate      Code = "too-late"      // 503, nothing ran
	CodeUnavailable  Code = "unavailable"   // 503 with Retry-After, nothing ran
	CodeConflict     Code = "conflict"      // a lock is held: try again
	CodeReadOnly     Code = "read-only"     // the store is a replica or read-only
	CodePermanent    Code = "permanent"     // trying again cannot help
	CodeUnknown      Code = "unknown"       // nobody knows whether it happened
)

// Error is an error that says what it knows about the effect.
type Error struct {
	// Outcome is what is known. Defaults to Unknown.
	Outcome Outcome
	// Code names the kind of error.
	Code Code
	// Message says what happened, in words for a person.
	Message string
	// Hint says what to do about it; may be empty.
	Hint string
	// RetryAfter is how long to wait before asking again; 0 says nothing.
	RetryAfter time.Duration
	// Err is the cause, if any.
	Err error
}

// Error returns the message, the hint and the cause.
func (e *Error) Error() string {
	s := e.Message
	if s == "" {
		s = string(e.Code)
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// OutcomeOf says what an error tells about the effect: nil is Done, an [*Error]
// says it itself, an error that wraps one says what it says, and anything else is
// Unknown. Several errors in one ([errors.Join]) are what all of them say alike, else
// Unknown: a refused note beside a call without an answer does not tell of the call.
func OutcomeOf(err error) Outcome {
	switch e := err.(type) {
	case nil:
		return Done
	case *Error:
		if e == nil {
			return Unknown
		}
		return e.Outcome
	case interface{ Unwrap() error }:
		if cause := e.Unwrap(); cause != nil {
			return OutcomeOf(cause)
		}
	case interface{ Unwrap() []error }:
		return outcomeOfAll(e.Unwrap())
	}
	return Unknown
}

func outcomeOfAll(errs []error) Outcome {
	if len(errs) == 0 {
		return Unknown
	}
	first := errs[0]
	for _, err := range errs {
		if err == nil || OutcomeOf(err) != OutcomeOf(first) {
			return Unknown
		}
	}
	return OutcomeOf(first)
}

// CodeOf returns the code of the first [*Error] in err's chain, or "".
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Refused wraps cause as NotDone with the given code.
func Refused(code Code, message string, cause error) error {
	return &Error{Outcome: NotDone, Code: code, Message: message, Err: cause}
}
