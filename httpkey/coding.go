package httpkey

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// codings are the content codings of an answer in the order in which they were
// applied, in lower case and without "identity" (RFC 9110 §8.4).
func codings(h http.Header) []string {
	var out []string
	for name, lines := range h { // order: one name, whose lines are in order
		if http.CanonicalHeaderKey(name) != "Content-Encoding" {
			continue
		}
		for coding := range strings.SplitSeq(strings.ToLower(strings.Join(lines, ",")), ",") {
			if coding = trimOWS(coding); coding != "" && coding != "identity" {
				out = append(out, strings.TrimPrefix(coding, "x-")) // x-gzip, x-compress
			}
		}
	}
	return out
}

// acceptsAll reports whether the client asked for all of the codings (RFC 9110
// §12.5.3). Without the header a client may not be able to unpack, so that counts
// as no.
func acceptsAll(request http.Header, codings []string) bool {
	return !slices.ContainsFunc(codings, func(coding string) bool { return !accepts(request, coding) })
}

func accepts(request http.Header, want string) bool {
	rest := false // what "*" says of those that are not named
	for coding := range strings.SplitSeq(strings.ToLower(strings.Join(request.Values("Accept-Encoding"), ",")), ",") {
		name, params, _ := strings.Cut(coding, ";")
		_, q, weighted := strings.Cut(params, "q=")
		weight, err := strconv.ParseFloat(trimOWS(q), 64)
		ok := !weighted || err == nil && weight > 0
		switch name = trimOWS(name); {
		case strings.TrimPrefix(name, "x-") == want:
			return ok
		case name == "*":
			rest = ok
		}
	}
	return rest
}

// unpacks reports codings that unpack can undo, if the body is what they say.
func unpacks(codings []string) bool {
	return !slices.ContainsFunc(codings, func(coding string) bool { return coding != "gzip" && coding != "deflate" })
}

// unpack undoes codings, the last one first.
func unpack(body []byte, codings []string) (io.Reader, bool) {
	if !unpacks(codings) {
		return nil, false
	}
	var plain io.Reader = bytes.NewReader(body)
	for _, coding := range slices.Backward(codings) {
		var err error
		if coding == "gzip" {
			plain, err = gzip.NewReader(plain)
		} else {
			plain, err = inflate(plain)
		}
		if err != nil {
			return nil, false
		}
	}
	return plain, true
}

// inflate reads "deflate", which is the zlib format; some send it without its frame
// (RFC 9110 §8.4.1.2).
func inflate(packed io.Reader) (io.Reader, error) {
	in := bufio.NewReader(packed)
	if head, err := in.Peek(2); err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(in)
	}
	return flate.NewReader(in), nil
}
