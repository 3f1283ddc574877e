package deadline_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/deadline"
)

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// The numbers of the story's rows formula-1 and formula-2.
func TestTheStorysNumbersComeOutOfTheFormulas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		got  error
		want string
	}{
		{"stamp at the balancer", deadline.Formula2(seconds(5), seconds(0.02), 0, seconds(10)), ""},
		{"stamp at the thread", deadline.Formula2(seconds(5), seconds(11.98), 0, seconds(10)), "5s + 11.98s + 0s = 16.98s ≥ 10s"},
		{"shed after 2 s", deadline.Formula2(seconds(5), seconds(2), 0, seconds(10)), ""},
		{"two clocks", deadline.Formula2(seconds(5), seconds(0.02), seconds(1), seconds(10)), ""},
		{"equal is too late", deadline.Formula2(seconds(5), seconds(4), seconds(1), seconds(10)), "5s + 4s + 1s = 10s ≥ 10s"},
		{"the key record", deadline.Formula1(seconds(3600), seconds(7200)), "1h < 2h"},
		{"the durable row", deadline.Formula1(deadline.Forever, seconds(7200)), ""},
		{"equal is enough", deadline.Formula1(seconds(7200), seconds(7200)), ""},
		{"no guard", deadline.Formula1(0, seconds(7200)), "0s < 2h"},
		{"no horizon", deadline.Formula1(deadline.Forever, 0), "forever and 0s"},
		{"no overflow", deadline.Formula2(deadline.Forever, seconds(1), deadline.Forever, deadline.Forever), "= forever ≥ forever"},
		{"no deadline", deadline.Formula2(0, 0, 0, seconds(10)), "must be positive"},
	} {
		var e *deadline.FormulaError
		switch {
		case c.want == "" && c.got != nil:
			t.Errorf("%s: got %v, want that it holds", c.name, c.got)
		case c.want != "" && (!errors.As(c.got, &e) || !strings.Contains(c.got.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", c.name, c.got, c.want)
		}
	}
}

func TestDurationsAreShownAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", seconds(0.02): "20ms", seconds(90): "1m30s", seconds(60): "1m", seconds(7200): "2h", 24 * time.Hour: "24h",
		720 * time.Hour: "30d", deadline.Forever: "forever", -72 * time.Hour: "-3d",
	} {
		if got := deadline.Show(d); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
