package sim

import (
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/push"
	pushemulator "github.com/retryproof/retryproof/push/emulator"
	"github.com/retryproof/retryproof/queue"
	queuememory "github.com/retryproof/retryproof/queue/memory"
)

// ScriptedFault is one fault at one named call of one process, for stories.
type ScriptedFault struct {
	// Node is the process's name, Op the call: "begin", "adopt", "settle",
	// "complete", "inbox apply", "mark sent", "outbox delete", "queue send",
	// "queue finish", "push send", "psp charge", or "set deadline": the clock is
	// asked for a deadline, which is no seam call and can only be paused at.
	Node, Op string
	// Nth is which of the node's calls, from 1, counted from when the fault was
	// added. Defaults to 1.
	Nth int
	// Do is an Injection's "crash-before", "crash-after", "lose" or "refuse", or
	// "pause-before" or "pause-after".
	Do string
	// For is how long a pause lasts.
	For time.Duration
}

// Script holds the scripted faults of a world. Its Deps belongs in a Twin. The
// zero value is an empty script.
type Script struct {
	faults []*ScriptedFault
}

// At adds a fault.
func (s *Script) At(f ScriptedFault) {
	f.Nth = max(f.Nth, 1)
	s.faults = append(s.faults, &f)
}

// Left lists the faults that did not happen yet.
func (s *Script) Left() []ScriptedFault {
	var left []ScriptedFault
	for _, f := range s.faults {
		left = append(left, *f)
	}
	return left
}

// take counts a call and returns the fault that it meets.
func (s *Script) take(node, op string) *ScriptedFault {
	for i, f := range s.faults {
		if f.Node != node || f.Op != op {
			continue
		}
		if f.Nth--; f.Nth == 0 {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
			return f
		}
		return nil
	}
	return nil
}

// Deps lets a process meet the script; it is a Twin.Deps.
func (s *Script) Deps(w *World, p *Process, d payments.Deps) payments.Deps {
	a := actor{s, w, p}
	d.Store.Effects = scriptedEffects{d.Store.Effects, a}
	d.Store.Outbox = scriptedOutbox{d.Store.Outbox, a}
	d.Store.Inbox = scriptedInbox{d.Store.Inbox, a}
	d.Store.Notify = scriptedNotify{d.Store.Notify, a}
	d.Queue = scriptedQueue{d.Queue, a}
	d.PSP = scriptedPSP{d.PSP, a}
	d.Clock = scriptedClock{d.Clock, a}
	d.Push = scriptedPush{d.Push, a}
	return d
}

// actor is a process in front of the script.
type actor struct {
	s *Script
	w *World
	p *Process
}

// scripted runs one call. What is to happen to it happens at the seam below.
func scripted[T any](a actor, op string, do func() (T, error)) (T, error) {
	f := a.s.take(a.p.Name, op)
	if f == nil {
		return do()
	}
	switch f.Do {
	case "pause-before":
		a.pause(f.For)
		return do()
	case "pause-after":
		v, err := do()
		a.pause(f.For)
		return v, err
	}
	a.w.options.Inject = append(a.w.options.Inject, Injection{Call: a.w.calls + 1, Do: f.Do})
	return do()
}

// pause holds the process here.
func (a actor) pause(d time.Duration) {
	a.w.trace.add(a.w.now, a.p.Name, "pause", d.String(), "")
	a.p.Pause(d)
	a.p.resumeAfterPause()
}

type scriptedEffects struct {
	effect.Store
	a actor
}

func (e scriptedEffects) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	return scripted(e.a, "begin", func() (effect.Seen, error) { return e.Store.Begin(ctx, b) })
}

func (e scriptedEffects) Adopt(ctx context.Context, in effect.Adopt) (effect.Seen, error) {
	return scripted(e.a, "adopt", func() (effect.Seen, error) { return e.Store.Adopt(ctx, in) })
}

func (e scriptedEffects) Settle(ctx context.Context, in effect.Settle) (effect.Settled, error) {
	return scripted(e.a, "settle", func() (effect.Settled, error) { return e.Store.Settle(ctx, in) })
}

func (e scriptedEffects) Complete(ctx context.Context, in effect.Completion) (bool, error) {
	return scripted(e.a, "complete", func() (bool, error) { return e.Store.Complete(ctx, in) })
}

type scriptedOutbox struct {
	outbox.Store
	a actor
}

