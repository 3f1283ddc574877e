package httpkey

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
)

// maxJSONDepth is how many arrays and objects a value may be inside of.
const maxJSONDepth = 128

// maxExponent bounds the exponent of a number, so that two exponents can be
// added without overflow.
const maxExponent = 1_000_000_000

// CanonicalJSON gives every JSON text that means the same the same bytes:
//
//   - members are sorted by the bytes of their names; white space is dropped;
//     the order of an array stays, since it is part of the meaning;
//   - numbers are compared by their exact decimal value: 3000, 3000.0 and 3e3
//     are one number, 30.00 and 30 are one, -0 is 0, and nothing is ever
//     rounded; a number and a string never are one;
//   - strings are compared by their code points, with escapes decoded; two
//     Unicode spellings of one word stay two strings.
//
// Refused, as NotDone with retryproof.CodeInvalid: bytes that are not UTF-8,
// escapes of lone surrogates, a member name that occurs twice in one object,
// anything that RFC 8259 does not allow, a byte order mark, a value inside more
// than 128 arrays and objects, and exponents beyond ±10⁹.
//
// Members named in ignore are left out: a plain name is a member of the
// outermost object, "/a/b" (RFC 6901) one further inside, through objects only.
// They are still checked.
func CanonicalJSON(text []byte, ignore ...string) ([]byte, error) {
	c := canonicalizer{in: text, src: string(text), out: make([]byte, 0, len(text))}
	for _, name := range ignore {
		if !strings.HasPrefix(name, "/") {
			name = "/" + pointerEscape(name)
		}
		c.ignore = append(c.ignore, name)
	}
	if err := c.whole(); err != nil {
		return nil, err
	}
	return c.out, nil
}

// Member is one member of the outermost object of a JSON text.
type Member struct {
	// Name is the member's name, with its escapes decoded.
	Name string
	// Value is the value's JSON as it was sent.
	Value []byte
}

// Text decodes a value that is a string; false for one that is not.
func (m Member) Text() (string, bool) {
	c := canonicalizer{in: m.Value}
	if c.peek() != '"' {
		return "", false
	}
	s, err := c.text()
	return string(s), err == nil && c.at == len(c.in)
}

// ObjectMembers returns the members of a JSON object, in the order in which they
// were sent. It refuses what [CanonicalJSON] refuses, and any text that is no object.
func ObjectMembers(text []byte) ([]Member, error) {
	c := canonicalizer{in: text, src: string(text), out: make([]byte, 0, len(text)), keep: true, kept: make([]Member, 0, 8)}
	if err := c.whole(); err != nil {
		return nil, err
	}
	if len(c.out) == 0 || c.out[0] != '{' {
		return nil, retryproof.Refused(retryproof.CodeInvalid, "the body must be a JSON object", nil)
	}
	return c.kept, nil
}

type canonicalizer struct {
	in     []byte
	src    string // in, for the parts of it that are kept; empty when none are
	at     int
	out    []byte
	ignore []string // JSON pointers
	// keep says to gather the outermost object's members in kept.
	keep bool
	kept []Member
}

// whole reads the one value that the text is.
func (c *canonicalizer) whole() error {
	c.space()
	if err := c.value(0, ""); err != nil {
		return err
	}
	c.space()
	if c.at < len(c.in) {
		return c.bad("something follows the JSON value")
	}
	return nil
}

// member is one member of an object: out[from:to] is `"name":value`. Of one that is
// ignored nothing is written; its name still counts as seen.
type member struct {
	name     string
	ignored  bool
	from, to int
}

func (c *canonicalizer) bad(format string, args ...any) error {
	return &retryproof.Error{
		Outcome: retryproof.NotDone, Code: retryproof.CodeInvalid,
		Message: fmt.Sprintf("the body is not valid JSON at byte %d: ", c.at) + fmt.Sprintf(format, args...),
	}
}

func (c *canonicalizer) space() {
	for c.at < len(c.in) {
		switch c.in[c.at] {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return
		}
	}
}

func (c *canonicalizer) peek() byte {
	if c.at < len(c.in) {
		return c.in[c.at]
	}
	return 0
}

