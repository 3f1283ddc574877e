package httpkey

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxDelta bounds a number of seconds read from a header, so that it can always
// be a time.Duration: about 68 years.
const maxDelta = 1<<31 - 1

// PreferWait reads "wait" from the values of a Prefer header (RFC 7240 §4.3):
// how long the client would rather wait than hear "in progress". The first
// occurrence counts (§2); a value that is not a whole number of seconds is no
// preference at all, as the RFC asks.
func PreferWait(values []string) (time.Duration, bool) {
	for _, v := range values {
		for _, pref := range splitQuoted(v, ',') {
			// Parameters after ';' do not change what "wait" means.
			name, val, ok := strings.Cut(splitQuoted(pref, ';')[0], "=")
			if !strings.EqualFold(trimOWS(name), "wait") {
				continue
			}
			if !ok {
				return 0, false
			}
			return deltaSeconds(strings.Trim(trimOWS(val), `"`))
		}
	}
	return 0, false
}

// ParseRetryAfter reads a Retry-After header (RFC 9110 §10.2.3): seconds, or a
// date that is compared with now. A moment that has passed is 0. It reports
// false for an empty or malformed value.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = trimOWS(value)
	if d, ok := deltaSeconds(value); ok {
		return d, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return max(at.Sub(now), 0), true
}

// retryAfterSeconds is d as a Retry-After value: whole seconds, rounded up, at
// least 1, since 0 invites a storm.
func retryAfterSeconds(d time.Duration) int {
	return max(int((d+time.Second-1)/time.Second), 1)
}

func deltaSeconds(s string) (time.Duration, bool) {
	if s == "" || len(s) > 20 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > maxDelta {
		n = maxDelta
	}
	return time.Duration(n) * time.Second, true
}

// splitQuoted splits at sep outside quoted strings. It returns at least one part.
func splitQuoted(s string, sep byte) []string {
	var parts []string
	quoted, from := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == sep:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}

func trimOWS(s string) string { return strings.Trim(s, " \t") }