func (o scriptedOutbox) Delete(ctx context.Context, relay string, eventIDs []string) ([]string, error) {
	return scripted(o.a, "outbox delete", func() ([]string, error) { return o.Store.Delete(ctx, relay, eventIDs) })
}

type scriptedInbox struct {
	inbox.Store
	a actor
}

func (i scriptedInbox) Apply(ctx context.Context, in inbox.Apply) (bool, error) {
	return scripted(i.a, "inbox apply", func() (bool, error) { return i.Store.Apply(ctx, in) })
}

type scriptedNotify struct {
	notify.Store
	a actor
}

func (n scriptedNotify) MarkSent(ctx context.Context, k notify.Key, now time.Time) (bool, error) {
	return scripted(n.a, "mark sent", func() (bool, error) { return n.Store.MarkSent(ctx, k, now) })
}

type scriptedQueue struct {
	queue.Queue
	a actor
}

func (q scriptedQueue) Send(ctx context.Context, m queue.Message) error {
	_, err := scripted(q.a, "queue send", func() (struct{}, error) { return struct{}{}, q.Queue.Send(ctx, m) })
	return err
}

func (q scriptedQueue) Finish(ctx context.Context, d queue.Delivery) (bool, error) {
	return scripted(q.a, "queue finish", func() (bool, error) { return q.Queue.Finish(ctx, d) })
}

type scriptedPSP struct {
	payments.PSP
	a actor
}

func (s scriptedPSP) Charge(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error) {
	return scripted(s.a, "psp charge", func() (psp.Charge, error) { return s.PSP.Charge(ctx, r) })
}

type scriptedClock struct {
	clock.Clock
	a actor
}

func (c scriptedClock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if f := c.a.s.take(c.a.p.Name, "set deadline"); f != nil {
		c.a.pause(f.For)
	}
	return c.Clock.WithTimeout(ctx, d)
}

type scriptedPush struct {
	notify.Sender
	a actor
}

func (s scriptedPush) Send(ctx context.Context, n push.Notification) error {
	_, err := scripted(s.a, "push send", func() (struct{}, error) { return struct{}{}, s.Sender.Send(ctx, n) })
	return err
}

// Calm makes restarts prompt and clocks right: a story's only faults are its own.
func (w *World) Calm() { w.healed = true }

// Running names the process that has the baton, "" when none has.
func (w *World) Running() string {
	if w.current == nil {
		return ""
	}
	return w.current.process.Name
}

// RunningTask identifies the task that has the baton, nil when none has: one
// request, or one step of a loop.
func (w *World) RunningTask() any {
	if w.current == nil {
		return nil
	}
	return w.current
}

// KillRunning crashes the process that has the baton, in the middle of a call.
func (w *World) KillRunning(op string) {
	w.crash(w.current.process, op, "")
}

// Enter adds a process that runs some other program than payments, and what a
// node would be handed, for the naive programs that stories compare with.
func (w *World) Enter(name string) (*Process, payments.Deps) {
	p := NewProcess(w.Scheduler, name, 0, 0)
	w.processes = append(w.processes, p)
	x := &seam{w, p}
	return p, payments.Deps{Store: x.stores(w.stores), Queue: queueSeam{x, w.queue}, PSP: pspSeam{x, emulator.Direct{Core: w.core}},
		Push: pushSeam{x, w.phones}, Clock: p.Clock(), Rand: random{w}, Log: silent, Metrics: &metrics{w}}
}

// LoseReplies loses the next n replies of the processor to an operation: "psp
// charge".
func (w *World) LoseReplies(op string, n int) { w.losing[op] += n }

// Stores are the databases, without a seam.
func (w *World) Stores() payments.Stores { return w.stores }

// Core is the processor.
func (w *World) Core() *emulator.Core { return w.core }

// Phones are the push provider and the screens.
func (w *World) Phones() *pushemulator.Emulator { return w.phones }

// QueueStats is what the queue in memory holds and has seen.
func (w *World) QueueStats() queuememory.Stats {
	return w.queue.Stats()
}

// Harm is the first harm that the auditor saw, nil when there was none.
func (w *World) Harm() *Violation { return w.audit.violation }

// Drop forgets the faults of a node that did not happen yet.
func (s *Script) Drop(node string) {
	s.faults = slices.DeleteFunc(s.faults, func(f *ScriptedFault) bool { return f.Node == node })
}
