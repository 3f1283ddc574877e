package httpkey

import (
	"net/http"

	"github.com/retryproof/retryproof"
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
	// FateDeclined: definitely not done, for ever, under this key. It is let go.
	FateDeclined
	// FateDone: done. The intent is finished.
	FateDone
)

// DefaultFate is the rule that a client follows unless it is given another:
//
//   - 409 by its code: "in-progress" is again, "void" is declined; without a code
//     it is again when there is a Retry-After and kept otherwise;
//   - an answer with Idempotency-Replayed or Idempotency-Key-Expires is one that
//     the server has stored as final: done up to 399, declined from 400 on;
//   - 202 is again: it is not final, and the same request asks how it went;
//   - 2xx and 300 to 304 are done; 307 and 308 keep the key for the other place;
//   - 402 is declined;
//   - 408, 425, 429 and all of 5xx are again. With a 5xx nobody knows, whatever its
//     code says: "unavailable" and "too-late" too may hide a claim of the server's
//     that it could not take back;
//   - 401, 403, 407, 421 and 511 are kept: the caller must become another first;
//   - the rest of 4xx is refused. That includes 422 "key-reused": the intent must
//     be corrected, and whether its key is free depends on the earlier sends.
func DefaultFate(resp *http.Response, p Problem) Fate {
	status := resp.StatusCode
	if status == http.StatusConflict {
		return conflictFate(resp, p)
	}
	if stored(resp) && status < 500 {
		if status < 400 {
			return FateDone
		}
		return FateDeclined
	}
	switch status {
	case http.StatusAccepted, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return FateAgain
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusProxyAuthRequired, http.StatusMisdirectedRequest, http.StatusNetworkAuthenticationRequired:
		return FateKept
	case http.StatusPaymentRequired:
		return FateDeclined
	}
	switch {
	case status >= 500 || status < 200:
		return FateAgain
	case status >= 400:
		return FateRefused
	}
	return FateDone
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

// stored reports that the server has the answer on record as final.
func stored(resp *http.Response) bool {
	return resp.Header.Get(HeaderReplayed) == "true" || resp.Header.Get(HeaderExpires) != ""
}
