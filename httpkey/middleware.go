package httpkey

// One keyed request on the server, from its headers to its answer.
//
// It promises that nothing is written before the caller, the key and the meaning of the
// request are known; that the handler runs only for the owner of the claim; and that a
// client hears what repeats will hear, unless a part of the handler's own answer has left.
// It does not promise that a handler runs in time: the lease bounds the calls outside, see
// package deadline.
//
// A crash before the claim leaves nothing; one between the claim and the end leaves what
// effect.Config.Rerun decides about; one after the end leaves the answer to repeats.

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// Middleware runs keyed requests once. Safe for concurrent use.
type Middleware struct {
	engine *effect.Engine
	config Config
}

// New returns a middleware on an engine, or everything that is wrong with the
// configuration.
func New(engine *effect.Engine, c Config) (*Middleware, error) {
	if engine == nil {
		return nil, errors.New("httpkey: the engine is nil")
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Middleware{engine: engine, config: c.withDefaults()}, nil
}

// Handler wraps a handler: a whole router, or one route of it.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(m.config.Methods, r.Method) || m.config.Optional && len(r.Header.Values(HeaderKey)) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		x := &keyed{m: m, w: w, r: r, next: next}
		if err := x.read(); err != nil {
			x.refuse(err)
			return
		}
		if same := running(r.Context(), m.engine, x.ask.Scope); same != nil { // wrapped twice: it is claimed already
			inner := &exchange{value: x.value, outer: exchangeFrom(r.Context()), same: same}
			next.ServeHTTP(w, x.forHandler(context.WithValue(r.Context(), exchangeKey{}, inner)))
			return
		}
		x.serve()
	})
}

// keyed is one request with a key.
type keyed struct {
	m    *Middleware
	w    http.ResponseWriter
	r    *http.Request
	next http.Handler

	// owner says that this request ran the effect: its own answer is no replay, also
	// when somebody else, a webhook perhaps, recorded the outcome first.
	owner bool
	asked time.Time // when the record was asked last
	ask   effect.Request
	body  []byte
	value any
}

// read learns everything about the request before anything is written: the caller
// first, since one without rights must not learn whether a key exists (case 10).
func (x *keyed) read() error {
	c := x.m.config
	caller, err := x.caller(x.r)
	if err != nil {
		return err
	}
	key, err := retryproof.KeyFromHeader(x.r.Header.Values(HeaderKey))
	if err != nil {
		return err
	}
	now := x.m.engine.Config().Clock.Now()
	if c.Arrived != nil {
		x.ask.Arrived = c.Arrived(x.r)
	}
	if x.ask.Arrived.IsZero() || x.ask.Arrived.After(now) { // a stamp can shorten a lease, never stretch it
		x.ask.Arrived = now
	}
	if x.body, err = readBody(x.r, c.MaxBody); err != nil {
		return err
	}
	x.ask.Scope = retryproof.Scope{Endpoint: c.Endpoint(x.r), Caller: caller, Key: key}
	meaning, err := c.Read(x.r, x.body)
	if err != nil {
		return badRequest(err)
	}
	x.ask.Fingerprint, x.ask.GuardID, x.ask.Row, x.value = meaning.Fingerprint, meaning.GuardID, meaning.Row, meaning.Value
	if x.ask.GuardID == "" {
		x.ask.GuardID = retryproof.Of("effect", x.ask.Scope)
	}
	x.ask.Render = c.rendered
	return nil
}

func (x *keyed) caller(r *http.Request) (string, error) {
	caller, err := x.m.config.Caller(r)
	if err == nil && caller == "" {
		err = errors.New("the caller is empty")
	}
	if err != nil {
		return "", callerError(err)
	}
	return caller, nil
}

// callerError makes any error of Caller a refusal. Only what says so is something
// else than 401.
func callerError(err error) error {
	var e *retryproof.Error
	if errors.As(err, &e) && e.Code != "" && e.Code != retryproof.CodeUnknown {
		return err
	}
	return retryproof.Refused(retryproof.CodeUnauthorized, "the caller could not be authenticated", err)
}

