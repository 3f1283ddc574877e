package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestATokenFileMeansWhatItSays(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	for what, c := range map[string]struct{ text, hint string }{
		"a token twice":         {`{"` + token + `":"u1","` + token + `":"u2"}`, "each token once"},
		"twice, once escaped":   {`{"` + token + `":"u1","\u00300123456789abcde":"u3","\u0030123456789abcdef":"u2"}`, "each token once"},
		"a blank behind":        {`{"` + token + ` ":"u1"}`, "token 1 has a blank"},
		"a blank inside":        {`{"01234567 89abcdef":"u1"}`, "token 1 has a blank"},
		"not ASCII":             {`{"0123456789abcdeé":"u1"}`, "visible ASCII"},
		"a short one":           {`{"` + token + `":"u1","hunter2":"u2"}`, "token 2 is shorter"},
		"no name":               {`{"` + token + `":""}`, "a caller of 1 to 128 bytes"},
		"a name with a NUL":     {`{"` + token + `":"bad\u0000caller"}`, "control characters"},
		"a name with a newline": {`{"` + token + `":"bad\ncaller"}`, "control characters"},
		"a long name":           {`{"` + token + `":"` + strings.Repeat("u", 129) + `"}`, "1 to 128 bytes"},
		"a name that is bytes":  {`{"` + token + `":"` + "\xff" + `"}`, "not a JSON object"},
		"a number":              {`{"` + token + `":7}`, "member 1 has no text"},
		"a list":                {`["` + token + `"]`, "not a JSON object"},
		"two objects":           {`{"` + token + `":"u1"} {}`, "not a JSON object"},
		"nothing":               {`{}`, "lists no token"},
	} {
		_, err := parseTokens([]byte(c.text), "caller")
		if err == nil || !strings.Contains(err.Error(), c.hint) || strings.Contains(err.Error(), "0123") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want %q and no token", what, err, c.hint)
		}
	}
	list, err := parseTokens([]byte(`{"`+token+`":"`+strings.Repeat("ü", 64)+`","`+token+`2":"u 2"}`), "caller")
	if err != nil {
		t.Fatal(err)
	}
	if caller, known := list.authenticate(token + "2"); !known || caller != "u 2" {
		t.Errorf("got %q %v, want u 2", caller, known)
	}
}

func FuzzATokenFileIsReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"0123456789abcdef":"ann","0123456789abcdeg":"bob"}`))
	f.Add([]byte(`{"0123456789abcdef":"a\u0000"}`))
	f.Add([]byte("{\"0123456789abcdef \":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseTokens(text, "caller")
		if err != nil {
			return
		}
		seen := map[[32]byte]bool{}
		for _, e := range list.entries {
			if seen[e.digest] || e.caller == "" || len(e.caller) > 128 || !utf8.ValidString(e.caller) || strings.Contains(e.caller, "\x00") {
				t.Errorf("got %+v", e)
			}
			seen[e.digest] = true
		}
	})
}
