// Package effect runs one effect once, however often it is asked for: claim the
// name, record the intent, run, answer (mission B1 to B10).
//
// Two records stand behind one effect. The claim (the key store) says who works
// on it now and what was answered; it is forgotten after a while. The guard is a
// durable row, unique on (endpoint, caller, key), written before anything runs
// and kept as long as the effect matters. The claim makes repeats cheap; the
// guard makes them safe.
//
// Promises:
//   - run is called by at most one owner at a time whose lease is alive, and only
//     after the guard row is committed;
//   - every write of an owner is conditional on the owner token, so that one who
//     was taken over changes nothing and answers from the record;
//   - a repeat with another fingerprint runs nothing;
//   - an outcome that is not known is stored as UNKNOWN with a pointer to the
//     guard, never as a final answer; a stored final answer never changes;
//   - with the key store down, the guard alone decides; with the guard down,
//     nothing runs.
//
// Does not promise: that run is called once. A crashed owner's successor calls it
// again when [Config.Rerun] allows it, with the same derived ids, so outside calls
// must carry [Attempt.Key] or be looked up first.
//
// Crash points:
//   - after the claim, before the guard (two stores only): the claim goes stale,
//     a repeat takes over after lease + margin, nothing had run;
//   - after the guard, before or during run: PENDING; a repeat takes over after
//     lease + margin, or the resolver's sweep makes it UNKNOWN and asks;
//   - after run, before the settlement: the same, and the repeat of the outside
//     call with the derived key gives the first result;
//   - after the settlement: final; repeats are answered from the record.
package effect
