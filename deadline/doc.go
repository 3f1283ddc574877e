// Package deadline bounds a request in time: when it arrived, how long it may still
// start something, when it is too old to begin, and whether the settings of a path
// fit together. It serves any net/http server or client.
//
// A late original is the danger. A request waits in a queue, its client gives up and
// starts again under a new key, and then the first one runs too. A deadline that is
// counted from the arrival, and not from the moment a thread picks the request up,
// closes that gap: when [Formula2] holds, every copy of a request has claimed its key
// or never will by the time its client gives up.
//
// The package promises:
//   - an arrival is never later than the moment of accept, whatever a header says:
//     a stamp can make a request older but never younger, so it shortens a lease and
//     never stretches one;
//   - only a proxy that the configuration trusts is believed, judged by the address of
//     the connection's other end; what others send is ignored and counted;
//   - a [Gate] refuses before anything runs, with an answer that says so;
//   - a [Transport] sends nothing once the budget is used up (NotDone); a call that it
//     has handed on when the budget ends is Unknown, never NotDone.
//
// It does not promise that the proxies' clocks are right: one that is ahead makes
// requests look younger by its offset. [Formula2] therefore takes the largest offset
// that you allow as one of its terms. Nor does it see the time before the stamp: the
// way to the proxy, or, without a stamp, the proxy's own queue and the time that a
// slow client takes for its headers. Nor does it stop what was sent: it only stops
// waiting for it.
//
// A crash leaves nothing behind: the package keeps no state. A request that is sent
// again gets a stamp of its own; its key is what ties the two together.
//
// # Which moment counts
//
// One rule, for every header, line and list:
//
//	no stamp from a trusted proxy       the moment of accept        "missing"
//	a stamp from anybody else           the moment of accept        "untrusted"
//	a value that cannot be read         as if it were not there     "junk"
//	up to Margin after accept           the moment of accept        "ahead"
//	later than that                     the moment of accept        "future"
//	up to MaxAge before accept          the stamp                   "used"
//	older than that                     the stamp                   "old"
//
// Where a request carries several stamps, in several headers, lines or list members,
// the earliest readable one counts: what a client slips in beside the proxy's own
// can only make its own request older. X-Amzn-Trace-Id is no list: a line of it is one
// value, whose Self, where it has one, is all that counts. A stamp older than MaxAge counts too, so the
// request is refused as too late. It is counted apart since it rarely means that a
// request waited so long; more often a proxy's clock is wrong, or a header is listed
// that the proxy does not write and the client does. List only what your proxies write.
//
// # Where stamps come from
//
//	AWS Application Load Balancer  X-Amzn-Trace-Id, see ParseTraceID
//	nginx, Apache, HAProxy, F5, Heroku, Render, Envoy with %START_TIME% in a header
//	of your own                    X-Request-Start, see ParseRequestStart
//
// Envoy's own x-envoy-expected-rq-timeout-ms is a budget and not a moment, so it is
// no stamp.
package deadline
