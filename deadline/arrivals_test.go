package deadline_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/deadline"
)

var start = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// lab is a server behind proxies in 10.0.0.0/8.
type lab struct {
	t        *testing.T
	clock    *clocktest.Clock
	arrivals *deadline.Arrivals
	seen     []string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	t.Parallel()
	l := &lab{t: t, clock: clocktest.New(start)}
	var err error
	l.arrivals, err = deadline.New(deadline.Config{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		Headers:        []deadline.Header{{Name: "x-amzn-trace-id"}, {Name: deadline.HeaderRequestStart}},
		Clock:          l.clock,
		Observe:        func(o deadline.Observation) { l.seen = append(l.seen, o.What) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func request(remote string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/payments", nil)
	r.RemoteAddr = remote
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// stamp is an X-Request-Start so much before start.
func stamp(before time.Duration) string {
	return fmt.Sprintf("t=%.3f", float64(start.Add(-before).UnixMilli())/1000)
}

// trace is a field of an X-Amzn-Trace-Id so much before start.
func trace(field string, before time.Duration) string {
	return fmt.Sprintf("%s=1-%08x-abcdef012345678912345678", field, start.Add(-before).Unix())
}

const (
	traceID      = deadline.HeaderTraceID
	requestStart = deadline.HeaderRequestStart
	proxy        = "10.1.2.3:4567"
)

func TestOneRuleSaysWhichMomentCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		remote  string
		headers []string
		want    time.Duration // before accept
		saw     string
	}{
		"used":                    {proxy, []string{requestStart, stamp(3 * time.Second)}, 3 * time.Second, "used"},
		"now":                     {proxy, []string{requestStart, stamp(0)}, 0, "used"},
		"IPv6":                    {"[fd00::1]:80", []string{requestStart, stamp(time.Second)}, time.Second, "used"},
		"IPv4 in IPv6":            {"[::ffff:10.1.2.3]:80", []string{requestStart, stamp(time.Second)}, time.Second, "used"},
		"zone":                    {"[fd00::1%eth0]:80", []string{requestStart, stamp(time.Second)}, time.Second, "used"},
		"missing":                 {proxy, nil, 0, "missing"},
		"another header":          {proxy, []string{"X-Queue-Start", stamp(time.Second)}, 0, "missing"},
		"untrusted":               {"192.0.2.1:80", []string{requestStart, stamp(time.Second)}, 0, "untrusted"},
		"untrusted, both":         {"192.0.2.1:80", []string{requestStart, stamp(time.Second), traceID, "x"}, 0, "untrusted"},
		"Unix socket":             {"@", []string{requestStart, stamp(time.Second)}, 0, "untrusted"},
		"direct":                  {"192.0.2.1:80", nil, 0, ""},
		"forwarded address":       {"192.0.2.1:80", []string{"X-Forwarded-For", "10.1.2.3", requestStart, stamp(time.Second)}, 0, "untrusted"},
		"junk":                    {proxy, []string{requestStart, "yesterday"}, 0, "junk"},
		"empty":                   {proxy, []string{requestStart, ""}, 0, "junk"},
		"1 s ahead":               {proxy, []string{requestStart, stamp(-time.Second)}, 0, "ahead"},
		"1 ms further":            {proxy, []string{requestStart, stamp(-time.Second - time.Millisecond)}, 0, "future"},
		"an hour old":             {proxy, []string{requestStart, stamp(time.Hour)}, time.Hour, "used"},
		"older":                   {proxy, []string{requestStart, stamp(time.Hour + time.Millisecond)}, time.Hour + time.Millisecond, "old"},
		"junk line":               {proxy, []string{requestStart, "x", requestStart, stamp(time.Second)}, time.Second, "junk used"},
		"junk member":             {proxy, []string{requestStart, "x, " + stamp(time.Second) + ",y"}, time.Second, "junk junk used"},
		"client's line is later":  {proxy, []string{requestStart, stamp(-time.Minute), requestStart, stamp(2 * time.Second)}, 2 * time.Second, "used"},
		"client's list is later":  {proxy, []string{requestStart, stamp(time.Second) + "," + stamp(2*time.Second)}, 2 * time.Second, "used"},
		"client's header later":   {proxy, []string{traceID, trace("Root", -time.Minute), requestStart, stamp(2 * time.Second)}, 2 * time.Second, "used"},
		"client's header earlier": {proxy, []string{traceID, trace("Root", 2*time.Hour), requestStart, stamp(2 * time.Second)}, 2 * time.Hour, "old"},
		"balancer's Self":         {proxy, []string{traceID, trace("Self", 4*time.Second) + ";" + trace("Root", time.Hour)}, 4 * time.Second, "used"},
		"client's list of Roots":  {proxy, []string{traceID, trace("Self", 4*time.Second) + ";" + trace("Root", time.Hour) + "," + trace("Root", 2*time.Hour)}, 4 * time.Second, "used"},
		"client's Self in a list": {proxy, []string{traceID, trace("Self", 4*time.Second) + ";" + trace("Root", time.Hour) + "," + trace("Self", 2*time.Hour)}, 4 * time.Second, "used"},
		"a list without a Self":   {proxy, []string{traceID, trace("Root", time.Second) + "," + trace("Root", 2*time.Hour)}, 0, "junk"},
		"client's line of Roots":  {proxy, []string{traceID, trace("Root", 2*time.Second), traceID, trace("Self", 4*time.Second) + ";" + trace("Root", time.Hour)}, 4 * time.Second, "used"},
		"client's Root is later":  {proxy, []string{traceID, trace("Self", 4*time.Second) + ";" + trace("Root", -time.Hour)}, 4 * time.Second, "used"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			got := l.arrivals.Arrived(request(c.remote, c.headers...))
			if want := start.Add(-c.want); !got.Equal(want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if saw := strings.Join(l.seen, " "); saw != c.saw {
				t.Errorf("saw %q, want %q", saw, c.saw)
			}
		})
	}
}

func TestTheMomentOfAcceptIsTakenOutsideOfTheQueue(t *testing.T) {
	l := newLab(t)
	var got time.Time
	handler := l.arrivals.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		l.clock.Advance(3 * time.Second) // it waits
		got = l.arrivals.Arrived(r)
		r.RemoteAddr = proxy // rewritten too late to matter
		l.arrivals.Arrived(r)
	}))
	handler.ServeHTTP(httptest.NewRecorder(), request("192.0.2.1:80", requestStart, stamp(time.Minute)))
	if !got.Equal(start) {
		t.Errorf("got %v, want %v", got, start)
	}
	if want := []string{"untrusted"}; !slices.Equal(l.seen, want) {
		t.Errorf("saw %v, want %v: once a request", l.seen, want)
	}
}

