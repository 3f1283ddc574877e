//go:build !unix

package embedded

import "os"

// lockFolder opens the lock file only: this system has no lock that ends with
// the process. Do not start two servers on one folder.
func lockFolder(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
