package resolve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// Verdict is a decision about an UNKNOWN effect that comes from elsewhere: from a named
// person, when no machine can find evidence, or from a reconciliation (mission C4).
type Verdict struct {
	ID retryproof.ID
	// Finish is what to record. State is Succeeded, Failed, or Void when the person
	// vouches that the effect never ran and never will.
	Finish effect.Finish
	// By names who decides, such as "operator alice", Reason says why. Both are kept as
	// evidence; neither may be empty.
	By, Reason string
}

// MaxBy and MaxReason bound a verdict's texts, in bytes.
const (
	MaxBy     = 100
	MaxReason = 1000
)

// Check returns everything that is wrong with the verdict at once.
func (v Verdict) Check() error {
	var errs []error
	refuse := func(is bool, message string) {
		if is {
			errs = append(errs, errors.New(message))
		}
	}
	refuse(v.ID == "", "the verdict names no effect")
	refuse(v.Finish.State != effect.Succeeded && v.Finish.State != effect.Failed && v.Finish.State != effect.Void,
		fmt.Sprintf("a verdict is SUCCEEDED, FAILED or VOID, not %q", v.Finish.State))
	refuse(v.By == "" || len(v.By) > MaxBy, fmt.Sprintf("a verdict needs the name of who gives it, of 1 to %d bytes", MaxBy))
	refuse(v.Reason == "" || len(v.Reason) > MaxReason, fmt.Sprintf("a verdict needs a reason of 1 to %d bytes", MaxReason))
	refuse(!isText(v.By) || !isText(v.Reason), "the name and the reason must be text without control characters")
	refuse(v.Finish.State != effect.Succeeded && len(v.Finish.Events)+len(v.Finish.Postings) > 0, "only a SUCCEEDED verdict has events and postings")
	if len(errs) == 0 {
		return nil
	}
	// In the message, since a problem document shows no cause.
	all := errors.Join(errs...)
	return retryproof.Refused(retryproof.CodeInvalid, "the verdict is refused: "+strings.ReplaceAll(all.Error(), "\n", "; "), nil)
}

func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' })
}

// Decide applies a verdict: a compare-and-set from UNKNOWN, with the evidence in the
// same transaction. One that says SUCCEEDED counts at once; one that says FAILED or VOID
// only when nobody is asking the other side at the moment, since that question may be
// what makes it happen: it takes the lease first. What is learned later and speaks
// against a verdict is kept and told. The same verdict of the same decider again is not
// an error and changes nothing.
//
// Errors: NotDone with CodeInvalid, with CodeNotFound, with CodeInProgress and a
// RetryAfter while somebody asks, or with CodeMoved when the effect is not UNKNOWN by
// now; nothing was changed then, the guard says what it is, and the message too. Unknown
// with CodeUnknown: give the verdict again.
func (r *Resolver) Decide(ctx context.Context, v Verdict) (effect.Guard, error) {
	if err := v.Check(); err != nil {
		return effect.Guard{}, err
	}
	now, by, f := r.config.Clock.Now(), v.By, v.Finish
	settle := effect.Settle{ID: v.ID, From: []effect.State{effect.Unknown}, To: f.State, By: by,
		Now: now, Result: f.Result, Row: f.Row, Postings: f.Postings, Events: f.Events,
		Evidence: &effect.Evidence{Name: verdictName, Kind: effect.EvidenceVerdict, By: by, Seen: v.Reason, At: now}}
	if f.State != effect.Succeeded {
		settle.Fenced = true
		if g, err := r.silence(ctx, v); err != nil {
			return g, err
		}
	}
	out, err := r.engine.Settle(ctx, settle)
	if err != nil {
		return effect.Guard{}, err
	}
	switch g := out.Guard; {
	case g == nil:
		return effect.Guard{}, retryproof.Refused(retryproof.CodeNotFound, "there is no such effect", nil)
	case !out.Moved && (g.State != f.State || g.SettledBy != by):
		return *g, retryproof.Refused(retryproof.CodeMoved, fmt.Sprintf("it is %s by now, not UNKNOWN; nothing was changed", g.State), nil)
	default:
		if out.Moved {
			r.config.Observe(SawDecided, *g)
		}
		if g.State == effect.Void { // the guard answers; there is nothing to render
			return *g, nil
		}
		// Failing is harmless: the claim is a pointer, and repeats are rendered.
		_, _ = r.engine.Rewrite(ctx, *g, r.render(*g))
		return *g, nil
	}
}

// silence takes the lease of an UNKNOWN effect, so that nobody asks about it while it is
// decided. Any other state is left to the settlement, which refuses it.
func (r *Resolver) silence(ctx context.Context, v Verdict) (effect.Guard, error) {
	// A settlement from no state moves nothing and shows what is there.
	seen, err := r.engine.Settle(ctx, effect.Settle{ID: v.ID, To: v.Finish.State, By: v.By, Now: r.config.Clock.Now()})
	if err != nil || seen.Guard == nil || seen.Guard.State != effect.Unknown {
		return effect.Guard{}, err
	}
	g := *seen.Guard
	_, mine, err := r.engine.Lease(ctx, g, v.By, r.config.Lease)
	if err != nil || mine {
		return g, err
	}
	wait := max(g.Until.Add(r.engine.Config().Margin).Sub(r.config.Clock.Now()), time.Second)
	return g, &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeInProgress, RetryAfter: wait,
		Message: "the other side is being asked about it at this moment", Hint: "nothing was changed; give the verdict again"}
}
