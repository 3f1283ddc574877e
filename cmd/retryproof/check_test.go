package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const checkExample = "../../examples/check/payments.json"

// settings writes a file for check config.
func settings(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "path.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// unsafeSettings are the story's rows formula-1 and formula-2.
const unsafeSettings = `{
	"client": {"timeout": "10s", "retry_horizon": "7200s"},
	"server": {"stamp": "pickup", "wait_before_stamp": "11.98s", "guard": "window", "guard_memory": "3600s"}
}`

func TestTheExampleOfCheckConfigPasses(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runHere(t, "check", "config", checkExample)
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "0 refused, 0 warnings, 19 hold") || !strings.Contains(stdout, "5s + 20ms + 500ms = 5.52s < 10s") {
		t.Errorf("got %d, %q, %q, want 0 and what holds", code, stdout, stderr)
	}
}

func TestCheckConfigRefusesWithTheFormulaAndItsNumbers(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runHere(t, "check", "config", settings(t, unsafeSettings))
	for _, want := range []string{"refuse   formula-1", "1h < 2h", "refuse   formula-2", "5s + 11.98s = 16.98s ≥ 10s", "nothing is said of: psp", "2 refused, 0 warnings"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("got %q, want %q", stdout, want)
		}
	}
	if code != exitFailure || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "2 refused: formula-1, formula-2") {
		t.Errorf("got %d and %q, want 1 and one line", code, stderr)
	}
}

func TestCheckConfigPrintsOneJSONObject(t *testing.T) {
	t.Parallel()
	type result struct {
		File     string
		OK       bool
		Findings []struct{ Severity, Code, Formula, Numbers, Harm string }
		Held     []struct{ Code, Formula, Numbers string }
		Left     []string `json:"not_described"`
	}
	for path, want := range map[string]result{
		checkExample: {OK: true}, settings(t, unsafeSettings): {Findings: make([]struct{ Severity, Code, Formula, Numbers, Harm string }, 2), Left: make([]string, 7)},
	} {
		code, stdout, _ := runHere(t, "check", "config", path, "--format", "json")
		var got result
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatal(err)
		}
		if got.File != path || got.OK != want.OK || (code == exitOK) != want.OK || len(got.Findings) != len(want.Findings) || len(got.Left) != len(want.Left) || len(got.Held) == 0 {
			t.Errorf("got %d, %+v", code, got)
		}
		for _, f := range got.Findings {
			if f.Severity != "refuse" || f.Code == "" || f.Formula == "" || f.Numbers == "" || f.Harm == "" {
				t.Errorf("got %+v, want every member", f)
			}
		}
	}
}

func TestCheckConfigsMisuseIsOneLineWithAHint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		hint string
	}{
		"no file":     {[]string{filepath.Join(t.TempDir(), "nothing.json")}, "or - for standard input"},
		"a folder":    {[]string{t.TempDir()}, "or - for standard input"},
		"one prefix":  {[]string{settings(t, `{"server":{"dedline":"5s"},"client":{"timeout":5}}`)}, "path.json: line 1, column 12: server.dedline is unknown; did you mean server.deadline?; line 1, column"},
		"a typo":      {[]string{settings(t, `{"server":{"dedline":"5s"},"client":{"timeout":5}}`)}, "did you mean server.deadline?"},
		"no argument": {nil, "FILE"},
		"no format":   {[]string{checkExample, "--format", "yaml"}, "json"},
	} {
		code, stdout, stderr := runHere(t, append([]string{"check", "config"}, c.args...)...)
		if code != exitMisuse || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.hint) {
			t.Errorf("%s: got %d, %q, %q, want 2 and one line with %q", name, code, stdout, stderr, c.hint)
		}
	}
}

func TestCheckConfigReadsStandardInput(t *testing.T) {
	t.Parallel()
	got, err := (&checkConfigCommand{File: "-"}).read(strings.NewReader(unsafeSettings))
	if err != nil || string(got) != unsafeSettings {
		t.Errorf("got %q, %v, want what was piped in", got, err)
	}
}
