package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/store/sqlite"
)

func TestAnOperatorSeesWhatWasSetAsideAndPutsItBack(t *testing.T) {
	t.Setenv(operatorToken, "demo-operator")
	dir := t.TempDir()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "ledger.db"), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"payment_id":"pay_old","caller":"u1","order_id":"41","merchant_id":"m2","amount":700,"currency":"USD"}`
	for id, text := range map[string]string{"pay_old:SUCCEEDED": body, "pay_bad:SUCCEEDED": `{"payment_id":`} { // order: each is set aside alone
		_, err := store.ParkedMessages().Park(t.Context(), inbox.Parked{Consumer: "merchant-credit", Attempts: 20, Reason: "a fault\nof an old version",
			SentAt: time.Unix(1, 0), ParkedAt: time.Unix(2, 0), Message: queue.Message{ID: id, Group: "m2", Type: "payment.succeeded", Body: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir)
	if code, out, _ := s.operate("parked"); code != exitOK || !strings.Contains(out, "pay_old:SUCCEEDED") || !strings.Contains(out, "a fault of an old version") || strings.Count(out, "\n") != 3 {
		t.Errorf("parked: got %d, %q", code, out)
	}
	if code, out, _ := s.operate("parked", "--format", "json"); code != exitOK || !strings.Contains(out, `"hop":"inbox"`) {
		t.Errorf("parked as JSON: got %d, %q", code, out)
	}
	if r := s.get("/metrics"); !strings.Contains(r.body, "retryproof_inbox_parked 2") {
		t.Errorf("metrics: got %s, want 2 parked", r.body)
	}
	if code, out, err := s.operate("redrive", "inbox", "pay_old:SUCCEEDED"); code != exitOK || out != "applied: pay_old:SUCCEEDED\n" {
		t.Errorf("redrive: got %d, %q, %q", code, out, err)
	}
	if r := s.do("GET", "/merchants/m2/balance", "demo-u1", "", ""); !strings.Contains(r.body, `"balance":700`) {
		t.Errorf("m2: got %s, want 700", r.body)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"inbox", "pay_old:SUCCEEDED"}, exitFailure, "not-found"},
		{[]string{"outbox", "pay_old:SUCCEEDED"}, exitFailure, "not-found"},
		{[]string{"inbox", "pay_bad:SUCCEEDED"}, exitFailure, "not its JSON"},
		{[]string{"moon", "pay_bad:SUCCEEDED"}, exitMisuse, "outbox"},
		{[]string{"inbox", ""}, exitMisuse, "operator parked"},
	} {
		if code, _, err := s.operate(append([]string{"redrive"}, c.args...)...); code != c.code || !strings.Contains(err, c.says) {
			t.Errorf("redrive %v: got %d, %q, want %d and %q", c.args, code, err, c.code, c.says)
		}
	}
	if code, out, _ := s.operate("parked"); code != exitOK || !strings.Contains(out, "pay_bad:SUCCEEDED") || strings.Count(out, "\n") != 2 {
		t.Errorf("parked afterwards: got %d, %q", code, out)
	}
	s.stop()
}
