package memory

import (
	"iter"
	"slices"
)

// blockSize bounds the items that one insertion or removal moves.
const blockSize = 512

// index keeps items in the total order of compare. An item's place must not
// change while it is in the index: take it out, change it, put it back.
//
// Most items come in order and leave from the front, which a list of short
// sorted blocks serves well with little code.
type index[T any] struct {
	compare func(a, b T) int
	blocks  [][]T
	spare   []T // of a block that has become empty
}

// find returns where the item is, or belongs.
func (x *index[T]) find(item T) (block, at int, found bool) {
	if n := len(x.blocks); n > 0 { // most items belong behind all others
		if last := x.blocks[n-1]; x.compare(last[len(last)-1], item) < 0 {
			return n, 0, false
		}
	}
	block, _ = slices.BinarySearchFunc(x.blocks, item, func(b []T, item T) int {
		return x.compare(b[len(b)-1], item)
	})
	if block == len(x.blocks) {
		return block, 0, false
	}
	at, found = slices.BinarySearchFunc(x.blocks[block], item, x.compare)
	return block, at, found
}

// add puts the item in; one that is there already is left.
func (x *index[T]) add(item T) {
	b, at, found := x.find(item)
	if found {
		return
	}
	if b == len(x.blocks) { // behind everything
		if b == 0 || len(x.blocks[b-1]) >= blockSize {
			if cap(x.spare) == 0 {
				x.spare = make([]T, 0, 8)
			}
			x.blocks = append(x.blocks, append(x.spare, item))
			x.spare = nil
			return
		}
		x.blocks[b-1] = append(x.blocks[b-1], item)
		return
	}
	block := slices.Insert(x.blocks[b], at, item)
	if len(block) > blockSize {
		half := len(block) / 2
		x.blocks = slices.Insert(x.blocks, b+1, slices.Clone(block[half:]))
		block = slices.Delete(block, half, len(block))
	}
	x.blocks[b] = block
}

// remove takes the item out, if it is there.
func (x *index[T]) remove(item T) {
	b, at, found := x.find(item)
	if !found {
		return
	}
	x.blocks[b] = slices.Delete(x.blocks[b], at, at+1)
	if len(x.blocks[b]) == 0 {
		x.spare = x.blocks[b]
		x.blocks = slices.Delete(x.blocks, b, b+1)
	}
}

// all yields the items in order. The index must not change meanwhile.
func (x *index[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, b := range x.blocks {
			for _, item := range b {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// first returns up to limit items from the front for which keep holds, ending at
// the first for which it does not.
func (x *index[T]) first(limit int, keep func(T) bool) []T {
	var out []T
	for item := range x.all() {
		if len(out) >= limit || !keep(item) {
			break
		}
		out = append(out, item)
	}
	return out
}
