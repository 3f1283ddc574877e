// Package reconcile compares what another company says that it did with what our
// ledger says, for a period: the last word about money (mission C4).
//
// Promises:
//   - every entry of either side that begins in the period is looked at once, and
//     each difference is reported by its kind: missing here, missing there, another
//     amount, another outcome, several for one, settled late, unproved;
//   - an unknown outcome of ours is closed only by an entry of theirs that is definite
//     and matches, and by a decline only when all around our record was listed and nothing
//     stands beside it; that nothing is found closes nothing, since a list may lag;
//   - an unknown that cannot be closed is reported with the reason, and keeps no other
//     from being closed;
//   - comparing changes nothing on the other side.
//
// Does not promise: to repair. A difference is left to a person.
//
// Crash points: a run that ends early has settled some unknowns, each with its
// evidence, and reported nothing; run it again.
package reconcile
