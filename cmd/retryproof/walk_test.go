package main

import (
	"os/exec"
	"testing"

	"github.com/retryproof/retryproof/internal/testservice"
)

// The walk by curl in the documentation says what really comes back: it runs against
// a server with the default settings, and checks each of its steps itself. Twice, since
// what it leaves must not stand in its way.
func TestTheWalkThroughUnknownOutcomesRuns(t *testing.T) {
	t.Parallel()
	testservice.Tool(t, "curl")
	bash := testservice.Tool(t, "bash")
	s := serve(t, t.TempDir())
	for range 2 {
		text, err := exec.CommandContext(t.Context(), bash, "../../examples/unknown/walk.sh", s.url).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	s.stop()
}
