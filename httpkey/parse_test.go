package httpkey_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
)

// case 9
func TestKeysAndBodiesHaveLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, ok("done"))
	random := func(n int) string {
		r := rand.New(rand.NewPCG(1, uint64(n)))
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('!' + r.IntN('~'-'!'))
		}
		b[0], b[n-1] = 'a', 'a'
		return strings.ReplaceAll(string(b), "@", "a")
	}
	for _, c := range []struct {
		name string
		keys []string
		code retryproof.Code
	}{
		{"missing", nil, retryproof.CodeKeyMissing},
		{"empty", []string{""}, retryproof.CodeKeyMissing},
		{"blanks", []string{"  \t"}, retryproof.CodeKeyMissing},
		{"quoted empty", []string{`""`}, retryproof.CodeKeyMissing},
		{"two lines", []string{"K1", "K2"}, retryproof.CodeKeyMalformed},
		{"byte 0xff", []string{"K\xff"}, retryproof.CodeKeyMalformed},
		{"e-mail", []string{"u1@example.com"}, retryproof.CodeKeyMalformed},
		{"256", []string{random(256)}, retryproof.CodeKeyMalformed},
		{"4096", []string{random(4096)}, retryproof.CodeKeyMalformed},
		{"16384", []string{random(16384)}, retryproof.CodeKeyMalformed},
	} {
		for _, user := range []string{"u1", "u2"} {
			resp := w.send(ask{user: user, header: http.Header{httpkey.HeaderKey: c.keys}})
			wantAnswer(t, resp, 400, c.code)
			if text := bodyOf(t, resp); c.keys != nil && len(c.keys[0]) > 4 && strings.Contains(text, c.keys[0]) {
				t.Errorf("%s: the key was shown: %s", c.name, text)
			}
		}
	}
	r := ask{key: "K1"}.request()
	r.ContentLength, r.Body = -1, io.NopCloser(io.LimitReader(zeros{}, 50<<20))
	rec := httptest.NewRecorder()
	w.next.ServeHTTP(rec, r)
	wantAnswer(t, rec.Result(), 413, retryproof.CodeTooLarge)
	r = ask{key: "K1"}.request()
	r.ContentLength, r.Body = 10, io.NopCloser(io.LimitReader(zeros{}, 50<<20)) // a false Content-Length
	rec = httptest.NewRecorder()
	w.next.ServeHTTP(rec, r)
	wantAnswer(t, rec.Result(), 413, retryproof.CodeTooLarge)
	w.wantRuns(0)
	if got := w.seen.of(effect.SawFirst); got != 0 {
		t.Errorf("claims: got %d, want 0", got)
	}
	wantAnswer(t, w.send(ask{key: random(255)}), 200, "")
	wantAnswer(t, w.send(ask{key: "K1", body: `"` + strings.Repeat("x", 1<<20-2) + `"`}), 200, "")
	wantAnswer(t, w.send(ask{key: "K2", body: "-"}), 200, "")
	w.wantRuns(3)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestBodyThatBreaksOffRunsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, ok("done"))
	r := ask{key: "K1"}.request()
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{}"), errReader{}))
	rec := httptest.NewRecorder()
	w.next.ServeHTTP(rec, r)
	wantAnswer(t, rec.Result(), 400, retryproof.CodeInvalid)
	w.wantRuns(0)
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestConfigSaysEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	err := httpkey.Config{MaxBody: -1, MaxAnswer: -1, MaxResult: 1 << 20, PollAfter: -1}.Validate()
	for _, want := range []string{"Caller", "MaxBody", "MaxAnswer", "MaxResult ≤", "PollAfter"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in %v", want, err)
		}
	}
	err = httpkey.ClientConfig{MaxTries: -1, Backoff: time.Hour, MaxBody: -1, TryTimeout: -1}.Validate()
	for _, want := range []string{"MaxTries", "Backoff ≤ MaxBackoff", "MaxBody", "TryTimeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in %v", want, err)
		}
	}
}

