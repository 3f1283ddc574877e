package deadline

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/retryproof/retryproof/clock"
)

// The headers in which proxies say when a request reached them.
const (
	// HeaderTraceID is written by AWS Application Load Balancers; see ParseTraceID.
	HeaderTraceID = "X-Amzn-Trace-Id"
	// HeaderRequestStart is written by most other proxies; see ParseRequestStart.
	HeaderRequestStart = "X-Request-Start"
)

var (
	errTraceID      = errors.New("deadline: not Self=1-<8 hexadecimal digits>-<hexadecimal id>, nor Root")
	errRequestStart = errors.New("deadline: not seconds (10 digits), milliseconds (13) or microseconds (16) since 1970, with or without t=, nor an RFC 3339 time")
)

// Stamps outside of these bounds are taken for junk and not for very old or very far
// away: they are what a wrong unit looks like.
const (
	firstSecond = 1_000_000_000  // 2001-09-09
	endSecond   = 10_000_000_000 // 2286-11-20
)

// ParseTraceID reads the moment in one X-Amzn-Trace-Id value of an Application Load
// Balancer, for example
//
//	Self=1-67891233-12456789abcdef0123456780;Root=1-67891200-abcdef012345678912345678
//
// The eight hexadecimal digits are seconds since 1970, cut off, so the moment may be
// up to 1 s early. Self is the balancer's own field, which it adds, or overwrites,
// when the request already came with a Root; so where there is a Self the Root is the
// client's and is not read, not even when the Self cannot be. A Root alone is the
// balancer's. Of two Self fields, or two Roots, the earlier counts. Other fields are
// anybody's and are skipped; the id is hexadecimal and not looked at further. Fields
// are divided by semicolons alone: a comma belongs to the field that it stands in.
//
// Source: Elastic Load Balancing, "Request tracing for your Application Load
// Balancer".
func ParseTraceID(value string) (time.Time, error) {
	var self, root traceField
	for field := range strings.SplitSeq(value, ";") {
		name, id, _ := strings.Cut(strings.Trim(field, " \t"), "=")
		switch name {
		case "Self":
			self.add(id)
		case "Root":
			root.add(id)
		}
	}
	switch {
	case self.seen && self.good:
		return self.at, nil
	case !self.seen && root.seen && root.good:
		return root.at, nil
	}
	return time.Time{}, errTraceID
}

// traceField is what one value says of one of its fields.
type traceField struct {
	seen, good bool
	at         time.Time
}

func (f *traceField) add(id string) {
	f.seen = true
	at, ok := traceTime(id)
	if ok && (!f.good || at.Before(f.at)) {
		f.good, f.at = true, at
	}
}

// traceTime reads 1-67891233-abcdef….
func traceTime(id string) (time.Time, bool) {
	version, rest, _ := strings.Cut(id, "-")
	stamp, unique, _ := strings.Cut(rest, "-")
	if version != "1" || len(stamp) != 8 || unique == "" || strings.Trim(stamp+unique, "0123456789abcdefABCDEF") != "" {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(stamp, 16, 64)
	if err != nil || seconds < firstSecond {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0).UTC(), true
}

// ParseRequestStart reads the moment in one X-Request-Start or X-Queue-Start value. A
// leading "t=" may be there or not, and the unit follows from the number of digits
// before the point: 10 are seconds, 13 milliseconds, 16 microseconds.
//
//	t=1512379167.574         nginx ("t=${msec}")
//	1512379167574            Heroku
//	t=1512379167574          HAProxy ("t=%Ts%ms")
//	t=1512379167574321       Apache ("%t" of mod_headers), Render
//	2017-12-04T09:19:27.574Z Envoy (%START_TIME% as it comes)
//
// What is finer than a microsecond is cut off, so the moment is never late.
//
// Sources: New Relic, "Request queue server configuration examples" and "Configuring
// request queue reporting" (forms and units by magnitude); Apache mod_headers; Heroku,
// "HTTP routing"; Envoy, "Access logging".
func ParseRequestStart(value string) (time.Time, error) {
	value = strings.Trim(value, " \t")
	if strings.Contains(value, "T") {
		at, err := time.Parse(time.RFC3339Nano, value)
		if err != nil || at.Unix() < firstSecond || at.Unix() >= endSecond {
			return time.Time{}, errRequestStart
		}
		return at.UTC().Truncate(clock.Precision), nil
	}
	whole, fraction, point := strings.Cut(strings.TrimPrefix(value, "t="), ".")
	if !digits(whole) || whole[0] == '0' || point && !digits(fraction) {
		return time.Time{}, errRequestStart
	}
	missing := 16 - len(whole) // digits to a microsecond
	if missing != 0 && missing != 3 && missing != 6 {
		return time.Time{}, errRequestStart
	}
	micros, err := strconv.ParseInt(whole+(fraction + "000000")[:missing], 10, 64)
	if err != nil {
		return time.Time{}, errRequestStart
	}
	return time.UnixMicro(micros).UTC(), nil
}

// digits reports whether s is one decimal digit or more.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
