//go:build (!unix && !windows) || aix || solaris

package httpkey

import (
	"errors"
	"fmt"
	"os"
)

// lockFile refuses where Go has no lock that ends with its process: without one two
// processes could send one intent with two keys.
func lockFile(string) (*os.File, error) {
	return nil, fmt.Errorf("a FileJournal needs flock, which this system does not have: %w", errors.ErrUnsupported)
}
