// Package clip cuts what others said, an error for the most part, to a text that
// every database takes and a person can read in one column.
package clip

import "strings"

// Reason is the most bytes that are kept of a reason.
const Reason = 500

// Text is s without zero bytes, at most so many bytes of it, in UTF-8: what is not
// becomes a question mark, and a character that the cut went through is left out.
func Text(s string, most int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}
