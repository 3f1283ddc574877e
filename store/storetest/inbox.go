package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
)

func inboxCases() []testCase {
	return []testCase{
		{"FirstApplyWritesEverythingAndTheRepeatNothing", inboxOnce},
		{"FiftyDeliveriesAtOnceApplyOnce", inboxRace},
		{"DeliveriesOfManyMessagesAtOnceAddUp", inboxRaceMany},
		{"BadPostingsLeaveNoInboxRow", inboxBadPostings},
		{"OneEventIDOfTwoConsumersOrSourcesIsTwoMessages", inboxKeys},
		{"IntentsAndEventsThatAreThereChangeNothing", inboxFollowUps},
		{"PostingsOfAnotherMessageAreNotPostedTwice", inboxSameRef},
		{"OtherEntryOfAnOldRefLeavesTheMessageNew", inboxOtherEntry},
		{"EventWithoutAnIDOrAGroupIsRefused", inboxBadEvents},
		{"ForgetIsBoundedAndTakesTheOldestFirst", inboxForget},
		{"MessagesOfOneMicrosecondAreForgottenByTheirKeys", inboxForgetOrder},
		{"MessageThatStillComesIsNotForgotten", inboxStillComes},
		{"MessageWithoutAConsumerOrATimeIsRefused", inboxIncomplete},
		{"EndedContextAppliesNothing", inboxEndedContext},
	}
}

func (w *world) applies(a inbox.Apply) bool {
	w.Helper()
	return must(w, func(ctx context.Context) (bool, error) { return w.Payments.Inbox.Apply(ctx, a) })
}

func message(id string) retryproof.InboxKey {
	return retryproof.InboxKey{Consumer: "merchant-credit", Source: "payments", EventID: id}
}

