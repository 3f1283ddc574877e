// Package httpkey makes HTTP requests safe to repeat: a middleware for any
// net/http handler and router that runs a request once per Idempotency-Key, and a
// client transport that makes the key, journals it before the first send and
// sends it again until the answer is definite.
//
// The server promises:
//   - the caller is checked first, so that one whose rights were withdrawn never
//     gets an old answer; then the key, then the body; a refusal up to here writes
//     nothing;
//   - the handler runs only after the effect is recorded, once per key as far as
//     the effect.Engine promises it, and goes on when its client goes away;
//   - an answer that is not streamed is sent after it is recorded; what the client
//     got and what repeats get are then one answer;
//   - an answer of the handler that leaves open what happened (5xx, 202, a panic,
//     runtime.Goexit) frees nothing: repeats get a pointer to the record.
//
// It does not promise that a handler which calls the outside without a derived
// key (effect.FromContext(ctx).Key) and is run again by an engine that allows it
// has one effect; nor that a streamed answer that was cut is recorded.
//
// A crash of the server leaves behind what effect lists under its crash points; one
// after the record and before the answer is sent costs nothing, since the repeat
// gets the record.
//
// # Answers
//
//	no caller                       401 or 403                  nothing written
//	missing or malformed key        400 key-missing, key-malformed  nothing written
//	body too large, unreadable      413 too-large, 400 invalid  nothing written
//	body read by an outer handler   500 permanent               nothing written
//	same key, another meaning       422 key-reused
//	first one still running         409 in-progress, Retry-After (first waits when "Prefer: wait=N")
//	key voided                      409 void
//	not final                       202, Retry-After, Location if configured; made from the record at that moment
//	final                           the recorded answer, Idempotency-Replayed: true
//	too old at arrival              503 too-late
//	records out of reach            503 unavailable, Retry-After
//	effect done but not recorded    503 unknown, Retry-After
//
// All but the recorded answers and the 202 are problem documents (RFC 9457) whose
// "type" is ProblemBase + code.
//
// # What a handler's answer means
//
//	2xx but 202, 304                done: final
//	300 to 303                      the same when the attempt has begun; otherwise unknown, since it may be a login page
//	402 404 409 410 412 416 422 423 424 451   definitely not done: final too; unknown instead
//	                                with a Retry-After, or when it is a problem "in-progress"
//	307 308 400 401 403 405 406 411 413 414 415 417 421 425 426 428 429 431
//	                                nothing was done, ask differently: the key is free again;
//	                                unknown instead when the attempt has begun
//	anything else, a panic, Goexit  unknown: a pointer
//
// Config.Classify has the rule status by status. An attempt has begun when the
// handler has asked for a derived key or called Begin on effect.FromContext(ctx), or
// when it took over from an owner that vanished. A handler that knows better says so
// with Done, Failed, NotDone or Unknown: Done when its success is a 202 or a
// redirect, NotDone when it sends its caller to a login page. One that settles in
// its own transaction calls Finish on the attempt itself; the middleware then serves
// what was settled.
//
// A gateway, such as httputil.ReverseProxy, calls Begin before it forwards. When the
// service behind it takes the same keys, effect.RerunAlways lets a repeat of what is
// unknown ask that service again.
//
// The client of an unknown run gets the handler's own 5xx, 202 or redirect, and the
// pointer in place of anything else: a 400 after the effect has begun would tell it
// to give up the key.
//
// A route that is wrapped twice, around a router and again inside of it, runs once:
// the inner middleware finds the run of the outer one, if both share an engine.
//
// # Recorded headers
//
// What the handler set is recorded, values apart as they were, except for headers
// that belong to one response or one client; see [NotRecorded]. A header that it took
// away, or keeps net/http from guessing, stays away on a repeat. What must fit each
// request, such as CORS headers, belongs outside the middleware.
//
// A body larger than MaxAnswer is sent but not kept, and one that ended before its
// Content-Length is not kept either: a repeat then gets the same status and headers
// with a short JSON body that names the effect, and [HeaderBody] says so. A client
// that did not ask for the coding of a recorded body gets it unpacked (gzip,
// deflate), or for other codings that short body.
package httpkey
