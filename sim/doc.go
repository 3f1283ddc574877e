// Package sim runs the payments system in virtual time: the same composition as
// production, payments.New, in as many processes as a world wants, with other
// Deps. It is deterministic: one seed gives one trace, on any machine.
//
// How: every request and every loop is a task, a coroutine of iter.Pull. Exactly
// one task runs at a time. It gives the baton back at every call through a seam
// (clock, store, queue, processor, push), where the scheduler may let time pass,
// let others go first, lose the request or the answer, repeat it, or kill the
// process. Tasks that are due at one moment go on in an order drawn from the seed.
//
// A crash kills a process: its tasks end at the seam call at which they wait, and
// every later call of that incarnation ends the task again, so that nothing of a
// dead process reaches the world. What was committed stays; everything else is
// gone.
//
// What the world does wrong lives in wrappers around the seams; production code
// knows nothing of it. The auditor sits where the truth is: at the processor, at
// the queue, at the screens.
package sim
