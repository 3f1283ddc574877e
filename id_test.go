package retryproof_test

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/retryproof/retryproof"
)

const k1 = retryproof.Key("0192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e07")

var story = retryproof.Scope{Endpoint: "payments", Caller: "u1", Key: k1}

// sum computes the documented digest from its description: SHA-256 over parts,
// each behind its length as eight big-endian bytes, the first 160 bits in
// Crockford's alphabet.
func sum(kind string, parts ...string) string {
	var all []byte
	for _, p := range append([]string{kind}, parts...) {
		all = binary.BigEndian.AppendUint64(all, uint64(len(p)))
		all = append(all, p...)
	}
	full := sha256.Sum256(all)
	standard := base32.StdEncoding.EncodeToString(full[:20])
	return strings.Map(func(r rune) rune {
		return rune("0123456789abcdefghjkmnpqrstvwxyz"[strings.IndexRune("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", r)])
	}, standard)
}

func TestDerivedIDsNeverChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		got      string
		golden   string
		computed string
	}{
		{"no parts", string(retryproof.Derive("x")), "x_0a7gvxdrb5qvsm8cjwgbf93r9y77w17p", "x_" + sum("x")},
		{"two parts", string(retryproof.Derive("order", "shop", "42")), "order_23hnqxdfpgdwrb0gwbw4nxdgr59qj49f", "order_" + sum("order", "shop", "42")},
		{"empty parts", string(retryproof.Derive("order", "", "")), "order_dp618cf4w13v41eft1qj4rz4zesj0ttb", "order_" + sum("order", "", "")},
		{"any bytes", string(retryproof.Derive("x", "\xff\x00", "é")), "x_1qbaedysqkt8yp3zjds4wd4eweyyecze", "x_" + sum("x", "\xff\x00", "é")},
		{"payment", string(retryproof.Of("pay", story)), "pay_3j83z93695b1acc0adrjhfdkym0y0ezg", "pay_" + sum("pay", "payments", "u1", string(k1))},
		{"effect", string(retryproof.Of("effect", story)), "effect_ceb8dcxn4z7vgd9n40r3r7563h97fjj8", "effect_" + sum("effect", "payments", "u1", string(k1))},
		{"scope", string(story.ID()), "scope_76tm8nmtepk5smqppqae6eh987sdf22g", "scope_" + sum("scope", "payments", "u1", string(k1))},
		{"processor key", retryproof.Of("pay", story).Sub("charge"), "pay_3j83z93695b1acc0adrjhfdkym0y0ezg:charge", "pay_" + sum("pay", "payments", "u1", string(k1)) + ":charge"},
		{"second attempt", retryproof.ID("pay_7").Sub("attempt-2", "psp_b"), "pay_7:attempt-2:psp_b", "pay_7:attempt-2:psp_b"},
		{"refund", retryproof.ID("pay_7").Sub("cancel", "refund"), "pay_7:cancel:refund", "pay_7:cancel:refund"},
		{"event", retryproof.ID("pay_7").Sub("SUCCEEDED"), "pay_7:SUCCEEDED", "pay_7:SUCCEEDED"},
	} {
		if c.got != c.golden {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.golden)
		}
		if c.got != c.computed {
			t.Errorf("%s: got %s, want %s as computed from the description", c.name, c.got, c.computed)
		}
	}
}

// case 11
func TestTwoScopesNeverShareAnID(t *testing.T) {
	t.Parallel()
	scopes := []retryproof.Scope{
		{Endpoint: "payments", Caller: "u1:x", Key: "k"},
		{Endpoint: "payments", Caller: "u1", Key: "x:k"},
		{Endpoint: "payments:u1", Caller: "x", Key: "k"},
		{Endpoint: "paymentsu1", Caller: "x", Key: "k"},
		{Endpoint: "payments", Caller: "", Key: "u1xk"},
		{Endpoint: "", Caller: "paymentsu1", Key: "xk"},
		{Endpoint: "payments", Caller: "u1x", Key: "k"},
		{Endpoint: "payments", Caller: "u1", Key: "xk"},
		{Endpoint: "payments", Caller: "u1\x00", Key: "xk"},
		{Endpoint: "payments", Caller: "u1", Key: "\x00xk"},
		{Endpoint: "payments", Caller: "u1\x00\x00\x00\x00\x00\x00\x00\x02xk", Key: ""},
		{Endpoint: "POST /payments/pay_7/refund", Caller: "u1", Key: "k"},
		{Endpoint: "POST /orders/{id}/cancel#1", Caller: "u1", Key: "k"},
		{Endpoint: "POST /orders/{id}/cancel#2", Caller: "u1", Key: "k"},
		{Endpoint: "POST /payments?dry=1", Caller: "u1", Key: "k"},
		{Endpoint: "POST /payments", Caller: "u1", Key: "k"},
		{Endpoint: "POST /payments", Caller: "u2", Key: "k"},
	}
	seen := map[string]retryproof.Scope{}
	for _, s := range scopes {
		for _, id := range []string{string(s.ID()), string(retryproof.Of("pay", s)), retryproof.Of("pay", s).Sub("charge")} {
			if other, taken := seen[id]; taken {
				t.Errorf("%#v and %#v share %s", s, other, id)
			}
			seen[id] = s
		}
	}
	if got, want := len(seen), 3*len(scopes); got != want {
		t.Errorf("got %d ids, want %d", got, want)
	}
}

func TestPartsCannotMoveFromOneToTheNext(t *testing.T) {
	t.Parallel()
	lists := [][]string{{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""}, {"a:b"}, {"a", ":b"}, {"a:", "b"}}
	seen := map[retryproof.ID][]string{}
	for _, parts := range lists {
		id := retryproof.Derive("x", parts...)
		if other, taken := seen[id]; taken {
			t.Errorf("%q and %q share %s", parts, other, id)
		}
		seen[id] = parts
	}
	if a, b := retryproof.Derive("x", "y", "z"), retryproof.Derive("xy", "z"); strings.TrimPrefix(string(a), "x_") == strings.TrimPrefix(string(b), "xy_") {
		t.Error("the kind runs into the first part")
	}
}

func TestSubRefusesPartsThatCouldGiveOneNameTwice(t *testing.T) {
	t.Parallel()
	for _, parts := range [][]string{{""}, {"a", ""}, {"a:b"}, {"a", ":"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Sub(%q) did not panic", parts)
				}
			}()
			retryproof.ID("pay_7").Sub(parts...)
		}()
	}
}

func FuzzDeriveTellsListsApart(f *testing.F) {
	f.Add("u1:x", "k", "u1", "x:k")
	f.Add("", "ab", "a", "b")
	f.Add("a", "b", "a", "b")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		same := a == c && b == d
		first := retryproof.Scope{Endpoint: "e", Caller: a, Key: retryproof.Key(b)}
		second := retryproof.Scope{Endpoint: "e", Caller: c, Key: retryproof.Key(d)}
		if got := first.ID() == second.ID(); got != same {
			t.Errorf("(%q, %q) and (%q, %q): got one id %v, want %v", a, b, c, d, got, same)
		}
		if got, want := string(retryproof.Derive("pay", "e", a, b)), "pay_"+sum("pay", "e", a, b); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
