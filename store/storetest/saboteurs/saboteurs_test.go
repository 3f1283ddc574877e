package saboteurs_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/store/storetest"
	"github.com/retryproof/retryproof/store/storetest/saboteurs"
)

// variable names the saboteur that this process judges.
const variable = "RETRYPROOF_SABOTEUR"

// control is the right driver, judged in the same way: were it rejected, the
// rejection of the others would say nothing.
const control = "none"

// TestSuite is what each child process runs: the suite over one driver, the right
// one when the variable is not set.
func TestSuite(t *testing.T) {
	t.Parallel()
	plant := func(s storetest.Stores) storetest.Stores { return s }
	if name := os.Getenv(variable); name != "" && name != control {
		all := saboteurs.All()
		i := slices.IndexFunc(all, func(s saboteurs.Saboteur) bool { return s.Name == name })
		if i < 0 {
			t.Fatalf("there is no saboteur %q", name)
		}
		plant = all[i].Plant
	}
	storetest.Run(t, storetest.Traits{Volatile: true, RetriesInside: true}, func(*testing.T) storetest.Stores {
		s := plant(saboteurs.Right())
		s.Second = func(*testing.T) storetest.Stores { return s }
		if s.Reopen == nil { // this memory outlives what the suite calls a process
			s.Reopen = s.Second
		}
		return s
	})
}

// judge runs the suite over one driver in a process of its own, since a suite
// that rejects must fail the test that runs it. It returns the cases that failed.
func judge(t *testing.T, name string) (killers []string, output string, passed bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.run=^TestSuite$", "-test.v", "-test.timeout=90s")
	cmd.Env = append(os.Environ(), variable+"="+name)
	out, err := cmd.CombinedOutput()
	var failed []string
	for line := range strings.Lines(string(out)) {
		if _, rest, ok := strings.Cut(line, "--- FAIL: TestSuite/"); ok {
			failed = append(failed, strings.Fields(rest)[0])
		}
	}
	for _, name := range failed { // parents fail with their cases
		if !slices.ContainsFunc(failed, func(other string) bool { return strings.HasPrefix(other, name+"/") }) {
			killers = append(killers, name)
		}
	}
	slices.Sort(killers)
	return killers, string(out), err == nil
}

func TestSuiteAcceptsTheRightDriver(t *testing.T) {
	t.Parallel()
	killers, output, passed := judge(t, control)
	if !passed {
		t.Fatalf("got a rejection by %q, want none:\n%s", killers, output)
	}
	if got := strings.Count(output, "--- PASS"); got < 600 {
		t.Errorf("got %d cases that passed, want the whole suite:\n%s", got, output)
	}
}

func TestSuiteRejectsEverySaboteur(t *testing.T) {
	t.Parallel()
	for _, s := range saboteurs.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			killers, output, passed := judge(t, s.Name)
			if passed || len(killers) == 0 {
				t.Fatalf("%s: got no case that fails, want a rejection:\n%s", s.Fault, output)
			}
			if !slices.ContainsFunc(killers, func(k string) bool { return strings.HasSuffix(k, "/"+s.Killer) }) {
				t.Errorf("%s: got a rejection by %q, want one by %s", s.Fault, killers, s.Killer)
			}
			t.Logf("| %-30s | %-70s | %3d | %s", s.Name, s.Fault, len(killers), shortest(killers))
		})
	}
}

// shortest names cases without the store that they were run on, once each.
func shortest(killers []string) string {
	var out []string
	for _, k := range killers {
		k = k[strings.LastIndexByte(k, '/')+1:]
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return strings.Join(out, ", ")
}
