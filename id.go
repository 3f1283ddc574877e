package retryproof

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
)

// MaxIDBytes is the longest name that a store finds a thing by: the id of a guard, the id
// and the group of an event, each part of an inbox key, the account and the ref of a
// posting, and the like. Derived ids are far shorter.
const MaxIDBytes = 512

// CheckIDs refuses ids that are longer than [MaxIDBytes], NotDone with [CodeInvalid]. what
// names them, for the message.
func CheckIDs(what string, ids ...string) error {
	for _, id := range ids {
		if len(id) > MaxIDBytes {
			return &Error{Outcome: NotDone, Code: CodeInvalid, Message: fmt.Sprintf("%s is longer than %d bytes", what, MaxIDBytes)}
		}
	}
	return nil
}

// ID is a derived identifier (mission A5). Everybody who holds the same parts
// computes the same id: a resolver, a standby Region, a later version. It is
// opaque: a digest, not its parts. The golden vectors in id_test.go pin the
// algorithm, which must never change.
type ID string

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// digest hashes the parts, each behind its length, so that ("a:b", "c") and
// ("a", "b:c") differ: joining with a separator is not injective. 160 bits of
// SHA-256 in Crockford's base32, 32 characters.
func digest(kind string, parts ...string) [32]byte {
	text := make([]byte, 0, 512) // most fit, and need no memory of their own
	text = appendPart(text, kind)
	for _, p := range parts {
		text = appendPart(text, p)
	}
	sum := sha256.Sum256(text)
	var out [32]byte
	idEncoding.Encode(out[:], sum[:20])
	return out
}

func appendPart(text []byte, part string) []byte {
	return append(binary.BigEndian.AppendUint64(text, uint64(len(part))), part...)
}

// Derive names a thing of the given kind after its parts: "pay", "order" or
// another lower-case word becomes the id's prefix.
func Derive(kind string, parts ...string) ID {
	sum := digest(kind, parts...)
	name := make([]byte, 0, 64)
	name = append(append(name, kind...), '_')
	return ID(append(name, sum[:]...))
}

// Of names the effect that a scope asks for: one scope, one effect.
func Of(kind string, s Scope) ID {
	return Derive(kind, s.Endpoint, s.Caller, string(s.Key))
}

// Sub names something that belongs to id: id.Sub("charge") is the key for the
// processor, id.Sub("SUCCEEDED") the event, id.Sub("attempt-2", "psp_b") a second
// legitimate attempt, id.Sub("cancel", "refund") a refund. The parts must be
// fixed words of the program; a ':' or an empty part panics, since then two
// different lists of parts could give one name.
func (id ID) Sub(parts ...string) string {
	name := append(make([]byte, 0, 96), id...)
	for _, p := range parts {
		if p == "" || strings.ContainsRune(p, ':') {
			panic("retryproof: ID.Sub: a part is empty or has a ':'")
		}
		name = append(append(name, ':'), p...)
	}
	return string(name)
}
