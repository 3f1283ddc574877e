package resolve

// What a resolver asks the other side: the call repeated with its key while the key is
// remembered there, else a look-up by our own reference.
//
// It promises that nothing is repeated once the key may be forgotten, and that only a
// definite finding that fits our record settles. It does not promise an end: nothing found
// proves nothing, and two successes are a person's to judge.
//
// It writes nothing, so a crash leaves nothing: the next question is the same one.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
)

// Remote is the other side of an outside call, as a resolver needs it: a card
// processor, a bank, a partner's API. Errors are classified as usual; none of them
// settles anything.
type Remote interface {
	// Repeat sends the call again with the same derived key and identical parameters,
	// and returns what the other side says of it.
	Repeat(ctx context.Context, g effect.Guard) (Finding, error)
	// LookUp returns everything that the other side holds under our own reference,
	// without starting anything. Nothing found is no proof: a search may lag.
	LookUp(ctx context.Context, g effect.Guard) ([]Finding, error)
}

// Finding is what the other side says of one effect.
type Finding struct {
	// Ref is the other side's name of it, such as "ch_1".
	Ref string
	// State is Succeeded, Failed, or Unknown while the other side has it and has not
	// decided.
	State effect.State
	// Differs says in what the finding contradicts our record, such as another
	// amount; empty when it does not. One that differs settles nothing.
	Differs string
	// Finish is what to record when the finding settles the effect.
	Finish effect.Finish
}

// AskConfig sets AskRemote. The zero value works.
type AskConfig struct {
	// Window is how long the other side remembers a key, counted from the guard's
	// CreatedAt. Defaults to 24 h, what Stripe promises at least
	// (docs.stripe.com/api/idempotent_requests). Negative never repeats.
	Window time.Duration
	// Margin is taken off Window: from then on a call is looked up and not repeated.
	// Defaults to 1 h.
	Margin time.Duration
	// RepeatTimeout bounds the repeat, so that a side that hangs leaves time for the
	// look-up. Defaults to 7 s.
	RepeatTimeout time.Duration
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
}

func (c AskConfig) withDefaults() AskConfig {
	if c.Window == 0 {
		c.Window = 24 * time.Hour
	}
	if c.Margin == 0 {
		c.Margin = time.Hour
	}
	if c.RepeatTimeout == 0 {
		c.RepeatTimeout = 7 * time.Second
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c AskConfig) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Window > 0 && c.Window <= c.Margin {
		errs = append(errs, fmt.Errorf("resolve: Window > Margin fails: %v ≤ %v: a call could be repeated after its key was forgotten", c.Window, c.Margin))
	}
	if c.Margin < 0 || c.RepeatTimeout < 0 {
		errs = append(errs, fmt.Errorf("resolve: Margin %v and RepeatTimeout %v must not be negative", c.Margin, c.RepeatTimeout))
	}
	return errors.Join(errs...)
}

// AskRemote is the question that never guesses (mission C4). While the other side
// remembers the key the call is repeated; when that gives no answer, or afterwards,
// it is looked up by our reference. It settles on one finding that fits; it never
// settles on nothing found, on an error, on two successes or on a finding that
// differs: the last two are a Conflict, for a person.
//
// The error is everything that is wrong with the configuration.
func AskRemote(remote Remote, config AskConfig) (Ask, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return func(ctx context.Context, g effect.Guard) (effect.Finish, error) {
		var cause error
		if config.Window > 0 && config.Clock.Now().Sub(g.CreatedAt) < config.Window-config.Margin {
			callCtx, cancel := config.Clock.WithTimeout(ctx, config.RepeatTimeout)
			f, err := remote.Repeat(callCtx, g)
			cancel()
			if err == nil {
				return f.judge("a repeat with the same key")
			}
			cause = fmt.Errorf("repeat: %w", err)
		}
		found, err := remote.LookUp(ctx, g)
		if err != nil {
			return effect.Finish{}, errors.Join(fmt.Errorf("resolve: look-up: %w", err), cause)
		}
		f, err := pick(found)
		if err != nil {
			return effect.Finish{}, errors.Join(err, cause)
		}
		return f.judge("a look-up by our reference")
	}, nil
}

// pick chooses the finding that can be evidence.
func pick(found []Finding) (Finding, error) {
	var succeeded []Finding
	for _, f := range found {
		if f.State == effect.Succeeded {
			succeeded = append(succeeded, f)
		}
	}
	switch {
	case len(succeeded) > 1:
		refs := ""
		for _, f := range succeeded {
			refs += " " + f.Ref
		}
		return Finding{}, &Conflict{Name: "several", Seen: fmt.Sprintf("the other side holds %d of them:%s", len(succeeded), refs)}
	case len(succeeded) == 1:
		return succeeded[0], nil
	case len(found) == 1:
		return found[0], nil
	}
	return Finding{}, fmt.Errorf("resolve: no evidence: a look-up by our reference found %d, which proves nothing", len(found))
}

// judge says what a finding settles.
func (f Finding) judge(how string) (effect.Finish, error) {
	switch {
	case f.Differs != "":
		return effect.Finish{}, &Conflict{Name: f.Ref, Seen: how + " gave " + f.Ref + ": " + f.Differs}
	case f.State == effect.Succeeded || f.State == effect.Failed:
		out := f.Finish
		out.State, out.Ref = f.State, f.Ref
		if out.Seen == "" {
			out.Seen = how + " gave " + f.Ref + ": " + string(f.State)
		}
		return out, nil
	}
	return effect.Finish{}, fmt.Errorf("resolve: %s gave %s, which is not decided yet", how, f.Ref)
}

// Against says what a finding says against an effect that is in the given state and
// known there by ref, which may be empty: a name that tells it from other contradictions,
// and the words; both are empty when there is none. That something happened although it
// is FAILED or VOID here, or twice under two names, or was undone there, is for a person.
func (f Finding) Against(state effect.State, ref string) (name, says string) {
	is := func(there string) (string, string) {
		return fmt.Sprintf("%s %s although %s", f.Ref, there, state), fmt.Sprintf("it %s there and is %s here", there, state)
	}
	switch {
	case state == effect.Succeeded && f.State == effect.Failed:
		return is("failed")
	case (state == effect.Failed || state == effect.Void) && f.State == effect.Succeeded:
		return is("succeeded")
	case f.Differs != "":
		return f.Ref, f.Differs
	case state == effect.Succeeded && f.State == effect.Succeeded && ref != "" && f.Ref != "" && f.Ref != ref:
		return f.Ref + " beside " + ref, fmt.Sprintf("it succeeded there as %s and here as %s", f.Ref, ref)
	}
	return "", ""
}

// Conflict is the error of an Ask whose answer contradicts our record. The effect
// stays UNKNOWN, the contradiction is kept as evidence, once, and a person is told.
type Conflict struct {
	// Name tells one contradiction from another, such as the other side's id.
	Name string
	// Seen says what contradicts what.
	Seen string
}

// Error says what was seen.
func (c *Conflict) Error() string { return "resolve: a person must look: " + c.Seen }
