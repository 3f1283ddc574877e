package httpkey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/retryproof/retryproof"
)

// firstRead is how much memory a body gets before a byte of it has come: what the
// client announces costs it nothing.
const firstRead = 16 << 10

// readBody reads at most limit bytes, counted as they come (case 9). A body that an
// outer handler has read already is refused, since requests that differ in it would
// look alike.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	body, err := readAll(r, limit)
	if err != nil {
		return nil, err
	}
	gone := int64(len(body)) < r.ContentLength
	if r.ContentLength < 0 { // nobody said how long it was: forms are what is left of it
		gone = r.MultipartForm != nil || len(body) == 0 && len(r.PostForm) > 0
	}
	if gone {
		return nil, retryproof.Refused(retryproof.CodePermanent, "the server read the body before the Idempotency-Key middleware could; nothing ran",
			errors.New("httpkey: an outer handler has read the body, or changed it and not Request.ContentLength: put what reads forms inside the middleware"))
	}
	return body, nil
}

func readAll(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	size := int64(512)
	if r.ContentLength > 0 {
		size = min(r.ContentLength+1, firstRead) // the one finds the end
	}
	body, err := make([]byte, 0, size), error(nil)
	for err == nil && int64(len(body)) <= limit {
		if len(body) == cap(body) {
			body = slices.Grow(body, len(body))
		}
		var n int
		n, err = r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
	}
	var outer *http.MaxBytesError
	switch {
	case int64(len(body)) > limit || errors.As(err, &outer):
		return nil, tooLarge(limit)
	case err != io.EOF:
		return nil, retryproof.Refused(retryproof.CodeInvalid, "the body could not be read to its end; nothing ran", err)
	}
	return body, nil
}

func tooLarge(limit int64) error {
	return retryproof.Refused(retryproof.CodeTooLarge, fmt.Sprintf("the body is larger than %d bytes; nothing ran", limit), nil)
}

// forHandler is the request with its body put back.
func (x *keyed) forHandler(ctx context.Context) *http.Request {
	r := x.r.WithContext(ctx)
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, int64(len(x.body)), nil
	if len(x.body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(x.body))
	}
	return r
}
