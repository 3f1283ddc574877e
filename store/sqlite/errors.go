package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/retryproof/retryproof"
)

// failedSQL hides SQLite's message, which can quote values; errors.As still finds
// the driver's error.
type failedSQL struct{ cause *driver.Error }

func (f failedSQL) Error() string { return fmt.Sprintf("SQLite result code %d", f.cause.Code()) }
func (f failedSQL) Unwrap() error { return f.cause }

// notDone classifies an error before any COMMIT was tried: nothing was written.
func notDone(err error) error {
	if err == nil {
		return nil
	}
	var known *retryproof.Error
	if errors.As(err, &known) {
		return err
	}
	code, message := retryproof.CodeUnavailable, "the database did not do it"
	cause := err
	var failed *driver.Error
	switch {
	case errors.As(err, &failed):
		code, message = classify(failed.Code())
		cause = failedSQL{failed}
	case errors.Is(err, sql.ErrTxDone):
		code, message = retryproof.CodeInvalid, "the transaction is finished"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		message = "the caller stopped waiting before anything was written"
	}
	return retryproof.Refused(code, message, cause)
}

func classify(code int) (retryproof.Code, string) {
	switch code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return retryproof.CodeConflict, "another connection holds the lock"
	case sqlite3.SQLITE_READONLY:
		return retryproof.CodeReadOnly, "the database is read-only"
	case sqlite3.SQLITE_FULL:
		return retryproof.CodeUnavailable, "the disk is full"
	case sqlite3.SQLITE_CANTOPEN:
		return retryproof.CodeUnavailable, "the file cannot be opened; its folder must exist and be writable"
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return retryproof.CodePermanent, "the file is not a sound SQLite database"
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE:
		return retryproof.CodeInvalid, "a value does not fit its column"
	}
	return retryproof.CodeUnavailable, "the database did not do it"
}

// notCommitted classifies an error of COMMIT. SQLite keeps the transaction open
// when it was only busy or full; after another failure nobody knows what is on
// the disk.
func notCommitted(err error) error {
	var failed *driver.Error
	if errors.As(err, &failed) {
		switch failed.Code() & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY:
			return notDone(err)
		}
		err = failedSQL{failed}
	}
	return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown,
		Message: "COMMIT failed", Hint: "read it back", Err: err}
}
