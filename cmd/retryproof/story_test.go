package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/retryproof/retryproof/sim/story"
)

func TestTheStoryComesOut(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runHere(t, "story", "run", "all")
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "[G] values came out") {
		t.Errorf("got %d, %q on stderr, want 0 and a summary", code, stderr)
	}
}

func TestABriefStoryIsItsTable(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runHere(t, "story", "run", "all", "--brief")
	if code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "branch ") || strings.Count(stdout, "\n") > 50 || !strings.Contains(stdout, "as predicted") {
		t.Errorf("got %d, %q, %q, want the table only", code, stdout, stderr)
	}
	_, stdout, _ = runHere(t, "story", "run", "all")
	if !strings.HasSuffix(stdout, "--brief prints this table only.\n") {
		t.Error("the whole story does not mention --brief at its end")
	}
}

func TestTheStoryPrintsOneObjectPerBranch(t *testing.T) {
	t.Parallel()
	code, stdout, _ := runHere(t, "story", "run", "all", "--format", "json", "--set", "amount=4200")
	if code != exitOK {
		t.Fatalf("got %d, want 0", code)
	}
	totals := map[string]int64{}
	for line := range strings.Lines(stdout) {
		var r struct {
			ID           string
			OK           bool
			ChargedTotal int64 `json:"charged_total"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if !r.OK {
			t.Errorf("%s is not ok", r.ID)
		}
		totals[r.ID] = r.ChargedTotal
	}
	if totals["main"] != 4200 || totals["naive"] != 8400 {
		t.Errorf("got %v, want 4200 in main and 8400 in naive", totals)
	}
}

func TestStoryListShowsBranchesParametersAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	code, stdout, _ := runHere(t, "story", "list")
	for _, want := range []string{"main", "six-ways", "not yet:", "psp_latency", "client_timeout"} {
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("got %d without %q", code, want)
		}
	}
	code, stdout, _ = runHere(t, "story", "list", "--format", "json")
	var list struct{ Branches, Parameters []map[string]any }
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != exitOK || len(list.Branches) == 0 || len(list.Parameters) == 0 {
		t.Errorf("got %d, %v and %d branches", code, err, len(list.Branches))
	}
}

func TestStoryMisuseSaysWhatThereIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		hint string
	}{
		{[]string{"story", "run", "nothing"}, "main"},
		{[]string{"story", "run", "D-voi"}, "did you mean D-void? There are: all, main"},
		{[]string{"story", "run", "all", "--brief", "--format", "json"}, "--brief"},
		{[]string{"story", "run", "F2"}, "not be played yet"},
		{[]string{"story", "run", "main", "--set", "size=3"}, "amount"},
		{[]string{"story", "run", "all", "--set", "size=3"}, "amount"},
		{[]string{"story", "run", "main", "--set", "deadline=5d"}, "ms, s, min, h"},
		{[]string{"story", "run", "main", "--format", "xml"}, "text"},
		{[]string{"story", "run"}, "ID"},
	} {
		code, stdout, stderr := runHere(t, c.args...)
		if code != exitMisuse || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(strings.ReplaceAll(stderr, "cannot", "not"), c.hint) {
			t.Errorf("%v: got %d, %q, want 2 and one line with %q", c.args, code, stderr, c.hint)
		}
	}
}

func TestAFailedExpectationIsAFailureAndNoMisuse(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		r, err := story.Run("main")
		if err != nil {
			t.Fatal(err)
		}
		r.Checks[0].OK, r.Checks[0].Want = false, "something else"
		var out bytes.Buffer
		err = (&storyRunCommand{Branch: "main", Format: format}).print(output{stdout: &out, stderr: &out}, []story.Result{r})
		var wrong misuse
		if err == nil || errors.As(err, &wrong) || !strings.Contains(err.Error(), "expected something else") {
			t.Errorf("%s: got %v, want a failure that names the expectation", format, err)
		}
	}
}

func TestABranchWithoutMeaningIsLeftOutOfAll(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runHere(t, "story", "run", "all", "--set", "client_timeout=4")
	if code != exitOK || !strings.Contains(stderr, "not played: branch 3a") || strings.Contains(stdout, "\n3a ") {
		t.Errorf("got %d, %q", code, stderr)
	}
}
