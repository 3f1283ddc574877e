package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stream writes events as go test -json does. Each line is "action test" or
// "output test text"; "-" is the package itself.
func stream(pkg string, lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		f := strings.SplitN(line, " ", 3)
		e := event{Action: f[0], Package: pkg, Test: f[1]}
		if e.Test == "-" {
			e.Test = ""
		}
		if len(f) > 2 {
			e.Output = f[2] + "\n"
		}
		data, _ := json.Marshal(e)
		b.Write(append(data, '\n'))
	}
	return b.String()
}

func show(results []Result) []string {
	var out []string
	for _, r := range results {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Outcome, r.Test, r.Reason)))
	}
	slices.Sort(out)
	return out
}

func TestATestIsCountedOnceWhereItHasNoSubTests(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		lines []string
		want  []string
		print []string
	}{
		{
			"sub-tests",
			[]string{"run A", "run A/x", "pass A/x", "run A/y", "output A/y     a_test.go:3: no NATS", "skip A/y", "pass A", "pass -"},
			[]string{"pass A/x", "skip A/y no NATS"},
			[]string{"ok   p: 1 passed, 0 failed, 1 skipped"},
		},
		{
			"a failed sub-test is its parent's failure",
			[]string{"run A", "run A/x", "output A/x     a_test.go:3: got 1", "fail A/x", "run A/y", "pass A/y", "fail A", "fail -"},
			[]string{"fail A/x", "pass A/y"},
			[]string{"FAIL p: 1 passed, 1 failed, 0 skipped", "a_test.go:3: got 1"},
		},
		{
			"a parent that fails alone counts too",
			[]string{"run A", "run A/x", "pass A/x", "output A     a_test.go:9: after", "fail A", "fail -"},
			[]string{"fail A", "pass A/x"},
			[]string{"a_test.go:9: after"},
		},
		{
			"a test that never ended failed",
			[]string{"run A", "pass A", "run B", "output B panic: oh", "fail -"},
			[]string{"fail B", "pass A"},
			[]string{"panic: oh"},
		},
		{
			"a package that fails without a failed test",
			[]string{"run A", "pass A", "output - exit status 3", "fail -"},
			[]string{"fail", "pass A"},
			[]string{"exit status 3"},
		},
		{
			"the names of sub-tests may have slashes",
			[]string{"run A", "run A/x/y", "pass A/x/y", "pass A", "pass -"},
			[]string{"pass A/x/y"},
			nil,
		},
		{"no tests", []string{"output - ?   p [no test files]", "skip -"}, nil, nil},
		{"killed", []string{"run A"}, []string{"fail"}, []string{"did not finish"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			got := show(readGoTest(strings.NewReader(stream("p", tt.lines...)), &out))
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			for _, want := range tt.print {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in the output:\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), "=== RUN") {
				t.Errorf("noise in the output:\n%s", out.String())
			}
		})
	}
}

func TestABuildFailureIsOneFailureWithTheCompilersWords(t *testing.T) {
	t.Parallel()
	in := `{"ImportPath":"p [p.test]","Action":"build-output","Output":"p/a.go:3:1: undefined: x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
not an event
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}
`
	var out strings.Builder
	got := show(readGoTest(strings.NewReader(in), &out))
	if want := []string{"fail"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, want := range []string{"undefined: x", "not an event"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the output:\n%s", want, out.String())
		}
	}
}

func TestADriverIsNamedByTheTestOrElseByTheFolder(t *testing.T) {
	t.Parallel()
	const module = "example.com/m"
	tests := []struct {
		pkg, test string
		want      []string
	}{
		{module + "/store/sqlite", "TestX", []string{"store=sqlite"}},
		{module + "/store/postgres/schema", "TestX", []string{"store=postgres"}},
		{module + "/store/postgres", "TestX/store=postgres-pooled/late", []string{"store=postgres-pooled"}},
		{module + "/payments", "TestX/store=memory/queue=nats-server", []string{"store=memory", "queue=nats-server"}},
		{module + "/payments", "TestX/store=memory,queue=nats", []string{"store=memory", "queue=nats"}},
		{module + "/queue/nats", "TestX", []string{"queue=nats"}},
		{module + "/store/storetest", "TestX", nil},
		{module + "/store/internal/rows", "TestX", nil},
		{module + "/store", "TestX", nil},
		{module + "/payments", "TestX/store=", nil},
	}
	for _, tt := range tests {
		got := Result{Package: tt.pkg, Test: tt.test}.drivers()
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s %s: got %q, want %q", tt.pkg, tt.test, got, tt.want)
		}
	}
}

