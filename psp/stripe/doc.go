// Package stripe charges cards and gives money back through Stripe's API, by Stripe's
// own Go library. It is the one adapter: psp/emulator answers it exactly as Stripe
// does.
//
// # What it promises
//
//   - A charge is one request, create and confirm together, under the caller's
//     idempotency key, and so is a refund. Nothing below sends it a second time: the
//     retries of the library and the silent ones of net/http are off. (A lookup that
//     breaks on a reused connection is still repeated by net/http, which is harmless.)
//   - A decline is an answer, not an error.
//   - Every error is a *retryproof.Error. NotDone is said only when this request
//     certainly did nothing. Whatever cannot be told is Unknown.
//   - No error, and no Config that is printed, shows a secret.
//
// # What it does not promise
//
//   - NotDone speaks of this one request. When an earlier request with the same
//     key is unsettled, it stays unsettled, whatever a repeat is told: only Stripe's
//     memory of the key, or a lookup, settles it.
//   - That a key still means the same charge 24 hours after its first use. Then look
//     the payment up; never send the old key again.
//   - That [Client.Find] sees everything: Stripe's search is eventually consistent,
//     usually within a minute, in an outage within an hour. "Not found" proves
//     nothing.
//   - That a saved answer is fresh: a charge that was Processing when the key was
//     first used is replayed as Processing forever, and so is a refund. Use
//     [Client.Retrieve] and [Client.RetrieveRefund].
//   - That a refund that Succeeded stays so: a bank may send the money back.
//
// # After the key
//
// Stripe may forget a key 24 hours after its first use; a repeat is then a new
// request, and charges or refunds again. From a safe margin before that moment on an
// unknown outcome is looked up and never repeated: a charge by [Client.Find] (which
// may lag) or [Client.List] (which does not), a refund by [Client.FindRefunds]. Each
// compares the reference of ours that was stored with the first request.
//
// # Errors of Charge and Refund
//
//	what happened                         outcome  code
//	refused before anything was sent      NotDone  invalid, too-late
//	no connection (refused, no such host) NotDone  unavailable
//	400, 404: the request is wrong        NotDone  invalid, not-found
//	400: never refundable (Refund only)   NotDone  permanent
//	401, 403                              NotDone  unauthorized, forbidden
//	429: too many requests                NotDone  too-many
//	429: lock timeout                     Unknown  conflict
//	400: key used with other parameters   Unknown  key-reused
//	409: key in use                       Unknown  in-progress
//	no answer: timeout, connection cut    Unknown  no-answer; repeat the same key
//	5xx                                   Unknown  unknown; the key keeps this answer: look it up
//	anything else                         Unknown  unknown
//
// "Key in use" and "other parameters" refuse this request, but they also say that
// there was another one under the same key, which may have charged the card:
// Unknown. An error of a lookup or a listing is always Unknown, since it says nothing
// about a charge or a refund; only its code differs.
//
// "Never refundable" is refunded already, disputed, or more than is left. After the
// key was forgotten it may be the echo of the very refund that is asked for.
//
// # What a crash leaves behind
//
// The package keeps nothing. A crash during Charge or Refund leaves an unknown
// outcome, which the same key settles within 24 hours and a lookup afterwards.
package stripe
