package main

import (
	"bytes"
	"strings"
	"testing"
)

// operate runs an operator's command with the demo's token.
func (s *served) operate(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	var out, err bytes.Buffer
	code = run(s.t.Context(), append([]string{"operator", "--api", s.url}, args...), &out, &err)
	return code, out.String(), err.String()
}

// An operator lists, shows, decides and reconciles from the command line.
func TestAnOperatorWorksFromTheCommandLine(t *testing.T) {
	t.Setenv(operatorToken, "demo-operator")
	s := serve(t, t.TempDir())
	if code, out, _ := s.operate("list"); code != exitOK || out != "nothing is open\n" {
		t.Errorf("list: got %d, %q", code, out)
	}
	if r := s.do("POST", "/outside/psp/_emulator/faults", "", "", `[{"operation":"charge","do":"error_500","when":"before"}]`); r.status != 200 {
		t.Fatalf("fault: %d %s", r.status, r.body)
	}
	r := s.pay("stuck-tap", 3000)
	_, id, _ := strings.Cut(r.body, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	if r.status != 202 || !strings.HasPrefix(id, "pay_") {
		t.Fatalf("got %d %s, want 202", r.status, r.body)
	}
	if code, out, _ := s.operate("list"); code != exitOK || !strings.Contains(out, id) || !strings.Contains(out, "UNKNOWN") {
		t.Errorf("list: got %d, %q", code, out)
	}
	if code, _, err := s.operate("verdict", id, "--state", "SUCCEEDED", "--reason", "seen"); code != exitMisuse || !strings.Contains(err, "--reference") {
		t.Errorf("without a reference: got %d, %q", code, err)
	}
	for { // while the resolver asks, the verdict waits
		code, out, err := s.operate("verdict", id, "--state", "VOID", "--reason", "no charge there, ticket 4711")
		if code == exitOK && strings.Contains(out, `"state": "VOID"`) {
			break
		}
		if code != exitFailure || !strings.Contains(err, "in-progress") {
			t.Fatalf("verdict: got %d, %q, %q", code, out, err)
		}
	}
	if code, _, err := s.operate("verdict", id, "--state", "FAILED", "--reason", "another opinion"); code != exitFailure || !strings.Contains(err, "VOID by now") {
		t.Errorf("a second verdict: got %d, %q", code, err)
	}
	if code, out, _ := s.operate("show", id); code != exitOK || !strings.Contains(out, "operator demo") || !strings.Contains(out, "ticket 4711") {
		t.Errorf("show: got %d, %q", code, out)
	}
	if code, out, err := s.operate("reconcile", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-31T00:00:00Z"); code != exitOK || !strings.Contains(out, "0 differences") {
		t.Errorf("reconcile: got %d, %q, %q", code, out, err)
	}
	s.stop()
}

func TestAnOperatorsTokenStaysOnThisMachineOrInTLS(t *testing.T) {
	t.Setenv(operatorToken, "demo-operator")
	for _, c := range []struct{ api, want string }{
		{"http://example.com", "plain text"}, {"ftp://127.0.0.1", "http or https"}, {"", "http or https"},
	} {
		var out, err bytes.Buffer
		if code := run(t.Context(), []string{"operator", "--api", c.api, "list"}, &out, &err); code != exitMisuse || !strings.Contains(err.String(), c.want) || strings.Contains(err.String(), "demo-operator") {
			t.Errorf("%q: got %d, %q, want %q", c.api, code, err.String(), c.want)
		}
	}
	t.Setenv(operatorToken, "")
	var out, err bytes.Buffer
	if code := run(t.Context(), []string{"operator", "list"}, &out, &err); code != exitMisuse || !strings.Contains(err.String(), operatorToken) {
		t.Errorf("without a token: got %d, %q", code, err.String())
	}
}
