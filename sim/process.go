package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof/clock"
)

// Process is one life of one process: it has a clock of its own, tasks, and an
// end. A restart is a new Process.
type Process struct {
	// Name is the actor's name: "api-1", "w2".
	Name      string
	scheduler *Scheduler
	tasks     []*task
	dead      bool
	// offset and drift are how wrong its clock is.
	offset time.Duration
	drift  float64
	// mortal processes may be killed and paused by faults.
	mortal bool
	// pausedUntil is when a paused process goes on: no task of it runs before.
	pausedUntil time.Duration
}

// NewProcess starts a life. Its clock reads the true time plus offset, and runs
// fast by drift (1e-5 is 10 ppm).
func NewProcess(s *Scheduler, name string, offset time.Duration, drift float64) *Process {
	return &Process{Name: name, scheduler: s, offset: offset, drift: drift, mortal: strings.ContainsAny(name[:1], "anrw")}
}

// Dead reports whether the process was killed.
func (p *Process) Dead() bool { return p.dead }

// left forgets a task that ended.
func (p *Process) left(t *task) {
	if i := slices.Index(p.tasks, t); i >= 0 {
		p.tasks[i] = p.tasks[len(p.tasks)-1]
		p.tasks[len(p.tasks)-1] = nil
		p.tasks = p.tasks[:len(p.tasks)-1]
	}
}

// Kill ends the process now: every task unwinds at the call at which it waits. When
// the current task belongs to the process it unwinds at once.
func (p *Process) Kill() {
	if p.dead {
		return
	}
	p.dead = true
	s := p.scheduler
	for _, t := range slices.Clone(p.tasks) {
		if t == s.current {
			continue
		}
		s.drop(t.wake)
		t.wake = nil
		if t.on == nil { // it had not begun
			t.ended = true
			p.left(t)
			continue
		}
		s.resume(t) // it finds itself dead
	}
	if s.current != nil && s.current.process == p {
		panic(killed{})
	}
}

// Pause holds the process for d: a garbage collection, a virtual machine moved.
// Its clock goes on; its tasks do not.
func (p *Process) Pause(d time.Duration) {
	p.pausedUntil = max(p.pausedUntil, p.scheduler.now+d)
}

// resumeAfterPause parks the current task while its process is paused. A call that
// was on its way when the pause began has had its effect.
func (p *Process) resumeAfterPause() {
	if p.dead {
		panic(killed{})
	}
	for p.pausedUntil > p.scheduler.now {
		s := p.scheduler
		s.current.wake = s.at(p.pausedUntil, s.current, nil)
		s.park()
	}
}

// Epoch is the beginning of virtual time as clocks show it.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// trueTime is when the process's clock shows a time.
func (p *Process) trueTime(shown time.Time) time.Duration {
	return time.Duration(float64(shown.Sub(Epoch)-p.offset) / (1 + p.drift))
}

// clockNow is what the process's clock shows.
func (p *Process) clockNow() time.Time {
	if p.dead {
		panic(killed{})
	}
	n := p.scheduler.now
	n += time.Duration(float64(n)*p.drift) + p.offset
	if below := n % clock.Precision; below < 0 {
		n -= below + clock.Precision
	} else {
		n -= below
	}
	return Epoch.Add(n)
}
