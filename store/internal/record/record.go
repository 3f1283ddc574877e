// Package record turns claims, guards and payments into columns and back, and
// decides which writes a stored record allows. The SQL drivers share it, so that
// they judge alike; it does no I/O.
package record

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// zeroMicros is the zero time in microseconds, for columns that are NOT NULL.
var zeroMicros = time.Time{}.UnixMicro()

// Micros is a time in microseconds since 1970, for columns that are NOT NULL.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Nullable is a time in microseconds since 1970; the zero time is NULL.
func Nullable(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// Time reads a time back; NULL is the zero time.
func Time(v sql.NullInt64) time.Time {
	if !v.Valid || v.Int64 == zeroMicros {
		return time.Time{}
	}
	return time.UnixMicro(v.Int64).UTC()
}

// storedAnswer is an answer as JSON. A header value need not be UTF-8, which JSON would
// spoil: the values of such a header are kept as bytes.
type storedAnswer struct {
	effect.Answer
	RawHeader map[string][][]byte `json:"raw_header,omitempty"`
}

// EncodeAnswer is the stored form of an answer: JSON, the same bytes for the same
// answer; nil for nil.
func EncodeAnswer(a *effect.Answer) ([]byte, error) {
	if a == nil {
		return nil, nil
	}
	stored := storedAnswer{Answer: *a}
	for name, values := range a.Header { // order: each header alone, and JSON sorts them
		if !slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			continue
		}
		if stored.RawHeader == nil {
			stored.RawHeader, stored.Header = map[string][][]byte{}, maps.Clone(a.Header)
		}
		delete(stored.Header, name)
		for _, v := range values {
			stored.RawHeader[name] = append(stored.RawHeader[name], []byte(v))
		}
	}
	b, err := json.Marshal(stored)
	if err != nil {
		return nil, Invalid("the answer cannot be stored as JSON")
	}
	return b, nil
}

// DecodeAnswer reads EncodeAnswer's form.
func DecodeAnswer(b []byte) (*effect.Answer, error) {
	if b == nil {
		return nil, nil
	}
	var stored storedAnswer
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, fmt.Errorf("a stored answer is broken: %w", err)
	}
	a := stored.Answer
	for name, values := range stored.RawHeader { // order: each header alone
		if a.Header == nil {
			a.Header = map[string][]string{}
		}
		for _, v := range values {
			a.Header[name] = append(a.Header[name], string(v))
		}
	}
	return &a, nil
}

// ClaimColumns are the claims table's columns in the order of ClaimScan.Dest and
// ClaimArgs. The first is the primary key.
var ClaimColumns = []string{"scope_id", "endpoint", "caller", "client_key", "guard_id", "fingerprint",
	"state", "owner", "lease_until", "expires_at", "answer"}

// ClaimArgs are a claim's column values.
func ClaimArgs(c effect.Claim) ([]any, error) {
	answer, err := EncodeAnswer(c.Answer)
	if err != nil {
		return nil, err
	}
	var stored any
	if answer != nil {
		stored = answer
	}
	return []any{string(c.Scope.ID()), c.Scope.Endpoint, c.Scope.Caller, string(c.Scope.Key), string(c.GuardID),
		string(c.Fingerprint), string(c.State), c.Owner, Nullable(c.Until), Nullable(c.ExpiresAt), stored}, nil
}

// ClaimScan receives the columns of a claim, or NULLs when there is none.
type ClaimScan struct {
	id, endpoint, caller, key, guard, fingerprint, state, owner sql.NullString
	until, expires                                              sql.NullInt64
	answer                                                      []byte
}

// Dest are the scan destinations in the order of ClaimColumns.
func (s *ClaimScan) Dest() []any {
	return []any{&s.id, &s.endpoint, &s.caller, &s.key, &s.guard, &s.fingerprint, &s.state, &s.owner,
		&s.until, &s.expires, &s.answer}
}

// Claim is what was scanned; nil when there was none.
func (s *ClaimScan) Claim() (*effect.Claim, error) {
	if !s.id.Valid {
		return nil, nil
	}
	answer, err := DecodeAnswer(s.answer)
	if err != nil {
		return nil, err
	}
	return &effect.Claim{
		Scope:       retryproof.Scope{Endpoint: s.endpoint.String, Caller: s.caller.String, Key: retryproof.Key(s.key.String)},
		GuardID:     retryproof.ID(s.guard.String),
		Fingerprint: retryproof.Fingerprint(s.fingerprint.String),
		State:       effect.ClaimState(s.state.String),
		Owner:       s.owner.String,
		Until:       Time(s.until),
		ExpiresAt:   Time(s.expires),
		Answer:      answer,
	}, nil
}

// Invalid says that the caller asked for something that can never be written.
func Invalid(message string) error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeInvalid, Message: message}
}
