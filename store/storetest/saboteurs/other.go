package saboteurs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/store/storetest"
)

// otherFaults are wrong in the smaller stores.
func otherFaults() []Saboteur {
	return []Saboteur{
		{"inbox-before-the-effect", "a message is noted in a transaction of its own, before its effect", "BadPostingsLeaveNoInboxRow", inInbox(func(s inbox.Store) inbox.Store { return inboxBefore{s} })},
		{"inbox-by-event-id", "the inbox knows event ids only", "OneEventIDOfTwoConsumersOrSourcesIsTwoMessages", inInbox(func(s inbox.Store) inbox.Store { return inboxByID{s} })},
		{"inbox-forgets-what-still-comes", "a repeat leaves the record as old as it is", "MessageThatStillComesIsNotForgotten", inInbox(func(s inbox.Store) inbox.Store { return inboxAges{s} })},
		{"inbox-order-by-consumer", "messages of one microsecond are forgotten in the order of their consumers", "MessagesOfOneMicrosecondAreForgottenByTheirKeys", inInbox(func(s inbox.Store) inbox.Store { return inboxTurned{s} })},
		{"inbox-fills-in-a-time", "a message without a time is noted", "MessageWithoutAConsumerOrATimeIsRefused", inInbox(func(s inbox.Store) inbox.Store { return inboxFillsIn{s} })},
		{"inbox-forgets-too-much", "Forget deletes what was noted at exactly the given time", "ForgetIsBoundedAndTakesTheOldestFirst", inInbox(func(s inbox.Store) inbox.Store { return inboxForgets{s} })},
		{"other-entry-left-by-apply", "a message is applied without postings when a ref has another entry", "OtherEntryOfAnOldRefLeavesTheMessageNew", inInbox(func(s inbox.Store) inbox.Store { return inboxLeaves{s} })},
		{"event-gets-a-group", "an event without a group is accepted", "EventWithoutAnIDOrAGroupIsRefused", inInbox(func(s inbox.Store) inbox.Store { return inboxGroups{s} })},
		{"due-without-margin", "Due lists UNKNOWN guards that cannot be adopted yet", "UnknownWithALiveLeaseIsNotDue", inDue(func(s resolve.Store) resolve.Store { return dueEarly{s} })},
		{"due-without-order", "Due lists in no order", "DueIsOrderedAndBounded", inDue(func(s resolve.Store) resolve.Store { return dueReversed{s} })},
		{"due-without-lease", "Due lists PENDING guards whose lease is alive", "PendingIsDueWhenItsLeaseIsStale", inDue(func(s resolve.Store) resolve.Store { return dueLive{s} })},
		{"post-twice", "Post does not recognise its own repeat", "PostHappensOnce", postTwice},
		{"other-entry-left-by-post", "Post leaves another entry under an old ref in silence", "EntryIsTakenWholeOrRefused", inLedger(func(l payments.Ledger) payments.Ledger { return postLeaves{l} })},
		{"system-account-overflows", "a posting that overflows a system account's sum is refused", "SumOfASystemAccountIsJudgedWhenItIsRead", inLedger(func(l payments.Ledger) payments.Ledger { return boundsAll{l} })},
		{"system-account-wraps", "a sum that does not fit is handed out all the same", "SumOfASystemAccountIsJudgedWhenItIsRead", inLedger(func(l payments.Ledger) payments.Ledger { return sumsWrap{l} })},
		{"impossible-id-invalid", "a lookup by an id with a NUL byte is invalid", "LookupOfWhatCannotExistFindsNothing", inLedger(func(l payments.Ledger) payments.Ledger { return paymentOfNUL{l} })},
		{"openings-are-credits", "Audit counts opening balances as credits", "PostHappensOnce", openingsAreCredits},
		{"sightings-replaced", "a sighting replaces the count instead of adding to it", "SightingsAddUpAndKeepTheLatestTime", sightingsReplaced},
		{"janitor-of-the-living", "the janitor deletes claims whose owner is alive", "AbandonedClaimsAreForgotten", janitorOfTheLiving},
		{"janitor-unbounded", "the janitor ignores its limit", "JanitorIsBounded", janitorUnbounded},
		{"restart-forgets", "a restart begins with an empty database", "RestartKeepsEverything", restartForgets},
		{"publish-beside-the-transaction", "Publish stores the event at once", "TransactionThatFailsLeavesNothing", publishBeside},
		{"publish-into-nothing", "a publish after the end is dropped in silence", "PublishAfterTheEndIsAnError", publishIntoNothing},
	}
}

func inInbox(plant func(inbox.Store) inbox.Store) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Payments.Inbox = plant(s.Payments.Inbox)
		return s
	}
}

type inboxBefore struct{ inbox.Store }

