package version_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/version"
)

var phone = version.Line{Stream: "likes", Caller: "u1", Device: "D1"}

func write(n int64, value string) version.Write {
	return version.Write{Line: phone, Subject: "post_7", Version: n, Action: fmt.Sprint("act_", n), Value: []byte(value)}
}

func checked(t *testing.T, w version.Write) version.Write {
	t.Helper()
	w, err := version.Check(w)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestOnlyAHigherVersionIsApplied(t *testing.T) {
	t.Parallel()
	stands := version.Next(nil, checked(t, write(41, "liked"))).Mark
	otherAction := write(41, "liked")
	otherAction.Action = "act_other"
	for what, c := range map[string]struct {
		write version.Write
		want  version.Verdict
		value string
	}{
		"the next":               {write(42, "unliked"), version.Applied, "unliked"},
		"the largest":            {write(math.MaxInt64, "unliked"), version.Applied, "unliked"},
		"the same":               {write(41, "liked"), version.Repeat, "liked"},
		"the same, another":      {write(41, "unliked"), version.Mismatch, "liked"},
		"the same of another id": {otherAction, version.Mismatch, "liked"},
		"the one before":         {write(40, "unliked"), version.Stale, "liked"},
		"the first":              {write(1, "unliked"), version.Stale, "liked"},
	} {
		got := version.Next(&stands, checked(t, c.write))
		if got.Verdict != c.want || string(got.Mark.Value) != c.value {
			t.Errorf("%s: got %v with %q, want %v with %q", what, got.Verdict, got.Mark.Value, c.want, c.value)
		}
	}
}

// A release that adds a field to an action's meaning must not turn a copy into another
// action.
func TestFingerprintsOfTwoReleasesAreCompared(t *testing.T) {
	t.Parallel()
	before := write(41, "liked")
	before.Fingerprint = retryproof.FingerprintOf(retryproof.Text("post", "7"))
	after := before
	after.Fingerprint = retryproof.FingerprintOf(retryproof.Text("post", "7"), retryproof.Text("mood", "").Since(2))
	for _, pair := range [][2]version.Write{{before, after}, {after, before}} {
		mark := version.Next(nil, checked(t, pair[0])).Mark
		if got := version.Next(&mark, checked(t, pair[1])).Verdict; got != version.Repeat {
			t.Errorf("got %v, want %v", got, version.Repeat)
		}
	}
}

func TestWritesThatNobodyCouldNumberAreRefused(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(*version.Write){
		"version 0":       func(w *version.Write) { w.Version = 0 },
		"version -1":      func(w *version.Write) { w.Version = -1 },
		"no stream":       func(w *version.Write) { w.Stream = "" },
		"no caller":       func(w *version.Write) { w.Caller = "" },
		"no device":       func(w *version.Write) { w.Device = "" },
		"no action":       func(w *version.Write) { w.Action = "" },
		"value too long":  func(w *version.Write) { w.Value = []byte(strings.Repeat("x", version.MaxValueBytes+1)) },
		"bad fingerprint": func(w *version.Write) { w.Fingerprint = "x" },
	} {
		w := write(41, "liked")
		spoil(&w)
		_, err := version.Check(w)
		if retryproof.CodeOf(err) != retryproof.CodeInvalid || retryproof.OutcomeOf(err) != retryproof.NotDone {
			t.Errorf("%s: got error %v, want one that is invalid and NotDone", what, err)
		}
	}
}
