package sim

import (
	"iter"
	"sync"
)

// coroutine runs one job after another. It is used again because a coroutine's
// stack has grown by its first job, and growing it again for every request was a
// sixth of all the time.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	job   *task
}

func newCoroutine() *coroutine {
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		for more := true; more; more = yield(struct{}{}) {
			c.work()
		}
	})
	return c
}

// work runs the job to its end, or until its process is found dead. A panic of
// the code under test goes on to whoever runs the scheduler.
func (c *coroutine) work() {
	t := c.job
	defer func() {
		c.job = nil
		t.ended = true
		t.process.left(t)
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
		}
	}()
	t.run()
}

// pool keeps coroutines that have no job. A world owns one pool at a time.
type pool struct{ free []*coroutine }

// maxIdle bounds what a pool keeps; the rest is stopped.
const maxIdle = 256

func (p *pool) get() *coroutine {
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c
	}
	return newCoroutine()
}

func (p *pool) put(c *coroutine) {
	if len(p.free) < maxIdle {
		p.free = append(p.free, c)
		return
	}
	c.stop()
}

// pools hands the pools of worlds that are over to new ones.
type pools struct {
	mu   sync.Mutex
	free []*pool
}

var idle pools

func (p *pools) get() *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		got := p.free[n-1]
		p.free = p.free[:n-1]
		return got
	}
	return &pool{}
}

func (p *pools) put(done *pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < 8 {
		p.free = append(p.free, done)
		return
	}
	for _, c := range done.free {
		c.stop()
	}
}