// badRequest makes any error of Read a refusal.
func badRequest(err error) error {
	var e *retryproof.Error
	if errors.As(err, &e) && e.Code != "" && e.Code != retryproof.CodeUnknown {
		return err
	}
	return retryproof.Refused(retryproof.CodeInvalid, "the request could not be understood", err)
}

// serve begins the effect and runs it, or answers from the record.
func (x *keyed) serve() {
	if x.r.Context().Err() != nil {
		x.refuse(retryproof.Refused(retryproof.CodeUnavailable, "the client went away before anything ran", nil))
		return
	}
	d, attempt, err := x.begin()
	switch {
	case err != nil:
		x.refuse(err)
	case attempt == nil:
		x.replay(d)
	default:
		x.run(attempt)
	}
}

// begin claims without the client's cancellation, so that one who goes away
// between the claim and the run leaves no owner that never runs. Waiting ends
// with the client.
func (x *keyed) begin() (effect.Decision, *effect.Attempt, error) {
	config := x.m.engine.Config()
	ctx, cancel := config.Clock.WithTimeout(context.WithoutCancel(x.r.Context()), config.WriteTimeout)
	defer cancel()
	x.asked = config.Clock.Now()
	d, attempt, err := x.m.engine.Begin(ctx, x.ask)
	if err != nil || d.Verdict != effect.Busy && d.Verdict != effect.Pointer {
		return d, attempt, err
	}
	wait, _ := PreferWait(x.r.Header.Values("Prefer"))
	if wait = min(wait, config.MaxWait).Truncate(time.Second); wait <= 0 {
		return d, nil, nil
	}
	x.w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
	again := x.ask
	again.Wait = wait
	x.asked = config.Clock.Now()
	later, attempt, err := x.m.engine.Begin(x.r.Context(), again)
	if refused := x.callerStays(); refused != nil {
		return effect.Decision{}, nil, errors.Join(refused, giveUp(ctx, attempt))
	}
	if err != nil { // it was there a moment ago: that is still true
		return d, nil, nil
	}
	return later, attempt, nil
}

// callerStays asks for the caller once more after a wait: rights may have been
// withdrawn meanwhile (case 10). The body is put back for it: a caller may be known by
// a signature over it.
func (x *keyed) callerStays() error {
	caller, err := x.caller(x.forHandler(x.r.Context()))
	if err == nil && caller != x.ask.Scope.Caller {
		err = callerError(errors.New("the caller has changed"))
	}
	return err
}

// giveUp ends an attempt that must not run.
func giveUp(ctx context.Context, a *effect.Attempt) error {
	if a == nil {
		return nil
	}
	if !a.TookOver() {
		if free, err := a.Release(ctx); err != nil || free {
			return err
		}
	}
	_, err := a.Unknown(ctx) // an earlier owner may have done it
	return err
}

// run calls the handler as the effect's owner and ends the attempt, whatever way
// the handler leaves.
func (x *keyed) run(a *effect.Attempt) {
	state := &exchange{value: x.value, engine: x.m.engine, scope: x.ask.Scope, outer: exchangeFrom(x.r.Context())}
	rec := newRecorder(x.w, x.m.config.MaxAnswer)
	rec.head = x.r.Method == http.MethodHead
	ctx, cancel := a.Context(context.WithValue(x.r.Context(), exchangeKey{}, state))
	defer cancel()
	returned := false
	defer func() {
		state.finish()
		if _, ended := a.Ended(); !returned && !ended {
			// A panic or runtime.Goexit, of the handler or of Classify: it goes on, and
			// cuts the connection.
			_, _ = a.Unknown(ctx)
		}
	}()
	x.owner = true
	x.next.ServeHTTP(rec, x.forHandler(effect.NewContext(ctx, a)))
	defer rec.trailers()
	rec.finish()
	x.end(ctx, a, state, rec)
	returned = true
}

