package httpkey

import (
	"context"
	"net/http"

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

// DefaultClassify is the documented rule (see the package comment). The statuses
// that free the key are those that speak of the request or of the caller, not of
// the thing: a corrected request with the same key should be served. 404, 409, 410
// and 422 speak of the thing, and stay, so that one key never has two outcomes
// (case 7). 408 is unknown: whose time was out nobody says.
func DefaultClassify(status int, begun bool) Ending {
	switch status {
	case http.StatusPaymentRequired, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed,
		http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity, http.StatusLocked,
		http.StatusFailedDependency, http.StatusUnavailableForLegalReasons:
		return EndFailed
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusLengthRequired, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusExpectationFailed, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusUpgradeRequired,
		http.StatusPreconditionRequired, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		if begun {
			return EndUnknown
		}
		return EndNotDone
	}
	if status >= 200 && status <= http.StatusNotModified {
		return EndSucceeded
	}
	return EndUnknown
}

// exchange is what one keyed request carries in its context.
type exchange struct {
	value any
	said  bool
	end   Ending
}

type exchangeKey struct{}

func exchangeFrom(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
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
// answer is final. It reports whether the request is keyed.
func Done(ctx context.Context) bool { return say(ctx, EndSucceeded) }

// Failed says that the effect definitely did not happen and never will under this
// key. The answer is final. It reports whether the request is keyed.
func Failed(ctx context.Context) bool { return say(ctx, EndFailed) }

// Unknown says that the handler does not know, whatever status it answers: repeats
// get a pointer. It reports whether the request is keyed.
func Unknown(ctx context.Context) bool { return say(ctx, EndUnknown) }

// say notes the handler's word; the last one counts. Call it from the goroutine of
// the handler.
func say(ctx context.Context, end Ending) bool {
	x := exchangeFrom(ctx)
	if x != nil {
		x.said, x.end = true, end
	}
	return x != nil
}

// ending is what the run means: the handler's word, or the rule.
func (c Config) ending(x *exchange, a *effect.Attempt, status int) Ending {
	end := x.end
	if !x.said {
		end = c.Classify(status, a.Begun())
	}
	if end == EndNotDone && a.TookOver() {
		return EndUnknown
	}
	return end
}
