package emulator_test

import (
	"context"
	"testing"

	"github.com/retryproof/retryproof/psp/emulator"
)

func TestACompanyThatLostItsJournalIsAnother(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	if got := w.core.Account(); got != "" {
		t.Errorf("before it is opened: got %q, want none", got)
	}
	w.journal.fail = true
	if err := w.core.OpenAccount(ctx, "acct_1"); err == nil || w.core.Account() != "" {
		t.Errorf("a journal that fails: got %v and %q, want an error and no name", err, w.core.Account())
	}
	w.journal.fail = false
	for range 2 {
		if err := w.core.OpenAccount(ctx, "acct_1"); err != nil {
			t.Error(err)
		}
	}
	if err := w.core.OpenAccount(ctx, "acct_2"); err == nil {
		t.Error("it took another name")
	}
	if err := w.core.OpenAccount(ctx, ""); err == nil {
		t.Error("it took an empty name")
	}
	w.do(charge("k"))
	w.restart()
	if got := w.core.Account(); got != "acct_1" {
		t.Errorf("after a restart: got %q, want acct_1", got)
	}
	w.cfg.Journal = &emulator.MemoryJournal{}
	w.restart()
	if got := w.core.Account(); got != "" {
		t.Errorf("with another journal: got %q, want none", got)
	}
}