// end settles what the handler left open and answers.
func (x *keyed) end(ctx context.Context, a *effect.Attempt, state *exchange, rec *recorder) {
	if d, ended := a.Ended(); ended {
		x.answerSettled(d, rec)
		return
	}
	switch how := x.m.config.ending(state, a, rec.given()); how {
	case EndSucceeded, EndFailed:
		x.endFinal(ctx, a, x.final(how, rec.answer()), rec)
	case EndNotDone:
		x.endNotDone(ctx, a, rec)
	default:
		x.endUnknown(ctx, a, rec)
	}
}

// endFinal records the handler's answer as the last word, and sends it when it is what
// repeats will hear.
func (x *keyed) endFinal(ctx context.Context, a *effect.Attempt, f effect.Finish, rec *recorder) {
	until := x.answerEnd(x.m.engine.Config().Clock.Now())
	d, err := a.Finish(ctx, f)
	switch {
	case err == nil && a.Within():
		x.answerSettled(d, rec) // the handler's transaction recorded the answer, if it committed
	case err == nil && d.Answer != nil && d.Claim == nil:
		x.expires(rec, until)
		rec.send()
	default:
		x.instead(d, err, rec)
	}
}

// endNotDone frees the key.
func (x *keyed) endNotDone(ctx context.Context, a *effect.Attempt, rec *recorder) {
	free, err := a.Release(ctx)
	if err != nil || free {
		rec.send() // not freed: the claim goes stale; the refusal is true all the same
		return
	}
	d, err := a.Unknown(ctx) // another owner was faster: nothing is written, the record says what is so
	x.instead(d, err, rec)
}

// endUnknown leaves a pointer. The handler's own answer goes out only if it does not say
// more than is known.
func (x *keyed) endUnknown(ctx context.Context, a *effect.Attempt, rec *recorder) {
	d, err := a.Unknown(ctx)
	if (err != nil || d.Verdict == effect.Pointer) && leavesOpen(rec.status) {
		rec.send()
		return
	}
	x.instead(d, err, rec)
}

// final is what is recorded of an answer that is the last word.
func (x *keyed) final(how Ending, answer effect.Answer) effect.Finish {
	state, id := effect.Succeeded, x.ask.GuardID
	if how == EndFailed {
		state = effect.Failed
	}
	if answer.BodyDropped {
		answer = withoutBody(answer, id, state)
	}
	return effect.Finish{State: state, Answer: answer, Result: x.m.config.keep(answer, id, state)}
}

// leavesOpen reports a status that tells the client no more than that it is not
// known, or where to look.
func leavesOpen(status int) bool {
	return status >= 500 || status == http.StatusAccepted || status >= http.StatusMultipleChoices && status <= http.StatusSeeOther
}

// instead answers with what the record says, since this attempt's own answer is
// not what repeats will hear. Too late for a client that has been sent it already.
func (x *keyed) instead(d effect.Decision, err error, rec *recorder) {
	switch {
	case rec.sent:
	case err != nil:
		rec.withdraw()
		x.refuse(err)
	default:
		rec.withdraw()
		x.replay(d)
	}
}

// answerSettled answers for a handler that ended the attempt itself: with what it
// settled, since repeats get that too; else with what it wrote.
func (x *keyed) answerSettled(d effect.Decision, rec *recorder) {
	fresh := d.Verdict == effect.Replay && d.Answer != nil && d.Claim == nil // not somebody else's record
	until := x.answerEnd(x.asked)
	if fresh && (rec.sent || d.Answer.Status == 0) {
		x.expires(rec, until)
	}
	switch {
	case rec.sent:
	case fresh && d.Answer.Status != 0:
		rec.withdraw()
		setExpires(x.w.Header(), until)
		writeAnswer(x.w, x.r, *d.Answer)
	case d.Verdict == 0 && rec.silent:
		x.refuse(retryproof.Refused(retryproof.CodeUnavailable, "the request was given up; nothing was done", nil))
	case fresh, d.Verdict == 0, d.Verdict == effect.Pointer && !rec.silent && leavesOpen(rec.status):
		rec.send()
	default:
		rec.withdraw()
		x.replay(d)
	}
}