func (i inboxBefore) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	first, err := i.Store.Apply(ctx, inbox.Apply{Key: a.Key, Now: a.Now})
	if err != nil || !first {
		return first, err
	}
	a.Key.Consumer += " effect"
	return i.Store.Apply(ctx, a)
}

type inboxByID struct{ inbox.Store }

func (i inboxByID) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	a.Key.Consumer, a.Key.Source = "", ""
	return i.Store.Apply(ctx, a)
}

type inboxAges struct{ inbox.Store }

func (i inboxAges) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	a.Now = time.Unix(1, 0) // older than every repeat
	return i.Store.Apply(ctx, a)
}

type inboxTurned struct{ inbox.Store }

func (i inboxTurned) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	a.Key.EventID, a.Key.Consumer = a.Key.Consumer, a.Key.EventID
	return i.Store.Apply(ctx, a)
}

type inboxFillsIn struct{ inbox.Store }

func (i inboxFillsIn) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	if a.Now.IsZero() {
		a.Now = time.Unix(1, 0)
	}
	return i.Store.Apply(ctx, a)
}

type inboxForgets struct{ inbox.Store }

func (i inboxForgets) Forget(ctx context.Context, before time.Time, limit int) (int, error) {
	return i.Store.Forget(ctx, before.Add(clock.Precision), limit)
}

type inboxLeaves struct{ inbox.Store }

func (i inboxLeaves) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	first, err := i.Store.Apply(ctx, a)
	if retryproof.CodeOf(err) == retryproof.CodeInvalid && ledger.Check(a.Postings) == nil {
		a.Postings = nil
		return i.Store.Apply(ctx, a)
	}
	return first, err
}

type inboxGroups struct{ inbox.Store }

func (i inboxGroups) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	a.Events = slices.Clone(a.Events)
	for n, e := range a.Events {
		if e.Group == "" {
			a.Events[n].Group = e.ID
		}
	}
	return i.Store.Apply(ctx, a)
}

func inDue(plant func(resolve.Store) resolve.Store) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Due, s.Payments.Due, s.Payments.DueRefunds = plant(s.Due), plant(s.Payments.Due), plant(s.Payments.DueRefunds)
		return s
	}
}

type dueReversed struct{ resolve.Store }

func (d dueReversed) Due(ctx context.Context, q resolve.Due) ([]effect.Guard, error) {
	list, err := d.Store.Due(ctx, q)
	slices.Reverse(list)
	return list, err
}

// dueEarly asks without the margin, and keeps what is UNKNOWN of it.
type dueEarly struct{ resolve.Store }

func (d dueEarly) Due(ctx context.Context, q resolve.Due) ([]effect.Guard, error) {
	right, err := d.Store.Due(ctx, q)
	margin := q.Margin
	q.Margin = 0
	early, earlyErr := d.Store.Due(ctx, q)
	if err != nil || earlyErr != nil {
		return right, errors.Join(err, earlyErr)
	}
	return slices.DeleteFunc(early, func(g effect.Guard) bool {
		return g.State != effect.Unknown && !effect.Stale(g.Until, q.Now, margin)
	}), nil
}

type dueLive struct{ resolve.Store }

func (d dueLive) Due(ctx context.Context, q resolve.Due) ([]effect.Guard, error) {
	q.Margin = -time.Hour
	return d.Store.Due(ctx, q)
}

type postsTwice struct {
	payments.Ledger
	n *atomic.Int64
}

func (p postsTwice) Post(ctx context.Context, postings []ledger.Posting, now time.Time) error {
	fresh := slices.Clone(postings)
	n := p.n.Add(1)
	for i := range fresh {
		if fresh[i].Ref != "" {
			fresh[i].Ref += fmt.Sprintf(" %d", n)
		}
	}
	return p.Ledger.Post(ctx, fresh, now)
}

func postTwice(s storetest.Stores) storetest.Stores {
	s.Payments.Ledger = postsTwice{s.Payments.Ledger, &atomic.Int64{}}
	return s
}

func inLedger(plant func(payments.Ledger) payments.Ledger) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Payments.Ledger = plant(s.Payments.Ledger)
		return s
	}
}

type postLeaves struct{ payments.Ledger }

func (p postLeaves) Post(ctx context.Context, postings []ledger.Posting, now time.Time) error {
	err := p.Ledger.Post(ctx, postings, now)
	if retryproof.CodeOf(err) == retryproof.CodeInvalid && ledger.Check(postings) == nil {
		return nil
	}
	return err
}

type boundsAll struct{ payments.Ledger }