func TestPreferWaitFollowsRFC7240(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []string
		want   time.Duration
		ok     bool
	}{
		{nil, 0, false},
		{[]string{"wait=10"}, 10 * time.Second, true},
		{[]string{"respond-async, WAIT = 10 ; x=y"}, 10 * time.Second, true},
		{[]string{"respond-async", `foo="a, wait=3"; bar, wait="7"`}, 7 * time.Second, true},
		{[]string{"wait=1, wait=2"}, time.Second, true},
		{[]string{"wait=-1"}, 0, false},
		{[]string{"wait=1.5"}, 0, false},
		{[]string{"wait"}, 0, false},
		{[]string{"wait=99999999999999999999"}, (1<<31 - 1) * time.Second, true},
		{[]string{`foo="unclosed, wait=1`}, 0, false},
	} {
		if got, ok := httpkey.PreferWait(c.values); got != c.want || ok != c.ok {
			t.Errorf("%q: got %v %v, want %v %v", c.values, got, ok, c.want, c.ok)
		}
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"", 0, false}, {"0", 0, true}, {" 120 ", 2 * time.Minute, true}, {"-1", 0, false}, {"1.5", 0, false},
		{start.Add(time.Minute).Format(http.TimeFormat), time.Minute, true},
		{start.Add(-time.Minute).Format(http.TimeFormat), 0, true},
		{"soon", 0, false},
	} {
		if got, ok := httpkey.ParseRetryAfter(c.value, start); got != c.want || ok != c.ok {
			t.Errorf("%q: got %v %v, want %v %v", c.value, got, ok, c.want, c.ok)
		}
	}
}

func TestProblemSurvivesTheWire(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	httpkey.ProblemOf(&retryproof.Error{Code: retryproof.CodeInProgress, Message: "m", Hint: "h", RetryAfter: 1200 * time.Millisecond}).Write(rec)
	resp := rec.Result()
	before := rec.Body.String()
	p, ok := httpkey.ReadProblem(resp)
	if !ok || p.Code != retryproof.CodeInProgress || p.Status != 409 || p.RetryAfter != 2 || p.Detail != "m (h)" {
		t.Errorf("got %+v %v", p, ok)
	}
	if got := resp.Header.Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After: got %q, want 2", got)
	}
	if got := bodyOf(t, resp); got != before {
		t.Errorf("the body was used up: got %q, want %q", got, before)
	}
}

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`3000`: `3e3`, `3000.0`: `3e3`, `3e3`: `3e3`, `0.3E+4`: `3e3`, `30.00`: `3e1`, `-0`: `0`, `-0.0e5`: `0`, `0.10`: `1e-1`,
		`9007199254740993`: `9007199254740993`, `-120e-1`: `-12`,
		` [ 1 , [] , {} , true , null ] `: `[1,[],{},true,null]`,
		`{"b":1,"a":{"d":1,"c":2}}`:       `{"a":{"c":2,"d":1},"b":1}`,
		`"\u00e9\ud83d\ude00\/\u0007"`:    "\"é😀/\\u0007\"",
		`{"":1}`:                          `{"":1}`,
	} {
		got, err := httpkey.CanonicalJSON([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{
		``, ` `, `{`, `[1,]`, `{"a":1,}`, `{a:1}`, `01`, `+1`, `1.`, `.5`, `1e`, `1e9999999999`, `-`, `nul`, `nulls`, `1 2`, `"`, `"\x"`,
		`"\u12"`, `"\ud800"`, `"\ud800\u0041"`, `"\udc00"`, "\"\n\"", "\"\xff\"", "\"\xc0\x80\"", "\xef\xbb\xbf{}", `{"a":1,"a":1}`,
		`{"a" 1}`, `[1 2]`, strings.Repeat("[", 200) + strings.Repeat("]", 200), `{"ignored":tru}`,
	} {
		if got, err := httpkey.CanonicalJSON([]byte(in), "ignored"); err == nil {
			t.Errorf("%q: got %s, want an error", in, got)
		} else if retryproof.CodeOf(err) != retryproof.CodeInvalid || retryproof.OutcomeOf(err) != retryproof.NotDone {
			t.Errorf("%q: got %v, want a refusal", in, err)
		}
	}
}

func TestJSONMayNestExactlyToItsLimit(t *testing.T) {
	t.Parallel()
	const limit = 128
	for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		for levels, want := range map[int]retryproof.Code{limit: "", limit + 1: retryproof.CodeInvalid} {
			text := strings.Repeat(pair[0], levels) + "1" + strings.Repeat(pair[1], levels)
			if _, err := httpkey.CanonicalJSON([]byte(text)); retryproof.CodeOf(err) != want {
				t.Errorf("%d of %s: got %v, want %q", levels, pair[0], err, want)
			}
		}
	}
}

func TestIgnoredMembersDoNotCount(t *testing.T) {
	t.Parallel()
	const in = `{"sent_at":1,"a":{"x":1,"sent_at":2,"y":3},"list":[{"sent_at":4}],"m/n":5,"z":6}`
	got, err := httpkey.CanonicalJSON([]byte(in), "sent_at", "/a/x", "m/n", "/list/0/sent_at")
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":{"sent_at":2,"y":3},"list":[{"sent_at":4}],"z":6}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := httpkey.CanonicalJSON([]byte(`{"sent_at":1,"sent_at":2}`), "sent_at"); err == nil {
		t.Error("an ignored member may occur twice")
	}
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,-0,3e3],"b":"\ud83d\ude00"}`, `{"a":1,"a":2}`, `"\ude00"`, "\"\xff\"", `[[[]]]`, `1e-400`, ` null `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := httpkey.CanonicalJSON(text)
		if err != nil {
			return
		}
		if !utf8.Valid(text) || !json.Valid(text) {
			t.Fatalf("%q was accepted", text)
		}
		again, err := httpkey.CanonicalJSON(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%q is not stable: %q, then %q %v", text, got, again, err)
		}
		if !sameJSON(t, text, got) {
			t.Fatalf("%q means something else than %q", text, got)
		}
	})
}

// sameJSON compares with encoding/json, numbers by their exact value.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	for _, d := range []struct {
		text []byte
		into *any
	}{{a, &x}, {b, &y}} {
		dec := json.NewDecoder(bytes.NewReader(d.text))
		dec.UseNumber()
		if err := dec.Decode(d.into); err != nil {
			t.Fatal(err)
		}
	}
	return sameValue(x, y)
}

func sameValue(x, y any) bool {
	switch x := x.(type) {
	case json.Number:
		y, ok := y.(json.Number)
		if !ok || strings.ContainsAny(string(x), "eE") && len(x) > 6 { // big.Rat would fill the memory
			return ok
		}
		p, _ := new(big.Rat).SetString(string(x))
		q, _ := new(big.Rat).SetString(string(y))
		return p != nil && q != nil && p.Cmp(q) == 0
	case []any:
		y, ok := y.([]any)
		for i := range x {
			ok = ok && i < len(y) && sameValue(x[i], y[i])
		}
		return ok && len(x) == len(y)
	case map[string]any:
		y, ok := y.(map[string]any)
		for name := range x {
			ok = ok && sameValue(x[name], y[name])
		}
		return ok && len(x) == len(y)
	}
	return x == y
}

func FuzzPreferWait(f *testing.F) {
	for _, s := range []string{"wait=10", `a="b,c";d, wait=1`, `"`, `\`, ";=,", "wait=="} {
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if d, ok := httpkey.PreferWait([]string{a, b}); d < 0 || !ok && d != 0 {
			t.Fatalf("%q %q: got %v %v", a, b, d, ok)
		}
	})
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "Wed, 04 Mar 2026 05:06:07 GMT", "", "99999999999999999999", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, ok := httpkey.ParseRetryAfter(s, start); d < 0 || !ok && d != 0 {
			t.Fatalf("%q: got %v %v", s, d, ok)
		}
	})
}

