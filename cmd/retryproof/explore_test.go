package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// exploreJSON runs explore and returns its report and exit code.
func exploreJSON(t *testing.T, args ...string) (exploreReport, int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"explore", "--format", "json"}, args...), &stdout, &stderr)
	var r exploreReport
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("exit %d: %v\n%s%s", code, err, stdout.Bytes(), stderr.Bytes())
	}
	return r, code
}

func TestOneSeedIsOneTraceOnEveryStore(t *testing.T) {
	t.Parallel()
	want, code := exploreJSON(t, "--seeds", "20", "--twice")
	if code != exitOK || len(want.Violations) > 0 || want.Payments == 0 {
		t.Fatalf("memory: got exit %d and %+v", code, want)
	}
	t.Run("store=sqlite", func(t *testing.T) {
		t.Parallel()
		got, code := exploreJSON(t, "--seeds", "20", "--store", "sqlite")
		if code != exitOK || got.Hash != want.Hash {
			t.Errorf("got exit %d and trace %s, want the trace of memory, %s", code, got.Hash, want.Hash)
		}
	})
	t.Run("store=postgres", func(t *testing.T) {
		t.Parallel()
		got, code := exploreJSON(t, "--seeds", "20", "--store", freshDatabase(t))
		if code != exitOK || got.Hash != want.Hash {
			t.Errorf("got exit %d and trace %s, want the trace of memory, %s", code, got.Hash, want.Hash)
		}
	})
}

func TestAViolationEndsWithTheCommandThatRepeatsIt(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"explore", "--without", "inbox", "--seeds", "200"}, &stdout, &stderr)
	if code != exitFailure {
		t.Fatalf("exit code: got %d, want %d", code, exitFailure)
	}
	shown := stdout.String()
	for _, want := range []string{"\nseed ", "\nenough: ", "\n   1. at ", "\nthe run, in virtual seconds", "\n  1. "} {
		at := strings.Index(shown, want)
		if at < 0 {
			t.Fatalf("%q is missing, or not where it belongs, in %s", want, stdout.String())
		}
		shown = shown[at:]
	}
	_, command, ok := strings.Cut(strings.TrimSpace(stderr.String()), "repeat it with: retryproof ")
	if !ok || !strings.Contains(stdout.String(), "double-credit") {
		t.Fatalf("got %s\n%s", stdout.String(), stderr.String())
	}
	r, code := exploreJSON(t, strings.Fields(command)[1:]...)
	if code != exitFailure || r.Seeds != 1 || len(r.Violations) != 1 || r.Violations[0].Rule != "double-credit" {
		t.Errorf("%s: got exit %d and %+v", command, code, r)
	}
}

func TestAnUnknownRuleListsTheRules(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"explore", "--without", "luck"}, &stdout, &stderr)
	if got := stderr.String(); code != exitMisuse || strings.Count(got, "\n") != 1 || !strings.Contains(got, "derived-psp-key") {
		t.Errorf("got exit %d and %q, want %d and one line that lists the rules", code, got, exitMisuse)
	}
}

func TestTheHeadlineIsTheHarmOfTheRunBelowIt(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"void", "inbox"} {
		_, stdout, _ := runHere(t, "explore", "--without", rule, "--seeds", "300")
		_, shown, _ := strings.Cut(stdout, "\nseed ")
		headline, trace, ok := strings.Cut(shown, "\nthe run, in virtual seconds, these lines marked:\n")
		_, harm, found := strings.Cut(strings.SplitN(headline, "\n", 2)[0], " s: ")
		if !ok || !found || !strings.Contains(trace, harm) {
			t.Errorf("%s: got the headline %q over another run:\n%s", rule, headline, trace)
		}
	}
}

func TestNothingFoundIsSaid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"explore --seeds 3", "no harm was found"},
		{"explore --exhaustive", "no harm was found"},
		{"explore --seeds 1 --without guard", "the harm was NOT found: without guard,"},
		{"explore --exhaustive --without guard", "the harm was NOT found: without guard,"},
	} {
		code, stdout, stderr := runHere(t, strings.Fields(c.args)...)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if got := lines[len(lines)-1]; code != exitOK || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %d, %q and %q, want %q last", c.args, code, got, stderr, c.want)
		}
	}
}
