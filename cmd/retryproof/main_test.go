package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runHere runs one command line that ends by itself.
func runHere(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestMisuseIsOneLineWithAHint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	serve := func(args ...string) []string {
		return append([]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data")}, args...)
	}
	for _, c := range []struct {
		args []string
		hint string
	}{
		{[]string{"pay"}, "--help lists the commands"},
		{[]string{"serve", "--colour"}, "COMMAND --help"},
		{[]string{"serve", "--log-level", "loud"}, "debug"},
		{[]string{"audit"}, "--store"},
		{[]string{"audit", "--store", "memory"}, "nothing to audit"},
		{[]string{"audit", "--store", "mysql://u:hunter2@db/x"}, "sqlite:PATH"},
		{[]string{"bench", "everything"}, "payments"},
		{[]string{"bench", "payments", "--clients", "0"}, "must be positive"},
		{[]string{"migrate", "sideways", "--store", "sqlite:x"}, "up"},
		{serve("--store", "mysql://u:hunter2@db/x"), "sqlite:PATH"},
		{serve("--queue", "amqp://u:hunter2@mq"), "nats://"},
		{serve("--psp", "stripe"), "http"},
		{serve("--deadline=-1s"), "--deadline"},
		{serve("--answer-ttl=1s"), "AnswerTTL"},
		{[]string{"serve", "--listen", "0.0.0.0:0"}, "--tokens FILE"},
		{[]string{"serve", "--listen", "[::]:0"}, "--tokens FILE"},
		{[]string{"serve", "--listen", "8080"}, "host:port"},
		{serve("--max-wait=1s"), "--trusted-proxies"},
		{serve("--trusted-proxies=everybody"), "10.0.0.0/8"},
		{serve("--trusted-proxies=10.0.0.0/8"), "X-Request-Start"},
		{serve("--stamp-header=X-Request-Start"), "name the proxies"},
		{serve("--operators", file("operators", `{"hunter2":"alice"}`)), "16 bytes"},
		{serve("--tokens", filepath.Join(dir, "nothing")), "nothing"},
		{serve("--tokens", file("list", `["a"]`)), "JSON object"},
		{serve("--tokens", file("empty", `{}`)), "no token"},
		{serve("--tokens", file("short", `{"hunter2":"u1"}`)), "16 bytes"},
		{serve("--tokens", file("nobody", `{"0123456789abcdef":""}`)), "caller"},
	} {
		code, stdout, stderr := runHere(t, c.args...)
		if code != exitMisuse || stdout != "" {
			t.Errorf("%v: got exit code %d and %q, want %d and nothing", c.args, code, stdout, exitMisuse)
		}
		last := strings.TrimSpace(stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:])
		if !strings.HasPrefix(last, "retryproof: ") || !strings.Contains(last, c.hint) {
			t.Errorf("%v: got %q, want one line with %q", c.args, stderr, c.hint)
		}
		if strings.Contains(stderr, "hunter2") {
			t.Errorf("%v: a secret is shown: %q", c.args, stderr)
		}
	}
}

func TestHelpIsNoMisuse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}, {"serve", "--help"}, {"bench", "--help"}} {
		code, stdout, stderr := runHere(t, args...)
		if code != exitOK || !strings.Contains(stdout, "Usage:") || stderr != "" {
			t.Errorf("%v: got %d, %q, %q, want the help and 0", args, code, stdout, stderr)
		}
	}
}

func TestAuditFailsWithoutAStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nothing.db")
	code, _, stderr := runHere(t, "audit", "--store", "sqlite:"+path)
	if code != exitFailure || strings.Count(stderr, "\n") != 1 {
		t.Errorf("got %d, %q, want 1 and one line", code, stderr)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the audit made a database")
	}
}

func TestBenchMeasuresEveryPath(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"payments", "replays", "claims", "relay", "inbox"} {
		for _, store := range []string{"memory", ""} {
			t.Run(what+"/"+store, func(t *testing.T) {
				t.Parallel()
				args := []string{"bench", what, "--clients", "4", "--duration", "100ms"}
				if store != "" {
					args = append(args, "--store", store)
				}
				code, stdout, stderr := runHere(t, args...)
				if code != exitOK || !strings.HasPrefix(stdout, what+" on ") || !strings.Contains(stdout, "ratio") {
					t.Errorf("got %d, %q, %q", code, stdout, stderr)
				}
			})
		}
	}
	code, stdout, stderr := runHere(t, "bench", "claims", "--store", "memory", "--duration", "50ms", "--format", "json")
	if code != exitOK || !strings.Contains(stdout, `"raw_commits_per_second":`) {
		t.Errorf("json: got %d, %q, %q", code, stdout, stderr)
	}
}
