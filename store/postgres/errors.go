package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/store/internal/record"
)

// errReplica is how a connection to a server in recovery is refused.
var errReplica = &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeReadOnly,
	Message: "the server is a read replica", Hint: "give the primary's address"}

// stateError is what drivers' errors with an SQLSTATE have in common, even when
// another driver wraps them.
type stateError interface {
	error
	SQLState() string
}

func sqlState(err error) string {
	var e stateError
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// failedSQL hides the server's message, which can quote values; errors.As still
// finds the driver's error.
type failedSQL struct {
	state, message string
	cause          error
}

func (f failedSQL) Error() string { return "SQLSTATE " + f.state + f.message }
func (f failedSQL) Unwrap() error { return f.cause }

func shown(err error) error {
	if state := sqlState(err); state != "" {
		return failedSQL{state: state, cause: err}
	}
	return err
}

// told shows the server's message after all, of statements that carry nobody's values:
// those that connect and migrate.
func told(err error) error {
	var known *retryproof.Error
	var server *pgconn.PgError
	if !errors.As(err, &known) || !errors.As(err, &server) {
		return err
	}
	e := *known
	e.Err = failedSQL{server.Code, ": " + server.Message, known.Err}
	switch {
	case e.Hint != "":
	case server.Code == "3F000":
		e.Hint = "no schema of the search_path exists: CREATE SCHEMA first, or correct the search_path"
	case server.Code == "42501":
		e.Hint = "run retryproof migrate --store URL up as a role that may create tables, and give this one its rights"
	}
	return &e
}

// notDone classifies an error of a transaction whose COMMIT was not sent: whatever
// happened, the server rolled it back.
func notDone(err error) error {
	if err == nil {
		return nil
	}
	var known *retryproof.Error
	if errors.As(err, &known) {
		return known
	}
	code, message := retryproof.CodeUnavailable, "the database did not do it"
	state := sqlState(err)
	switch {
	case state == "25006":
		code, message = retryproof.CodeReadOnly, "the database is read-only"
	case state == "25P02":
		code, message = retryproof.CodeInvalid, "the transaction had failed before"
	case state == "40001", state == "40P01", state == "55P03":
		code, message = retryproof.CodeConflict, "another transaction holds the lock or was faster"
	case seqTaken(err):
		return behind(shown(err))
	case hasEntry(err):
		code, message = retryproof.CodeInvalid, record.OtherEntry
	case strings.HasPrefix(state, "22"), strings.HasPrefix(state, "23"):
		code, message = retryproof.CodeInvalid, "a value does not fit its column"
	case state == "54000": // an index holds rows of about 2,700 bytes
		code, message = retryproof.CodeInvalid, "a value is too long for an index"
	case state == "53100":
		message = "the database's disk is full"
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		code, message = retryproof.CodeInvalid, "the transaction is finished"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		message = "the caller stopped waiting before anything was written"
	}
	return retryproof.Refused(code, message, shown(err))
}

// unsure classifies an error of a COMMIT, or of a statement that commits by itself.
// The server's own ERROR means that it rolled back; without an answer, or with one
// that says that the connection ended, nobody knows.
func unsure(err error) error {
	if err == nil {
		return nil
	}
	var known *retryproof.Error
	if errors.As(err, &known) {
		return known
	}
	if pgconn.SafeToRetry(err) || rolledBack(err) {
		return notDone(err)
	}
	return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown,
		Message: "the answer to COMMIT was lost", Hint: "read it back", Err: shown(err)}
}

// rolledBack reports whether the server said that it did not commit. FATAL, and the
// classes 08, 57P and 40003, end the connection: a pooler says 08P01 when the
// server's connection was lost in the middle.
func rolledBack(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	severity := e.SeverityUnlocalized
	if severity == "" {
		severity = e.Severity
	}
	return severity == "ERROR" && !strings.HasPrefix(e.Code, "08") && !strings.HasPrefix(e.Code, "57P") && e.Code != "40003"
}

// tryAgain reports whether the same transaction may succeed when it is run again.
func tryAgain(err error) bool {
	state := sqlState(err)
	return state == "40001" || state == "40P01"
}
