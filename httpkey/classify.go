package httpkey

import (
	"context"
	"net/http"
	"sync"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// Ending is how a run of the handler ended, as far as the effect goes.
type Ending int

const (
	// EndUnknown: it may have happened. The record becomes UNKNOWN and repeats get
	// a pointer.
	EndUnknown Ending = iota
	// EndNotDone: nothing happened, and the same key may be sent again.
	EndNotDone
	// EndSucceeded: it happened. The answer is final.
	EndSucceeded
	// EndFailed: it definitely did not happen and never will under this key. The
	// answer is final.
	EndFailed
)

// DefaultClassify is the rule that Config.Classify documents, status by status. Only
// what says that it is done is done: 202 is not, and neither is a redirect of a run
// that has not begun, since it may lead to a login page. The statuses that free the
// key are those that speak of the request or of the caller, not of the thing: a
// corrected request with the same key should be served. 404, 409, 410 and 422 speak
// of the thing, and stay, so that one key never has two outcomes (case 7), unless
// they say themselves that they are not the last word. 408 is unknown: whose time
// was out nobody says.
func DefaultClassify(a effect.Answer, begun bool) Ending {
	switch a.Status {
	case http.StatusMultipleChoices, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		return unless(!begun, EndSucceeded)
	case http.StatusPaymentRequired, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed,
		http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity, http.StatusLocked, http.StatusUnavailableForLegalReasons:
		return unless(comesAgain(a), EndFailed)
	case http.StatusFailedDependency: // it may have been an outside call
		return unless(begun || comesAgain(a), EndFailed)
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusLengthRequired, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusExpectationFailed, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusUpgradeRequired,
		http.StatusPreconditionRequired, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return unless(begun, EndNotDone)
	case http.StatusAccepted:
		return EndUnknown
	case http.StatusNotModified:
		return EndSucceeded
	}
	return unless(a.Status < 200 || a.Status > 299, EndSucceeded) // RFC 9110 §15: an unknown 2xx counts as 200
}

// unless is end, or unknown when there is a doubt.
func unless(doubt bool, end Ending) Ending {
	if doubt {
		return EndUnknown
	}
	return end
}

// comesAgain reports a refusal that is not the last word: it says when to ask again,
// or that the first request is still at work, perhaps this very one by another way.
func comesAgain(a effect.Answer) bool {
	h := http.Header(a.Header)
	if h.Get("Retry-After") != "" {
		return true
	}
	if !isProblem(h) {
		return false
	}
	p, _ := ParseProblem(a.Body)
	return p.Code == retryproof.CodeInProgress
}

// exchange is what one keyed request carries in its context.
type exchange struct {
	value  any
	engine *effect.Engine
	scope  retryproof.Scope
	outer  *exchange // of a keyed request around this one
	same   *exchange // the one of the same effect, when this is no run of its own

	mu   sync.Mutex // a handler that nobody waits for any more may still speak
	said bool
	end  Ending
	over bool
}

type exchangeKey struct{}

func exchangeFrom(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// running finds the run of the same effect that ctx belongs to, if it is still going
// on: its claim is our own, and asking for it again would be "in progress" forever.
func running(ctx context.Context, e *effect.Engine, s retryproof.Scope) *exchange {
	for x := exchangeFrom(ctx); x != nil; x = x.outer {
		if x.engine == e && x.scope == s && !x.isOver() {
			return x
		}
	}
	return nil
}

func (x *exchange) isOver() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.over
}

// finish ends the exchange and returns the handler's word, if it gave one. What it
// says later does not count.
func (x *exchange) finish() (Ending, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	return x.end, x.said
}

// ValueFrom returns what Config.Read left in Meaning.Value, nil outside a keyed
// request.
func ValueFrom(ctx context.Context) any {
	if x := exchangeFrom(ctx); x != nil {
		return x.value
	}
	return nil
}

// NotDone says that nothing was done, whatever status the handler answers and
// whether or not it has begun: the key is free again. It is not believed when the
// attempt took over from an owner that vanished, since that one may have done it.
// It reports whether the request is keyed.
func NotDone(ctx context.Context) bool { return say(ctx, EndNotDone) }

// Done says that the effect happened, whatever status the handler answers. The
// answer is final. A handler whose success is a 202 or a redirect says it. It
// reports whether the request is keyed.
func Done(ctx context.Context) bool { return say(ctx, EndSucceeded) }

// Failed says that the effect definitely did not happen and never will under this
// key. The answer is final. It reports whether the request is keyed.
func Failed(ctx context.Context) bool { return say(ctx, EndFailed) }

// Unknown says that the handler does not know, whatever status it answers: repeats
// get a pointer. It reports whether the request is keyed.
func Unknown(ctx context.Context) bool { return say(ctx, EndUnknown) }

// say notes the handler's word; the last one counts, and none after the handler has
// returned.
func say(ctx context.Context, end Ending) bool {
	x := exchangeFrom(ctx)
	if x == nil {
		return false
	}
	if x.same != nil {
		x = x.same
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.said, x.end = true, end
	}
	return true
}

// ending is what the run means: the handler's word, or the rule.
func (c Config) ending(x *exchange, a *effect.Attempt, given effect.Answer) Ending {
	end, said := x.finish()
	if !said {
		end = c.Classify(given, a.Begun())
	}
	if end == EndNotDone && a.TookOver() {
		return EndUnknown
	}
	return end
}
