package main

import (
	"reflect"
	"testing"
	"time"
)

func FuzzDurationsHaveDays(f *testing.F) {
	for text, want := range map[string]time.Duration{"30d": 30 * 24 * time.Hour, "5s": 5 * time.Second, "0": 0, "106751d": 106751 * 24 * time.Hour} {
		if got, err := parseDuration(text); err != nil || got != want {
			f.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1.5d", "-1d", "106752d", "3y", "1d2h"} {
		if got, err := parseDuration(text); err == nil {
			f.Errorf("%q: got %v, want an error", text, got)
		}
	}
	f.Add("99999999999999999999d")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseDuration(text)
		if again, err2 := parseDuration(got.String()); err == nil && (err2 != nil || again != got) {
			t.Errorf("%q is %v, which reads as %v, %v", text, got, again, err2)
		}
	})
}

func TestANegativeNumberIsTheFlagsValue(t *testing.T) {
	t.Parallel()
	got := joinNegatives([]string{"explore", "--seeds", "-5", "--from=1", "-6", "--", "-7", "--twice", "-h", "x", "-8"})
	want := []string{"explore", "--seeds=-5", "--from=1", "-6", "--", "-7", "--twice", "-h", "x", "-8"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
