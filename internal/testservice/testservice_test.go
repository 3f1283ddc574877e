package testservice

import (
	"fmt"
	"strings"
	"testing"
)

// recorder is a testing.TB that notes how a test ended first.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any) { r.end("skip: "+format, args...) }

func (r *recorder) Fatalf(format string, args ...any) { r.end("fail: "+format, args...) }

func (r *recorder) end(format string, args ...any) {
	if r.ended == "" { // a real test would have stopped
		r.ended = fmt.Sprintf(format, args...)
	}
}

// These tests set environment variables, so they cannot be parallel.

func TestAServiceThatIsThereIsHandedOut(t *testing.T) {
	t.Setenv(EnvNATS, "nats://127.0.0.1:1")
	r := &recorder{}
	if got, want := NATS(r), "nats://127.0.0.1:1"; got != want || r.ended != "" {
		t.Errorf("got %q and %q, want %q", got, r.ended, want)
	}
}

func TestAMissingServiceIsASkipThatSaysHowToGetItAndAFailureInCI(t *testing.T) {
	services := map[string]func(testing.TB) string{
		EnvPostgres:        Postgres,
		EnvPostgresReplica: PostgresReplica,
		EnvPgBouncer:       PgBouncer,
		EnvNATS:            NATS,
		EnvChromium:        Chromium,
	}
	for env, service := range services {
		for ci, want := range map[string]string{"": "skip: ", "true": "fail: "} {
			t.Setenv(env, "")
			t.Setenv("CI", ci)
			r := &recorder{}
			service(r)
			if !strings.HasPrefix(r.ended, want) {
				t.Errorf("%s with CI=%q: got %q, want %q", env, ci, r.ended, want)
			}
			if !strings.Contains(r.ended, "scripts/services.sh") || !strings.Contains(r.ended, env) {
				t.Errorf("%s: %q does not say how to get the service", env, r.ended)
			}
		}
	}
}
