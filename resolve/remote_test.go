package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/resolve"
)

// remote is the other side; it notes what it is asked.
type remote struct {
	repeat    func(ctx context.Context) (resolve.Finding, error)
	found     []resolve.Finding
	lookUpErr error
	asked     []string
}

func (r *remote) Repeat(ctx context.Context, _ effect.Guard) (resolve.Finding, error) {
	r.asked = append(r.asked, "repeat")
	return r.repeat(ctx)
}

func (r *remote) LookUp(context.Context, effect.Guard) ([]resolve.Finding, error) {
	r.asked = append(r.asked, "look-up")
	return r.found, r.lookUpErr
}

func finding(ref string, state effect.State) resolve.Finding {
	return resolve.Finding{Ref: ref, State: state, Finish: effect.Finish{Result: []byte(ref)}}
}

func differs(ref string, state effect.State) resolve.Finding {
	f := finding(ref, state)
	f.Differs = "it is 2900, we say 3000"
	return f
}

func says(f resolve.Finding) func(context.Context) (resolve.Finding, error) {
	return func(context.Context) (resolve.Finding, error) { return f, nil }
}

func silent(context.Context) (resolve.Finding, error) { return resolve.Finding{}, errCut }

// case 22: what one question may conclude, from what; everything else is an error, and
// contradictions are for a person.
func TestAQuestionConcludesFromEvidenceOnly(t *testing.T) {
	t.Parallel()
	const inside, after = 23*time.Hour - 1, 23 * time.Hour
	type list = []resolve.Finding
	for _, c := range []struct {
		name     string
		age      time.Duration
		repeat   func(context.Context) (resolve.Finding, error)
		found    []resolve.Finding
		lookUp   error
		asked    string
		state    effect.State // "" is an error
		ref      string       // the evidence, or the conflict's name
		conflict string       // what it says
	}{
		{name: "the repeat succeeds", age: inside, repeat: says(finding("ch_1", effect.Succeeded)), asked: "repeat", state: effect.Succeeded, ref: "ch_1"},
		{name: "the repeat is declined", age: inside, repeat: says(finding("ch_1", effect.Failed)), asked: "repeat", state: effect.Failed, ref: "ch_1"},
		{name: "the repeat is undecided", age: inside, repeat: says(finding("ch_1", effect.Unknown)), asked: "repeat"},
		{name: "the repeat has a state nobody knows", age: inside, repeat: says(finding("ch_1", "REVIEW")), asked: "repeat"},
		{name: "the repeat is VOID, which is no outcome of a call", age: inside, repeat: says(finding("ch_1", effect.Void)), asked: "repeat"},
		{name: "the repeat differs", age: inside, repeat: says(differs("ch_1", effect.Succeeded)), asked: "repeat", ref: "ch_1", conflict: "a repeat with the same key gave ch_1: it is 2900"},
		{name: "a decline differs", age: inside, repeat: says(differs("ch_1", effect.Failed)), asked: "repeat", ref: "ch_1", conflict: "2900"},
		{name: "no answer, looked up", age: inside, repeat: silent, found: list{finding("ch_1", effect.Succeeded)}, asked: "repeat look-up", state: effect.Succeeded, ref: "ch_1"},
		{name: "no answer, nothing found", age: inside, repeat: silent, asked: "repeat look-up"},
		{name: "no answer at all", age: inside, repeat: silent, lookUp: errCut, asked: "repeat look-up"},
		{name: "no answer, but a list beside an error", age: inside, repeat: silent, found: list{finding("ch_1", effect.Succeeded)}, lookUp: errCut, asked: "repeat look-up"},
		{name: "at the end of the window", age: after, repeat: says(finding("ch_2", effect.Succeeded)), found: list{finding("ch_1", effect.Succeeded)}, asked: "look-up", state: effect.Succeeded, ref: "ch_1"},
		{name: "long after", age: 900 * time.Hour, found: list{finding("ch_1", effect.Failed)}, asked: "look-up", state: effect.Failed, ref: "ch_1"},
		{name: "long after, nothing found", age: 900 * time.Hour, asked: "look-up"},
		{name: "undecided", age: after, found: list{finding("ch_1", effect.Unknown)}, asked: "look-up"},
		{name: "differs", age: after, found: list{differs("ch_1", effect.Succeeded)}, asked: "look-up", ref: "ch_1", conflict: "a look-up by our reference gave ch_1: it is 2900"},
		{name: "a success among declines", age: after, found: list{finding("ch_1", effect.Failed), finding("ch_2", effect.Succeeded), finding("ch_3", effect.Unknown)}, asked: "look-up", state: effect.Succeeded, ref: "ch_2"},
		{name: "a success that differs among declines", age: after, found: list{finding("ch_1", effect.Failed), differs("ch_2", effect.Succeeded)}, asked: "look-up", ref: "ch_2", conflict: "2900"},
		{name: "two successes", age: after, found: list{finding("ch_1", effect.Succeeded), finding("ch_2", effect.Succeeded)}, asked: "look-up", ref: "several", conflict: "holds 2 of them: ch_1 ch_2"},
		{name: "two successes, one differs", age: after, found: list{differs("ch_1", effect.Succeeded), finding("ch_2", effect.Succeeded)}, asked: "look-up", ref: "several", conflict: "holds 2"},
		{name: "two declines", age: after, found: list{finding("ch_1", effect.Failed), finding("ch_2", effect.Failed)}, asked: "look-up"},
		{name: "a decline beside what is undecided", age: after, found: list{finding("ch_1", effect.Failed), finding("ch_2", effect.Unknown)}, asked: "look-up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &remote{repeat: c.repeat, found: c.found, lookUpErr: c.lookUp}
			clk := clocktest.New(start)
			ask := askOf(t, r, resolve.AskConfig{Clock: clk})
			f, err := ask(t.Context(), effect.Guard{CreatedAt: clk.Now().Add(-c.age)})
			if got := strings.Join(r.asked, " "); got != c.asked {
				t.Errorf("asked: got %q, want %q", got, c.asked)
			}
			if (err == nil) != (c.state != "") || f.State != c.state {
				t.Fatalf("got %+v, %v, want %q", f, err, c.state)
			}
			if err == nil && (string(f.Result) != c.ref || !strings.Contains(f.Seen, c.ref)) {
				t.Errorf("got %+v, want the evidence of %s", f, c.ref)
			}
			var conflict *resolve.Conflict
			if errors.As(err, &conflict) != (c.conflict != "") || conflict != nil && (conflict.Name != c.ref || !strings.Contains(err.Error(), c.conflict)) {
				t.Errorf("got %v, want a conflict: %q", err, c.conflict)
			}
			if conflict == nil && strings.HasPrefix(c.asked, "repeat look-up") && err != nil && !errors.Is(err, errCut) {
				t.Errorf("got %v, want the repeat's error in it", err)
			}
		})
	}
}

