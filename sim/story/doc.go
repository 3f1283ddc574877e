// Package story plays one payment, retried at every hop, and its branches: the
// acceptance story of the system. It runs the composition that production runs,
// payments.New in several processes, in the virtual time of package sim.
//
// A scenario is data: who does what and when, which fault meets which call, which
// constant has another value. No outcome is written down in it. What
// must come out is computed from the scenario's parameters, beside the scenario,
// and compared with what came out.
//
// What another design would do is played by twins: small wrappers around one
// dependency, and small programs that share the processor and the network and
// nothing else.
package story
