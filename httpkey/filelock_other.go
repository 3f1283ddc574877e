//go:build (!unix && !windows) || aix || solaris

package httpkey

import (
	"errors"
	"fmt"
	"os"
)

// tryLock refuses where Go has no lock that ends with its process: without one two
// processes could send one intent with two keys.
func tryLock(*os.File) (bool, error) {
	return false, fmt.Errorf("a FileJournal needs flock, which this system does not have: %w", errors.ErrUnsupported)
}