func (b boundsAll) Post(ctx context.Context, postings []ledger.Posting, now time.Time) error {
	for _, p := range postings {
		held, err := b.Balance(ctx, p.Account, p.Currency)
		if err == nil && (held+p.Amount > held) != (p.Amount > 0) {
			return retryproof.Refused(retryproof.CodeInvalid, "the balance would overflow", nil)
		}
	}
	return b.Ledger.Post(ctx, postings, now)
}

type sumsWrap struct{ payments.Ledger }

func (s sumsWrap) Balance(ctx context.Context, account, currency string) (int64, error) {
	sum, err := s.Ledger.Balance(ctx, account, currency)
	if retryproof.CodeOf(err) == retryproof.CodeInvalid {
		return -1, nil
	}
	return sum, err
}

type paymentOfNUL struct{ payments.Ledger }

func (p paymentOfNUL) Payment(ctx context.Context, id retryproof.ID) (payments.Payment, error) {
	if strings.ContainsRune(string(id), 0) {
		return payments.Payment{}, retryproof.Refused(retryproof.CodeInvalid, "a value does not fit its column", nil)
	}
	return p.Ledger.Payment(ctx, id)
}

type creditsOpenings struct{ payments.Ledger }

func (c creditsOpenings) Audit(ctx context.Context) (payments.Audit, error) {
	a, err := c.Ledger.Audit(ctx)
	opening, balanceErr := c.Balance(ctx, "merchant:m1", "USD")
	if err == nil && balanceErr == nil && opening != a.CreditSum {
		a.Credits++
		a.CreditSum = opening
	}
	return a, err
}

func openingsAreCredits(s storetest.Stores) storetest.Stores {
	s.Payments.Ledger = creditsOpenings{s.Payments.Ledger}
	return s
}

type replacesSightings struct{ payments.Hops }

func (r replacesSightings) AddSightings(ctx context.Context, seen []payments.Sighting) error {
	for _, one := range seen {
		held, err := r.Sightings(ctx, one.PaymentID)
		if err != nil {
			return err
		}
		for _, h := range held {
			if h.Hop == one.Hop && h.What == one.What {
				one.N -= h.N
			}
		}
		if err := r.Hops.AddSightings(ctx, []payments.Sighting{one}); err != nil {
			return err
		}
	}
	return nil
}

func sightingsReplaced(s storetest.Stores) storetest.Stores {
	s.Payments.Hops = replacesSightings{s.Payments.Hops}
	return s
}

type forgetsTheLiving struct{ payments.Janitor }

func (f forgetsTheLiving) ForgetClaims(ctx context.Context, now, _ time.Time, limit int) (int, error) {
	return f.Janitor.ForgetClaims(ctx, now, now, limit)
}

func janitorOfTheLiving(s storetest.Stores) storetest.Stores {
	s.Payments.Janitor = forgetsTheLiving{s.Payments.Janitor}
	return s
}

type forgetsAll struct{ payments.Janitor }

func (f forgetsAll) ForgetClaims(ctx context.Context, now, abandoned time.Time, _ int) (int, error) {
	return f.Janitor.ForgetClaims(ctx, now, abandoned, 1<<30)
}

func janitorUnbounded(s storetest.Stores) storetest.Stores {
	s.Payments.Janitor = forgetsAll{s.Payments.Janitor}
	return s
}

func restartForgets(s storetest.Stores) storetest.Stores {
	s.Reopen = func(*testing.T) storetest.Stores { return Right() }
	return s
}

// tx is an open transaction with another Publish.
type tx struct {
	storetest.Tx
	publish func(context.Context, retryproof.Event) error
}

func (t tx) Publish(ctx context.Context, e retryproof.Event) error { return t.publish(ctx, e) }

func inTx(s storetest.Stores, publish func(right storetest.Tx) func(context.Context, retryproof.Event) error) storetest.Stores {
	right := s.Within
	s.Within = func(ctx context.Context, fn func(storetest.Tx) error) error {
		return right(ctx, func(t storetest.Tx) error { return fn(tx{t, publish(t)}) })
	}
	return s
}

func publishBeside(s storetest.Stores) storetest.Stores {
	box := s.Payments.Inbox
	return inTx(s, func(storetest.Tx) func(context.Context, retryproof.Event) error {
		return func(ctx context.Context, e retryproof.Event) error {
			key := retryproof.InboxKey{Consumer: "saboteur", Source: "publish", EventID: e.ID}
			_, err := box.Apply(ctx, inbox.Apply{Key: key, Now: e.At, Events: []retryproof.Event{e}})
			return err
		}
	})
}

func publishIntoNothing(s storetest.Stores) storetest.Stores {
	return inTx(s, func(right storetest.Tx) func(context.Context, retryproof.Event) error {
		return func(ctx context.Context, e retryproof.Event) error {
			_ = right.Publish(ctx, e)
			return nil
		}
	})
}
