package sim

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// Scheduler hands the baton to one task at a time, in virtual time.
type Scheduler struct {
	now     time.Duration
	rand    *rand.Rand
	timers  timerHeap
	current *task
	seq     uint64
	// steps counts how often the baton was handed over.
	steps uint64
	// free are timers to use again.
	free       []*timer
	coroutines *pool
}

// NewScheduler returns a scheduler at time 0 whose choices come from the seed.
func NewScheduler(seed uint64) *Scheduler {
	return &Scheduler{rand: rand.New(rand.NewPCG(seed, 0x7265747279)), coroutines: idle.get()}
}

// Now is the virtual time since the beginning.
func (s *Scheduler) Now() time.Duration { return s.now }

// Steps is how often the baton was handed over.
func (s *Scheduler) Steps() uint64 { return s.steps }

// task is one piece of work on a coroutine. It belongs to a process, which may die.
type task struct {
	process *Process
	run     func()
	on      *coroutine
	ended   bool
	// wake is the timer that will resume the task; nil when something else will.
	wake *timer
	// cause is why a wait ended early.
	cause error
}

// killed unwinds a task of a dead process.
type killed struct{}

// timer is something that happens at a time: a task goes on, or a function runs.
type timer struct {
	at       time.Duration
	priority uint64
	seq      uint64
	task     *task
	run      func()
	dead     bool
	index    int
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.at != b.at {
		return a.at < b.at
	}
	if a.priority != b.priority {
		return a.priority < b.priority
	}
	return a.seq < b.seq
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}

// at schedules. Things that are due at one moment happen in an order of the seed.
func (s *Scheduler) at(when time.Duration, t *task, run func()) *timer {
	var e *timer
	if n := len(s.free); n > 0 {
		e, s.free = s.free[n-1], s.free[:n-1]
	} else {
		e = &timer{}
	}
	s.seq++
	*e = timer{at: max(when, s.now), priority: s.rand.Uint64(), seq: s.seq, task: t, run: run}
	heap.Push(&s.timers, e)
	return e
}

// drop takes a timer out before it fires.
func (s *Scheduler) drop(t *timer) {
	if t != nil && !t.dead {
		t.dead = true
		heap.Remove(&s.timers, t.index)
		s.free = append(s.free, t)
	}
}

// After runs a function of the world, not of a process, after d.
func (s *Scheduler) After(d time.Duration, run func()) { s.at(s.now+d, nil, run) }

// Go starts a task of a process now, or after d.
func (s *Scheduler) Go(p *Process, d time.Duration, run func()) {
	t := &task{process: p, run: run}
	p.tasks = append(p.tasks, t)
	t.wake = s.at(s.now+d, t, nil)
}

// resume hands the baton to the task until it parks or ends.
func (s *Scheduler) resume(t *task) {
	before := s.current
	s.current = t
	if t.on == nil {
		t.on = s.coroutines.get()
		t.on.job = t
	}
	t.on.next()
	s.current = before
	if t.ended {
		s.coroutines.put(t.on)
		t.on = nil
	}
}

// park gives the baton back until something wakes the task.
func (s *Scheduler) park() {
	t := s.current
	t.on.yield(struct{}{})
	if t.process.dead {
		panic(killed{})
	}
}

// ready lets a parked task go on now.
func (s *Scheduler) ready(t *task) {
	if t.wake == nil && !t.ended {
		t.wake = s.at(s.now, t, nil)
	}
}

// wait parks the current task for d; it returns early, with the cause, when the
// context of the simulator that is given ends.
func (s *Scheduler) wait(c *simContext, d time.Duration) error {
	t := s.current
	if t.process.dead {
		panic(killed{})
	}
	if c != nil && c.ended() {
		return c.cause()
	}
	t.cause = nil
	t.wake = s.at(s.now+d, t, nil)
	if c != nil {
		remove := c.onEnd(func() { s.wakeEarly(t, c.cause()) })
		defer remove()
	}
	s.park()
	return t.cause
}

func (s *Scheduler) wakeEarly(t *task, cause error) {
	if t.ended || t.cause != nil {
		return
	}
	if t.wake != nil && t.wake.at > s.now {
		s.drop(t.wake)
		t.wake = nil
	}
	t.cause = cause
	s.ready(t)
}

// Run hands out the baton until nothing is due any more, or until the time is up.
// It reports whether something is still scheduled.
func (s *Scheduler) Run(until time.Duration) bool {
	for len(s.timers) > 0 {
		if s.timers[0].at > until {
			s.now = max(s.now, until)
			return true
		}
		e := heap.Pop(&s.timers).(*timer)
		e.dead = true
		s.now = max(s.now, e.at)
		t, run := e.task, e.run
		s.free = append(s.free, e)
		if run != nil {
			run()
			continue
		}
		t.wake = nil
		if t.ended {
			continue
		}
		s.steps++
		s.resume(t)
	}
	return false
}

// Close ends all tasks of the processes, so that no coroutine is left behind.
func (s *Scheduler) Close(processes []*Process) {
	for _, p := range processes {
		p.Kill()
	}
	idle.put(s.coroutines)
	s.coroutines = nil
}
