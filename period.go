package retryproof

import (
	"strings"
	"time"
)

// periodForms are the ways to name a period: a month, a day, a minute. They have no
// zone: a period is named in the calendar that its schedule is written in.
var periodForms = []string{"2006-01", "2006-01-02", "2006-01-02T15:04"}

// PeriodKey is the key of what happens once per period: the weekly bill of a
// subscription, the nightly run of a job. Subject names it, such as
// "subscription 17: bill", and start is when the period starts on the schedule, as a
// month "2026-03", a day "2026-03-29" or a minute "2026-03-29T10:59".
//
// Take start from the schedule (the row that says what is due) and never from the
// clock of whoever runs it: a run that comes late, again, or from a machine in another
// zone then has the same key. What a person asks for twice is two intents; such
// requests have random keys, not this one.
//
// The error is NotDone with CodeInvalid. The key is a digest, pinned by a test like
// [ID].
func PeriodKey(subject, start string) (Key, error) {
	if subject == "" {
		return "", Refused(CodeInvalid, "the period has no subject", nil)
	}
	for _, form := range periodForms {
		if t, err := time.Parse(form, start); err == nil && t.Format(form) == start {
			return Key(Derive("period", subject, start)), nil
		}
	}
	return "", &Error{Outcome: NotDone, Code: CodeInvalid, Message: "the period's start is no civil date",
		Hint: "write it as one of " + strings.Join(periodForms, ", ") + ", from the schedule"}
}
