package httpkey

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/retryproof/retryproof"
)

// Meaning is what a request asks for, as read from it before anything runs.
type Meaning struct {
	// Fingerprint is compared with that of earlier requests with the same key.
	Fingerprint retryproof.Fingerprint
	// GuardID names the effect. Defaults to retryproof.Of("effect", scope).
	GuardID retryproof.ID
	// Row is the business row to record before anything runs; nil for the generic
	// guard table.
	Row any
	// Value is handed to the handler, which gets it with ValueFrom: what was
	// fingerprinted and what is done then cannot differ.
	Value any
}

// ReadBody returns the default reader of a request's meaning: media type and
// body, the latter by its canonical form when it is JSON (see CanonicalJSON), and
// byte by byte otherwise. Method, path and query are not part of it, since they
// are in the endpoint. Members named in ignore do not count.
//
// An empty body is a meaning too, also where JSON is announced. A body with a
// Content-Encoding counts by its bytes, and so does a multipart body, whose
// boundary must be the same on every retry.
func ReadBody(ignore ...string) func(r *http.Request, body []byte) (Meaning, error) {
	return func(r *http.Request, body []byte) (Meaning, error) {
		media, encoding := mediaType(r.Header), strings.ToLower(trimOWS(strings.Join(r.Header.Values("Content-Encoding"), ",")))
		if encoding == "identity" {
			encoding = ""
		}
		content := retryproof.Text("bytes", string(body))
		if encoding == "" && len(body) > 0 && isJSON(media) {
			canonical, err := CanonicalJSON(body, ignore...)
			if err != nil {
				return Meaning{}, err
			}
			content = retryproof.Text("json", string(canonical))
		}
		return Meaning{Fingerprint: retryproof.FingerprintOf(
			retryproof.Text("media", media), retryproof.Text("encoding", encoding), content)}, nil
	}
}

// mediaType is the media type without parameters, in lower case; a broken header
// counts as it is.
func mediaType(h http.Header) string {
	value := h.Get("Content-Type")
	media, _, err := mime.ParseMediaType(value)
	if err != nil && media == "" {
		return value
	}
	return media
}

// isJSON reports JSON and the types that are built on it (RFC 6839).
func isJSON(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

func hashReader(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
