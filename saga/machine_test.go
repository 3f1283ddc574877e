package saga_test

import (
	"errors"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/saga"
)

func order() saga.Definition {
	return saga.Definition{Name: "order", Steps: []saga.Step{
		{Name: "seat", Action: done, Cancel: done},
		{Name: "look", Action: done},
		{Name: "charge", Action: done, Cancel: done, CancelName: "refund", MaxTries: 3},
		{Name: "ticket", Action: done},
	}}
}

func entry(step string, state saga.EntryState, tries int) saga.Entry {
	return saga.Entry{Step: step, Key: "o_1:" + step, State: state, Tries: tries}
}

func undo(step, name string, state saga.EntryState) saga.Entry {
	return saga.Entry{Step: step, Cancel: true, Key: "o_1:cancel:" + name, State: state, Tries: 1}
}

func TestNext(t *testing.T) {
	t.Parallel()
	type want struct {
		verdict saga.Verdict
		step    int
		cancel  bool
		to      saga.State
	}
	seat, look := entry("seat", saga.Done, 1), entry("look", saga.Done, 1)
	tests := map[string]struct {
		state saga.State
		log   []saga.Entry
		want  want
	}{
		"a new saga begins with its first step":       {saga.Running, nil, want{verdict: saga.Act}},
		"what is DONE is not called again":            {saga.Running, []saga.Entry{seat}, want{verdict: saga.Act, step: 1}},
		"STARTED is called again":                     {saga.Running, []saga.Entry{seat, entry("look", saga.Started, 9)}, want{verdict: saga.Act, step: 1}},
		"UNKNOWN is called again":                     {saga.Running, []saga.Entry{seat, entry("look", saga.Unknown, 9)}, want{verdict: saga.Act, step: 1}},
		"a refusal turns":                             {saga.Running, []saga.Entry{seat, look, entry("charge", saga.Refused, 1)}, want{verdict: saga.Turn, to: saga.Compensating}},
		"a step in doubt has its tries":               {saga.Running, []saga.Entry{seat, look, entry("charge", saga.Unknown, 2)}, want{verdict: saga.Act, step: 2}},
		"the last try without an answer turns":        {saga.Running, []saga.Entry{seat, look, entry("charge", saga.Unknown, 3)}, want{verdict: saga.Turn, to: saga.Compensating}},
		"a last try that a crash cut short turns":     {saga.Running, []saga.Entry{seat, look, entry("charge", saga.Started, 3)}, want{verdict: saga.Turn, to: saga.Compensating}},
		"a last try that is DONE goes on":             {saga.Running, []saga.Entry{seat, look, entry("charge", saga.Done, 3)}, want{verdict: saga.Act, step: 3}},
		"all DONE is COMPLETED":                       {saga.Running, []saga.Entry{seat, look, entry("charge", saga.Done, 1), entry("ticket", saga.Done, 1)}, want{verdict: saga.Finish, to: saga.Completed}},
		"the refused step is compensated first":       {saga.Compensating, []saga.Entry{seat, look, entry("charge", saga.Refused, 1)}, want{verdict: saga.Act, step: 2, cancel: true}},
		"a step in doubt is compensated as if it was": {saga.Compensating, []saga.Entry{seat, look, entry("charge", saga.Unknown, 3)}, want{verdict: saga.Act, step: 2, cancel: true}},
		"a refused compensation is no evidence":       {saga.Compensating, []saga.Entry{seat, look, entry("charge", saga.Done, 1), undo("charge", "refund", saga.NotDone)}, want{verdict: saga.Act, step: 2, cancel: true}},
		"an UNKNOWN compensation is called again":     {saga.Compensating, []saga.Entry{seat, look, entry("charge", saga.Done, 1), undo("charge", "refund", saga.Unknown)}, want{verdict: saga.Act, step: 2, cancel: true}},
		"a step without compensation is passed":       {saga.Compensating, []saga.Entry{seat, look, entry("charge", saga.Done, 1), undo("charge", "refund", saga.Done)}, want{verdict: saga.Act, cancel: true}},
		"all undone is COMPENSATED":                   {saga.Compensating, []saga.Entry{seat, look, undo("seat", "seat", saga.Done)}, want{verdict: saga.Finish, to: saga.Compensated}},
		"nothing begun is COMPENSATED":                {saga.Compensating, nil, want{verdict: saga.Finish, to: saga.Compensated}},
		"COMPLETED is final":                          {saga.Completed, []saga.Entry{seat}, want{verdict: saga.Nothing}},
		"COMPENSATED is final":                        {saga.Compensated, nil, want{verdict: saga.Nothing}},
		"a step that the definition lacks":            {saga.Running, []saga.Entry{entry("hotel", saga.Done, 1)}, want{verdict: saga.Broken}},
		"steps in another order":                      {saga.Running, []saga.Entry{look, seat}, want{verdict: saga.Broken}},
		"a compensation with another key":             {saga.Compensating, []saga.Entry{seat, undo("seat", "release", saga.Unknown)}, want{verdict: saga.Broken}},
		"a compensation that the definition lacks":    {saga.Compensating, []saga.Entry{seat, look, undo("look", "look", saga.Unknown)}, want{verdict: saga.Broken}},
		"a state that is none":                        {"LOST", nil, want{verdict: saga.Broken}},
	}
	for name, test := range tests { // order: parallel
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := saga.Record{ID: "o_1", Name: "order", State: test.state, Log: test.log, NextAt: start}
			d := saga.Next(order(), rec, start)
			check(t, "the decision", want{d.Verdict, d.Step, d.Cancel, d.To}, test.want)
			if d.Verdict == saga.Act {
				rec.NextAt = start.Add(time.Microsecond)
				d := saga.Next(order(), rec, start)
				check(t, "before it is due", d.Verdict, saga.Wait)
				check(t, "until", d.Until, rec.NextAt)
			}
		})
	}
}

func TestStatesMoveForwardOnly(t *testing.T) {
	t.Parallel()
	allowed := map[[2]saga.State]bool{
		{saga.Running, saga.Running}: true, {saga.Running, saga.Compensating}: true, {saga.Running, saga.Completed}: true,
		{saga.Compensating, saga.Compensating}: true, {saga.Compensating, saga.Compensated}: true,
	}
	all := []saga.State{saga.Running, saga.Compensating, saga.Completed, saga.Compensated}
	for _, from := range all {
		for _, to := range all {
			check(t, string(from+" to "+to), saga.CanMove(from, to), allowed[[2]saga.State{from, to}])
		}
		check(t, string(from)+" is final", from.Final(), from == saga.Completed || from == saga.Compensated)
	}
}

func TestPermanentIsARefusalThatNamesItsReason(t *testing.T) {
	t.Parallel()
	for code, want := range map[retryproof.Code]bool{
		"": false, retryproof.CodeUnavailable: false, retryproof.CodeConflict: false, retryproof.CodeTooMany: false, retryproof.CodeTooLate: false,
		retryproof.CodeReadOnly: false, retryproof.CodeInProgress: false, retryproof.CodeUnknown: false,
		retryproof.CodePermanent: true, retryproof.CodeInvalid: true, retryproof.CodeVoid: true, "card-declined": true,
	} {
		check(t, "NotDone "+string(code), saga.Permanent(retryproof.Refused(code, "", nil)), want)
		check(t, "Unknown "+string(code), saga.Permanent(&retryproof.Error{Code: code}), false)
	}
	check(t, "no error", saga.Permanent(nil), false)
	check(t, "an error that nobody classified", saga.Permanent(errors.New("?")), false)
}
