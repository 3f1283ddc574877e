package main

import (
	"os"
	"os/exec"
	"testing"
)

// The walk by curl in the documentation says what really comes back: it runs against
// a server with the default settings, and checks each of its steps itself. Twice, since
// what it leaves must not stand in its way.
func TestTheWalkThroughUnknownOutcomesRuns(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is needed: %v", tool, err)
			}
			t.Skipf("%s is not installed: install it with the system's package manager", tool)
		}
	}
	s := serve(t, t.TempDir())
	for range 2 {
		text, err := exec.CommandContext(t.Context(), "../../examples/unknown/walk.sh", s.url).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	s.stop()
}
