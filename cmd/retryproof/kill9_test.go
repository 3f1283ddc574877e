package main

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/internal/testservice"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// kill9 builds the programs and kills the server a few times while buyers pay.
func kill9(t *testing.T, args ...string) {
	t.Helper()
	dir := t.TempDir()
	for name, folder := range map[string]string{"retryproof": ".", "kill9": "./kill9"} {
		if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, name), folder).CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", folder, err, text)
		}
	}
	args = append([]string{"--binary", filepath.Join(dir, "retryproof"), "--listen", freeAddress(t), "--data", filepath.Join(dir, "data"),
		"--kills", "3", "--buyers", "10", "--max-life", "1500ms"}, args...)
	text, err := exec.CommandContext(t.Context(), filepath.Join(dir, "kill9"), args...).CombinedOutput()
	t.Logf("%s", text)
	if err != nil {
		t.Errorf("kill9: %v", err)
	}
	if got, want := strings.Count(string(text), "kill9: kill "), 3; got != want {
		t.Errorf("kills: got %d, want %d", got, want)
	}
}

// freeAddress is one that nobody listens on, a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestKill9LosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	kill9(t)
}

// TestKill9LosesAndDoublesNothingOnServers uses PostgreSQL and a NATS server.
func TestKill9LosesAndDoublesNothingOnServers(t *testing.T) {
	t.Parallel()
	kill9(t, "--store", freshDatabase(t), "--queue", testservice.NATS(t))
}

// freshDatabase makes a database for this test, and drops it afterwards.
func freshDatabase(t *testing.T) string {
	t.Helper()
	server, err := url.Parse(testservice.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	name := "kill9_" + entropy.Token(entropy.System())[:8] + clock.System().Now().Format("_20060102")
	admin := server.String()
	sql := func(statement string) {
		t.Helper()
		text, err := exec.Command("psql", admin, "-v", "ON_ERROR_STOP=1", "-qc", statement).CombinedOutput()
		if err != nil {
			t.Fatalf("psql: %v: %s", err, text)
		}
	}
	sql("CREATE DATABASE " + name)
	t.Cleanup(func() { sql("DROP DATABASE " + name + " WITH (FORCE)") })
	server.Path = "/" + name
	return server.String()
}
