package memory

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// The index is compared with a sorted slice over many random changes.
func TestIndexKeepsItsOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 1))
	x := index[int]{compare: cmp.Compare[int]}
	var want []int
	for step := range 20000 {
		item := random.IntN(4000)
		at, found := slices.BinarySearch(want, item)
		// The first half mostly adds, the second mostly removes.
		if add := random.IntN(10) < 7; add == (step < 10000) {
			x.add(item)
			if !found {
				want = slices.Insert(want, at, item)
			}
		} else {
			x.remove(item)
			if found {
				want = slices.Delete(want, at, at+1)
			}
		}
		if step%500 == 0 {
			if got := slices.Collect(x.all()); !slices.Equal(got, want) {
				t.Fatalf("step %d: got %d items, want %d, or another order", step, len(got), len(want))
			}
		}
	}
	if got := slices.Collect(x.all()); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for _, item := range want {
		x.remove(item)
	}
	if len(x.blocks) != 0 {
		t.Errorf("got %d blocks of nothing, want 0", len(x.blocks))
	}
}

func TestIndexTakesTheFirstThatMayGo(t *testing.T) {
	t.Parallel()
	x := index[int]{compare: cmp.Compare[int]}
	for i := range 2000 {
		x.add(1999 - i)
	}
	got := x.first(3, func(i int) bool { return i < 100 })
	if want := []int{0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := len(x.first(5000, func(i int) bool { return i < 1500 })); got != 1500 {
		t.Errorf("got %d items, want 1500", got)
	}
}
