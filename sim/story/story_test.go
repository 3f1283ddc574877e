package story_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/retryproof/retryproof/sim/story"
)

// play runs a branch and reports every expectation that did not come out.
func play(t *testing.T, id string, set ...string) story.Result {
	t.Helper()
	r, err := story.Run(id, set...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		if !c.OK {
			t.Errorf("%s %v: %s: got %s, want %s", id, set, c.What, c.Got, c.Want)
		}
	}
	return r
}

func TestEveryBranchComesOut(t *testing.T) {
	t.Parallel()
	for _, b := range story.List() {
		if b.NotYet != "" {
			continue
		}
		t.Run(b.ID, func(t *testing.T) {
			t.Parallel()
			r := play(t, b.ID)
			if !r.OK || len(r.Checks) == 0 {
				t.Errorf("ok: got %v with %d expectations", r.OK, len(r.Checks))
			}
		})
	}
}

func TestASeedHasOneHash(t *testing.T) {
	t.Parallel()
	first, _, err := story.RunAll()
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := story.RunAll()
	if err != nil {
		t.Fatal(err)
	}
	for i := range first {
		if first[i].Hash != second[i].Hash {
			t.Errorf("%s: got %s, then %s", first[i].ID, first[i].Hash, second[i].Hash)
		}
	}
}

func TestMisuseListsWhatThereIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ id, set, want string }{
		{"nothing", "", "main"}, {"main", "size=3", "amount"}, {"main", "deadline=5d", "ms, s, min, h"}, {"main", "deadline", "name=value"},
		{"main", "amount=3.5", "integer"}, {"main", "amount=0", "1 to"}, {"main", "balance=-1", "0 to"}, {"main", "deadline=-1", "seconds"}, {"main", "deadline=NaN", "ms, s, min, h"},
		{"main", "network=2", "network < copy_at"}, {"F2", "", "second Region"},
	} {
		var set []string
		if c.set != "" {
			set = []string{c.set}
		}
		_, err := story.Run(c.id, set...)
		var misuse *story.MisuseError
		if !errors.As(err, &misuse) || !strings.Contains(misuse.What, c.want) {
			t.Errorf("%s %s: got %v, want misuse that names %q", c.id, c.set, err, c.want)
		}
	}
}
