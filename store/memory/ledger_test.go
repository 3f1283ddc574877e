package memory

import (
	"testing"

	"github.com/retryproof/retryproof/ledger"
)

// No call can write half of an entry, so the half is planted.
func TestAuditFindsAnUnbalancedRefAndAWrongBalance(t *testing.T) {
	t.Parallel()
	s := New()
	s.ledger.journal = append(s.ledger.journal, ledger.Posting{Account: "merchant:m1", Currency: "USD", Amount: 5, Ref: "ref"})
	a, err := s.Payments().Ledger.Audit(t.Context())
	if err != nil || a.Unbalanced != 1 {
		t.Errorf("got %d unbalanced refs and error %v, want 1", a.Unbalanced, err)
	}
	s.ledger.balances[accountKey{"merchant:m1", "USD"}] = 6
	if a, err = s.Payments().Ledger.Audit(t.Context()); err != nil || a.WrongBalance != 1 {
		t.Errorf("got %d wrong balances and error %v, want 1", a.WrongBalance, err)
	}
}
