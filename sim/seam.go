package sim

import (
	"context"
	"errors"
	"time"

	"github.com/retryproof/retryproof"
)

// seam is where one process meets the world. Every call through it is an event of
// the trace, a place where the process may die, and a chance for the world to go
// wrong.
type seam struct {
	w *World
	p *Process
}

// Injection is one fault at one call, for the exhaustive mode and for stories.
type Injection struct {
	// Call is the number of the seam call, from 1, counted over the whole run.
	Call int
	// Do is "crash-before", "crash-after", "lose" or "refuse".
	Do string
}

// The errors that a faulty world gives.
func refused(op string) error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeUnavailable, Message: op + ": refused"}
}

func noAnswer(op string) error {
	return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown, Message: op + ": no answer"}
}

func conflict(op string) error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeConflict, Message: op + ": a lock is held"}
}

// fate is what the world does to one call.
type fate struct {
	refuse, conflict, lose  bool
	crashBefore, crashAfter bool
	// late is when the effect comes of a call that was not answered.
	late, slow, pause time.Duration
}

// fate draws what happens to the next call. kind is "store", "queue", "push", …;
// only stores know conflicts and late commits.
func (w *World) fate(p *Process, kind string) fate {
	w.calls++
	var f fate
	for _, in := range w.options.Inject {
		if in.Call == w.calls {
			switch in.Do {
			case "crash-before":
				f.crashBefore = true
			case "crash-after":
				f.crashAfter = true
			case "lose":
				f.lose = true
			case "refuse":
				f.refuse = true
			}
		}
	}
	c := &w.chaos
	switch {
	case !w.faulty:
		return f
	case w.chance(c.Refuse):
		f.refuse = true
	case w.chance(c.Lose):
		f.lose = true
	case kind == "store" && w.chance(c.Late):
		f.late = w.extent(3 * time.Second)
	case kind == "store" && w.chance(c.Conflict):
		f.conflict = true
	}
	if w.chance(c.Slow) {
		f.slow = w.extent(c.MaxSlow)
	}
	if p.mortal {
		if w.chance(c.Crash) {
			f.crashBefore = w.pick(2) == 0
			f.crashAfter = !f.crashBefore
		}
		if w.chance(c.Pause) {
			f.pause = w.extent(c.MaxPause)
		}
	}
	return f
}

func (w *World) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rand.Int64N(int64(d) + 1))
}

// call runs one call of a process through the seam. do must not park.
func call[T any](x *seam, ctx context.Context, kind, op, about string, do func() (T, error)) (T, error) {
	return reach(x, ctx, kind, op, about, do, struct{}{}, func(do func() (T, error), _ struct{}) (T, error) { return do() })
}

// reach is call with what do needs beside it: a do that captures nothing costs no
// memory, and calls are what most of a world is made of.
func reach[S, A, T any](x *seam, ctx context.Context, kind, op, about string, in S, arg A, do func(S, A) (T, error)) (T, error) {
	w, p := x.w, x.p
	var zero T
	if p.dead {
		panic(killed{})
	}
	p.resumeAfterPause()
	f := w.fate(p, kind)
	if f.crashBefore {
		w.crash(p, op, about)
	}
	if err := w.travel(ctx, kind, f.slow); err != nil {
		w.trace.add(w.now, p.Name, op, "cut off", about)
		return zero, errors.Join(noAnswer(op), err)
	}
	switch {
	case f.refuse:
		w.counts.Refusals++
		w.trace.add(w.now, p.Name, op, "refused", about)
		return zero, refused(op)
	case f.conflict:
		w.trace.add(w.now, p.Name, op, "conflict", about)
		return zero, conflict(op)
	case f.late > 0:
		w.counts.LostCommits++
		w.trace.add(w.now, p.Name, op, "no answer", about)
		in, arg := in, arg // apart, so that only a late call keeps them
		w.After(f.late, func() {
			_, err := do(in, arg)
			w.trace.add(w.now, p.Name, op, "late "+how(err), about)
		})
		return zero, noAnswer(op)
	}
	v, err := do(in, arg)
	w.trace.add(w.now, p.Name, op, how(err), about)
	if f.crashAfter {
		w.crash(p, op, about)
	}
	if f.pause > 0 {
		w.counts.Pauses++
		w.trace.add(w.now, p.Name, "pause", f.pause.String(), "")
		p.Pause(f.pause)
	}
	if f.lose {
		if kind == "store" {
			w.counts.LostCommits++
		} else {
			w.counts.LostReplies++
		}
		w.trace.add(w.now, p.Name, op, "answer lost", about)
		v, err = zero, noAnswer(op)
	}
	p.resumeAfterPause()
	return v, err
}

func how(err error) string {
	if err == nil {
		return "ok"
	}
	return retryproof.OutcomeOf(err).String()
}

// travel lets the call take its time. Under exploration every call gives the baton
// away, so that others may come between any two; in a story calls to the stores
// take no time.
func (w *World) travel(ctx context.Context, kind string, slow time.Duration) error {
	d := w.options.Latency[kind] + slow
	if w.options.Jitter > 0 {
		d += w.upTo(w.options.Jitter)
	} else if d == 0 {
		return nil
	}
	return w.wait(waitable(ctx), d)
}

// crash kills the process at this call and has it started again later.
func (w *World) crash(p *Process, op, about string) {
	w.counts.Crashes++
	w.trace.add(w.now, p.Name, op, "crash", about)
	w.restart(p)
	p.Kill()
}
