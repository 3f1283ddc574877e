package emulator

import (
	"errors"
	"fmt"
	"strings"
)

// clause is one condition of a search: field, or metadata[field], equals value.
type clause struct {
	field    string
	metadata bool
	value    string
}

// parseQuery reads the part of Stripe's search language that is known here:
// metadata['name']:'value' and status:'value', joined by AND. Quotes may be single
// or double; a backslash escapes a quote or a backslash.
func parseQuery(q string) ([]clause, error) {
	var out []clause
	rest := strings.TrimSpace(q)
	for {
		c, tail, err := parseClause(rest)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
		rest = strings.TrimLeft(tail, " ")
		if rest == "" {
			return out, nil
		}
		next, ok := strings.CutPrefix(rest, "AND ")
		if !ok || rest == tail {
			return nil, fmt.Errorf("expected AND and another clause at %q", rest)
		}
		rest = strings.TrimLeft(next, " ")
	}
}

func parseClause(s string) (clause, string, error) {
	var c clause
	if tail, ok := strings.CutPrefix(s, "metadata["); ok {
		name, after, err := parseQuoted(tail)
		if err != nil {
			return c, "", err
		}
		after, ok = strings.CutPrefix(after, "]")
		if !ok || name == "" {
			return c, "", errors.New("expected metadata['name']")
		}
		c.field, c.metadata, s = name, true, after
	} else if tail, ok := strings.CutPrefix(s, "status"); ok {
		c.field, s = "status", tail
	} else {
		return c, "", fmt.Errorf("expected metadata['name'] or status at %q: this emulator searches by these only", s)
	}
	s, ok := strings.CutPrefix(s, ":")
	if !ok {
		return c, "", errors.New("expected ':' behind the field: this emulator compares for equality only")
	}
	value, tail, err := parseQuoted(s)
	c.value = value
	return c, tail, err
}

// parseQuoted reads a quoted text at the start of s and returns what is behind it.
func parseQuoted(s string) (text, tail string, err error) {
	if s == "" || (s[0] != '\'' && s[0] != '"') {
		return "", "", errors.New("expected a quoted text")
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case s[0]:
			return b.String(), s[i+1:], nil
		case '\\':
			i++
			if i == len(s) || !strings.ContainsRune(`'"\`, rune(s[i])) {
				return "", "", errors.New("a backslash may escape a quote or a backslash only")
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", errors.New("a quoted text has no end")
}

var searchQuotes = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// QuoteSearch quotes a value for a search query.
func QuoteSearch(value string) string {
	return "'" + searchQuotes.Replace(value) + "'"
}
