package retryproof_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/retryproof/retryproof"
)

// case 9
func TestKeySyntax(t *testing.T) {
	t.Parallel()
	const missing, malformed = retryproof.CodeKeyMissing, retryproof.CodeKeyMalformed
	var visible strings.Builder
	for c := byte(0x21); c < 0x7f; c++ {
		visible.WriteByte(c)
	}
	long := func(n int) []string { return []string{strings.Repeat("k", n)} }
	for _, c := range []struct {
		name   string
		header []string
		want   string
		code   retryproof.Code
	}{
		{"no header", nil, "", missing},
		{"empty", []string{""}, "", missing},
		{"blanks", []string{" \t "}, "", missing},
		{"quoted empty", []string{`""`}, "", missing},
		{"two headers", []string{"K1", "K2"}, "", malformed},
		{"two equal headers", []string{"K1", "K1"}, "", malformed},
		{"two keys in one", []string{"K1, K2"}, "", malformed},
		{"two quoted keys in one", []string{`"K1", "K2"`}, "", malformed},
		{"raw", []string{"K1"}, "K1", ""},
		{"quoted", []string{`"K1"`}, "K1", ""},
		{"blanks around", []string{"\t K1 "}, "K1", ""},
		{"blanks around quotes", []string{` "K1" `}, "K1", ""},
		{"quoted blank", []string{`"K 1"`}, "", malformed},
		{"quoted outer blank", []string{`" K1"`}, "", malformed},
		{"inner blank", []string{"K 1"}, "", malformed},
		{"one quote", []string{`"`}, "", malformed},
		{"open quote", []string{`"K1`}, "", malformed},
		{"quote inside", []string{`"K"1"`}, "", malformed},
		{"parameters", []string{`"K1";a=1`}, "", malformed},
		{"quoted parameter", []string{`"K1";a="1"`}, "", malformed},
		{"escaped quote", []string{`"K\"1"`}, `K"1`, ""},
		{"escaped backslash", []string{`"K\\1"`}, `K\1`, ""},
		{"escaped letter", []string{`"K\1"`}, "", malformed},
		{"escape at the end", []string{`"K1\"`}, "", malformed},
		{"raw quote inside", []string{`K"1`}, `K"1`, ""},
		{"raw backslash", []string{`K\1`}, `K\1`, ""},
		{"every visible byte", []string{"x" + visible.String()[1:]}, "x" + visible.String()[1:], ""},
		{"0xff", []string{"\xff"}, "", malformed},
		{"quoted 0xff", []string{"\"\xff\""}, "", malformed},
		{"delete", []string{"K\x7f"}, "", malformed},
		{"zero byte", []string{"K\x00"}, "", malformed},
		{"new line", []string{"K\n1"}, "", malformed},
		{"letter outside ASCII", []string{"ké"}, "", malformed},
		{"255 bytes", long(255), strings.Repeat("k", 255), ""},
		{"255 quoted bytes", []string{`"` + strings.Repeat("k", 255) + `"`}, strings.Repeat("k", 255), ""},
		{"256 bytes", long(256), "", malformed},
		{"4096 bytes", long(4096), "", malformed},
		{"16384 bytes", long(16384), "", malformed},
		{"e-mail", []string{"ann@example.com"}, "", malformed},
		{"quoted e-mail", []string{`"ann@example.com"`}, "", malformed},
		{"e-mail in a prefix", []string{"order-ann@mail.example.com"}, "", malformed},
		{"e-mail with a final dot", []string{"bob@example.com."}, "", malformed},
		{"e-mail and a number", []string{"bob@example.com@1"}, "", malformed},
		{"e-mail inside", []string{"pay:bob@example.co.uk/42"}, "", malformed},
		{"e-mail and a suffix", []string{"bob@example.com-42"}, "", malformed},
		{"e-mail after another at sign", []string{"@x@bob@example.com"}, "", malformed},
		{"e-mail with a digit domain", []string{"bob@163.com"}, "", malformed},
		{"e-mail with a hyphen and capitals", []string{"BOB+x@MY-SHOP.example"}, "", malformed},
		{"order at number", []string{"order@42"}, "order@42", ""},
		{"order at version", []string{"order@1.2.3"}, "order@1.2.3", ""},
		{"order at amount", []string{"42@30.00eur"}, "42@30.00eur", ""},
		{"one letter after the dot", []string{"a@b.c"}, "a@b.c", ""},
		{"two at signs", []string{"a@@b.com"}, "a@@b.com", ""},
		{"domain without at sign", []string{"example.com/42"}, "example.com/42", ""},
		{"UUID", []string{"0192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e07"}, "0192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e07", ""},
		{"base64url", []string{"q83vEjRW_eJ-kKvN7wEjRQ"}, "q83vEjRW_eJ-kKvN7wEjRQ", ""},
		{"base64", []string{"q83vEjRW/eJ+kKvN7wEjRQ=="}, "q83vEjRW/eJ+kKvN7wEjRQ==", ""},
		{"at sign alone", []string{"a@b"}, "a@b", ""},
		{"at sign in front", []string{"@a.b"}, "@a.b", ""},
		{"at sign at the end", []string{"a.b@"}, "a.b@", ""},
		{"dot right after the at sign", []string{"a@.b"}, "a@.b", ""},
		{"dot at the end", []string{"a@b."}, "a@b.", ""},
	} {
		got, err := retryproof.KeyFromHeader(c.header)
		if string(got) != c.want || retryproof.CodeOf(err) != c.code {
			t.Errorf("%s: got %q, code %q, want %q, code %q", c.name, string(got), retryproof.CodeOf(err), c.want, c.code)
		}
		if c.code == "" {
			continue
		}
		if got, want := retryproof.OutcomeOf(err), retryproof.NotDone; got != want {
			t.Errorf("%s: got outcome %v, want %v", c.name, got, want)
		}
		for _, v := range c.header {
			if v = strings.Trim(v, "\" \t"); len(v) > 1 && strings.Contains(err.Error(), v) {
				t.Errorf("%s: the error shows the key: %v", c.name, err)
			}
		}
	}
}