func (c *canonicalizer) value(depth int, path string) error {
	if depth > maxJSONDepth {
		return c.bad("more than %d levels", maxJSONDepth)
	}
	switch b := c.peek(); {
	case b == '{':
		return c.object(depth, path)
	case b == '[':
		return c.array(depth)
	case b == '"':
		s, err := c.text()
		c.out = appendText(c.out, s)
		return err
	case b == '-' || b >= '0' && b <= '9':
		return c.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(c.in[c.at:], []byte(word)) {
			c.at += len(word)
			c.out = append(c.out, word...)
			return nil
		}
	}
	if c.at >= len(c.in) {
		return c.bad("it ends where a value is expected")
	}
	return c.bad("a value cannot start here")
}

func (c *canonicalizer) array(depth int) error {
	c.at++
	c.out = append(c.out, '[')
	c.space()
	for first := true; c.peek() != ']' || !first; first = false {
		if !first {
			c.out = append(c.out, ',')
		}
		c.space()
		// Ignored members are reached through objects only.
		if err := c.value(depth+1, "\x00"); err != nil {
			return err
		}
		c.space()
		if c.peek() == ']' {
			break
		}
		if c.peek() != ',' {
			return c.bad("an array needs ',' or ']' here")
		}
		c.at++
	}
	c.at++
	c.out = append(c.out, ']')
	return nil
}

func (c *canonicalizer) object(depth int, path string) error {
	c.at++
	c.out = append(c.out, '{')
	start := len(c.out)
	members := make([]member, 0, 8)
	c.space()
	for first := true; c.peek() != '}' || !first; first = false {
		if err := c.member(depth, path, start, &members); err != nil {
			return err
		}
		c.space()
		if c.peek() == '}' {
			break
		}
		if c.peek() != ',' {
			return c.bad("an object needs ',' or '}' here")
		}
		c.at++
	}
	c.at++
	if err := c.sort(start, members); err != nil {
		return err
	}
	c.out = append(c.out, '}')
	return nil
}

// member reads one member and writes it, unless it is ignored.
func (c *canonicalizer) member(depth int, path string, start int, members *[]member) error {
	name, err := c.memberName()
	if err != nil {
		return err
	}
	before := len(c.out)
	if before > start {
		c.out = append(c.out, ',')
	}
	m := member{name: name, from: len(c.out)}
	c.out = append(appendText(c.out, name), ':')
	below := ""
	if len(c.ignore) > 0 {
		below = path + "/" + pointerEscape(name)
	}
	value := c.at
	if err := c.value(depth+1, below); err != nil {
		return err
	}
	if c.keep && depth == 0 {
		c.kept = append(c.kept, Member{name, c.in[value:c.at:c.at]})
	}
	if m.ignored = slices.Contains(c.ignore, below); m.ignored {
		c.out = c.out[:before] // its comma too
	}
	m.to = len(c.out)
	*members = append(*members, m)
	return nil
}

// memberName reads a member's name and what is between it and the value.
func (c *canonicalizer) memberName() (string, error) {
	c.space()
	if c.peek() != '"' {
		return "", c.bad("a member name in quotes is expected")
	}
	from := c.at + 1
	text, err := c.text()
	if err != nil {
		return "", err
	}
	name := c.src[from : c.at-1]
	if len(name) != len(text) { // an escape is longer than what it says
		name = string(text)
	}
	c.space()
	if c.peek() != ':' {
		return "", c.bad("':' is expected after a member name")
	}
	c.at++
	c.space()
	return name, nil
}

// sort puts the members that were written from start on in order, and refuses a
// name that occurs twice.
func (c *canonicalizer) sort(start int, members []member) error {
	byName := func(a, b member) int { return strings.Compare(a.name, b.name) }
	inOrder := slices.IsSortedFunc(members, byName)
	if !inOrder {
		slices.SortFunc(members, byName)
	}
	for i := 1; i < len(members); i++ {
		if members[i].name == members[i-1].name {
			return c.bad("the member name %s occurs twice in one object", strconv.QuoteToASCII(clip(members[i].name)))
		}
	}
	if inOrder {
		return nil
	}
	written := slices.Clone(c.out[start:])
	c.out = c.out[:start]
	for _, m := range members {
		if m.ignored {
			continue
		}
		if len(c.out) > start {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, written[m.from-start:m.to-start]...)
	}
	return nil
}

