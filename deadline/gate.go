package deadline

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/httpkey"
)

// CodeForgotten is the code of a request that was sent first so long ago that its key
// may have been forgotten. Over HTTP it is a 412, as OASIS "Repeatable Requests" has it.
// The client must keep its key: the refusal says nothing of its earlier sends.
const CodeForgotten retryproof.Code = "forgotten"

// GateConfig says what a Gate refuses. It needs Arrived or Memory; the rest works as
// zero values.
type GateConfig struct {
	// MaxWait is how long a request may have waited since it arrived; one that waited
	// longer is refused with 503 too-late. Defaults to 2 s.
	MaxWait time.Duration
	// Arrived returns when the request arrived: the Arrived of an Arrivals whose Handler
	// stands outside of the queue. Defaults to none: nothing is shed.
	Arrived func(*http.Request) time.Time
	// RetryAfter is what a refused client is told to wait. Defaults to 1 s.
	RetryAfter time.Duration
	// Memory is how long keys are remembered here. When it is set, a request whose
	// Repeatability-First-Sent is older is refused with 412, since its retries can no
	// longer be told from new requests, and one whose header cannot be read with 400.
	// Right where the guard is a window; a durable guard needs none. A client that
	// sends no such header, or a moment in the future, is let through. Defaults to 0:
	// the header is not looked at.
	Memory time.Duration
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Observe is told SawShed, SawForgotten and SawJunk; it must not block. Defaults to
	// nothing.
	Observe func(Observation)
}

func (c GateConfig) withDefaults() GateConfig {
	if c.MaxWait == 0 {
		c.MaxWait = 2 * time.Second
	}
	if c.RetryAfter == 0 {
		c.RetryAfter = time.Second
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Observe == nil {
		c.Observe = func(Observation) {}
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c GateConfig) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.MaxWait < 0 || c.RetryAfter < 0 || c.Memory < 0 {
		errs = append(errs, fmt.Errorf("deadline: MaxWait is %v, RetryAfter %v and Memory %v, must not be negative", c.MaxWait, c.RetryAfter, c.Memory))
	}
	if c.Arrived == nil && c.Memory == 0 {
		errs = append(errs, errors.New("deadline: a Gate with neither Arrived nor Memory refuses nothing; give it the Arrived of an Arrivals"))
	}
	return errors.Join(errs...)
}

// Gate refuses requests that are too old to begin, before anything runs. It has no
// queue: it stands behind whatever lets requests wait, a limiter for example. Safe for
// concurrent use.
type Gate struct{ config GateConfig }

// NewGate returns a gate, or everything that is wrong with the configuration.
func NewGate(c GateConfig) (*Gate, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Gate{config: c.withDefaults()}, nil
}

// Handler refuses, or calls next. A refusal is a problem document (RFC 9457).
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, refused := g.judge(r); refused {
			if p.Code != retryproof.CodeTooLate {
				w.Header().Set(headerRepeatable, "rejected")
			}
			p.Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *Gate) judge(r *http.Request) (httpkey.Problem, bool) {
	now := g.config.Clock.Now()
	if g.config.Arrived != nil {
		if wait := now.Sub(g.config.Arrived(r)); wait > g.config.MaxWait {
			g.config.Observe(Observation{What: SawShed, Age: wait})
			return httpkey.ProblemOf(&retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeTooLate, RetryAfter: g.config.RetryAfter,
				Message: fmt.Sprintf("the request waited longer than %v", g.config.MaxWait), Hint: "nothing ran; send it again with the same key"}), true
		}
	}
	if g.config.Memory == 0 {
		return httpkey.Problem{}, false
	}
	first, err := ParseFirstSent(r.Header.Values(HeaderFirstSent))
	if err != nil {
		g.config.Observe(Observation{What: SawJunk, Header: HeaderFirstSent})
		return httpkey.ProblemOf(retryproof.Refused(retryproof.CodeInvalid, HeaderFirstSent+" must be one HTTP date; nothing ran", err)), true
	}
	age := now.Sub(first)
	if first.IsZero() || age <= g.config.Memory {
		return httpkey.Problem{}, false
	}
	g.config.Observe(Observation{What: SawForgotten, Header: HeaderFirstSent, Age: age})
	return httpkey.Problem{Type: httpkey.ProblemBase + string(CodeForgotten), Title: "The request was first sent longer ago than keys are remembered",
		Status: http.StatusPreconditionFailed, Code: CodeForgotten,
		Detail: fmt.Sprintf("keys are remembered for %v; this send ran nothing, and says nothing of earlier ones (ask what became of the request before starting another)", g.config.Memory)}, true
}
