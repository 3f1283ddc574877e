package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
)

func notifyCases() []testCase {
	return []testCase{
		{"MarkSentHappensOnce", notifyMarkSent},
		{"MarkSentAtOnceHappensOnce", notifyRace},
		{"ClaimTakesTheLongestDueFirstAndNoMore", notifyClaim},
		{"ClaimJudgesTheTriedAndTheUntriedApart", notifyClaimBoundaries},
		{"ClaimIsOfOneChannel", notifyClaimChannel},
		{"ClaimsAtOnceShareWhatIsDue", notifyClaimRace},
		{"FailureMovesTheNextTry", notifyFail},
		{"FailureOfAnotherTryChangesNothing", notifyFailStale},
		{"FailuresAtOnceCountOnce", notifyFailRace},
		{"RefusedIntentIsOver", notifyRefused},
		{"IntentIsInsertedUntried", notifyInsert},
		{"EndedContextClaimsNothing", notifyEndedContext},
	}
}

func intent(eventID, channel string, created float64) notify.Intent {
	return notify.Intent{
		Key: notify.Key{EventID: eventID, Channel: channel}, ReplaceID: "pay_7", To: "u1", Title: "Payment received",
		Body: "USD 30.00", State: notify.Pending, CreatedAt: at(created),
	}
}

func (w *world) intent(eventID, channel string) *notify.Intent {
	w.Helper()
	k := notify.Key{EventID: eventID, Channel: channel}
	return must(w, func(ctx context.Context) (*notify.Intent, error) { return w.Payments.Notify.Intent(ctx, k) })
}

func describeIntent(i *notify.Intent) string {
	if i == nil {
		return "no intent"
	}
	return fmt.Sprintf("%q %q replace %q to %q: %q %q %s, %d sends, created %s, sent %s, next %s, reason %q", i.EventID, i.Channel, i.ReplaceID, i.To,
		i.Title, i.Body, i.State, i.Sends, instant(i.CreatedAt), instant(i.SentAt), instant(i.NextAt), i.Reason)
}

func (w *world) intends(intents ...notify.Intent) {
	w.Helper()
	w.applies(inbox.Apply{Key: message("of " + intents[0].EventID), Now: at(9), Intents: intents})
}

func (w *world) markSent(eventID, channel string, now float64) bool {
	w.Helper()
	k := notify.Key{EventID: eventID, Channel: channel}
	return must(w, func(ctx context.Context) (bool, error) { return w.Payments.Notify.MarkSent(ctx, k, at(now)) })
}

// claimsIntents leases intents of "push" until a time and names them.
func (w *world) claimsIntents(now, untried, until float64, limit int) string {
	w.Helper()
	c := notify.Claim{Channel: "push", Now: at(now), Untried: at(untried), Until: at(until), Limit: limit}
	return intentIDs(must(w, func(ctx context.Context) ([]notify.Intent, error) { return w.Payments.Notify.Claim(ctx, c) }))
}

func intentIDs(intents []notify.Intent) string {
	out := make([]string, 0, len(intents))
	for _, i := range intents {
		out = append(out, i.EventID)
	}
	return strings.Join(out, " ")
}

// failed is a failed try of ev on "push".
func failed(eventID string, tried int, next float64) notify.Failure {
	return notify.Failure{Key: notify.Key{EventID: eventID, Channel: "push"}, Tried: tried, NextAt: at(next), Reason: "no answer from " + eventID}
}

func (w *world) fails(f notify.Failure) bool {
	w.Helper()
	return must(w, func(ctx context.Context) (bool, error) { return w.Payments.Notify.Fail(ctx, f) })
}

func notifyMarkSent(w *world) {
	check(w, "nothing to mark", w.markSent("ev_7", "push", 1), false)
	w.intends(intent("ev_7", "push", 14.5), intent("ev_7", "mail", 14.5))
	check(w, "marked", w.markSent("ev_7", "push", 44.5), true)
	want := intent("ev_7", "push", 14.5)
	want.State, want.Sends, want.SentAt = notify.Sent, 1, at(44.5)
	check(w, "the intent", describeIntent(w.intent("ev_7", "push")), describeIntent(&want))
	check(w, "marked again", w.markSent("ev_7", "push", 60), false)
	check(w, "the intent after that", describeIntent(w.intent("ev_7", "push")), describeIntent(&want))
	check(w, "the other channel", w.intent("ev_7", "mail").State, notify.Pending)
	a := w.audit()
	check(w, "pending", a.IntentsPending, 1)
	check(w, "sent", a.IntentsSent, 1)
	check(w, "refused", a.IntentsRefused, 0)
}

