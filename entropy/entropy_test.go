package entropy_test

import (
	"math"
	"regexp"
	"testing"

	"github.com/retryproof/retryproof/entropy"
)

type fixed uint64

func (f fixed) Uint64() uint64 { return uint64(f) }

func TestTokensAreHexAndDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		token := entropy.Token(entropy.System())
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(token) || seen[token] {
			t.Fatalf("got %q, want 32 new hex digits", token)
		}
		seen[token] = true
	}
	if got, want := entropy.Token(fixed(1)), "00000000000000010000000000000001"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFractionIsBelowOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bits fixed
		want float64
	}{{0, 0}, {1 << 63, 0.5}, {math.MaxUint64, 1 - 1.0/(1<<53)}} {
		if got := entropy.Fraction(c.bits); got != c.want || got >= 1 {
			t.Errorf("%x: got %v, want %v", uint64(c.bits), got, c.want)
		}
	}
}
