package inbox

import (
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/internal/clip"
	"github.com/retryproof/retryproof/queue"
)

// panicked logs a panic with its stack, and makes it an error that says where it was.
// What it did before is unknown.
func (c *Consumer) panicked(d queue.Delivery, value any) error {
	text := clip.Text(fmt.Sprint(value), clip.Reason/2) // leaves room for the place
	c.config.Log.Error("a message's handler or follow-up panicked", "message", d.ID, "attempt", d.Attempt, "panic", text, "stack", string(debug.Stack()))
	return &retryproof.Error{Code: retryproof.CodeUnknown, Message: "it panicked: " + text + ", at " + place(5)}
}

// place is the top of the stack, without the runtime's own frames above it.
func place(skip int) string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(skip, pcs)])
	var top []string
	for more := true; more && len(top) < 3; {
		var f runtime.Frame
		f, more = frames.Next()
		if len(top) > 0 || !strings.HasPrefix(f.Function, "runtime.") {
			top = append(top, fmt.Sprintf("%s (%s:%d)", path.Base(f.Function), path.Base(f.File), f.Line))
		}
	}
	return strings.Join(top, ", ")
}