func notifyRace(w *world) {
	all := w.instances()
	w.intends(intent("ev_7", "push", 14.5))
	marked := together(w, 20, func(ctx context.Context, i int) (bool, error) {
		return all[i%len(all)].Payments.Notify.MarkSent(ctx, notify.Key{EventID: "ev_7", Channel: "push"}, at(15))
	})
	check(w, "marked", countTrue(marked), 1)
	check(w, "sends", w.intent("ev_7", "push").Sends, 1)
}

func notifyClaim(w *world) {
	w.intends(intent("e2", "push", 5), intent("e1", "push", 5), intent("e9", "push", 1), intent("e0", "push", 7), intent("e3", "push", 5), intent("e8", "push", 2))
	w.markSent("e3", "push", 9)
	w.fails(failed("e8", 0, 6)) // tried: due later than its age says
	check(w, "none", w.claimsIntents(100, 100, 200, 0), "")
	check(w, "none, less than none", w.claimsIntents(100, 100, 200, -1), "")
	check(w, "two", w.claimsIntents(100, 100, 200, 2), "e9 e1")
	check(w, "the next two", w.claimsIntents(100, 100, 200, 2), "e2 e8")
	check(w, "the rest", w.claimsIntents(100, 100, 200, 9), "e0")
	check(w, "all are claimed", w.claimsIntents(100, 100, 200, 9), "")
	want := intent("e1", "push", 5)
	want.NextAt = at(200)
	check(w, "a claimed intent", describeIntent(w.intent("e1", "push")), describeIntent(&want))
	check(w, "a claimed one can be marked", w.markSent("e2", "push", 101), true)
	check(w, "after the lease", w.claimsIntents(200, 0, 300, 9), "e0 e1 e8 e9")
}

func notifyClaimBoundaries(w *world) {
	w.intends(intent("old", "push", 5), intent("tried", "push", 5))
	w.fails(failed("tried", 0, 50))
	check(w, "nobody's time", w.claimsIntents(50-tick, 5-tick, 900, 9), "")
	check(w, "created at exactly Untried", w.claimsIntents(50-tick, 5, 900, 1), "old")
	check(w, "NextAt is exactly now", w.claimsIntents(50, 5, 60, 9), "tried")
	check(w, "a microsecond before the lease ends", w.claimsIntents(60-tick, 5, 70, 9), "")
	got := must(w, func(ctx context.Context) ([]notify.Intent, error) {
		return w.Payments.Notify.Claim(ctx, notify.Claim{Channel: "push", Now: at(60), Until: at(70), Limit: 9})
	})
	want := intent("tried", "push", 5)
	want.Sends, want.NextAt, want.Reason = 1, at(60), "no answer from tried"
	check(w, "as it was before the claim", describeIntents(got), describeIntent(&want))
}

func describeIntents(intents []notify.Intent) string {
	var out []string
	for _, i := range intents {
		out = append(out, describeIntent(&i))
	}
	return strings.Join(out, "; ")
}

func notifyClaimChannel(w *world) {
	w.intends(intent("e1", "mail", 1), intent("e1", "push", 2), intent("e2", "mail", 3), intent("e2", "push", 4))
	check(w, "one channel", w.claimsIntents(100, 100, 200, 9), "e1 e2")
	check(w, "the other channel", describeIntent(w.intent("e1", "mail")), describeIntent(pointer(intent("e1", "mail", 1))))
	f := failed("e1", 0, 60)
	f.Channel = "mail"
	w.fails(f)
	check(w, "a failure of one channel", w.intent("e1", "push").Sends, 0)
}

func pointer[T any](v T) *T { return &v }

func notifyClaimRace(w *world) {
	all := w.instances()
	var intents []notify.Intent
	for i := range 40 {
		intents = append(intents, intent(fmt.Sprintf("e%02d", i), "push", float64(i%7)))
	}
	w.intends(intents...)
	for i := range 20 {
		w.fails(failed(fmt.Sprintf("e%02d", i), 0, 30))
	}
	seen := map[string]int{}
	for range 10 { // one that meets another's rows may be given fewer than there are
		for _, got := range together(w, 8, func(ctx context.Context, i int) ([]notify.Intent, error) {
			return all[i%len(all)].Payments.Notify.Claim(ctx, notify.Claim{Channel: "push", Now: at(50), Untried: at(50), Until: at(90), Limit: 5})
		}) {
			for _, i := range got {
				seen[i.EventID]++
			}
		}
	}
	check(w, "different intents", len(seen), 40)
	for id, n := range seen {
		if n != 1 {
			w.Errorf("%s: got %d claims, want 1", id, n)
		}
	}
}

