// Package resolve settles effects whose outcome nobody knows, by asking again in
// a way that is safe either way (mission C4).
//
// Promises:
//   - it never guesses: an effect is settled by what the remote side says about it,
//     or it stays UNKNOWN, forever if need be, and a person is told;
//   - a settlement is a compare-and-set on the state, and one without evidence also on
//     the lease that the resolver holds, so that of many resolvers with one list each
//     effect is settled once;
//   - at most Rate questions are asked a second, whatever is due, so that live requests
//     keep their share. A question may be two or three requests: a repeat, a look at
//     what it gave, a look-up;
//   - an answer that comes after somebody else has decided otherwise is kept, and a
//     person is told.
//
// Does not promise: an end. Only evidence ends an UNKNOWN effect.
//
// What it concluded, and from what, is kept beside the effect as evidence; when only a
// person can decide, Decide takes their verdict under the same conditions.
//
// Crash points: after the lease, it ends and another resolver asks; after the
// answer, the same question is asked again; after an alert and before it is recorded,
// the person is told again; after the settlement and before the claim is rewritten,
// repeats are rendered from the guard.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/internal/backoff"
	"github.com/retryproof/retryproof/internal/clip"
)

// Ask finds out what became of an effect: by repeating the outside call with the
// same derived key while the other side remembers it, else by looking it up. It
// returns a final outcome only on evidence; every error means "not known yet".
type Ask func(ctx context.Context, g effect.Guard) (effect.Finish, error)

// Config sets a resolver. The zero value works.
type Config struct {
	// Batch is how many effects are listed at a time. Defaults to 20.
	Batch int
	// Rate is how many questions are asked a second, by this resolver; each is up to
	// three requests. Live requests need the rest of RemoteLimit, so three times Rate
	// must be less. Defaults to 5.
	Rate float64
	// RemoteLimit is how many requests a second the other side takes at the endpoint
	// that is asked. Defaults to 25: what Stripe grants an endpoint by default, of 100
	// for the whole account (docs.stripe.com/rate-limits).
	RemoteLimit float64
	// Lease is how long one effect belongs to the resolver that asks about it; it
	// bounds the question. Defaults to 15 s.
	Lease time.Duration
	// MinBackoff is the wait after the first question without an answer; it
	// doubles. Defaults to 2 s.
	MinBackoff time.Duration
	// MaxBackoff is the longest wait. Defaults to 15 min.
	MaxBackoff time.Duration
	// AlertAfter is how many questions are asked before Alert is called; it goes
	// on asking. Defaults to 10.
	AlertAfter int
	// Alert tells a person about an effect that stays UNKNOWN: when AlertAfter
	// questions had no answer, and at once when the answer is a Conflict. It is called
	// before it is recorded that it was, so that a crash may repeat it and not lose it.
	// Defaults to nothing.
	Alert func(ctx context.Context, g effect.Guard, cause error)
	// UnknownOnly leaves PENDING effects with a stale lease to their callers'
	// repeats. Defaults to false: they are swept.
	UnknownOnly bool
	// Ref is the other side's name of a settled effect, such as "ch_1", so that a success
	// under another name is noticed. Defaults to none.
	Ref func(g effect.Guard) string
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Rand makes tokens and jitter. Defaults to entropy.System().
	Rand entropy.Source
	// Observe is told one of the Saw… constants, with the effect. Defaults to nothing.
	Observe func(what string, g effect.Guard)
}

// What a resolver reports to Config.Observe.
const (
	SawAsked        = "asked"         // the other side is about to be asked
	SawSettled      = "settled"       // an answer settled an effect
	SawStillUnknown = "still_unknown" // a question brought no evidence, or none that could be kept
	SawOvertaken    = "overtaken"     // somebody else had or settled it meanwhile
	SawDecided      = "decided"       // a person's verdict settled it
)

// requestsPerQuestion is how many requests one question can be.
const requestsPerQuestion = 3

