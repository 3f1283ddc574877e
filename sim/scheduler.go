package sim

import (
	"context"
	"math/rand/v2"
	"time"
)

// Scheduler hands the baton to one task at a time, in virtual time.
type Scheduler struct {
	now     time.Duration
	rand    *rand.Rand
	source  *rand.PCG // of rand
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
	source := rand.NewPCG(seed, 0x7265747279)
	return &Scheduler{rand: rand.New(source), source: source, coroutines: idle.get()}
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

// timer is something that happens at a time: a task goes on, a function runs, or a
// context ends.
type timer struct {
	at       time.Duration
	priority uint64
	seq      uint64
	task     *task
	run      func()
	context  *simContext
	dead     bool
	index    int
}

// timerHeap has the timer that is due first at its front. It is a heap by hand,
// since container/heap calls every comparison through an interface.
type timerHeap []*timer

func (a *timer) before(b *timer) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.priority != b.priority {
		return a.priority < b.priority
	}
	return a.seq < b.seq
}

func (h *timerHeap) push(t *timer) {
	*h = append(*h, t)
	h.up(t, len(*h)-1)
}

// remove takes out the timer at a place.
func (h *timerHeap) remove(i int) *timer {
	old := *h
	t, last := old[i], old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	if last != t {
		h.down(last, i)
		h.up(last, last.index)
	}
	return t
}

// up puts t at i, or as far before it as it belongs.
func (h *timerHeap) up(t *timer, i int) {
	s := *h
	for i > 0 {
		parent := (i - 1) / 2
		if !t.before(s[parent]) {
			break
		}
		s[i] = s[parent]
		s[i].index = i
		i = parent
	}
	s[i], t.index = t, i
}

// down puts t at i, or as far behind it as it belongs.
func (h *timerHeap) down(t *timer, i int) {
	s := *h
	for {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if right := child + 1; right < len(s) && s[right].before(s[child]) {
			child = right
		}
		if !s[child].before(t) {
			break
		}
		s[i] = s[child]
		s[i].index = i
		i = child
	}
	s[i], t.index = t, i
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
	*e = timer{at: max(when, s.now), priority: s.source.Uint64(), seq: s.seq, task: t, run: run}
	s.timers.push(e)
	return e
}

// drop takes a timer out before it fires.
func (s *Scheduler) drop(t *timer) {
	if t != nil && !t.dead {
		t.dead = true
		s.timers.remove(t.index)
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
	if c != nil && c.Err() != nil {
		return c.cause()
	}
	t.cause = nil
	t.wake = s.at(s.now+d, t, nil)
	if c == nil {
		s.park()
		return t.cause
	}
	c.armUntil(s.now + d)
	c.waiting = append(c.waiting, waiter{task: t})
	defer c.leave(waiter{task: t})
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
		e := s.timers.remove(0)
		e.dead = true
		s.now = max(s.now, e.at)
		t, run, c := e.task, e.run, e.context
		s.free = append(s.free, e)
		if c != nil {
			c.timer = nil
			c.end(context.DeadlineExceeded)
			continue
		}
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
