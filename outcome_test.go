package retryproof_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/retryproof/retryproof"
)

func TestWhatNobodyClassifiedIsUnknown(t *testing.T) {
	t.Parallel()
	refused := retryproof.Refused(retryproof.CodeTooLate, "too late", errors.New("cause"))
	for _, c := range []struct {
		name string
		err  error
		want retryproof.Outcome
		code retryproof.Code
	}{
		{"nil", nil, retryproof.Done, ""},
		{"plain", errors.New("x"), retryproof.Unknown, ""},
		{"zero Error", &retryproof.Error{}, retryproof.Unknown, ""},
		{"refused", refused, retryproof.NotDone, retryproof.CodeTooLate},
		{"wrapped", fmt.Errorf("a: %w", fmt.Errorf("b: %w", refused)), retryproof.NotDone, retryproof.CodeTooLate},
		{"joined with a plain one", errors.Join(errors.New("x"), refused), retryproof.Unknown, retryproof.CodeTooLate},
		{"a plain one comes last", errors.Join(refused, errors.New("x")), retryproof.Unknown, retryproof.CodeTooLate},
		{"joined with done", errors.Join(refused, &retryproof.Error{Outcome: retryproof.Done}), retryproof.Unknown, retryproof.CodeTooLate},
		{"joined, all alike", errors.Join(refused, nil, fmt.Errorf("a: %w", refused)), retryproof.NotDone, retryproof.CodeTooLate},
		{"two verbs", fmt.Errorf("%w: %w", errors.New("x"), refused), retryproof.Unknown, retryproof.CodeTooLate},
		{"joined below a word of its own", retryproof.Refused(retryproof.CodeInvalid, "m", errors.Join(errors.New("x"), refused)), retryproof.NotDone, retryproof.CodeInvalid},
		{"the outermost decides", &retryproof.Error{Code: retryproof.CodeUnknown, Err: refused}, retryproof.Unknown, retryproof.CodeUnknown},
		{"done", &retryproof.Error{Outcome: retryproof.Done, Code: retryproof.CodeInvalid}, retryproof.Done, retryproof.CodeInvalid},
	} {
		if got := retryproof.OutcomeOf(c.err); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if got := retryproof.CodeOf(c.err); got != c.code {
			t.Errorf("%s: got %q, want %q", c.name, got, c.code)
		}
	}
}

func TestErrorSaysMessageHintAndCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for _, c := range []struct {
		err  retryproof.Error
		want string
	}{
		{retryproof.Error{Code: retryproof.CodeVoid}, "void"},
		{retryproof.Error{Message: "m"}, "m"},
		{retryproof.Error{Message: "m", Hint: "h"}, "m (h)"},
		{retryproof.Error{Message: "m", Hint: "h", Err: cause}, "m (h): cause"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if err := retryproof.Refused(retryproof.CodeVoid, "m", cause); !errors.Is(err, cause) {
		t.Error("the cause is not in the chain")
	}
}

func TestOutcomeNames(t *testing.T) {
	t.Parallel()
	for o, want := range map[retryproof.Outcome]string{retryproof.Unknown: "unknown", retryproof.NotDone: "not done", retryproof.Done: "done", 99: "unknown"} {
		if got := o.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
