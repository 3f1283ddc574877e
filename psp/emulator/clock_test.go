package emulator_test

import (
	"context"
	"sync"
	"time"
)

// testClock stands still until it is moved. Sleep moves it, after the hook ran.
type testClock struct {
	mu      sync.Mutex
	now     time.Time
	onSleep func()
}

func newClock() *testClock {
	return &testClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *testClock) Sleep(_ context.Context, d time.Duration) error {
	c.mu.Lock()
	hook := c.onSleep
	c.onSleep = nil
	c.mu.Unlock()
	if hook != nil {
		hook()
	}
	c.advance(d)
	return nil
}

func (c *testClock) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}
