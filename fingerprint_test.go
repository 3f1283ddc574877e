package retryproof_test

import (
	"math"
	"testing"

	"github.com/retryproof/retryproof"
)

func order(amount int64) retryproof.Fingerprint {
	return retryproof.FingerprintOf(retryproof.Int("amount", amount), retryproof.Text("currency", "USD"))
}

// orderV2 is the same program one release later: it hashes one field more.
func orderV2(amount int64, capture string) retryproof.Fingerprint {
	return retryproof.FingerprintOf(retryproof.Int("amount", amount), retryproof.Text("currency", "USD"),
		retryproof.Text("capture", capture).Since(2))
}

func TestFingerprintsNeverChange(t *testing.T) {
	t.Parallel()
	v1 := sum("fingerprint", "amount", "i", "3000", "currency", "s", "USD")
	v2 := sum("fingerprint", "amount", "i", "3000", "currency", "s", "USD", "capture", "s", "now")
	for _, c := range []struct {
		got      retryproof.Fingerprint
		golden   string
		computed string
		version  int
	}{
		{order(3000), "1=v2k70vsr7gcrsyegd3b9p8mvvhwvcp0f", "1=" + v1, 1},
		{orderV2(3000, "now"), "2=jtzxj0mf7xww30fs6p8ba1tz5d96t5x0,1=v2k70vsr7gcrsyegd3b9p8mvvhwvcp0f", "2=" + v2 + ",1=" + v1, 2},
	} {
		if string(c.got) != c.golden || string(c.got) != c.computed {
			t.Errorf("got %s, want %s, computed %s", c.got, c.golden, c.computed)
		}
		if got := c.got.Version(); got != c.version {
			t.Errorf("%s: got version %d, want %d", c.got, got, c.version)
		}
	}
}

func TestAnotherMeaningIsAnotherFingerprint(t *testing.T) {
	t.Parallel()
	text := func(name, value string) retryproof.Fingerprint {
		return retryproof.FingerprintOf(retryproof.Text(name, value))
	}
	number := func(v int64) retryproof.Fingerprint { return retryproof.FingerprintOf(retryproof.Int("n", v)) }
	// cases 12 and 13
	prints := []retryproof.Fingerprint{
		retryproof.FingerprintOf(), text("n", ""), text("n", "3000"), number(3000), number(-3000), number(0),
		number(1<<53 - 1), number(1 << 53), number(1<<53 + 1),
		number(math.MaxInt64), number(math.MaxInt64 - 1), number(math.MinInt64), number(math.MinInt64 + 1),
		text("order", "A\xff"), text("order", "A\xfe"), text("order", "A\ufffd"),
		text("order", "caf\u00e9"), text("order", "cafe\u0301"), text("ab", "c"), text("a", "bc"),
		retryproof.FingerprintOf(retryproof.Text("a", "1"), retryproof.Text("b", "2")),
		retryproof.FingerprintOf(retryproof.Text("b", "2"), retryproof.Text("a", "1")),
		retryproof.FingerprintOf(retryproof.Text("a", "1"), retryproof.Text("b", "")),
		retryproof.FingerprintOf(retryproof.Text("a", "1s"), retryproof.Text("b", "2")),
	}
	for i, a := range prints {
		for j, b := range prints {
			if got, want := a.Same(b), i == j; got != want {
				t.Errorf("%d and %d: got %v, want %v", i, j, got, want)
			}
		}
	}
}

// case 14
func TestAReleaseThatHashesOneFieldMoreKeepsRetriesWorking(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		claimed, now retryproof.Fingerprint
		want         bool
	}{
		{"v1 claims, v2 repeats", order(3000), orderV2(3000, "now"), true},
		{"v1 claims, v2 asks for another amount", order(3000), orderV2(3500, "now"), false},
		{"v2 claims, v1 repeats", orderV2(3000, "now"), order(3000), true},
		{"v2 claims, v1 asks for another amount", orderV2(3000, "now"), order(3500), false},
		{"v2 twice", orderV2(3000, "now"), orderV2(3000, "now"), true},
		{"v2 twice, the new field differs", orderV2(3000, "now"), orderV2(3000, "later"), false},
	} {
		if got := c.claimed.Same(c.now); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if got := c.now.Same(c.claimed); got != c.want {
			t.Errorf("%s, the other way: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestBrokenFingerprintsAreNeverTheSame(t *testing.T) {
	t.Parallel()
	for _, broken := range []retryproof.Fingerprint{"", ",", "1", "1=", "=x", "x=y", "0=x", "-1=x", "+1=x", "01=x", "1=x,1=y", "1=x,1=x"} {
		if broken.Same(broken) || broken.Same(order(1)) || order(1).Same(broken) {
			t.Errorf("%q is the same as something", broken)
		}
		if got := broken.Version(); got != 0 {
			t.Errorf("%q: got version %d, want 0", broken, got)
		}
	}
	if retryproof.Fingerprint("1=x").Same("2=x") {
		t.Error("fingerprints without a common version are the same")
	}
	if got, want := retryproof.Fingerprint("1=x,3=y,2=z").Version(), 3; got != want {
		t.Errorf("got version %d, want %d", got, want)
	}
}

func FuzzFingerprintSame(f *testing.F) {
	f.Add("1=a", "1=a")
	f.Add("1=a,2=b", "2=b,1=x")
	f.Add("2=b,1=a", "1=a")
	f.Add("", ",=,")
	f.Add("9999999999999999999=a", "1=a")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := retryproof.Fingerprint(a), retryproof.Fingerprint(b)
		if x.Same(y) != y.Same(x) {
			t.Errorf("%q and %q: the answer depends on who asks", a, b)
		}
		if got, want := x.Same(x), x.Version() > 0; got != want {
			t.Errorf("%q with itself: got %v, want %v", a, got, want)
		}
		if x.Same(y) && (x.Version() == 0 || y.Version() == 0) {
			t.Errorf("%q and %q: a broken fingerprint is the same as something", a, b)
		}
	})
}
