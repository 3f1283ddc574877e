package main

import (
	"reflect"
	"testing"
)

func TestANegativeNumberIsTheFlagsValue(t *testing.T) {
	t.Parallel()
	got := joinNegatives([]string{"explore", "--seeds", "-5", "--from=1", "-6", "--", "-7", "--twice", "-h", "x", "-8"})
	want := []string{"explore", "--seeds=-5", "--from=1", "-6", "--", "-7", "--twice", "-h", "x", "-8"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
