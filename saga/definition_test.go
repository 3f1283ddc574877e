package saga_test

import (
	"strings"
	"testing"

	"github.com/retryproof/retryproof/saga"
	"github.com/retryproof/retryproof/store/memory"
)

func TestDefinitionIsRefusedWithAllThatIsWrong(t *testing.T) {
	t.Parallel()
	d := saga.Definition{Name: "two words", Steps: []saga.Step{
		{Name: "seat", Action: done, Cancel: done},
		{Name: "seat", Action: done, Cancel: done, CancelName: "release"},
		{Name: "", Action: done},
		{Name: "a:b", Action: done},
		{Name: "cancel", Action: done},
		{Name: "charge", Cancel: done, CancelName: "seat"},
		{Name: "mail", Action: done, MaxTries: 3},
		{Name: "wait", Action: done, Cancel: done, MaxTries: -1},
		{Name: strings.Repeat("x", 65), Action: done},
	}}
	err := d.Validate()
	if err == nil {
		t.Fatal("got no error, want one")
	}
	for _, want := range []string{
		"a name is printable ASCII without spaces and ':'",
		`the action of step 2 "seat" has the key of the action of step 1 "seat"`,
		`step 3 "" has no name`,
		`step 4 "a:b": a name is printable`,
		`step 5 "cancel": this word is the compensations'`,
		`step 6 "charge" has no action`,
		`the compensation of step 6 "charge" has the key of the compensation of step 1 "seat"`,
		`step 7 "mail" has a CancelName or MaxTries and no Cancel`,
		"MaxTries -1 must not be negative",
		"more than 64 bytes",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

func TestRunnerIsRefusedWithAllThatIsWrong(t *testing.T) {
	t.Parallel()
	d := saga.Definition{Name: "order", Steps: []saga.Step{{Name: "seat", Action: done}}}
	_, err := saga.New(memory.New().Sagas(), saga.Config{Lease: 1, MaxBackoff: 1, Margin: -1, Retries: -1}, d, d, saga.Definition{})
	if err == nil {
		t.Fatal("got no error, want one")
	}
	for _, want := range []string{"CallTimeout + WriteTimeout ≤ Lease fails", "MinBackoff ≤ MaxBackoff fails", "Margin", "Retries -1",
		`two definitions have the name "order"`, "it has no steps"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	if _, err := saga.New(memory.New().Sagas(), saga.Config{}); err == nil {
		t.Error("no definition: got no error, want one")
	}
	if _, err := saga.New(memory.New().Sagas(), saga.Config{}, d); err != nil {
		t.Errorf("got %v, want the zero value to work", err)
	}
}

func TestKeysAreTheSameInEveryProcess(t *testing.T) {
	t.Parallel()
	s := saga.Step{Name: "charge", CancelName: "refund"}
	check(t, "the action's key", s.ActionKey("pay_7"), "pay_7:charge")
	check(t, "the compensation's key", s.CancelKey("pay_7"), "pay_7:cancel:refund")
	check(t, "the default", saga.Step{Name: "seat"}.CancelKey("pay_7"), "pay_7:cancel:seat")
}