func (c Config) withDefaults() Config {
	if c.Batch == 0 {
		c.Batch = 20
	}
	if c.Rate == 0 {
		c.Rate = 5
	}
	if c.RemoteLimit == 0 {
		c.RemoteLimit = 25
	}
	if c.Lease == 0 {
		c.Lease = 15 * time.Second
	}
	if c.MinBackoff == 0 {
		c.MinBackoff = 2 * time.Second
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = 15 * time.Minute
	}
	if c.AlertAfter == 0 {
		c.AlertAfter = 10
	}
	if c.Alert == nil {
		c.Alert = func(context.Context, effect.Guard, error) {}
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Rand == nil {
		c.Rand = entropy.System()
	}
	if c.Ref == nil {
		c.Ref = func(effect.Guard) string { return "" }
	}
	if c.Observe == nil {
		c.Observe = func(string, effect.Guard) {}
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Batch < 0 || c.Rate < 0 || c.AlertAfter < 0 {
		errs = append(errs, fmt.Errorf("resolve: Batch %d, Rate %g and AlertAfter %d must not be negative", c.Batch, c.Rate, c.AlertAfter))
	}
	if requestsPerQuestion*c.Rate >= c.RemoteLimit {
		errs = append(errs, fmt.Errorf("resolve: %d × Rate < RemoteLimit fails: %d × %g ≥ %g requests a second: live requests would have nothing left",
			requestsPerQuestion, requestsPerQuestion, c.Rate, c.RemoteLimit))
	}
	if c.Lease < 0 || c.MinBackoff < 0 || c.MaxBackoff < c.MinBackoff {
		errs = append(errs, fmt.Errorf("resolve: 0 ≤ Lease %v and 0 ≤ MinBackoff ≤ MaxBackoff fails: %v, %v", c.Lease, c.MinBackoff, c.MaxBackoff))
	}
	return errors.Join(errs...)
}

// Resolver settles what is due. RunOnce of one resolver must not run twice at a
// time; several resolvers may.
type Resolver struct {
	engine *effect.Engine
	store  Store
	ask    Ask
	render func(effect.Guard) effect.Answer
	config Config
	token  string
	// nextAsk is when the rate allows the next question.
	nextAsk time.Time
}

// New returns a resolver. render makes the final answer that the claim keeps.
func New(engine *effect.Engine, store Store, ask Ask, render func(effect.Guard) effect.Answer, config Config) (*Resolver, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Resolver{engine: engine, store: store, ask: ask, render: render, config: config, token: "resolver-" + entropy.Token(config.Rand)}, nil
}

// RunOnce asks about what is due, as far as the rate allows. It returns how many
// effects it settled.
func (r *Resolver) RunOnce(ctx context.Context) (int, error) {
	now := r.config.Clock.Now()
	if now.Before(r.nextAsk) {
		return 0, nil
	}
	due, err := r.store.Due(ctx, Due{Now: now, Margin: r.engine.Config().Margin, UnknownOnly: r.config.UnknownOnly, Limit: r.config.Batch})
	if err != nil {
		return 0, err
	}
	settled := 0
	var failures []error
	for _, g := range due {
		if ctx.Err() != nil {
			break
		}
		if wait := r.nextAsk.Sub(r.config.Clock.Now()); wait > 0 {
			if err := r.config.Clock.Sleep(ctx, wait); err != nil {
				break
			}
		}
		done, err := r.settle(ctx, g)
		if done {
			settled++
		}
		failures = append(failures, err)
	}
	return settled, errors.Join(failures...)
}

// settle leases one effect, asks and records the answer.
func (r *Resolver) settle(ctx context.Context, g effect.Guard) (bool, error) {
	leased, mine, err := r.engine.Lease(ctx, g, r.token, r.config.Lease)
	if err != nil {
		return false, err
	}
	if !mine {
		r.config.Observe(SawOvertaken, g)
		return false, nil
	}
	g = leased
	r.nextAsk = r.config.Clock.Now().Add(time.Duration(float64(time.Second) / r.config.Rate))
	r.config.Observe(SawAsked, g)
	askCtx, cancel := r.config.Clock.WithTimeout(ctx, r.config.Lease)
	f, askErr := r.ask(askCtx, g)
	cancel()
	if askErr == nil && f.State != effect.Succeeded && f.State != effect.Failed {
		askErr = fmt.Errorf("resolve: the answer about %s is %q, which is no final outcome", g.ID, f.State)
	}
	if askErr != nil {
		return false, r.stillUnknown(ctx, g, askErr)
	}
	return r.record(ctx, g, f)
}

// record settles an effect by a definite answer. The answer counts even when the lease
// has ended meanwhile and somebody else asks or decides: it is evidence, which the
// state alone has to allow. When the effect is final by now and the answer speaks
// against that, a person is told.
func (r *Resolver) record(ctx context.Context, g effect.Guard, f effect.Finish) (bool, error) {
	now := r.config.Clock.Now()
	settle := effect.Settle{ID: g.ID, From: []effect.State{effect.Unknown}, To: f.State, By: r.token, Fenced: true,
		Now: now, Result: f.Result, Row: f.Row, Postings: f.Postings, Events: f.Events,
		Evidence: VerdictNote(r.token, f.Seen, now)}
	out, err := r.engine.Settle(ctx, settle)
	if err == nil && !out.Moved && out.Guard != nil && out.Guard.State == effect.Unknown {
		settle.Fenced = false
		out, err = r.engine.Settle(ctx, settle)
	}
	switch {
	case err != nil && neverRecorded(err):
		return false, r.stillUnknown(ctx, g, fmt.Errorf("resolve: the answer cannot be recorded: %w", err))
	case err != nil || out.Guard == nil:
		return false, err
	case !out.Moved: // a webhook, another resolver or a person was faster
		r.config.Observe(SawOvertaken, g)
		return false, r.contradicted(ctx, *out.Guard, f)
	}
	r.config.Observe(SawSettled, *out.Guard)
	_, err = r.engine.Rewrite(ctx, *out.Guard, r.render(*out.Guard))
	return true, err
}

// neverRecorded reports that the store refused a settlement as such, so that asking it
// again cannot help.
func neverRecorded(err error) bool {
	var e *retryproof.Error
	if !errors.As(err, &e) || e.Err == nil { // the engine's own, with the store's inside
		return false
	}
	code := retryproof.CodeOf(e.Err)
	return retryproof.OutcomeOf(e.Err) == retryproof.NotDone && (code == retryproof.CodeInvalid || code == retryproof.CodePermanent || code == retryproof.CodeExceeds)
}

// contradicted tells a person of an answer that came too late and speaks against what
// was recorded, and keeps it.
func (r *Resolver) contradicted(ctx context.Context, g effect.Guard, f effect.Finish) error {
	name, says := Finding{Ref: f.Ref, State: f.State}.Against(g.State, r.config.Ref(g))
	if says == "" {
		return nil
	}
	note := ConflictNote(name, r.token, f.Seen+": "+says, r.config.Clock.Now())
	if !Told(ctx, r.store, g.ID, note.Name) {
		r.config.Alert(ctx, g, &Conflict{Name: name, Seen: note.Seen})
	}
	_, err := r.engine.Settle(ctx, effect.Settle{ID: g.ID, To: f.State, By: r.token, Now: note.At, Note: note}) // no From: it moves nothing
	return err
}

// verdictName names the evidence of the one move to a final state.
const verdictName = "verdict"

// VerdictNote is the evidence of the move to a final state: what by saw, when. It keeps
// within what evidence may hold, whatever the other side has sent.
func VerdictNote(by, seen string, at time.Time) *effect.Evidence {
	return &effect.Evidence{Name: verdictName, Kind: effect.EvidenceVerdict, By: clip.Text(by, effect.MaxEvidenceName),
		Seen: clip.Text(seen, effect.MaxEvidenceSeen), At: at}
}

// ConflictNote is the evidence of a contradiction: what by saw, when. A second one of
// its name is left, so a name tells one contradiction from another. It keeps within
// what evidence may hold, whatever the other side has sent.
func ConflictNote(name, by, seen string, at time.Time) *effect.Evidence {
	return &effect.Evidence{Name: clip.Text("conflict "+name, effect.MaxEvidenceName), Kind: effect.EvidenceConflict,
		By: clip.Text(by, effect.MaxEvidenceName), Seen: clip.Text(seen, effect.MaxEvidenceSeen), At: at}
}

// stillUnknown gives the lease back and sets the time of the next question.
func (r *Resolver) stillUnknown(ctx context.Context, g effect.Guard, cause error) error {
	r.config.Observe(SawStillUnknown, g)
	note := r.note(g, cause)
	if note != nil && !Told(ctx, r.store, g.ID, note.Name) {
		r.config.Alert(ctx, g, cause)
	}
	wait := backoff.Doubling{Min: r.config.MinBackoff, Max: r.config.MaxBackoff}.After(g.Tries)
	wait = wait/2 + time.Duration(entropy.Fraction(r.config.Rand)*float64(wait/2))
	now := r.config.Clock.Now()
	_, err := r.engine.Settle(ctx, effect.Settle{ID: g.ID, From: []effect.State{effect.Unknown}, To: effect.Unknown, By: r.token, Fenced: true,
		Now: now, NextAt: now.Add(wait), Note: note})
	return err
}

// note is what a person must be told of, if anything.
func (r *Resolver) note(g effect.Guard, cause error) *effect.Evidence {
	now := r.config.Clock.Now()
	var c *Conflict
	switch {
	case errors.As(cause, &c):
		return ConflictNote(c.Name, r.token, c.Seen, now)
	case g.Tries >= r.config.AlertAfter:
		return &effect.Evidence{Name: "alert", Kind: effect.EvidenceAlert, By: r.token, At: now,
			Seen: clip.Text(fmt.Sprintf("%d questions, no evidence; last: %v", g.Tries, cause), effect.MaxEvidenceSeen)}
	}
	return nil
}

// Told reports whether evidence of the name is kept beside an effect, so that a person
// was told before. When that cannot be read, they were not: twice is better than never.
func Told(ctx context.Context, store Store, id retryproof.ID, name string) bool {
	kept, err := store.Evidence(ctx, id)
	return err == nil && slices.ContainsFunc(kept, func(e effect.Evidence) bool { return e.Name == name })
}
