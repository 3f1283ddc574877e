package main

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// storeError says which flag is meant, and why PostgreSQL could not be reached in one
// line: the driver repeats it for every address and every way to encrypt.
func storeError(err error) error {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return fmt.Errorf("--store: %w", err)
	}
	where := fmt.Sprintf("%s:%d", connect.Config.Host, connect.Config.Port)
	var why string
	var refusal *pgconn.PgError
	var dial *net.OpError
	switch {
	case errors.As(err, &refusal):
		why = "refuses the connection: " + refusal.Message
	case errors.As(err, &dial):
		if dial.Addr != nil {
			where = dial.Addr.String()
		}
		why = "cannot be reached: " + strings.TrimPrefix(dial.Err.Error(), "connect: ")
	default:
		first, _, _ := strings.Cut(connect.Unwrap().Error(), "\n")
		why = "cannot be reached: " + first
	}
	return reworded{fmt.Sprintf("--store: PostgreSQL at %s %s (user %s, database %s)", where, why, connect.Config.User, connect.Config.Database), err}
}
