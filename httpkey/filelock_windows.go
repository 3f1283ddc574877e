package httpkey

import (
	"os"
	"syscall"
	"unsafe"
)

const lockExclusive = 2 // LOCKFILE_EXCLUSIVE_LOCK

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// lockFile waits for the file's lock and takes it until the file is closed or the
// process ends, in any way. The file stays: removing it would give the next two
// processes a lock each.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a number in the journal's own directory
	if err != nil {
		return nil, err
	}
	var from syscall.Overlapped                                                                   // byte 0
	ok, _, err := lockFileEx.Call(f.Fd(), lockExclusive, 0, 1, 0, uintptr(unsafe.Pointer(&from))) //nolint:gosec // the call takes it
	if ok == 0 {
		_ = f.Close()
		return nil, os.NewSyscallError("LockFileEx", err)
	}
	return f, nil
}