func FuzzParseProblem(f *testing.F) {
	for _, s := range []string{`{"code":"void"}`, `{"type":1}`, `[]`, `{"status":1e99}`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, ok := httpkey.ParseProblem(text); !ok && p.Code != "" {
			t.Fatalf("%q: got %+v", text, p)
		}
		resp := &http.Response{Header: http.Header{"Content-Type": {httpkey.ProblemType}}, Body: io.NopCloser(bytes.NewReader(text))}
		httpkey.ReadProblem(resp)
		if rest, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(rest, text) {
			t.Fatalf("the body changed: got %q %v, want %q", rest, err, text)
		}
	})
}

// What ObjectMembers accepts, CanonicalJSON accepts too, and each value is what
// encoding/json reads there.
func FuzzObjectMembers(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":" x\u0041 ","c":{"d":[3e3]}}`, `{ "a" : 3000.0 , "z" : null }`, `{"a":1,"a":2}`, `[]`, `null`, ``, `{}`, `{"\ud83d":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		members, err := httpkey.ObjectMembers(text)
		canonical, canonicalErr := httpkey.CanonicalJSON(text)
		if (err == nil) != (canonicalErr == nil && canonical[0] == '{') {
			t.Fatalf("got %v, CanonicalJSON says %v", err, canonicalErr)
		}
		if err != nil {
			return
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(text, &want) != nil || len(want) != len(members) {
			t.Fatalf("got %d members, want %d", len(members), len(want))
		}
		for _, m := range members {
			var text string
			isText := want[m.Name][0] == '"' && json.Unmarshal(want[m.Name], &text) == nil
			if got, ok := m.Text(); string(m.Value) != string(want[m.Name]) || ok != isText || got != text {
				t.Errorf("%s: got %q, %q, want %q", m.Name, m.Value, got, want[m.Name])
			}
		}
	})
}
