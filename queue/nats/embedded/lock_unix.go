//go:build unix

package embedded

import (
	"fmt"
	"os"
	"syscall"
)

// lockFolder takes the folder for this process until the file is closed or the
// process ends. Two servers on one folder would destroy it.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the folder is used by another server: %s: %w", path, err)
	}
	return f, nil
}