func inboxOnce(w *world) {
	a := inbox.Apply{
		Key: message("ev_7"), Now: at(14.5), Postings: credit("pay_7:SUCCEEDED", 3000),
		Intents: []notify.Intent{intent("ev_7", "push", 14.5), intent("ev_7", "mail", 14.5)}, Events: []retryproof.Event{event("follow-up", "m1")},
	}
	check(w, "first", w.applies(a), true)
	want := w.audit()
	check(w, "m1", w.balance("merchant:m1"), 3000)
	check(w, "credits", want.Credits, 1)
	check(w, "intents", want.IntentsPending, 2)
	check(w, "waiting", want.OutboxWaiting, 1)
	push := intent("ev_7", "push", 14.5)
	check(w, "the intent", describeIntent(w.intent("ev_7", "push")), describeIntent(&push))
	check(w, "no other intent", describeIntent(w.intent("ev_7", "sms")), "no intent")
	a.Now, a.Intents, a.Postings = at(44.5), []notify.Intent{intent("ev_7", "sms", 44.5)}, credit("another ref", 3000)
	for range 4 {
		check(w, "first again", w.applies(a), false)
	}
	got := w.audit()
	got.ByState, want.ByState = nil, nil
	check(w, "the audit", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	check(w, "m1", w.balance("merchant:m1"), 3000)
}

func countTrue(all []bool) (n int) {
	for _, one := range all {
		if one {
			n++
		}
	}
	return n
}

func inboxRace(w *world) {
	all := w.instances()
	a := inbox.Apply{
		Key: message("ev_7"), Now: at(14.5), Postings: credit("pay_7:SUCCEEDED", 3000),
		Intents: []notify.Intent{intent("ev_7", "push", 14.5)}, Events: []retryproof.Event{event("follow-up", "m1")},
	}
	firsts := together(w, 50, func(ctx context.Context, i int) (bool, error) {
		return all[i%len(all)].Payments.Inbox.Apply(ctx, a)
	})
	check(w, "firsts", countTrue(firsts), 1)
	check(w, "m1", w.balance("merchant:m1"), 3000)
	check(w, "waiting", w.stats().Waiting, 1)
}

func inboxRaceMany(w *world) {
	all := w.instances()
	firsts := together(w, 120, func(ctx context.Context, i int) (bool, error) {
		id := fmt.Sprintf("ev_%d", i/2)
		return all[i%len(all)].Payments.Inbox.Apply(ctx, inbox.Apply{
			Key: message(id), Now: at(14.5), Postings: credit("pay_"+id, int64(i/2+1)), Intents: []notify.Intent{intent(id, "push", 14.5)},
		})
	})
	check(w, "firsts", countTrue(firsts), 60)
	check(w, "m1", w.balance("merchant:m1"), 60*61/2)
	a := w.audit()
	check(w, "credits", a.Credits, 60)
	check(w, "the credits' sum", a.CreditSum, 60*61/2)
	check(w, "unbalanced", a.Unbalanced, 0)
	check(w, "wrong balances", a.WrongBalance, 0)
	check(w, "intents", a.IntentsPending, 60)
}

// case 35: the id must not be noted when the effect did not happen.
func inboxBadPostings(w *world) {
	a := inbox.Apply{Key: message("ev_7"), Now: at(14.5), Intents: []notify.Intent{intent("ev_7", "push", 14.5)}, Events: []retryproof.Event{event("f", "g")}}
	for what, postings := range badPostings() { // order: each is refused alone
		a.Postings = postings
		refused(w, what, func(ctx context.Context) (bool, error) { return w.Payments.Inbox.Apply(ctx, a) })
	}
	check(w, "no intent", describeIntent(w.intent("ev_7", "push")), "no intent")
	check(w, "nothing waits", w.stats().Waiting, 0)
	a.Postings = credit("pay_7:SUCCEEDED", 3000)
	check(w, "the delivery that works is the first", w.applies(a), true)
	check(w, "m1", w.balance("merchant:m1"), 3000)
}

func inboxKeys(w *world) {
	keys := []retryproof.InboxKey{
		{Consumer: "a", Source: "s", EventID: "e"}, {Consumer: "b", Source: "s", EventID: "e"}, {Consumer: "a", Source: "t", EventID: "e"},
		{Consumer: "a", Source: "s", EventID: "E"}, {Consumer: "a:s", Source: "", EventID: "e"}, {Consumer: "a", Source: "s:e", EventID: "x"},
		{Consumer: "a", Source: "s", EventID: "e:x"}, {Consumer: "as", Source: "", EventID: "e"}, {Consumer: "a", Source: "s", EventID: "e "},
	}
	for _, k := range keys {
		check(w, fmt.Sprintf("first of %q", k), w.applies(inbox.Apply{Key: k, Now: at(1)}), true)
	}
	for _, k := range keys {
		check(w, fmt.Sprintf("repeat of %q", k), w.applies(inbox.Apply{Key: k, Now: at(2)}), false)
	}
	refused(w, "a message without an id", func(ctx context.Context) (bool, error) {
		return w.Payments.Inbox.Apply(ctx, inbox.Apply{Key: retryproof.InboxKey{Consumer: "a", Source: "s"}, Now: at(3)})
	})
}

// case 36
func inboxFollowUps(w *world) {
	w.applies(inbox.Apply{Key: message("1"), Now: at(1), Intents: []notify.Intent{intent("ev", "push", 1)}, Events: []retryproof.Event{event("f", "g")}})
	must(w, func(ctx context.Context) (bool, error) {
		return w.Payments.Notify.MarkSent(ctx, notify.Key{EventID: "ev", Channel: "push"}, at(2))
	})
	want := describeIntent(w.intent("ev", "push"))
	other := intent("ev", "push", 9)
	other.Title = "changed"
	changed := event("f", "another group")
	check(w, "first", w.applies(inbox.Apply{
		Key: message("2"), Now: at(3), Intents: []notify.Intent{other, intent("ev", "mail", 3)}, Events: []retryproof.Event{changed, event("f2", "g")},
	}), true)
	check(w, "the intent", describeIntent(w.intent("ev", "push")), want)
	check(w, "the new intent is there", w.intent("ev", "mail") != nil, true)
	w.wantClaimed("r", 10, 20, 9, "f f2")
}

func inboxBadEvents(w *world) {
	for what, e := range map[string]retryproof.Event{"no id": event("", "g"), "no group": event("e1", "")} { // order: each is refused alone
		a := inbox.Apply{Key: message("ev_7"), Now: at(1), Events: []retryproof.Event{event("e0", "g"), e}, Postings: credit("ev_7", 3000)}
		invalid(w, what, func(ctx context.Context) (bool, error) { return w.Payments.Inbox.Apply(ctx, a) })
		if w.Within == nil {
			continue
		}
		invalid(w, what+" in a transaction", func(ctx context.Context) (bool, error) {
			return false, w.Within(ctx, func(tx Tx) error { return tx.Publish(ctx, e) })
		})
	}
	check(w, "waiting", w.stats().Waiting, 0)
	check(w, "m1", w.balance("merchant:m1"), 0)
	check(w, "the message is new", w.applies(inbox.Apply{Key: message("ev_7"), Now: at(1)}), true)
	untyped := event("e1", "g")
	untyped.Type = ""
	w.publish(untyped)
	check(w, "an event without a type waits", w.stats().Waiting, 1)
}

func inboxSameRef(w *world) {
	check(w, "first", w.applies(inbox.Apply{Key: message("1"), Now: at(1), Postings: credit("pay_7:SUCCEEDED", 3000)}), true)
	copied := message("1")
	copied.Source = "another region"
	check(w, "first of another source", w.applies(inbox.Apply{Key: copied, Now: at(2), Postings: credit("pay_7:SUCCEEDED", 3000)}), true)
	check(w, "m1", w.balance("merchant:m1"), 3000)
	check(w, "wrong balances", w.audit().WrongBalance, 0)
}

// case 37
func inboxForget(w *world) {
	forget := func(before float64, limit int) int {
		return must(w, func(ctx context.Context) (int, error) { return w.Payments.Inbox.Forget(ctx, at(before), limit) })
	}
	times := []float64{5, 3, 9, 1, 7, 2, 8, 4, 6, 10}
	for i, t := range times {
		w.applies(inbox.Apply{Key: message(fmt.Sprintf("e%d", i)), Now: at(t)})
	}
	check(w, "nothing is older than the first", forget(1, 10), 0)
	check(w, "noted exactly before is kept", forget(2, 10), 1)
	check(w, "bounded", forget(9, 3), 3)     // 2, 3, 4
	check(w, "none", forget(9, 0), 0)        //
	check(w, "the others", forget(9, 99), 4) // 5, 6, 7, 8
	check(w, "nothing is left", forget(9, 99), 0)
	for i, t := range times {
		k := message(fmt.Sprintf("e%d", i))
		check(w, fmt.Sprintf("a message of %v is forgotten", t), w.applies(inbox.Apply{Key: k, Now: at(20)}), t < 9)
	}
	w2 := message("oldest first")
	w.applies(inbox.Apply{Key: w2, Now: at(0.5)})
	check(w, "one", forget(100, 1), 1)
	check(w, "the oldest went", w.applies(inbox.Apply{Key: w2, Now: at(0.5)}), true)
}

// What is older by less than a microsecond is not older.
func inboxForgetOrder(w *world) {
	keys := []retryproof.InboxKey{ // in the order in which they are forgotten
		{EventID: "a", Source: "y", Consumer: "y"}, {EventID: "b", Source: "x", Consumer: "z"}, {EventID: "b", Source: "y", Consumer: "w"},
		{EventID: "b", Source: "y", Consumer: "x"}, {EventID: "c", Source: "a", Consumer: "a"},
	}
	for i, k := range keys {
		earlier := time.Duration(100*i) * time.Nanosecond
		check(w, "first", w.applies(inbox.Apply{Key: k, Now: at(1).Add(900*time.Nanosecond - earlier)}), true)
	}
	for i, k := range keys {
		n := must(w, func(ctx context.Context) (int, error) { return w.Payments.Inbox.Forget(ctx, at(2), 1) })
		check(w, "forgotten", n, 1)
		check(w, fmt.Sprintf("%q is forgotten as number %d", k, i+1), w.applies(inbox.Apply{Key: k, Now: at(3)}), true)
	}
}

// case 37
func inboxStillComes(w *world) {
	forget := func(before float64) int {
		return must(w, func(ctx context.Context) (int, error) { return w.Payments.Inbox.Forget(ctx, at(before), 9) })
	}
	a := inbox.Apply{Key: message("ev_7"), Now: at(1), Postings: credit("pay_7:SUCCEEDED", 3000)}
	check(w, "first", w.applies(a), true)
	check(w, "first of another", w.applies(inbox.Apply{Key: message("ev_8"), Now: at(2)}), true)
	a.Now = at(31)
	check(w, "it comes again", w.applies(a), false)
	a.Now = at(5) // a clock that is behind
	check(w, "and again", w.applies(a), false)
	check(w, "the other alone is forgotten", forget(31), 1)
	check(w, "it comes once more", w.applies(a), false)
	check(w, "forgotten at last", forget(100), 1)
	check(w, "m1", w.balance("merchant:m1"), 3000)
}

func inboxIncomplete(w *world) {
	for what, a := range map[string]inbox.Apply{ // order: each is refused alone
		"no consumer": {Key: retryproof.InboxKey{Source: "payments", EventID: "ev_7"}, Now: at(1)},
		"no time":     {Key: message("ev_7")},
	} {
		invalid(w, what, func(ctx context.Context) (bool, error) { return w.Payments.Inbox.Apply(ctx, a) })
		if w.Within == nil {
			continue
		}
		invalid(w, what+" in a transaction", func(ctx context.Context) (first bool, err error) {
			err = w.Within(ctx, func(tx Tx) error {
				first, err = tx.Once(ctx, a.Key, a.Now)
				return err
			})
			return first, err
		})
	}
	check(w, "the message is new", w.applies(inbox.Apply{Key: message("ev_7"), Now: at(1)}), true)
}

func inboxEndedContext(w *world) {
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	a := inbox.Apply{Key: message("ev_7"), Now: at(1), Postings: credit("pay_7:SUCCEEDED", 3000)}
	if _, err := w.Payments.Inbox.Apply(ctx, a); err == nil {
		w.Error("Apply with an ended context: got no error, want one")
	}
	check(w, "m1", w.balance("merchant:m1"), 0)
	check(w, "first", w.applies(a), true)
}
