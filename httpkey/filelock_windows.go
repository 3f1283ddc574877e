package httpkey

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

const (
	lockFailImmediately = 1 // LOCKFILE_FAIL_IMMEDIATELY
	lockExclusive       = 2 // LOCKFILE_EXCLUSIVE_LOCK

	errorLockViolation = syscall.Errno(33) // ERROR_LOCK_VIOLATION: somebody has it
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// tryLock takes the file's lock, unless somebody has it, until the file is closed or the
// process ends, in any way. The file stays: removing it would give the next two
// processes a lock each.
func tryLock(f *os.File) (bool, error) {
	var from syscall.Overlapped // byte 0
	ok, _, err := lockFileEx.Call(f.Fd(), lockExclusive|lockFailImmediately, 0, 1, 0,
		uintptr(unsafe.Pointer(&from))) //nolint:gosec // the call takes it
	switch {
	case ok != 0:
		return true, nil
	case errors.Is(err, errorLockViolation), errors.Is(err, syscall.ERROR_IO_PENDING):
		return false, nil
	}
	return false, os.NewSyscallError("LockFileEx", err)
}
