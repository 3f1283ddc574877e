package saboteurs

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/queue/queuetest"
)

// Forgetful returns the saboteurs that are wrong only about restarts.
func Forgetful() []Saboteur {
	return []Saboteur{
		{"a restart loses the messages", "RestartKeepsMessages", restarting(nil)},
		{
			"a restart loses the ids of finished messages", "RestartKeepsTheDedupIDs",
			restarting(func(fresh queue.Queue, unfinished []queue.Message) error {
				for _, m := range unfinished {
					if err := fresh.Send(context.Background(), m); err != nil {
						return err
					}
				}
				return nil
			}),
		},
	}
}

// restarting opens a queue that a restart empties; then carryOver, if any, puts
// back what was not finished.
func restarting(carryOver func(fresh queue.Queue, unfinished []queue.Message) error) queuetest.Open {
	return func(t testing.TB, w queuetest.Windows) queuetest.Driver {
		t.Helper()
		clk := clocktest.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		var mu sync.Mutex
		var kept []queue.Message
		opened := func(t testing.TB) queue.Queue {
			inner, err := memory.New(clk, memory.Config{DedupWindow: w.DedupWindow, Visibility: w.Visibility, MaxMessageBytes: TooLargeBytes - 1})
			if err != nil {
				t.Fatal(err)
			}
			return inner
		}
		watched := func(inner queue.Queue) queue.Queue {
			return &hooks{
				Queue: inner,
				send: func(ctx context.Context, m queue.Message) error {
					mu.Lock()
					defer mu.Unlock()
					kept = append(kept, m)
					return inner.Send(ctx, m)
				},
				finish: func(ctx context.Context, d queue.Delivery) (bool, error) {
					mu.Lock()
					defer mu.Unlock()
					for i, m := range kept {
						if m.ID == d.ID {
							kept = append(kept[:i], kept[i+1:]...)
							break
						}
					}
					return inner.Finish(ctx, d)
				},
			}
		}
		return queuetest.Driver{
			Queue:   watched(opened(t)),
			Advance: clk.Advance,
			Reopen: func(t testing.TB) queue.Queue {
				fresh := opened(t)
				if carryOver != nil {
					if err := carryOver(fresh, kept); err != nil {
						t.Fatal(err)
					}
				}
				return watched(fresh)
			},
		}
	}
}
