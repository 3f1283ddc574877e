package clip_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/retryproof/retryproof/internal/clip"
)

func TestATextIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		most int
		want string
	}{
		{"", 5, ""}, {"abcde", 5, "abcde"}, {"abcdef", 5, "abcde"}, {"a\x00b", 5, "ab"}, {"\x00\x00", 5, ""},
		{"a\xffb", 5, "a?b"}, {"\xff\xff", 1, "?"}, {"abcé", 4, "abc"}, {"abcé", 5, "abcé"}, {"é", 0, ""},
	} {
		if got := clip.Text(c.in, c.most); got != c.want {
			t.Errorf("Text(%q, %d): got %q, want %q", c.in, c.most, got, c.want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x00\xff", 2)
	f.Fuzz(func(t *testing.T, s string, most int) {
		if most < 0 {
			return
		}
		got := clip.Text(s, most)
		if len(got) > most || !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Errorf("Text(%q, %d): got %q", s, most, got)
		}
	})
}
