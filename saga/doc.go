// Package saga runs a series of steps in several services, each with its own
// commit, and undoes what was done when one of them cannot be done (mission I1).
//
// A saga is named after the intent that it serves. Every call of it carries a key
// derived from that name: id.Sub(step) for an action, id.Sub("cancel", name) for
// the compensation of a step. An id has no ':', and no step is called "cancel", so that
// no two calls of any sagas share a key. The log says, before a call is made for the first
// time, that it may have been made; after a crash any process goes on from the
// log alone, with the same keys.
//
// Promises:
//   - a call is recorded before it is made, and made again with the same key until
//     its outcome is known; an UNKNOWN one is never given up, and a person is told;
//   - of several processes one advances a saga: every record is a compare-and-set
//     on the owner's token and on the version that it has read, so that an owner
//     who was overtaken changes nothing;
//   - COMPLETED is written when every action is DONE, COMPENSATED when every
//     compensation that was due is DONE; nothing else is evidence;
//   - when a saga turns back, every action that was begun is compensated, latest first,
//     the refused one and one in doubt too, as if it had happened.
//
// The last rule is safe when compensations keep the contract of [Step.Cancel]:
// where nothing happened, they leave a mark that refuses a late original
// ([Participant] is such a mark). It is the rule because a refusal speaks of one
// try only. An earlier try with an unknown outcome may have done it, one of an
// owner who was overtaken may be on its way, and a step whose own transaction
// rolled back reports failure although its outside call stands (case 40). To ask
// a compensation for too much costs a call; to ask for too little loses money.
//
// Does not promise: that a call is made once (its key makes repeats harmless);
// an end, when a participant never answers; isolation. Others see the steps of a
// saga that is not [State.Final], and three counter-measures are theirs to take:
//   - a PENDING marker, or semantic lock: a step writes HELD, not SOLD, and the
//     last step or the compensation resolves it; readers treat HELD as not final;
//   - commutative updates: amounts are added and taken off, never written over, so
//     that other sagas may come between a step and its compensation;
//   - re-reading: a step reads what it relies on in its own transaction again,
//     instead of trusting what an earlier step has seen.
//
// Crash points:
//   - before Start's commit: nothing; the caller repeats Start with the same id;
//   - after the lease, before a record: the lease goes stale, another runner goes on;
//   - after a call was recorded, before, during or after it: STARTED; the next
//     runner calls again with the same key;
//   - a call panics: UNKNOWN, as after any unclassified error; the process lives, and a
//     panic of anything else (a store, Alert, Observe) goes on, as a runtime.Goexit does;
//   - after a call's outcome was recorded: the next runner continues from there;
//   - the answer to a record's COMMIT is lost: the runner asks again and reads the
//     record back before it makes another call; if it cannot, it stops.
package saga
