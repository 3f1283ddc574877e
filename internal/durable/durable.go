// Package durable makes what was done to a folder outlive a power cut.
package durable

import (
	"errors"
	"os"
	"runtime"
)

// SyncDir flushes a folder, so that a name that was made, renamed or removed in it stays
// so. Windows has no such call and keeps names with their files: there it does nothing.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir) //nolint:gosec // the folder that the program chose
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
