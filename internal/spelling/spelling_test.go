package spelling_test

import (
	"testing"

	"github.com/retryproof/retryproof/internal/spelling"
)

func TestDistanceCountsLetters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"void", "VOID", 0}, {"D-voi", "D-void", 1}, {"kitten", "sitting", 3}, {"", "abc", 3}, {"abc", "", 3}} {
		if got := spelling.Distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