// replay answers without running anything.
func (x *keyed) replay(d effect.Decision) {
	c := x.m.config
	if (d.Verdict == effect.Replay || d.Verdict == effect.Pointer) && c.Authorize != nil {
		if err := c.Authorize(x.r, d); err != nil {
			x.refuse(callerError(err))
			return
		}
	}
	switch d.Verdict {
	case effect.Replay:
		x.replayFinal(d)
	case effect.Pointer:
		x.pointer(d.Guard)
	case effect.Busy:
		x.refuse(&retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeInProgress, RetryAfter: d.RetryAfter,
			Message: "the first request with this key is still running", Hint: "send it again with the same key"})
	case effect.Mismatch:
		x.refuse(retryproof.Refused(retryproof.CodeKeyReused, "this key was used for a different request; nothing ran", nil))
	default:
		x.refuse(retryproof.Refused(retryproof.CodeVoid, "this key was voided; send a new intent with a new key", nil))
	}
}

func (x *keyed) replayFinal(d effect.Decision) {
	var a effect.Answer
	switch {
	case d.Answer != nil && d.Answer.Status != 0:
		a = *d.Answer
	case d.Guard != nil:
		a = x.m.config.rendered(*d.Guard)
	default: // recorded without HTTP, and the record keeps no row
		a = x.m.config.rendered(effect.Guard{ID: x.ask.GuardID, Scope: x.ask.Scope, State: effect.Succeeded})
	}
	h := x.w.Header()
	if packed := codings(a.Header); !unpacks(packed) && !acceptsAll(x.r.Header, packed) {
		a.Body, a.BodyDropped = nil, true // kept, and not for this client
	}
	if a.BodyDropped && bodyAllowed(a.Status) {
		if len(a.Body) == 0 {
			a = withoutBody(a, x.ask.GuardID, stateOf(d))
		}
		h.Set(HeaderBody, "not-kept")
	}
	if !x.owner {
		h.Set(HeaderReplayed, "true")
	}
	switch {
	case d.Claim != nil && !d.Claim.ExpiresAt.IsZero():
		setExpires(h, d.Claim.ExpiresAt)
	case d.Claim != nil && d.CompleteClaim, x.owner: // the claim has just been filled
		setExpires(h, x.answerEnd(x.asked))
	}
	writeAnswer(x.w, x.r, a)
}

// stateOf is the effect's state as far as the decision has it.
func stateOf(d effect.Decision) effect.State {
	if d.Guard == nil {
		return ""
	}
	return d.Guard.State
}

// pointer answers with the state of an effect that is not final yet.
func (x *keyed) pointer(found *effect.Guard) {
	g := effect.Guard{ID: x.ask.GuardID, Scope: x.ask.Scope, State: effect.Unknown}
	if found != nil {
		g = *found
	}
	a := x.m.config.rendered(g)
	h := x.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Retry-After", strconv.Itoa(retryAfterSeconds(x.m.config.PollAfter)))
	if x.m.config.Location != nil {
		if at := x.m.config.Location(g); at != "" {
			h.Set("Location", at)
		}
	}
	writeAnswer(x.w, x.r, a)
}

// refuse answers with a problem document. Nothing is stored.
func (x *keyed) refuse(err error) {
	p := ProblemOf(err)
	if p.Status == http.StatusUnauthorized && x.m.config.Challenge != "" {
		x.w.Header().Set("WWW-Authenticate", x.m.config.Challenge)
	}
	if p.Code == retryproof.CodeInProgress || p.Code == retryproof.CodeUnknown {
		p.Effect = x.ask.GuardID
	}
	p.Write(x.w)
}

// answerEnd is when an answer that is recorded at a moment, or after it, expires at
// the earliest.
func (x *keyed) answerEnd(at time.Time) time.Time { return at.Add(x.m.engine.Config().AnswerTTL) }

// expires says how long the answer is kept. One whose header has left says so in a
// trailer: when it left, nobody knew whether there would be a record.
func (x *keyed) expires(rec *recorder, at time.Time) {
	if rec.sent {
		x.w.Header().Set(http.TrailerPrefix+HeaderExpires, httpDate(at))
		return
	}
	setExpires(rec.decided, at)
}

func setExpires(h http.Header, at time.Time) { h.Set(HeaderExpires, httpDate(at)) }
