package deadline

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof/clock"
)

// Config says whose stamps are believed. The zero value believes nobody: every
// request arrives when it is accepted.
type Config struct {
	// TrustedProxies are the addresses of the proxies whose stamps count: of the
	// other end of the connection (Request.RemoteAddr), never of a header. An IPv4
	// address inside an IPv6 one is compared as IPv4; a Unix socket has none and is not
	// trusted. Defaults to none.
	TrustedProxies []netip.Prefix
	// Headers are the headers that these proxies write, and no others: a header that
	// the proxy hands through is the client's. Required with TrustedProxies.
	// Defaults to none.
	Headers []Header
	// Margin is how far a proxy's clock may be ahead of ours before its stamps are
	// counted as "future" and not as "ahead". It changes no arrival. Use the Margin
	// of the effect.Config. Defaults to 1 s.
	Margin time.Duration
	// MaxAge is the age from which a stamp is counted as "old". It counts all the
	// same. Defaults to 1 h.
	MaxAge time.Duration
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Observe is told about the stamps of each request, for metrics; it must not
	// block. Defaults to nothing.
	Observe func(Observation)
}

// Header is a header with a stamp.
type Header struct {
	// Name is the header's.
	Name string
	// Parse reads one line of it. Defaults to ParseTraceID for X-Amzn-Trace-Id, which is
	// no list and keeps its commas, and to ParseRequestStart for any other, on each
	// member of a comma-separated list.
	Parse func(value string) (time.Time, error)
}

// Observation is something worth counting.
type Observation struct {
	// What is one of the Saw… constants.
	What string
	// Header is the one that was read; empty when there was none.
	Header string
	// Age is how long before the moment of asking the stamp, the arrival or the first
	// send was; negative when it is ahead.
	Age time.Duration
}

// What this package reports to the Observe functions. Each request has one of the
// first six; "junk" comes once per unreadable value, beside the one that counts or alone.
const (
	SawUsed      = "used"      // the stamp is the arrival
	SawMissing   = "missing"   // a trusted proxy sent none of the headers
	SawUntrusted = "untrusted" // somebody else sent one; ignored
	SawAhead     = "ahead"     // up to Margin after accept; accept counts
	SawFuture    = "future"    // later than that; accept counts
	SawOld       = "old"       // more than MaxAge before accept; it counts
	SawJunk      = "junk"      // a value that cannot be read; ignored
	SawShed      = "shed"      // a Gate refused: waited longer than MaxWait
	SawForgotten = "forgotten" // a Gate refused: first sent longer ago than Memory
)

func (c Config) withDefaults() Config {
	if c.Margin == 0 {
		c.Margin = time.Second
	}
	if c.MaxAge == 0 {
		c.MaxAge = time.Hour
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Observe == nil {
		c.Observe = func(Observation) {}
	}
	c.TrustedProxies = slices.Clone(c.TrustedProxies)
	c.Headers = slices.Clone(c.Headers)
	for i := range c.Headers {
		c.Headers[i].Name = textproto.CanonicalMIMEHeaderKey(c.Headers[i].Name)
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Margin < 0 || c.MaxAge < 0 {
		errs = append(errs, fmt.Errorf("deadline: Margin is %v and MaxAge %v, must not be negative", c.Margin, c.MaxAge))
	}
	for _, p := range c.TrustedProxies {
		switch {
		case !p.IsValid():
			errs = append(errs, errors.New("deadline: TrustedProxies has an invalid prefix; use netip.MustParsePrefix(\"10.0.0.0/8\")"))
		case p.Addr().Is4In6():
			errs = append(errs, fmt.Errorf("deadline: TrustedProxies has %v: write it as IPv4, since addresses are compared so", p))
		}
	}
	if len(c.TrustedProxies) > 0 && len(c.Headers) == 0 {
		errs = append(errs, errors.New("deadline: TrustedProxies without Headers: name the headers that these proxies write, for example X-Request-Start"))
	}
	if len(c.Headers) > 0 && len(c.TrustedProxies) == 0 {
		errs = append(errs, errors.New("deadline: Headers without TrustedProxies: nobody's stamp would be believed; name the proxies"))
	}
	seen := map[string]bool{}
	for _, h := range c.Headers {
		if h.Name == "" {
			errs = append(errs, errors.New("deadline: Headers has one without a name"))
		}
		if seen[h.Name] {
			errs = append(errs, fmt.Errorf("deadline: Headers has %s twice", h.Name))
		}
		seen[h.Name] = true
	}
	return errors.Join(errs...)
}

// Arrivals says when requests arrived. Safe for concurrent use.
type Arrivals struct{ config Config }

// New returns the arrivals of a server, or everything that is wrong with the
// configuration.
func New(c Config) (*Arrivals, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Arrivals{config: c.withDefaults()}, nil
}

type arrivalKey struct{ of *Arrivals }

// Handler takes the moment of accept and judges the request's stamps once, for
// everything inside of it. Make it the outermost handler: outside of a limiter that
// lets requests wait, and of anything that rewrites RemoteAddr.
func (a *Arrivals) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := a.judge(r)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), arrivalKey{a}, at)))
	})
}

