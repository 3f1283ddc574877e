//go:build unix && !aix && !solaris

package httpkey

import (
	"errors"
	"os"
	"syscall"
)

// lockFile waits for the file's lock and takes it until the file is closed or the
// process ends, in any way. The file stays: removing it would give the next two
// processes a lock each.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a number in the journal's own directory
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, os.NewSyscallError("flock", err)
		}
	}
}
