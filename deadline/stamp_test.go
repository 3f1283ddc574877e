package deadline_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/deadline"
)

func TestTraceIDReadsTheBalancersOwnField(t *testing.T) {
	t.Parallel()
	const id = "-abcdef012345678912345678"
	at := time.Unix(0x67891233, 0)
	for value, want := range map[string]time.Time{
		"Root=1-67891233" + id:                                         at,
		"Self=1-67891233" + id + ";Root=1-67891200" + id:               at,
		"Root=1-7fffffff" + id + "; Self=1-67891233" + id:              at, // the client's Root is in the future
		"Self=1-67891233" + id + ";Root=1-60000000" + id + ";Called=x": at, // … or old
		"Self=1-67891233-12456789abcdef012345678":                      at, // AWS's own example is a digit short
		"Self=1-67891299" + id + ";Self=1-67891233" + id:               at,
		"Root=1-67891299" + id + ";Root=1-67891233" + id:               at,
		"Self=1-67891233" + id + ";Root=junk":                          at,
		"Lineage=a:1;Parent=53995c3f42cd8ad8;Root=1-67891233" + id:     at,
		"":                                  {},
		"Self=;Root=1-67891233" + id:        {}, // there is a Self, so the Root is the client's
		"Self=junk;Root=1-67891233" + id:    {},
		"root=1-67891233" + id:              {},
		"Root=2-67891233" + id:              {},
		"Root=1-6789123" + id:               {},
		"Root=1-678912333" + id:             {},
		"Root=1-6789123g" + id:              {},
		"Root=1-00000001" + id:              {}, // 1970
		"Root=1-67891233":                   {},
		"Root=1-67891233-":                  {},
		"Root=1-67891233-abc-def":           {},
		"Root=1-+7891233" + id:              {},
		"1-67891233" + id:                   {},
		"Root=1-67891233" + id + "\x00junk": {},
	} {
		got, err := deadline.ParseTraceID(value)
		if !got.Equal(want) || (err == nil) == want.IsZero() {
			t.Errorf("%q: got %v, %v, want %v", value, got, err, want)
		}
	}
}

func TestRequestStartReadsEveryCustomaryUnit(t *testing.T) {
	t.Parallel()
	s := time.Unix(1512379167, 0)
	ms := s.Add(574 * time.Millisecond)
	us := s.Add(574321 * time.Microsecond)
	for value, want := range map[string]time.Time{
		"t=1512379167.574":          ms, // nginx
		"1512379167574":             ms, // Heroku
		"t=1512379167574":           ms, // HAProxy
		"t=1512379167574321":        us, // Apache
		"2017-12-04T09:19:27.574Z":  ms, // Envoy
		"2017-12-04T10:19:27+01:00": s,
		"1512379167":                s,
		"1512379167.574321999":      us, // cut off, never late
		"1512379167574.3219":        us,
		" t=1512379167.5 ":          s.Add(500 * time.Millisecond),
		"9999999999":                time.Unix(9999999999, 0),
		"":                          {},
		"t=":                        {},
		"t=t=1512379167":            {},
		"151237916":                 {},
		"15123791675":               {},
		"0512379167":                {},
		"-1512379167":               {},
		"1512379167.":               {},
		"1512379167.5.7":            {},
		"1512379167,574":            {},
		"1.512379167e9":             {},
		"0x5a2515df00":              {},
		"1512379167574321000":       {}, // nanoseconds: nobody's convention
		"1970-01-01T00:00:00Z":      {},
		"9999-01-01T00:00:00Z":      {},
		"D=12 t=1512379167574321":   {},
		"１５１２３７９１６７":                {},
	} {
		got, err := deadline.ParseRequestStart(value)
		if !got.Equal(want) || (err == nil) == want.IsZero() {
			t.Errorf("%q: got %v, %v, want %v", value, got, err, want)
		}
	}
}

func TestFirstSentIsOneHTTPDate(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	const good = "Sun, 01 Mar 2026 10:00:00 GMT"
	for _, c := range []struct {
		lines []string
		want  time.Time
		fails bool
	}{
		{nil, time.Time{}, false},
		{[]string{good}, at, false},
		{[]string{good, good}, time.Time{}, true},
		{[]string{""}, time.Time{}, true},
		{[]string{"Mon, 01 Mar 2026 10:00:00 GMT"}, time.Time{}, true}, // it was a Sunday
		{[]string{"Sunday, 01-Mar-26 10:00:00 GMT"}, time.Time{}, true},
		{[]string{"Sun, 1 Mar 2026 10:00:00 GMT"}, time.Time{}, true},
		{[]string{"2026-03-01T10:00:00Z"}, time.Time{}, true},
	} {
		got, err := deadline.ParseFirstSent(c.lines)
		if !got.Equal(c.want) || (err != nil) != c.fails {
			t.Errorf("%q: got %v, %v, want %v", c.lines, got, err, c.want)
		}
	}
}

func TestARetryKeepsTheFirstSend(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	deadline.SetFirstSent(h, time.Date(2026, 3, 1, 12, 0, 0, 999, time.FixedZone("", 7200)))
	deadline.SetFirstSent(h, time.Date(2026, 3, 1, 12, 0, 9, 0, time.UTC))
	if got, want := h.Get(deadline.HeaderFirstSent), "Sun, 01 Mar 2026 10:00:00 GMT"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzParseTraceID(f *testing.F) {
	f.Add("Self=1-67891233-12456789abcdef012345678;Root=1-67891233-abcdef012345678912345678")
	f.Add("Root=1-")
	f.Fuzz(func(t *testing.T, value string) { sane(t, value, deadline.ParseTraceID) })
}

func FuzzParseRequestStart(f *testing.F) {
	f.Add("t=1512379167.574")
	f.Add("1512379167574321")
	f.Add("2017-12-04T09:19:27.574Z")
	f.Fuzz(func(t *testing.T, value string) { sane(t, value, deadline.ParseRequestStart) })
}

func FuzzParseFirstSent(f *testing.F) {
	f.Add("Sun, 01 Mar 2026 10:00:00 GMT")
	f.Fuzz(func(t *testing.T, value string) {
		at, err := deadline.ParseFirstSent([]string{value})
		if err == nil && at.Format(http.TimeFormat) != value {
			t.Errorf("%q: got %v", value, at)
		}
	})
}

// sane: a moment in this century or the next, no finer than stores keep, or an error.
func sane(t *testing.T, value string, parse func(string) (time.Time, error)) {
	t.Helper()
	at, err := parse(value)
	if err != nil {
		if !at.IsZero() {
			t.Errorf("%q: got %v and %v", value, at, err)
		}
		return
	}
	if at.Year() < 2001 || at.Year() > 2286 || !at.Equal(at.Truncate(clock.Precision)) || at.Location() != time.UTC {
		t.Errorf("%q: got %v", value, at)
	}
}