func FuzzKeyFromHeader(f *testing.F) {
	for _, seed := range []string{"", " ", "K1", `"K1"`, `"K\"1"`, `"K\\"`, `"`, "a@b.c", "\xff", "K1;a=1", "bob@example.com.", "bob@example.com@1", `"order@42"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v string) {
		key, err := retryproof.KeyFromHeader([]string{v})
		if err != nil {
			if key != "" || retryproof.OutcomeOf(err) != retryproof.NotDone {
				t.Fatalf("got %q and outcome %v, want no key and not done", string(key), retryproof.OutcomeOf(err))
			}
			return
		}
		if again, err := retryproof.ParseKey(string(key)); again != key || err != nil {
			t.Fatalf("ParseKey of an accepted key: got %q, %v", string(again), err)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(string(key)) + `"`
		if again, err := retryproof.KeyFromHeader([]string{quoted}); again != key || err != nil {
			t.Fatalf("raw and quoted differ: got %q, %v, want %q", string(again), err, string(key))
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add("K1")
	f.Add("")
	f.Add("a b")
	f.Add(strings.Repeat("k", 256))
	f.Add("bob@example.com.")
	f.Add("bob@example.com@1")
	f.Add("order@42")
	address := regexp.MustCompile(`[^@]@[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.[A-Za-z]{2}`)
	f.Fuzz(func(t *testing.T, s string) {
		key, err := retryproof.ParseKey(s)
		if err == nil && address.MatchString(s) {
			t.Fatalf("accepted %q, which holds an e-mail address", s)
		}
		if err == nil && (string(key) != s || s == "" || len(s) > retryproof.MaxKeyBytes || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })) {
			t.Fatalf("accepted %q as %q", s, string(key))
		}
		if err != nil && (key != "" || retryproof.CodeOf(err) == "") {
			t.Fatalf("got %q, code %q, want no key and a code", string(key), retryproof.CodeOf(err))
		}
	})
}

