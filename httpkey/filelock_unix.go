//go:build unix && !aix && !solaris

package httpkey

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the file's lock, unless somebody has it, until the file is closed or the
// process ends, in any way. The file stays: removing it would give the next two
// processes a lock each.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, os.NewSyscallError("flock", err)
		}
	}
}