// clip keeps a long name out of an error message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// number reads a number and writes its exact value as digits and exponent:
// "3e3" for 3000, 3000.0 and 3e3.
func (c *canonicalizer) number() error {
	negative := c.peek() == '-'
	if negative {
		c.at++
	}
	whole := c.digits()
	if whole == "" || len(whole) > 1 && whole[0] == '0' {
		return c.bad("a number is not written as JSON asks")
	}
	fraction := ""
	if c.peek() == '.' {
		c.at++
		if fraction = c.digits(); fraction == "" {
			return c.bad("a number needs a digit after '.'")
		}
	}
	exponent, err := c.exponent()
	if err != nil {
		return err
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	if short == "" {
		c.out = append(c.out, '0')
		return nil
	}
	if negative {
		c.out = append(c.out, '-')
	}
	c.out = append(c.out, short...)
	if exponent != 0 {
		c.out = append(c.out, 'e')
		c.out = strconv.AppendInt(c.out, int64(exponent), 10)
	}
	return nil
}

func (c *canonicalizer) exponent() (int, error) {
	if b := c.peek(); b != 'e' && b != 'E' {
		return 0, nil
	}
	c.at++
	sign := 1
	if b := c.peek(); b == '+' || b == '-' {
		if b == '-' {
			sign = -1
		}
		c.at++
	}
	digits := c.digits()
	if digits == "" {
		return 0, c.bad("a number needs a digit after 'e'")
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n > maxExponent {
		return 0, c.bad("the exponent of a number is beyond ±%d", maxExponent)
	}
	return sign * n, nil
}

func (c *canonicalizer) digits() string {
	from := c.at
	for c.at < len(c.in) && c.in[c.at] >= '0' && c.in[c.at] <= '9' {
		c.at++
	}
	return c.src[from:c.at]
}

// text reads a string, from its opening quote. It may be a part of the input.
func (c *canonicalizer) text() ([]byte, error) {
	c.at++
	from := c.at
	for c.at < len(c.in) && c.in[c.at] != '"' && c.in[c.at] != '\\' && c.in[c.at] >= 0x20 && c.in[c.at] < utf8.RuneSelf {
		c.at++
	}
	if c.peek() == '"' { // plain ASCII: the usual case
		s := c.in[from:c.at:c.at]
		c.at++
		return s, nil
	}
	buf := append([]byte(nil), c.in[from:c.at]...)
	for c.at < len(c.in) {
		switch b := c.in[c.at]; {
		case b == '"':
			c.at++
			return buf, nil
		case b == '\\':
			r, err := c.escape()
			if err != nil {
				return nil, err
			}
			buf = utf8.AppendRune(buf, r)
		case b < 0x20:
			return nil, c.bad("a string has a control character")
		default:
			r, n := utf8.DecodeRune(c.in[c.at:])
			if r == utf8.RuneError && n == 1 {
				return nil, c.bad("a string is not UTF-8")
			}
			buf = append(buf, c.in[c.at:c.at+n]...)
			c.at += n
		}
	}
	return nil, c.bad("a string has no end")
}

// escape reads one escape; a surrogate pair is one code point.
func (c *canonicalizer) escape() (rune, error) {
	c.at++
	b := c.peek()
	if i := strings.IndexByte(`"\/bfnrt`, b); i >= 0 && b != 0 {
		c.at++
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if b != 'u' {
		return 0, c.bad("a string has an unknown escape")
	}
	r, err := c.hex()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if c.peek() == '\\' && c.at+1 < len(c.in) && c.in[c.at+1] == 'u' {
		c.at++
		low, err := c.hex()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, c.bad("a string has a lone surrogate")
}

// hex reads "u" and four hexadecimal digits.
func (c *canonicalizer) hex() (rune, error) {
	if c.at+5 > len(c.in) {
		return 0, c.bad("a string has a broken \\u escape")
	}
	n, err := strconv.ParseUint(string(c.in[c.at+1:c.at+5]), 16, 16)
	if err != nil {
		return 0, c.bad("a string has a broken \\u escape")
	}
	c.at += 5
	return rune(n), nil
}

// appendText writes a string with the fewest escapes that JSON allows.
func appendText[T string | []byte](out []byte, s T) []byte {
	out = append(out, '"')
	for i := range len(s) {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			out = append(out, '\\', b)
		case b < 0x20:
			out = append(out, '\\', 'u', '0', '0', "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
		default:
			out = append(out, b)
		}
	}
	return append(out, '"')
}

// pointerEscape writes a member name as a JSON pointer's reference token.
func pointerEscape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
