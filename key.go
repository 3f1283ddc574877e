package retryproof

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
)

// MaxKeyBytes is the longest idempotency key that is accepted.
const MaxKeyBytes = 255

// The longest endpoint and caller of a scope that are accepted. A database finds a scope
// by its three parts together, and an index of PostgreSQL holds about 2,700 bytes.
const (
	MaxEndpointBytes = 1536
	MaxCallerBytes   = 512
)

// Key is a client's idempotency key: the name of one intent, made before the
// first send and repeated on every retry (mission A1, A4). Use [ParseKey] or
// [KeyFromHeader] to make one from outside input.
//
// A key printed with fmt or slog shows a short digest only, since keys must not
// appear in logs; string(key) is the key itself.
type Key string

// String returns a digest that identifies the key in logs without showing it.
func (k Key) String() string {
	if k == "" {
		return "key:none"
	}
	sum := digest("log-key", string(k))
	return "key:" + string(sum[:8])
}

// GoString keeps %#v from printing the key.
func (k Key) GoString() string { return k.String() }

// Format keeps every other verb of fmt from printing the key: %d and %t of a
// string would. It writes what String returns.
func (k Key) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(k.String())) }

// LogValue keeps slog from printing the key.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// ParseKey checks the syntax of a key (mission A4): 1 to [MaxKeyBytes] bytes of
// visible ASCII (0x21 to 0x7e). Blanks, control bytes and non-ASCII bytes are
// refused, and so is a key with an e-mail address anywhere in it, since keys end up
// in tables and support tools and must carry no personal data.
//
// The error is an [*Error] with Outcome NotDone and code [CodeKeyMissing] or
// [CodeKeyMalformed].
func ParseKey(s string) (Key, error) {
	if s == "" {
		return "", keyError(CodeKeyMissing, "the idempotency key is empty", "send one key per intent, for example a UUID")
	}
	if len(s) > MaxKeyBytes {
		return "", keyError(CodeKeyMalformed, "the idempotency key is longer than 255 bytes", "send a UUID or a hash")
	}
	for i := range len(s) {
		if s[i] <= 0x20 || s[i] >= 0x7f {
			return "", keyError(CodeKeyMalformed, "the idempotency key has a blank, a control byte or a byte outside ASCII", "use letters, digits, '-' and '_'")
		}
	}
	if looksLikeEmail(s) {
		return "", keyError(CodeKeyMalformed, "the idempotency key contains what looks like an e-mail address", "keys are kept in tables and support tools: use a random id")
	}
	return Key(s), nil
}

// KeyFromHeader reads the key from the values of an Idempotency-Key header.
// The IETF draft (draft-ietf-httpapi-idempotency-key-header-07) makes the value
// a quoted Structured Fields string (RFC 8941 §3.3.3); most clients in use send
// it bare. Both forms of one key are the same key. Blanks around the value are
// not part of it. No header, or an empty one, is [CodeKeyMissing]; two headers,
// parameters or a broken quoted string are [CodeKeyMalformed].
func KeyFromHeader(values []string) (Key, error) {
	if len(values) == 0 {
		return "", keyError(CodeKeyMissing, "the Idempotency-Key header is missing", "send one key per intent and the same key on every retry")
	}
	if len(values) > 1 {
		return "", keyError(CodeKeyMalformed, "there is more than one Idempotency-Key header", "send exactly one")
	}
	v := strings.Trim(values[0], " \t")
	if strings.HasPrefix(v, `"`) {
		unquoted, ok := unquote(v)
		if !ok {
			return "", keyError(CodeKeyMalformed, "the quoted Idempotency-Key is not a Structured Fields string", `send "key" or key, without parameters`)
		}
		v = unquoted
	}
	return ParseKey(v)
}

// unquote decodes an RFC 8941 string and reports whether s is exactly one.
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return "", false
	}
	var b strings.Builder
	inner := s[1 : len(s)-1]
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '"':
			return "", false
		case '\\':
			i++
			if i == len(inner) || (inner[i] != '"' && inner[i] != '\\') {
				return "", false
			}
		}
		b.WriteByte(inner[i])
	}
	return b.String(), true
}

