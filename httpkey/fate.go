package httpkey

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// Fate is what an answer means for the key that it answers (case 27).
type Fate int

const (
	// FateKept: the answer does not settle the intent and sending it again at once
	// will not help. The key is kept.
	FateKept Fate = iota
	// FateAgain: send it again, with the same key.
	FateAgain
	// FateRefused: this send was refused before anything ran. The key is let go
	// when no other send of it is in doubt, and kept otherwise.
	FateRefused
	// FateDeclined: definitely not done, forever, under this key. It is let go,
	// unless another send is in doubt and nothing shows that the answer is the
	// server's record of the key: then it may be some proxy's, and the key is kept.
	FateDeclined
	// FateDone: done. The intent is finished.
	FateDone
)

// headerStripeReplayed is Stripe's mark of an answer that comes from its record.
const headerStripeReplayed = "Idempotent-Replayed"

// DefaultFate is the rule that a client follows unless it is given another. An
// answer is marked when it has Idempotency-Replayed: true, Idempotency-Key-Expires
// (a streamed one may have it in its trailer) or Stripe's Idempotent-Replayed: true:
// then it is the server's record of the key. "Doubt" is an earlier send of the same
// intent whose end nobody knows. The JavaScript client follows the same table.
//
//	                                        marked     not marked,   not marked,
//	                                                   no doubt      doubt
//	202; 5xx; 409 "in-progress"             kept       kept          kept
//	409 "void"                              declined   declined      declined
//	2xx, state FAILED, DECLINED or VOID     declined   declined      kept
//	2xx, state PROCESSING, PENDING,
//	UNKNOWN or IN_PROGRESS; HTML;
//	broken JSON                             done       kept          kept
//	any other 2xx                           done       done          done
//	3xx                                     done       kept          kept
//	402                                     declined   declined      kept
//	401, 407, 408, 421, 425, 429;
//	any other 409                           declined   kept          kept
//	403, 404, 422 and every other 4xx       declined   refused       kept
//
// Declined and refused let the key go. "State" is the member of that name of a JSON
// object, looked for in the first 64 KiB; a body with a Content-Encoding is not looked
// into. With a 5xx nobody knows, whatever its code says: "unavailable" and "too-late"
// too may hide a claim of the server's that it could not take back.
//
// Sent again at once are 202, a state that is not final, broken JSON, 408, 425, 429, 5xx
// but 511, "in-progress", and a 409 without a code that has a Retry-After.
func DefaultFate(resp *http.Response, p Problem) Fate { return fateOf(resp, p, false) }

// StrictFate is DefaultFate for servers whose every final answer says that it is one:
// an unmarked 2xx is done only when its state is SUCCEEDED, and otherwise sent for
// again. It keeps the key through any page of a hotel's network. A server without
// marks and states would be asked in vain.
func StrictFate(resp *http.Response, p Problem) Fate { return fateOf(resp, p, true) }

func fateOf(resp *http.Response, p Problem, strict bool) Fate {
	status, marked := resp.StatusCode, stored(resp)
	switch {
	case status == http.StatusConflict:
		return conflictFate(resp, p)
	case status == http.StatusNetworkAuthenticationRequired:
		return FateKept
	case status == http.StatusAccepted, status >= 500, status < 200:
		return FateAgain
	case status < 300:
		return successFate(resp, strict)
	case marked && status < 400:
		return FateDone
	case marked:
		return FateDeclined
	case status < 400: // the other place is another request; a login page is none of ours
		return FateKept
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return FateAgain
	case http.StatusUnauthorized, http.StatusProxyAuthRequired, http.StatusMisdirectedRequest:
		return FateKept
	case http.StatusPaymentRequired:
		return FateDeclined
	}
	return FateRefused
}

func conflictFate(resp *http.Response, p Problem) Fate {
	switch {
	case p.Code == retryproof.CodeInProgress:
		return FateAgain
	case p.Code == retryproof.CodeVoid, stored(resp):
		return FateDeclined
	case p.Code == "" && resp.Header.Get("Retry-After") != "":
		return FateAgain
	}
	return FateKept
}

// successFate judges a 2xx. Whoever stands between may answer 200: a hotel's page, a
// gateway that has only accepted.
func successFate(resp *http.Response, strict bool) Fate {
	state, readable := bodyState(resp)
	switch effect.State(state) {
	case effect.Failed, effect.Void, "DECLINED":
		return FateDeclined
	}
	if stored(resp) {
		return FateDone
	}
	switch media := mediaType(resp.Header); {
	case media == "text/html", media == "application/xhtml+xml":
		return FateKept
	case !readable:
		return FateAgain
	}
	switch state {
	case "PROCESSING", "IN_PROGRESS", string(effect.Pending), string(effect.Unknown):
		return FateAgain
	case string(effect.Succeeded):
		return FateDone
	}
	if strict {
		return FateAgain
	}
	return FateDone
}

// stored reports that the server has the answer on record as final.
func stored(resp *http.Response) bool { return marked(resp.Header) }

func marked(h http.Header) bool {
	return h.Get(HeaderReplayed) == "true" || h.Get(HeaderExpires) != "" || h.Get(headerStripeReplayed) == "true"
}

// bodyState reads the state that a JSON answer names and leaves the body as it was.
// It reports false for an answer that says that it is JSON and is not, or is cut.
func bodyState(resp *http.Response) (state string, readable bool) {
	coded := resp.Header.Get("Content-Encoding")
	if resp.Body == nil || resp.Body == http.NoBody || coded != "" && coded != "identity" || !isJSON(mediaType(resp.Header)) {
		return "", true
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxHeldBytes))
	rest := resp.Body
	resp.Body = &splicedBody{Reader: io.MultiReader(bytes.NewReader(head), errorReader{err}, rest), Closer: rest}
	text := bytes.TrimPrefix(head, []byte("\ufeff"))
	if err != nil || len(head) < maxHeldBytes && len(text) > 0 && !json.Valid(text) {
		return "", false
	}
	return stateIn(text), true
}

// stateIn finds the state of an object of which text may be the beginning only.
func stateIn(text []byte) (state string) {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	for d.More() {
		name, err := d.Token()
		var value any
		if err != nil || d.Decode(&value) != nil {
			return state
		}
		if name == "state" {
			state, _ = value.(string)
		}
	}
	return state
}