// Arrived is when the request arrived, never later than now. Inside of Handler it is
// what that found; without it the moment of accept is the moment of this call. Use it
// as the Arrived of an httpkey.Config.
func (a *Arrivals) Arrived(r *http.Request) time.Time {
	if at, ok := r.Context().Value(arrivalKey{a}).(time.Time); ok {
		return at
	}
	return a.judge(r)
}

// judge follows the rule in the package's comment.
func (a *Arrivals) judge(r *http.Request) time.Time {
	accepted := a.config.Clock.Now()
	if !a.trusts(r.RemoteAddr) {
		for _, h := range a.config.Headers {
			if len(r.Header.Values(h.Name)) > 0 {
				a.config.Observe(Observation{What: SawUntrusted, Header: h.Name})
				break
			}
		}
		return accepted
	}
	stamp, header, junk := a.earliest(r.Header)
	if header == "" {
		if !junk {
			a.config.Observe(Observation{What: SawMissing})
		}
		return accepted
	}
	age := accepted.Sub(stamp)
	saw := SawUsed
	switch {
	case age < -a.config.Margin:
		saw = SawFuture
	case age < 0:
		saw = SawAhead
	case age > a.config.MaxAge:
		saw = SawOld
	}
	a.config.Observe(Observation{What: saw, Header: header, Age: age})
	if age < 0 {
		return accepted
	}
	return stamp
}

// earliest finds the earliest readable stamp and the header that it stands in.
func (a *Arrivals) earliest(header http.Header) (stamp time.Time, in string, junk bool) {
	for _, h := range a.config.Headers {
		for _, line := range header.Values(h.Name) {
			for _, at := range h.read(line) {
				switch {
				case at.IsZero():
					junk = true
					a.config.Observe(Observation{What: SawJunk, Header: h.Name})
				case in == "" || at.Before(stamp):
					stamp, in = at.UTC().Truncate(clock.Precision), h.Name
				}
			}
		}
	}
	return stamp, in, junk
}

// read returns the moments in one line; the zero time is junk.
func (h Header) read(line string) []time.Time {
	parse, members := h.Parse, []string{line}
	switch {
	case parse != nil:
	case h.Name == HeaderTraceID: // split, a client's Root with a comma in it would lose the Self before it
		parse = ParseTraceID
	default:
		parse, members = ParseRequestStart, strings.Split(line, ",")
	}
	out := make([]time.Time, 0, len(members))
	for _, member := range members {
		at, err := parse(member)
		if err != nil {
			at = time.Time{}
		}
		out = append(out, at)
	}
	return out
}

// trusts judges the other end of the connection.
func (a *Arrivals) trusts(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil { // a Unix socket, or rewritten
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(a.config.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}