// A side that hangs leaves time for the look-up.
func TestARepeatThatHangsIsBounded(t *testing.T) {
	t.Parallel()
	clk := clocktest.New(start)
	r := &remote{found: []resolve.Finding{finding("ch_1", effect.Succeeded)}}
	r.repeat = func(ctx context.Context) (resolve.Finding, error) {
		return resolve.Finding{}, clk.Sleep(ctx, time.Hour)
	}
	ctx, cancel := clk.WithTimeout(t.Context(), 15*time.Second) // the lease
	defer cancel()
	f, err := askOf(t, r, resolve.AskConfig{Clock: clk})(ctx, effect.Guard{CreatedAt: start})
	if err != nil || f.State != effect.Succeeded || clk.Now().Sub(start) != 7*time.Second || ctx.Err() != nil {
		t.Errorf("got %+v, %v after %v, want it looked up after 7 s", f, err, clk.Now().Sub(start))
	}
}

func TestANegativeWindowNeverRepeats(t *testing.T) {
	t.Parallel()
	r := &remote{}
	ask := askOf(t, r, resolve.AskConfig{Window: -1, Clock: clocktest.New(start)})
	for _, created := range []time.Time{start, start.Add(-time.Hour), start.Add(48 * time.Hour)} { // the last by a clock that was wrong
		if _, err := ask(t.Context(), effect.Guard{CreatedAt: created}); err == nil {
			t.Error("nothing found settled")
		}
	}
	if got := strings.Join(r.asked, " "); got != "look-up look-up look-up" {
		t.Errorf("asked: got %q, want look-ups", got)
	}
}

func TestTheWindowIsCheckedWithItsFormula(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config resolve.AskConfig
		want   []string
	}{
		{resolve.AskConfig{}, nil},
		{resolve.AskConfig{Window: -1}, nil},
		{resolve.AskConfig{Window: time.Hour + 1}, nil},
		{resolve.AskConfig{Window: time.Hour}, []string{"Window > Margin fails: 1h0m0s ≤ 1h0m0s"}},
		{resolve.AskConfig{Margin: 25 * time.Hour, RepeatTimeout: -1}, []string{"Window > Margin fails", "RepeatTimeout -1ns must not be negative"}},
		{resolve.AskConfig{Margin: -1}, []string{"Margin -1ns"}},
	} {
		err := c.config.Validate()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%+v: got %v, want %q", c.config, err, c.want)
		}
		for _, want := range c.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%+v: got %v, want %q", c.config, err, want)
			}
		}
	}
}

func askOf(t *testing.T, r resolve.Remote, c resolve.AskConfig) resolve.Ask {
	t.Helper()
	ask, err := resolve.AskRemote(r, c)
	if err != nil {
		t.Fatal(err)
	}
	return ask
}

func TestAMarginThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []resolve.AskConfig{{Margin: -time.Hour}, {Window: time.Hour, Margin: time.Hour}, {RepeatTimeout: -1}} {
		if _, err := resolve.AskRemote(nil, c); err == nil {
			t.Errorf("%+v: got no error", c)
		}
	}
}