// looksLikeEmail reports something@domain.tld anywhere in s. It is a guard against
// an obvious mistake, not a validator of addresses: what follows the '@' must be a
// label, a dot and two letters, so that "order@42" and "v@1.2" pass.
func looksLikeEmail(s string) bool {
	for i := 1; i < len(s); i++ {
		if s[i] == '@' && s[i-1] != '@' && startsWithDomain(s[i+1:]) {
			return true
		}
	}
	return false
}

func startsWithDomain(s string) bool {
	for label, i := 0, 0; i < len(s); i++ {
		switch {
		case s[i] != '.':
			if !letter(s[i]) && (s[i] < '0' || s[i] > '9') && s[i] != '-' && s[i] != '_' {
				return false
			}
			label++
		case label == 0:
			return false
		case i+2 < len(s) && letter(s[i+1]) && letter(s[i+2]):
			return true
		default:
			label = 0
		}
	}
	return false
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func keyError(code Code, message, hint string) error {
	return &Error{Outcome: NotDone, Code: code, Message: message, Hint: hint}
}

// Scope is where a key is unique (mission A2): the endpoint, the authenticated
// caller and the key. Two callers who send one key never meet.
type Scope struct {
	// Endpoint names what is asked of whom, without the caller: "payments" or
	// "POST /orders/{id}/cancel#42". It includes path ids and query parameters
	// that change the meaning.
	Endpoint string
	// Caller is the authenticated caller, never something a request claims.
	Caller string
	// Key is the client's key.
	Key Key
}

// MarshalJSON writes the scope for logs, where slog's JSON handler meets it inside
// other structs: the key is replaced by what [Key.String] returns. A scope that
// must be kept is kept by its fields.
func (s Scope) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Endpoint string `json:"endpoint"`
		Caller   string `json:"caller"`
		Key      string `json:"key"`
	}{s.Endpoint, s.Caller, s.Key.String()})
}

// UnmarshalJSON refuses, since the JSON of a scope does not hold its key.
func (s *Scope) UnmarshalJSON([]byte) error {
	return &Error{Outcome: NotDone, Code: CodeInvalid, Message: "the JSON of a scope is for logs and does not hold the key", Hint: "keep the scope by its fields"}
}

// ID names the scope: a digest of its three length-prefixed parts, so that no
// two scopes share one, whatever bytes the parts hold.
func (s Scope) ID() ID {
	return Of("scope", s)
}

// Valid reports the first part of the scope that is missing or longer than
// [MaxEndpointBytes], [MaxCallerBytes] or [MaxKeyBytes], NotDone with [CodeInvalid], or,
// for the key, [CodeKeyMissing] or [CodeKeyMalformed].
func (s Scope) Valid() error {
	switch {
	case s.Endpoint == "":
		return &Error{Outcome: NotDone, Code: CodeInvalid, Message: "the scope has no endpoint"}
	case s.Caller == "":
		return &Error{Outcome: NotDone, Code: CodeInvalid, Message: "the scope has no caller"}
	case s.Key == "":
		return keyError(CodeKeyMissing, "the scope has no key", "")
	case len(s.Endpoint) > MaxEndpointBytes:
		return &Error{Outcome: NotDone, Code: CodeInvalid, Message: fmt.Sprintf("the endpoint is longer than %d bytes", MaxEndpointBytes),
			Hint: "send a shorter URL: method, path and query are the endpoint, unless the server names another"}
	case len(s.Caller) > MaxCallerBytes:
		return &Error{Outcome: NotDone, Code: CodeInvalid, Message: fmt.Sprintf("the caller's name is longer than %d bytes", MaxCallerBytes)}
	case len(s.Key) > MaxKeyBytes:
		return keyError(CodeKeyMalformed, "the key of the scope is longer than 255 bytes", "send a UUID or a hash")
	}
	return nil
}