const tapText = `TAP version 13
# Subtest: journal
    # Subtest: keeps a key
    ok 1 - keeps a key
      ---
      duration_ms: 1
      ...
    # Subtest: loses a key
    not ok 2 - loses a key
      ---
      error: 'got 1'
      ...
    1..2
not ok 1 - journal
  ---
  error: '1 subtest failed'
  ...
ok 2 - in a browser # SKIP run scripts/services.sh
ok 3 - alone
1..3
# tests 4
`

func TestTAPIsCountedLikeGoTests(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	got := show(readTAP(strings.NewReader(tapText), &out))
	want := []string{"fail loses a key", "pass alone", "pass keeps a key", "skip in a browser run scripts/services.sh"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(out.String(), "error: 'got 1'") || strings.Contains(out.String(), "duration_ms") {
		t.Errorf("want the details of failures only:\n%s", out.String())
	}
}

func TestTheSumFailsForEveryReasonAndEndsWithTheTotal(t *testing.T) {
	t.Parallel()
	pass := Result{Package: "m/store/sqlite", Test: "A", Outcome: Passed}
	fail := Result{Package: "m/p", Test: "B", Outcome: Failed}
	skip := Result{Package: "m/p", Test: "C", Outcome: Skipped, Reason: "run scripts/services.sh"}
	other := Result{Package: "m/p", Test: "D", Outcome: Skipped, Reason: "not on this system"}
	tests := []struct {
		name    string
		results []Result
		args    []string
		well    bool
		want    string
	}{
		{"all well", []Result{pass, pass}, nil, true, "2 passed, 0 failed, 0 skipped"},
		{"a failure", []Result{pass, fail}, nil, false, "1 passed, 1 failed, 0 skipped"},
		{"no service on a laptop", []Result{pass, skip}, nil, true, "1 passed, 0 failed, 1 skipped"},
		{"no service in CI", []Result{pass, skip}, []string{"-ci"}, false, "1 passed, 0 failed, 1 skipped"},
		{"another skip in CI", []Result{pass, other}, []string{"-ci"}, true, "1 passed, 0 failed, 1 skipped"},
		{"a broken check", []Result{pass}, []string{"-broken", "gofmt"}, false, "1 passed, 0 failed, 0 skipped"},
		{"nothing ran", nil, nil, false, "0 passed, 0 failed, 0 skipped"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "m.json")
			if err := save(file, Module{Name: "m", Results: tt.results}); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := run(append(append([]string{"sum"}, tt.args...), file), nil, &out)
			if got := err == nil; got != tt.well {
				t.Errorf("got %v, want well = %v", err, tt.well)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if got := lines[len(lines)-1]; got != tt.want {
				t.Errorf("last line: got %q, want %q", got, tt.want)
			}
			for _, r := range tt.results {
				if r.Reason != "" && !strings.Contains(out.String(), r.Reason) {
					t.Errorf("the reason of a skip is not listed:\n%s", out.String())
				}
			}
			if !strings.Contains(out.String(), "store=postgres-pooled") {
				t.Error("a known driver without tests is not listed")
			}
		})
	}
}

func FuzzReadGoTest(f *testing.F) {
	f.Add(stream("p", "run A", "output A x", "pass A", "pass -"))
	f.Add("{}\n{\"Action\":\"fail\"}\nnot json")
	f.Fuzz(func(t *testing.T, in string) {
		checkResults(t, readGoTest(strings.NewReader(in), &strings.Builder{}))
	})
}

func FuzzReadTAP(f *testing.F) {
	f.Add(tapText)
	f.Fuzz(func(t *testing.T, in string) {
		checkResults(t, readTAP(strings.NewReader(in), &strings.Builder{}))
	})
}

// checkResults fails when a result would be in no column of the report.
func checkResults(t *testing.T, results []Result) {
	t.Helper()
	c := count(results)
	if got, want := c.passed+c.failed+c.skipped, len(results); got != want {
		t.Errorf("%d of %d results are counted", got, want)
	}
}
