package deadline

import (
	"errors"
	"net/http"
	"time"
)

// HeaderFirstSent is the client's own word on when it sent the request first, the same
// on every retry (OASIS, "Repeatable Requests Version 1.0", §3).
const HeaderFirstSent = "Repeatability-First-Sent"

// headerRepeatable is the OASIS answer on whether repeatability was granted.
const headerRepeatable = "Repeatability-Result"

var errFirstSent = errors.New("deadline: Repeatability-First-Sent must be one HTTP date, for example Tue, 15 Nov 1994 08:12:31 GMT")

// ParseFirstSent reads the lines of a Repeatability-First-Sent header: one HTTP date in
// the fixed form (RFC 9110 §5.6.7, IMF-fixdate). No line is the zero time; two lines, or
// anything else, are an error.
//
// It is no arrival stamp: a retry carries the first send's, so counting a deadline from
// it would refuse every retry. It says whether a retry still falls into the time for
// which keys are remembered; see GateConfig.Memory.
func ParseFirstSent(lines []string) (time.Time, error) {
	if len(lines) == 0 {
		return time.Time{}, nil
	}
	at, err := time.Parse(http.TimeFormat, lines[0])
	if err != nil || len(lines) > 1 || at.Format(http.TimeFormat) != lines[0] {
		return time.Time{}, errFirstSent
	}
	return at.UTC(), nil
}

// SetFirstSent is for clients: it notes when a request is sent first, cut to whole
// seconds, and leaves a note that is there alone, so that a retry of the same headers
// keeps the first. Give it the moment at which the key was journaled, so that a client
// that was killed in between says the same again.
func SetFirstSent(h http.Header, at time.Time) {
	if len(h.Values(HeaderFirstSent)) == 0 {
		h.Set(HeaderFirstSent, at.UTC().Format(http.TimeFormat))
	}
}
