package story

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawn are one to three settings at random: multiples of the default, zeros, and
// times anywhere in the first minute.
func drawn(r *rand.Rand) []string {
	var set []string
	for range 1 + r.IntN(3) {
		f, d := fields[r.IntN(len(fields))], Defaults()
		if f.seconds == nil {
			set = append(set, fmt.Sprintf("%s=%d", f.name, r.IntN(9000)+1))
			continue
		}
		v := Seconds(*f.seconds(&d)).float() * []float64{0, 0.1, 0.5, 0.9, 1.1, 1.5, 2, 3.3, 10}[r.IntN(9)]
		if r.IntN(3) == 0 {
			v = float64(r.IntN(5000)) / 100
		}
		set = append(set, fmt.Sprintf("%s=%.2f", f.name, v))
	}
	return set
}

// What is computed from the parameters must be what comes out, whatever they are.
func TestRandomParametersComeOutAsComputed(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	branches := slices.DeleteFunc(scenarios(), func(s scenario) bool { return s.notYet != "" })
	played := 0
	for range 400 {
		s, set := branches[r.IntN(len(branches))], drawn(r)
		result, err := Run(s.id, set...)
		var misuse *MisuseError
		switch {
		case errors.As(err, &misuse):
			continue
		case err != nil:
			t.Fatalf("%s %v: %v", s.id, set, err)
		}
		played++
		for _, c := range result.Checks {
			if !c.OK {
				t.Errorf("%s %v: %s: got %s, want %s", s.id, set, c.What, c.Got, c.Want)
			}
		}
	}
	if played < 200 {
		t.Errorf("only %d of 400 had a meaning", played)
	}
}
