package story

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestTheTimelineTellsWhatTheEventsTell(t *testing.T) {
	t.Parallel()
	r, err := Run("main")
	if err != nil {
		t.Fatal(err)
	}
	actors, lines := r.Timeline()
	seen := map[int]bool{}
	for _, l := range lines {
		seen[l.N] = true
		if !slices.Contains(actors, l.Where) || l.Op == "" || l.What == "" {
			t.Errorf("got %+v, want a line with a column among %v", l, actors)
		}
	}
	for _, e := range r.Events {
		if !seen[e.N] {
			t.Errorf("no line belongs to event %d", e.N)
		}
	}
	if !slices.IsSortedFunc(lines, func(a, b Line) int { return int(a.At - b.At) }) {
		t.Error("the lines are not in the order of time")
	}
}

func TestABranchHasConstantsOfItsOwn(t *testing.T) {
	t.Parallel()
	value := func(id string) string {
		list, err := ParametersOf(id)
		if err != nil {
			t.Fatal(err)
		}
		return list[slices.IndexFunc(list, func(p Parameter) bool { return p.Name == "webhook_at" })].Default
	}
	if got := value("main"); got != "12.5" {
		t.Errorf("webhook_at of main = %s, want 12.5", got)
	}
	if got := value("W"); got != "10.5" {
		t.Errorf("webhook_at of W = %s, want 10.5", got)
	}
	var wrong *MisuseError
	if _, err := ParametersOf("nothing"); !errors.As(err, &wrong) {
		t.Errorf("got %v, want a *MisuseError", err)
	}
}

func TestTheLongestTimeOfSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  []string
		name string
		want time.Duration
	}{
		{nil, "", 0},
		{[]string{"amount=99999"}, "", 0},
		{[]string{"retry_at=2h", "deadline=7.5", "seed=3"}, "retry_at", 2 * time.Hour},
	} {
		if name, got, err := Longest(c.set...); err != nil || name != c.name || got != c.want {
			t.Errorf("%v: got %s, %v, %v, want %s, %v", c.set, name, got, err, c.name, c.want)
		}
	}
	var wrong *MisuseError
	if _, _, err := Longest("deadline=soon"); !errors.As(err, &wrong) {
		t.Errorf("got %v, want a *MisuseError", err)
	}
}
