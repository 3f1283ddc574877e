// Package retryproof holds the nouns that every hop of a repeatable request
// shares: the client's [Key], its [Scope], the [Fingerprint] of what was asked,
// the derived [ID], the [Outcome] of an attempt, the [Event] that announces an
// effect, and [Error].
//
// One effect, one name, one record. A network hides outcomes: after a timeout
// nobody knows whether a request was lost, done, or is still running, so it is
// sent again. Every package of this module makes one hop of that path safe to
// repeat and can be adopted alone:
//
//   - effect: claim, record, run, answer; the heart
//   - httpkey: Idempotency-Key for net/http servers and clients
//   - outbox, inbox, notify: events and notifications, once each
//   - resolve: settles effects whose outcome nobody knows
//
// This package imports the standard library only, reads no clock and makes
// nothing random: the same input gives the same ids in every process, Region
// and version.
package retryproof