func TestNoVerbOrLogHandlerPrintsAKey(t *testing.T) {
	t.Parallel()
	type around struct {
		Name  string
		Scope retryproof.Scope
		Keys  []retryproof.Key
		ByKey map[retryproof.Key]int
	}
	secret := retryproof.Key("secret-key-4711")
	scope := retryproof.Scope{Endpoint: "payments", Caller: "u1", Key: secret}
	values := map[string]any{
		"key": secret, "pointer": &secret, "scope": scope, "pointer to scope": &scope,
		"struct":            around{"n", scope, []retryproof.Key{secret}, map[retryproof.Key]int{secret: 1}},
		"pointer to struct": &around{Scope: scope}, "list": []retryproof.Scope{scope}, "map": map[string]retryproof.Scope{"s": scope},
		"error": fmt.Errorf("key %v: %w", secret, &retryproof.Error{Message: fmt.Sprint(scope)}),
	}
	shows := func(s string) bool {
		return strings.Contains(s, string(secret)) || strings.Contains(s, fmt.Sprintf("%x", string(secret))) || strings.Contains(s, fmt.Sprintf("%X", string(secret)))
	}
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T", "%08.3f", "%U", "%c"} {
			if got := fmt.Sprintf(verb, v); shows(got) {
				t.Errorf("%s with %s shows the key: %s", name, verb, got)
			}
		}
		if got := fmt.Sprint(v) + fmt.Sprintln(v); shows(got) {
			t.Errorf("%s shows the key: %s", name, got)
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", v)
		if _, structWithKeys := v.(around); !structWithKeys { // encoding/json must keep a key that stands alone
			slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", v, slog.Group("g", "v", v))
		}
		if shows(log.String()) {
			t.Errorf("%s: slog shows the key: %s", name, log.String())
		}
	}
}

func TestPrintedKeysCanBeToldApart(t *testing.T) {
	t.Parallel()
	if got, want := fmt.Sprint(k1), "key:"+sum("log-key", string(k1))[:8]; got != want || got != "key:z3nmy4hq" {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(retryproof.Key("")), "key:none"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if fmt.Sprint(retryproof.Key("a")) == fmt.Sprint(retryproof.Key("b")) {
		t.Error("two keys print alike")
	}
}

func TestTheJSONOfAScopeIsForLogsOnly(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(story)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(data), `{"endpoint":"payments","caller":"u1","key":"key:z3nmy4hq"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var back retryproof.Scope
	if err := json.Unmarshal(data, &back); retryproof.CodeOf(err) != retryproof.CodeInvalid || back != (retryproof.Scope{}) {
		t.Errorf("got %v and %v, want a refusal", back, err)
	}
}

func TestAKeyAloneSurvivesJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(k1)
	if err != nil {
		t.Fatal(err)
	}
	var got retryproof.Key
	if err := json.Unmarshal(data, &got); err != nil || got != k1 {
		t.Errorf("got %q, %v, want %q", string(got), err, string(k1))
	}
}

func TestScopeNeedsAllThreeParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scope retryproof.Scope
		want  retryproof.Code
	}{
		{story, ""},
		{retryproof.Scope{Caller: "u1", Key: "k"}, retryproof.CodeInvalid},
		{retryproof.Scope{Endpoint: "e", Key: "k"}, retryproof.CodeInvalid},
		{retryproof.Scope{Endpoint: "e", Caller: "u1"}, retryproof.CodeKeyMissing},
	} {
		err := c.scope.Valid()
		if got := retryproof.CodeOf(err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.scope, got, c.want)
		}
		var e *retryproof.Error
		if errors.As(err, &e) && e.Outcome != retryproof.NotDone {
			t.Errorf("%v: got %v, want %v", c.scope, e.Outcome, retryproof.NotDone)
		}
	}
}

// case 9: every scope that is accepted fits the index of every store.
func TestAScopeHasALongestEndpointCallerAndKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                  string
		endpoint, caller, key int
		want                  retryproof.Code
	}{
		{"longest", retryproof.MaxEndpointBytes, retryproof.MaxCallerBytes, retryproof.MaxKeyBytes, ""},
		{"endpoint", retryproof.MaxEndpointBytes + 1, 1, 1, retryproof.CodeInvalid},
		{"caller", 1, retryproof.MaxCallerBytes + 1, 1, retryproof.CodeInvalid},
		{"key", 1, 1, retryproof.MaxKeyBytes + 1, retryproof.CodeKeyMalformed},
	} {
		s := retryproof.Scope{Endpoint: strings.Repeat("e", c.endpoint), Caller: strings.Repeat("c", c.caller), Key: retryproof.Key(strings.Repeat("k", c.key))}
		if got := retryproof.CodeOf(s.Valid()); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
