package httpkey_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

// touched notes every call of a store.
type touched struct {
	effect.Store
	mu    sync.Mutex
	calls []string
}

func (s *touched) add(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

func (s *touched) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	s.add("Begin")
	return s.Store.Begin(ctx, b)
}

func (s *touched) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	s.add("Adopt")
	return s.Store.Adopt(ctx, a)
}

func (s *touched) Settle(ctx context.Context, set effect.Settle) (effect.Settled, error) {
	s.add("Settle")
	return s.Store.Settle(ctx, set)
}

func (s *touched) Complete(ctx context.Context, c effect.Completion) (bool, error) {
	s.add("Complete")
	return s.Store.Complete(ctx, c)
}

func (s *touched) Release(ctx context.Context, r effect.Release) (bool, error) {
	s.add("Release")
	return s.Store.Release(ctx, r)
}

func (s *touched) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	s.add("Look")
	return s.Store.Look(ctx, l)
}

// A first request commits twice, the claim and the settlement; a replay asks once and
// writes nothing.
func TestAFirstRequestCommitsTwiceAndAReplayAsksOnce(t *testing.T) {
	t.Parallel()
	store := &touched{Store: memory.New().Effects()}
	w := newWorldOn(t, store, effect.Config{}, httpkey.Config{}, ok("done"))
	for i, want := range []string{"Begin Settle", "Begin", "Begin"} {
		wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
		if got := strings.Join(store.calls, " "); got != want {
			t.Errorf("request %d: got %q, want %q", i, got, want)
		}
		store.calls = nil
	}
	w.wantRuns(1)
}