func notifyFail(w *world) {
	check(w, "nothing to fail", w.fails(failed("ev_7", 0, 60)), false)
	w.intends(intent("ev_7", "push", 14.5))
	check(w, "failed", w.fails(failed("ev_7", 0, 60)), true)
	want := intent("ev_7", "push", 14.5)
	want.Sends, want.NextAt, want.Reason = 1, at(60), "no answer from ev_7"
	check(w, "the intent", describeIntent(w.intent("ev_7", "push")), describeIntent(&want))
	check(w, "before its time", w.claimsIntents(60-tick, 100, 200, 9), "")
	check(w, "at its time", w.claimsIntents(60, 0, 200, 9), "ev_7")
	f := failed("ev_7", 1, 120)
	f.Reason = "slow down"
	check(w, "failed again", w.fails(f), true)
	want.Sends, want.NextAt, want.Reason = 2, at(120), "slow down"
	check(w, "the intent then", describeIntent(w.intent("ev_7", "push")), describeIntent(&want))
	check(w, "sent at last", w.markSent("ev_7", "push", 121), true)
	want.State, want.Sends, want.NextAt, want.SentAt = notify.Sent, 3, time.Time{}, at(121)
	check(w, "the intent at the end", describeIntent(w.intent("ev_7", "push")), describeIntent(&want))
	check(w, "failed afterwards", w.fails(failed("ev_7", 3, 200)), false)
	check(w, "the intent after that", describeIntent(w.intent("ev_7", "push")), describeIntent(&want))
	check(w, "nothing is due", w.claimsIntents(999, 999, 9999, 9), "")
}

func notifyFailStale(w *world) {
	w.intends(intent("ev_7", "push", 14.5))
	check(w, "a try that nobody made", w.fails(failed("ev_7", 1, 60)), false)
	w.fails(failed("ev_7", 0, 60))
	late := failed("ev_7", 0, 30)
	late.Refused = true
	check(w, "a try of before", w.fails(late), false)
	want := intent("ev_7", "push", 14.5)
	want.Sends, want.NextAt, want.Reason = 1, at(60), "no answer from ev_7"
	check(w, "the intent", describeIntent(w.intent("ev_7", "push")), describeIntent(&want))
}

func notifyFailRace(w *world) {
	all := w.instances()
	w.intends(intent("ev_7", "push", 14.5))
	noted := together(w, 20, func(ctx context.Context, i int) (bool, error) {
		return all[i%len(all)].Payments.Notify.Fail(ctx, failed("ev_7", 0, 60))
	})
	check(w, "noted", countTrue(noted), 1)
	check(w, "sends", w.intent("ev_7", "push").Sends, 1)
}

func notifyRefused(w *world) {
	w.intends(intent("ev_7", "push", 14.5))
	w.fails(failed("ev_7", 0, 60))
	f := failed("ev_7", 1, 90)
	f.Refused, f.Reason = true, "the person is gone"
	check(w, "refused", w.fails(f), true)
	want := intent("ev_7", "push", 14.5)
	want.State, want.Sends, want.Reason = notify.Refused, 2, "the person is gone"
	for _, moved := range []bool{w.fails(failed("ev_7", 2, 120)), w.markSent("ev_7", "push", 120)} {
		check(w, "moved afterwards", moved, false)
	}
	check(w, "due", w.claimsIntents(999, 999, 9999, 9), "")
	w.applies(inbox.Apply{Key: message("2"), Now: at(130), Intents: []notify.Intent{intent("ev_7", "push", 130)}})
	check(w, "the intent", describeIntent(w.intent("ev_7", "push")), describeIntent(&want))
	a := w.audit()
	check(w, "pending, sent, refused", fmt.Sprint(a.IntentsPending, a.IntentsSent, a.IntentsRefused), "0 0 1")
}

func notifyInsert(w *world) {
	i := intent("ev_7", "push", 14.5)
	i.State, i.Sends, i.SentAt, i.NextAt, i.Reason = notify.Refused, 7, at(1), at(2), "says its writer"
	w.intends(i)
	check(w, "the intent", describeIntent(w.intent("ev_7", "push")), describeIntent(pointer(intent("ev_7", "push", 14.5))))
	check(w, "due as untried", w.claimsIntents(14.5-tick, 14.5, 200, 9), "ev_7")
}

func notifyEndedContext(w *world) {
	w.intends(intent("ev_7", "push", 14.5))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err := w.Payments.Notify.Claim(ctx, notify.Claim{Channel: "push", Now: at(50), Untried: at(50), Until: at(90), Limit: 5}); err == nil || got != nil {
		w.Errorf("Claim with an ended context: got %v, %v, want an error", got, err)
	}
	if _, err := w.Payments.Notify.Fail(ctx, failed("ev_7", 0, 60)); err == nil {
		w.Error("Fail with an ended context: got no error, want one")
	}
	check(w, "the intent", describeIntent(w.intent("ev_7", "push")), describeIntent(pointer(intent("ev_7", "push", 14.5))))
}
