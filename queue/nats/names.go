package nats

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxToken is the longest group, encoded, that is used as a subject token as it
// is. Servers refuse control lines, subject included, over 4096 bytes.
const maxToken = 200

const hexDigits = "0123456789ABCDEF"

// escape percent-encodes the bytes that keep refuses, and '%'. Different strings
// stay different.
func escape(s string, keep func(c byte) bool) string {
	n := 0
	for i := range len(s) {
		if !keep(s[i]) || s[i] == '%' {
			n++
		}
	}
	if n == 0 {
		return s
	}
	out := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; keep(c) && c != '%' {
			out = append(out, c)
		} else {
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(out)
}

// unescape undoes escape.
func unescape(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("%q ends inside a percent-encoded byte", s)
		}
		b, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return "", fmt.Errorf("%q has a broken percent-encoded byte", s)
		}
		out = append(out, b[0])
		i += 2
	}
	return string(out), nil
}

// headerValue encodes any bytes for a header, which would lose outer blanks and
// line ends. Visible ASCII stays as it is, so that the dedup id of a normal event
// is its id.
func headerValue(s string) string {
	return escape(s, func(c byte) bool { return c > 0x20 && c < 0x7f })
}

// subjectToken encodes any group as one subject token, different groups as
// different tokens. Long ones become a hash behind '~', which no other token
// begins with.
func subjectToken(group string) string {
	t := escape(group, func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == ':'
	})
	if len(t) <= maxToken {
		return t
	}
	sum := sha256.Sum256([]byte(group))
	return "~" + hex.EncodeToString(sum[:])
}
