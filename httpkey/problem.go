package httpkey

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/retryproof/retryproof"
)

// ProblemBase precedes a code in the "type" of every problem document of this
// module. The URLs are stable names.
const ProblemBase = "https://retryproof.dev/problems/"

// ProblemType is the media type of a problem document (RFC 9457).
const ProblemType = "application/problem+json"

// maxProblemBytes is the most that a client reads of a problem document.
const maxProblemBytes = 64 << 10

// Problem is a problem document (RFC 9457) with three members of our own.
type Problem struct {
	// Type is ProblemBase + Code.
	Type string `json:"type"`
	// Title is the same words for every problem of the type.
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail says what is wrong with this request.
	Detail string `json:"detail,omitempty"`
	// Code is what programs branch on.
	Code retryproof.Code `json:"code"`
	// Effect names the effect, when there is one.
	Effect retryproof.ID `json:"effect,omitempty"`
	// RetryAfter is the Retry-After header again, in seconds; 0 says nothing.
	RetryAfter int `json:"retry_after,omitempty"`
}

// problemKind is what each code looks like over HTTP.
type problemKind struct {
	code   retryproof.Code
	status int
	title  string
}

var problemKinds = []problemKind{
	{retryproof.CodeKeyMissing, 400, "An Idempotency-Key header is required"},
	{retryproof.CodeKeyMalformed, 400, "The Idempotency-Key header is malformed"},
	{retryproof.CodeInvalid, 400, "The request is not valid"},
	{retryproof.CodeUnauthorized, 401, "The caller is not known"},
	{retryproof.CodeForbidden, 403, "The caller may not do this"},
	{retryproof.CodeNotFound, 404, "There is no such thing"},
	{retryproof.CodeInProgress, 409, "The first request with this key is still in progress"},
	{retryproof.CodeVoid, 409, "The key was voided: it never ran and never will"},
	{retryproof.CodeTooLarge, 413, "The request body is too large"},
	{retryproof.CodeKeyReused, 422, "The key was used for a different request"},
	{retryproof.CodeExceeds, 422, "It is more than what is left"},
	{retryproof.CodeMoved, 409, "It is in another state by now; nothing was changed"},
	{retryproof.CodeTooMany, 429, "Too many requests"},
	{retryproof.CodeTooLate, 503, "The request arrived too long ago; nothing ran"},
	{retryproof.CodeUnavailable, 503, "It cannot be done now; nothing ran"},
	{retryproof.CodeConflict, 503, "The records are locked; nothing ran"},
	{retryproof.CodeReadOnly, 503, "The records are read-only; nothing ran"},
	{retryproof.CodePermanent, 500, "The request cannot be served"},
	{retryproof.CodeUnknown, 503, "It is not known whether the request took effect"},
}

func kindOf(code retryproof.Code) problemKind {
	for _, k := range problemKinds {
		if k.code == code {
			return k
		}
	}
	return kindOf(retryproof.CodeUnknown)
}

// ProblemOf describes an error. An *retryproof.Error gives its code, its words
// and its RetryAfter; its cause stays inside, since causes name hosts and
// tables. Any other error is CodeUnknown. 503, 429 and "in progress" always carry
// a Retry-After.
func ProblemOf(err error) Problem {
	var e *retryproof.Error
	if !errors.As(err, &e) {
		e = &retryproof.Error{Code: retryproof.CodeUnknown}
	}
	code := e.Code
	if code == "" {
		code = retryproof.CodeUnknown
	}
	k := kindOf(code)
	p := Problem{Type: ProblemBase + string(k.code), Title: k.title, Status: k.status, Code: k.code, Detail: e.Message}
	if e.Hint != "" {
		p.Detail += " (" + e.Hint + ")"
	}
	if e.RetryAfter > 0 || k.status == http.StatusServiceUnavailable || k.status == http.StatusTooManyRequests || k.code == retryproof.CodeInProgress {
		p.RetryAfter = retryAfterSeconds(e.RetryAfter)
	}
	return p
}

// Write answers with the problem. It never marks the answer as a stored one, and
// forbids caches to keep it.
func (p Problem) Write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers only: cannot happen
		body = []byte(`{}`)
	}
	h := w.Header()
	h.Set("Content-Type", ProblemType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("Content-Encoding")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client is gone: nobody to tell
}

// ParseProblem reads a problem document. Members of the wrong type make it no
// problem document; unknown members are ignored (RFC 9457 §3.2).
func ParseProblem(body []byte) (Problem, bool) {
	var p Problem
	if json.Unmarshal(body, &p) != nil {
		return Problem{}, false
	}
	return p, p.Type != "" || p.Title != "" || p.Code != ""
}

// ReadProblem reads the problem document of an answer and leaves the body as it
// was: whoever reads it afterwards gets every byte.
func ReadProblem(resp *http.Response) (Problem, bool) {
	if !isProblem(resp.Header) || resp.Body == nil {
		return Problem{}, false
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	rest := resp.Body
	resp.Body = &splicedBody{Reader: io.MultiReader(bytes.NewReader(head), errorReader{err}, rest), Closer: rest}
	if err != nil {
		return Problem{}, false
	}
	return ParseProblem(head)
}

func isProblem(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && media == ProblemType
}

type splicedBody struct {
	io.Reader
	io.Closer
}

// errorReader gives err once more to the reader who comes after us.
type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) {
	if e.err == nil {
		return 0, io.EOF
	}
	return 0, e.err
}
