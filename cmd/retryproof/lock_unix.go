//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFolder makes the data folder this process's own until the returned function
// is called, or the process ends in any way. The outside companies' files have one
// writer: two would forget each other's charges.
func lockFolder(dir string) (func() error, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("--data %s is in use by another retryproof: stop it, or give this one a folder of its own", dir)
	}
	return f.Close, nil
}
