// Package entropy is the only package of this module that makes something
// random. Every other package is handed a [Source], so that the simulator can
// repeat a run from its seed.
package entropy

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
)

// Source gives random numbers: owner tokens, jitter.
type Source interface {
	Uint64() uint64
}

// System returns the operating system's randomness, safe for concurrent use.
func System() Source { return system{} }

type system struct{}

func (system) Uint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails (Go 1.24)
	return binary.BigEndian.Uint64(b[:])
}

// Token returns 128 random bits as 32 hex digits: an owner token.
func Token(s Source) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], s.Uint64())
	binary.BigEndian.PutUint64(b[8:], s.Uint64())
	return hex.EncodeToString(b[:])
}

// Fraction returns a number in [0, 1).
func Fraction(s Source) float64 { return float64(s.Uint64()>>11) / (1 << 53) }
