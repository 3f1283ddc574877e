// Package testservice hands tests the services that scripts/services.sh starts.
// It is the only place that skips a test because a service is missing, and it
// fails the test instead when the variable CI is set: a check that quietly does
// not run is worse than one that fails.
package testservice

import (
	"os"
	"os/exec"
	"testing"
)

// The environment variables that name the services.
const (
	EnvPostgres        = "RETRYPROOF_TEST_POSTGRES"
	EnvPostgresReplica = "RETRYPROOF_TEST_POSTGRES_REPLICA"
	EnvPgBouncer       = "RETRYPROOF_TEST_PGBOUNCER"
	EnvNATS            = "RETRYPROOF_TEST_NATS"
	EnvChromium        = "RETRYPROOF_TEST_CHROMIUM"
)

// Postgres returns the postgres:// URL of a PostgreSQL server. The test shares the
// server with others: it must make a schema or a database of its own.
func Postgres(t testing.TB) string {
	t.Helper()
	return need(t, EnvPostgres, "PostgreSQL")
}

// PostgresReplica returns the postgres:// URL of a hot standby of [Postgres].
func PostgresReplica(t testing.TB) string {
	t.Helper()
	return need(t, EnvPostgresReplica, "a PostgreSQL read replica")
}

// PgBouncer returns the postgres:// URL of a transaction pooler before [Postgres]:
// every transaction may run on another connection.
func PgBouncer(t testing.TB) string {
	t.Helper()
	return need(t, EnvPgBouncer, "the transaction pooler pgbouncer")
}

// NATS returns the nats:// URL of a NATS server with JetStream. The test shares
// the server with others: its streams need names of their own.
func NATS(t testing.TB) string {
	t.Helper()
	return need(t, EnvNATS, "a NATS server with JetStream")
}

// Chromium returns the path of a Chromium binary. As root it needs --no-sandbox.
func Chromium(t testing.TB) string {
	t.Helper()
	return need(t, EnvChromium, "the browser Chromium")
}

// Tool returns the path of a program that a test runs, such as curl.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	const how = "%s is missing: apt-get install %s"
	if os.Getenv("CI") != "" {
		t.Fatalf(how, name, name)
	}
	t.Skipf(how, name, name)
	return ""
}

func need(t testing.TB, env, what string) string {
	t.Helper()
	if v := os.Getenv(env); v != "" {
		return v
	}
	const how = "%s is missing: run scripts/services.sh run -- go test ./..., or set %s"
	if os.Getenv("CI") != "" {
		t.Fatalf(how, what, env)
	}
	t.Skipf(how, what, env)
	return ""
}
