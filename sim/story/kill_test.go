package story

import (
	"slices"
	"sync"
	"testing"
)

// wrong are settings that make a branch come out otherwise.
var wrong = []string{"amount=4200", "balance=5", "other_amount=3000", "psp_latency=0.4", "network=0.05", "client_timeout=9", "deadline=4",
	"key_window=9000", "queue_window=1", "visibility=60", "copy_at=6", "copy_at=0.1", "resolve_at=20", "relay_at=11", "relay_again_at=30", "relay_last_at=500", "relay_lease=500",
	"webhook_at=10.6", "webhook_at=11.1", "webhook_at=40", "webhook_again_at=11.1", "work_at=13", "queued_until=5", "queued_until=9.6", "hand_over=0.5", "retry_at=3000", "wake_at=11", "sweep_at=7.5", "deadline=10.4",
	"deadline=15", "queued_until=3800", "queued_until=20", "key_window=20", "shed_after=15", "shed_after=3", "ask_at=9.9", "ask_at=9.96", "ask_at=10.1", "row_after=0.2", "row_after=0.001", "cancel_at=30", "cancel_at=18", "ask_every=100", "retry_budget=2",
	"retry_budget=5", "reconcile_at=20000", "first_number=7", "unlike_at=12", "unlike_at=4", "client_timeout=2", "reinstall_at=0.4", "reinstall_at=9", "parse_at=2", "move_at=35", "delete_at=70", "delete_at=30", "resume_at=20", "late_at=3", "late_at=100"}

var everything = sync.OnceValues(func() ([]Result, error) {
	all, _, err := RunAll()
	return all, err
})

// foreign are runs whose outcome is not the branch's: all other branches, and the
// branch itself with other constants.
func foreign(t *testing.T, s scenario) []Result {
	t.Helper()
	all, err := everything()
	if err != nil {
		t.Fatal(err)
	}
	out := slices.DeleteFunc(slices.Clone(all), func(r Result) bool { return r.ID == s.id })
	for _, set := range wrong {
		p, err := s.params([]string{set})
		if err != nil {
			continue // no meaning in this branch
		}
		r, err := s.play(p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// TestEveryExpectationCanFail judges outcomes that are not the branch's by the
// branch's expectations: every single expectation must catch one of them, and no
// other branch may pass for this one.
func TestEveryExpectationCanFail(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		if s.notYet != "" {
			continue
		}
		t.Run(s.id, func(t *testing.T) {
			t.Parallel()
			p, err := s.params(nil)
			if err != nil {
				t.Fatal(err)
			}
			own, err := s.play(p)
			if err != nil {
				t.Fatal(err)
			}
			s.judge(p, &own)
			var caught []string
			for _, r := range foreign(t, s) {
				id := r.ID
				s.judge(p, &r)
				if id != s.id && r.OK {
					t.Errorf("the outcome of %s passes for %s", id, s.id)
				}
				for _, c := range r.Checks {
					if !c.OK {
						caught = append(caught, c.What)
					}
				}
			}
			for _, c := range own.Checks {
				if !slices.Contains(caught, c.What) {
					t.Errorf("nothing makes this expectation fail: %s: %s", c.What, c.Want)
				}
			}
		})
	}
}

// TestEveryParameterThatIsPlayedChangesSomething finds constants that no branch
// uses: their change must change an outcome, a trace or a refusal.
func TestEveryParameterThatIsPlayedChangesSomething(t *testing.T) {
	t.Parallel()
	later := []string{"lag", "stream_delay", "horizon", "margin", "key_memory", "seed"} // the last three change what is refused or left open
	for _, f := range fields {
		if slices.Contains(later, f.name) {
			continue
		}
		if !slices.ContainsFunc(wrong, func(set string) bool { return len(set) > len(f.name) && set[:len(f.name)+1] == f.name+"=" }) {
			t.Errorf("no test changes %s", f.name)
		}
	}
}