func TestNobodyIsBelievedByDefault(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	a, err := deadline.New(deadline.Config{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Arrived(request(proxy, requestStart, stamp(time.Minute))); !got.Equal(start) {
		t.Errorf("got %v, want %v", got, start)
	}
}

func TestACustomHeaderIsReadByItsParser(t *testing.T) {
	t.Parallel()
	a, err := deadline.New(deadline.Config{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Headers: []deadline.Header{{Name: "X-Timer", Parse: func(line string) (time.Time, error) {
			at, _, ok := strings.Cut(strings.TrimPrefix(line, "S"), ",")
			if !ok {
				return time.Time{}, errors.New("no comma")
			}
			return deadline.ParseRequestStart(at)
		}}},
		Clock: clocktest.New(start),
	})
	if err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("S%d.250000,VS0", start.Add(-2*time.Second).Unix())
	if got, want := a.Arrived(request(proxy, "X-Timer", line)), start.Add(-1750*time.Millisecond); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestArrivalsRefuseAllThatIsWrongAtOnce(t *testing.T) {
	t.Parallel()
	_, err := deadline.New(deadline.Config{
		TrustedProxies: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/104")},
		Headers:        []deadline.Header{{}, {Name: "x-request-start"}, {Name: "X-Request-Start"}},
		Margin:         -1,
	})
	for _, want := range []string{"Margin", "invalid prefix", "write it as IPv4", "without a name", "X-Request-Start twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	_, err = deadline.New(deadline.Config{Headers: []deadline.Header{{Name: "X-Request-Start"}}})
	if err == nil || !strings.Contains(err.Error(), "nobody's stamp") {
		t.Errorf("got %v, want headers without proxies refused", err)
	}
	_, err = deadline.New(deadline.Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err == nil || !strings.Contains(err.Error(), "name the headers") {
		t.Errorf("got %v, want proxies without headers refused", err)
	}
}

func FuzzNoHeaderMakesARequestYounger(f *testing.F) {
	f.Add("t=1512379167.574", "Self=1-67891233-12456789abcdef012345678")
	f.Add("t=9512379167,1772359200", "Root=1-ffffffff-0")
	c := clocktest.New(start)
	a, err := deadline.New(deadline.Config{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Headers:        []deadline.Header{{Name: traceID}, {Name: requestStart}},
		Clock:          c,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		proxys := stamp(2 * time.Second)
		got := a.Arrived(request(proxy, requestStart, one, traceID, two, requestStart, proxys))
		if want := start.Add(-2 * time.Second); got.After(want) {
			t.Errorf("%q, %q: got %v, want %v or earlier", one, two, got, want)
		}
	})
}
