package saboteurs_test

import (
	"slices"
	"testing"

	"github.com/retryproof/retryproof/queue/queuetest"
	"github.com/retryproof/retryproof/queue/queuetest/saboteurs"
)

func TestSuiteRejectsEverySaboteur(t *testing.T) {
	t.Parallel()
	for _, s := range append(saboteurs.All(), saboteurs.Forgetful()...) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			failures := queuetest.Judge(t, saboteurs.Traits(), s.Open)
			caught := slices.ContainsFunc(failures, func(f queuetest.Failure) bool { return f.Case == s.CaughtBy })
			if !caught {
				t.Errorf("failed cases: got %v, want %s among them", failures, s.CaughtBy)
			}
		})
	}
}

func TestSuiteAcceptsTheHonestDriver(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, saboteurs.Traits(), saboteurs.Honest)
	if got := queuetest.Judge(t, saboteurs.Traits(), saboteurs.Honest); len(got) != 0 {
		t.Errorf("failures: got %v, want none", got)
	}
}

func TestEverySaboteurIsCaughtByACaseThatExists(t *testing.T) {
	t.Parallel()
	for _, s := range append(saboteurs.All(), saboteurs.Forgetful()...) {
		if !slices.ContainsFunc(queuetest.Cases(), func(c queuetest.Case) bool { return c.Name == s.CaughtBy }) {
			t.Errorf("%q: got the case %q, want one of the suite's", s.Name, s.CaughtBy)
		}
	}
}
