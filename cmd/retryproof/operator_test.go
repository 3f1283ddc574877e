package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/reconcile"
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
	if code, out, _ := s.operate("show", id); code != exitOK || !strings.Contains(out, "operator demo") || !strings.Contains(out, "ticket 4711") || !regexp.MustCompile(`(?m)^state +VOID$`).MatchString(out) {
		t.Errorf("show: got %d, %q", code, out)
	}
	if code, out, _ := s.operate("show", id, "--format", "json"); code != exitOK || !strings.Contains(out, `"state": "VOID"`) {
		t.Errorf("show as JSON: got %d, %q", code, out)
	}
	t.Setenv(operatorToken, "demo-nobody")
	if code, _, err := s.operate("show", id); code != exitFailure || !strings.Contains(err, operatorToken) || strings.Contains(err, "demo-nobody") {
		t.Errorf("a wrong token: got %d, %q", code, err)
	}
	t.Setenv(operatorToken, "demo-operator")
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

// What is refused here is not sent: nothing listens at the address.
func TestOperatorsMisuseNamesTheFlag(t *testing.T) {
	t.Setenv(operatorToken, "demo-operator")
	reconcile := []string{"reconcile", "--from", "2026-01-02T00:00:00Z", "--to"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(reconcile, "2026-01-01T00:00:00Z"), "--from 2026-01-02T00:00:00Z must be before --to"},
		{append(reconcile, "2026-01-02T00:00:00Z"), "must be before --to"},
		{append(reconcile, "tomorrow"), `--to "tomorrow": a moment is RFC 3339`},
		{[]string{"reconcile", "--day", "yesterday"}, `--day "yesterday": a day is YYYY-MM-DD`},
		{[]string{"reconcile"}, "--day"},
		{[]string{"verdict", "", "--state", "VOID", "--reason", "seen"}, "PAYMENT is empty"},
		{[]string{"verdict", "pay_1", "--state", "VOID", "--reason", " "}, "--reason is empty"},
		{[]string{"show", ""}, "PAYMENT is empty"},
	} {
		code, _, stderr := runHere(t, append([]string{"operator", "--api", "http://127.0.0.1:1"}, c.args...)...)
		if code != exitMisuse || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: got %d, %q, want 2 and one line with %q", c.args, code, stderr, c.want)
		}
	}
}

func TestAPaymentIsShownAsATable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := shownPayment{ID: "pay_1", State: "SUCCEEDED", Caller: "u1", Currency: "USD", Amount: 3000, Refunded: 1000, ChargeID: "ch_1", CreatedAt: at, UpdatedAt: at,
		Evidence: []shownEvidence{{At: at, Kind: "asked", Name: "psp", By: "resolver", Seen: "a charge\nof 3000"}},
		Refunds:  []shownRefund{{ID: "ref_1", State: "FAILED", Currency: "USD", Amount: 1000, RefundID: "re_1", FailureCode: "card_gone"}}}
	var got bytes.Buffer
	if err := p.print(&got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3000 USD", "1000 USD", "ch_1", "a charge of 3000", "refund ref_1: FAILED, 1000 USD, re_1 at the processor, card_gone\n", "its evidence: none\n"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("got %q, want %q in it", got.String(), want)
		}
	}
}

func TestOneRecordIsNoPlural(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var got bytes.Buffer
	if err := writeReconciled(&got, "payments", reconcile.Report{From: at, To: at.AddDate(0, 0, 1), Here: 1, There: 21, Settled: 1}); err != nil {
		t.Fatal(err)
	}
	if want := "payments, 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z: 1 record here, 21 there, 0 differences, 1 unknown closed\n"; got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
}
