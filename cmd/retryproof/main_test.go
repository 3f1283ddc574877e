package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
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
		{nil, "--help lists the commands"},
		{[]string{"pay"}, "--help lists the commands"},
		{[]string{"serve", "--listen"}, "--listen: it needs a value"},
		{serve("--workers", "0", "--relays", "-3", "--answer-ttl", "1s"), "1s < 5s + 1s: an answer would expire while its own request can still be repeated by a takeover; --workers 0 must be 1 to 1000; --relays -3"},
		{serve("--workers", "100000000"), "--workers 100000000 must be 1 to 1000"},
		{serve("--deadline", "1ns"), "--deadline ≥ 100ms fails: 1ns"},
		{serve("--margin", "99ms"), "--margin ≥ 100ms fails: 99ms"},
		{serve("--psp", "http://u:hunter2@x"), "must have no user"},
		{[]string{"serve", "--colour"}, "COMMAND --help"},
		{[]string{"serve", "--log-level", "loud"}, "debug"},
		{[]string{"audit"}, "--store"},
		{[]string{"audit", "--store", "memory"}, "nothing to audit"},
		{[]string{"audit", "--store", "sqlite:" + filepath.Join(dir, "nothing.db")}, "there is no such file"},
		{[]string{"migrate", "status", "--store", "sqlite:" + filepath.Join(dir, "nothing.db")}, "there is no such file"},
		{[]string{"explore", "--seeds", "-5"}, "--seeds -5 must be 1 or more"},
		{[]string{"explore", "--workers", "0"}, "--workers 0 must be 1 or more"},
		{[]string{"explore", "--exhaustive", "--seeds", "5"}, "takes no --seeds"},
		{[]string{"explore", "--exhaustive", "--twice"}, "takes no --twice"},
		{[]string{"explore", "--exhaustive", "--store", "sqlite"}, "takes no --store"},
		{[]string{"audit", "--store", "mysql://u:hunter2@db/x"}, "sqlite:PATH"},
		{[]string{"bench", "everything"}, "payments"},
		{[]string{"bench", "payments", "--clients", "0"}, "must be positive"},
		{[]string{"migrate", "sideways", "--store", "sqlite:x"}, "up"},
		{serve("--store", "mysql://u:hunter2@db/x"), "sqlite:PATH"},
		{serve("--queue", "amqp://u:hunter2@mq"), "nats://"},
		{serve("--psp", "stripe"), "http"},
		{serve("--psp", "ftp://x"), `--psp "ftp://x" is not an http or https URL`},
		{serve("--push", "nonsense"), `--push "nonsense" is not an http or https URL`},
		{serve("--push", "ftp://u:hunter2@x"), "http"},
		{serve("--deadline=-1s"), "--deadline"},
		{serve("--deadline", "-1s"), "--deadline -1s must be positive"},
		{serve("--answer-ttl", "3y"), "24h or 30d"},
		{serve("--answer-ttl=1s"), "--answer-ttl ≥ --deadline + --margin fails: 1s < 5s + 1s"},
		{[]string{"serve", "--listen", "0.0.0.0:0"}, "--tokens FILE"},
		{[]string{"serve", "--listen", "[::]:0"}, "--tokens FILE"},
		{[]string{"serve", "--listen", "8080"}, "host:port"},
		{serve("--max-wait=1s"), "--trusted-proxies"},
		{serve("--trusted-proxies=everybody"), "10.0.0.0/8"},
		{serve("--trusted-proxies=10.0.0.0/8"), "--trusted-proxies without --stamp-header"},
		{serve("--stamp-header=X-Request-Start"), "--stamp-header without --trusted-proxies"},
		{serve("--operators", file("operators", `{"hunter2":"alice"}`)), "16 bytes"},
		{serve("--tokens", filepath.Join(dir, "nothing")), "nothing"},
		{serve("--tokens", file("twice", `{"0123456789abcdef":"u1","0123456789abcdef":"u2"}`)), "each token once"},
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
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"bench", "--help"}} {
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
	if code != exitMisuse || strings.Count(stderr, "\n") != 1 {
		t.Errorf("got %d, %q, want 2 and one line", code, stderr)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the audit made a database")
	}
}

func TestADatabaseThatIsDownIsOneShortLine(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"audit"}, {"migrate", "up"}, {"explore", "--seeds", "1"}, {"serve", "--listen", "127.0.0.1:0", "--data", t.TempDir()}} {
		code, _, stderr := runHere(t, append(args, "--store", "postgres://u:hunter2@127.0.0.1:1/x")...)
		want := "retryproof: --store: PostgreSQL at 127.0.0.1:1 cannot be reached: connection refused (user u, database x)\n"
		if code != exitFailure || stderr != want {
			t.Errorf("%v: got %d, %q, want %q", args, code, stderr, want)
		}
	}
}

func TestTheBuildIsNamed(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "--version"} {
		code, stdout, stderr := runHere(t, arg)
		if code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "retryproof ") || !strings.Contains(stdout, runtime.Version()) {
			t.Errorf("%s: got %d, %q, %q", arg, code, stdout, stderr)
		}
	}
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-03-01T00:00:00Z"}, {Key: "vcs.modified", Value: "true"}}}
	if got, want := versionText(info, true), "retryproof v1.2.3, revision abc of 2026-03-01T00:00:00Z, with changes, go"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBenchMeasuresEveryPath(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"payments", "replays", "claims", "relay", "inbox"} {
		for _, store := range []string{"memory", ""} {
			t.Run(what+"/"+store, func(t *testing.T) {
				t.Parallel()
				args, beside := []string{"bench", what, "--clients", "4", "--duration", "100ms"}, "one-row commits: "
				if store != "" {
					args, beside = append(args, "--store", store), "nothing is committed"
				}
				code, stdout, stderr := runHere(t, args...)
				if code != exitOK || !strings.HasPrefix(stdout, what+" on ") || !strings.Contains(stdout, beside) {
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
