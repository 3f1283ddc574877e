package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/queue"
)

// parkedCases are the promises of what relays and consumers have set aside.
func parkedCases() []testCase {
	return []testCase{
		{"ParkedEventsAreListedWithTheirReason", parkedEvents},
		{"ParkedEventsAreListedInPages", parkedEventPages},
		{"ParkedMessageIsKeptWhole", parkedWhole},
		{"ParkedMessageOfAnyBytesIsKept", parkedAnyBytes},
		{"MessageIsParkedOnce", parkedOnce},
		{"MessageOfTwoConsumersIsParkedForEach", parkedConsumers},
		{"UnparkedMessageIsGoneAndMayBeParkedAgain", parkedGone},
		{"ParkedMessagesAreListedInPages", parkedPages},
		{"ParkedMessageWithoutANameIsRefused", parkedNameless},
		{"CleaningTakesNoParkedMessage", parkedAndForget},
		{"RestartKeepsParkedMessages", parkedRestart},
	}
}

func (w *world) listsEvents(l outbox.ListParked) []outbox.Parked {
	w.Helper()
	return must(w, func(ctx context.Context) ([]outbox.Parked, error) { return w.Payments.ParkedEvents.ListParked(ctx, l) })
}

func parkedEvents(w *world) {
	check(w, "an empty list", len(w.listsEvents(outbox.ListParked{Limit: 9})), 0)
	w.publish(event("a1", "a"), event("a2", "a"), event("b1", "b"))
	w.wantClaimed("r1", 10, 20, 9, "a1 a2 b1")
	check(w, "what waits is not listed", len(w.listsEvents(outbox.ListParked{Limit: 9})), 0)
	w.parks("r1", "a1", 11)
	got := w.listsEvents(outbox.ListParked{Limit: 9})
	if len(got) != 1 {
		w.Fatalf("got %d parked events, want 1", len(got))
	}
	check(w, "the event", describeEvent(got[0].Event), describeEvent(event("a1", "a")))
	check(w, "attempts", got[0].Attempts, 1)
	check(w, "the reason", got[0].Reason, "2 MiB over the broker's limit")
	check(w, "when", instant(got[0].ParkedAt), instant(at(11)))
	w.redrives("a1", 12, nil)
	check(w, "what was put back is not listed", len(w.listsEvents(outbox.ListParked{Limit: 9})), 0)
}

func parkedEventPages(w *world) {
	ids := []string{"e1", "e10", "e2", "E2", "e3", "e4", "e5"}
	for _, id := range ids {
		w.publish(event(id, id))
	}
	w.claim("r1", 10, 20, 9)
	for i, id := range []string{"e3", "e2", "e10", "E2", "e5", "e1", "e4"} {
		w.parks("r1", id, float64(11+i/3))
	}
	want := "e10 e2 e3 E2 e1 e5 e4"
	for limit := 1; limit <= len(ids)+1; limit++ {
		var got []string
		l := outbox.ListParked{Limit: limit}
		for {
			page := w.listsEvents(l)
			for _, p := range page {
				got = append(got, p.ID)
			}
			if len(page) < limit {
				break
			}
			l.After = page[len(page)-1]
		}
		check(w, fmt.Sprintf("pages of %d", limit), strings.Join(got, " "), want)
	}
	check(w, "without a limit", len(w.listsEvents(outbox.ListParked{})), 0)
}

// parkedMessage is what the consumer "merchant-credit" could not apply.
func parkedMessage(id string, now float64) inbox.Parked {
	return inbox.Parked{
		Consumer: "merchant-credit", Message: queue.Message{ID: id, Group: "m1", Type: "payment.succeeded", Body: []byte(`{"id":"` + id + `"}`)},
		SentAt: at(now - 5), Attempts: 20, Reason: "the body is not its JSON", ParkedAt: at(now),
	}
}

func describeParked(p *inbox.Parked) string {
	if p == nil {
		return "nothing"
	}
	return fmt.Sprintf("%q of %q: %q %q %q sent %s, %d attempts, %q at %s", p.ID, p.Consumer, p.Group, p.Type, p.Body, instant(p.SentAt),
		p.Attempts, p.Reason, instant(p.ParkedAt))
}

func (w *world) parksMessage(p inbox.Parked) bool {
	w.Helper()
	return must(w, func(ctx context.Context) (bool, error) { return w.Payments.ParkedMessages.Park(ctx, p) })
}

func (w *world) parked(k inbox.ParkedKey) string {
	w.Helper()
	return describeParked(must(w, func(ctx context.Context) (*inbox.Parked, error) { return w.Payments.ParkedMessages.Parked(ctx, k) }))
}

func (w *world) unparks(k inbox.ParkedKey) bool {
	w.Helper()
	return must(w, func(ctx context.Context) (bool, error) { return w.Payments.ParkedMessages.Unpark(ctx, k) })
}

func (w *world) listsMessages(l inbox.ListParked) []inbox.Parked {
	w.Helper()
	return must(w, func(ctx context.Context) ([]inbox.Parked, error) { return w.Payments.ParkedMessages.ListParked(ctx, l) })
}

func parkedWhole(w *world) {
	p := parkedMessage("ev_7", 60)
	want := describeParked(&p)
	check(w, "before", w.parked(p.Key()), "nothing")
	check(w, "parked", w.parksMessage(p), true)
	p.Body[0] = '!' // the caller's again
	check(w, "what is kept", w.parked(p.Key()), want)
	check(w, "parked in the audit", w.audit().MessagesParked, 1)
	list := w.listsMessages(inbox.ListParked{Limit: 9})
	check(w, "listed", len(list), 1)
	check(w, "what is listed", describeParked(&list[0]), want)
	list[0].Body[0] = '!'
	check(w, "what is kept after the list was changed", w.parked(p.Key()), want)
	bare := inbox.Parked{Consumer: "c", Message: queue.Message{ID: "bare"}}
	check(w, "parked", w.parksMessage(bare), true)
	check(w, "a bare message", w.parked(bare.Key()), describeParked(&bare))
}

// parkedAnyBytes: what is wrong with a message can be its very name, and a consumer
// must be able to set it aside all the same.
func parkedAnyBytes(w *world) {
	for i, id := range []string{"\x00", "a\x00b", "\xff\xfe", "é", "'; --", strings.Repeat("k", 20_000)} {
		p := parkedMessage(id, float64(60+i))
		p.Group, p.Type, p.Body = id+"g", id+"t", []byte(id+"\x00\xff")
		check(w, "parked", w.parksMessage(p), true)
		check(w, "what is kept", w.parked(p.Key()), describeParked(&p))
		check(w, "listed", len(w.listsMessages(inbox.ListParked{Limit: 99})), i+1)
	}
	check(w, "a part of a name names nothing", w.parked(inbox.ParkedKey{Consumer: "merchant-credit", ID: "a"}), "nothing")
}

func parkedOnce(w *world) {
	first := parkedMessage("ev_7", 60)
	check(w, "parked", w.parksMessage(first), true)
	again := parkedMessage("ev_7", 400)
	again.Reason, again.Attempts, again.Body = "another", 1, []byte("other")
	check(w, "parked again", w.parksMessage(again), false)
	check(w, "what is kept", w.parked(first.Key()), describeParked(&first))
	all := w.instances()
	firsts := together(w, 20, func(ctx context.Context, i int) (bool, error) {
		return all[i%len(all)].Payments.ParkedMessages.Park(ctx, parkedMessage("ev_8", float64(60+i)))
	})
	check(w, "one of twenty at once", countTrue(firsts), 1)
	check(w, "parked in the audit", w.audit().MessagesParked, 2)
}

func parkedConsumers(w *world) {
	keys := []inbox.ParkedKey{{Consumer: "a", ID: "bc"}, {Consumer: "ab", ID: "c"}, {Consumer: "A", ID: "bc"}}
	for i, k := range keys {
		p := parkedMessage(k.ID, float64(60+i))
		p.Consumer = k.Consumer
		check(w, "parked", w.parksMessage(p), true)
	}
	list := w.listsMessages(inbox.ListParked{Consumer: "ab", Limit: 9})
	check(w, "listed for one consumer", len(list), 1)
	check(w, "the consumer", list[0].Consumer, "ab")
	for consumer, want := range map[string]int64{"": 3, "a": 1, "ab": 1, "b": 0} { // order: each is counted alone
		got := must(w, func(ctx context.Context) (int64, error) { return w.Payments.ParkedMessages.CountParked(ctx, consumer) })
		check(w, fmt.Sprintf("counted for consumer %q", consumer), got, want)
	}
	check(w, "listed for nobody", len(w.listsMessages(inbox.ListParked{Consumer: "b", Limit: 9})), 0)
	check(w, "unparked", w.unparks(keys[0]), true)
	check(w, "the others are still there", len(w.listsMessages(inbox.ListParked{Limit: 9})), 2)
}

func parkedGone(w *world) {
	p := parkedMessage("ev_7", 60)
	check(w, "nothing is unparked", w.unparks(p.Key()), false)
	w.parksMessage(p)
	check(w, "unparked", w.unparks(p.Key()), true)
	check(w, "unparked again", w.unparks(p.Key()), false)
	check(w, "what is kept", w.parked(p.Key()), "nothing")
	check(w, "listed", len(w.listsMessages(inbox.ListParked{Limit: 9})), 0)
	check(w, "parked in the audit", w.audit().MessagesParked, 0)
	later := parkedMessage("ev_7", 400)
	check(w, "parked again", w.parksMessage(later), true)
	check(w, "what is kept", w.parked(p.Key()), describeParked(&later))
}

func parkedPages(w *world) {
	for _, p := range []struct {
		consumer, id string
		now          float64
	}{{"c", "e2", 61}, {"c", "e10", 61}, {"d", "e1", 61}, {"c", "e1", 62}, {"b", "e9", 62}, {"c", "E2", 61}, {"c", "e3", 61 + tick}, {"c", "e0", 60}} {
		m := parkedMessage(p.id, p.now)
		m.Consumer = p.consumer
		w.parksMessage(m)
	}
	for _, c := range []struct{ consumer, want string }{
		{"", "c/e0 c/E2 c/e10 c/e2 d/e1 c/e3 b/e9 c/e1"}, {"c", "c/e0 c/E2 c/e10 c/e2 c/e3 c/e1"}, {"d", "d/e1"},
	} {
		for limit := 1; limit <= 9; limit++ {
			var got []string
			l := inbox.ListParked{Consumer: c.consumer, Limit: limit}
			for {
				page := w.listsMessages(l)
				for _, p := range page {
					got = append(got, p.Consumer+"/"+p.ID)
				}
				if len(page) < limit {
					break
				}
				l.After = page[len(page)-1]
			}
			check(w, fmt.Sprintf("pages of %d for consumer %q", limit, c.consumer), strings.Join(got, " "), c.want)
		}
	}
	check(w, "without a limit", len(w.listsMessages(inbox.ListParked{})), 0)
}

func parkedNameless(w *world) {
	for what, p := range map[string]inbox.Parked{ // order: each is refused alone
		"without a consumer": {Message: queue.Message{ID: "ev_7", Group: "m1"}},
		"without an id":      {Consumer: "merchant-credit", Message: queue.Message{Group: "m1"}},
	} {
		refused(w, what, func(ctx context.Context) (bool, error) { return w.Payments.ParkedMessages.Park(ctx, p) })
	}
	check(w, "listed", len(w.listsMessages(inbox.ListParked{Limit: 9})), 0)
}

func parkedAndForget(w *world) {
	p := parkedMessage("ev_7", 60)
	w.parksMessage(p)
	must(w, func(ctx context.Context) (int, error) {
		return w.Payments.Inbox.Forget(ctx, at(60).Add(400*24*time.Hour), 100)
	})
	check(w, "what is kept", w.parked(p.Key()), describeParked(&p))
}

func parkedRestart(w *world) {
	p := parkedMessage("ev_7", 60)
	w.parksMessage(p)
	if w.Reopen != nil {
		w.Stores = w.Reopen(w.T)
	}
	check(w, "what is kept", w.parked(p.Key()), describeParked(&p))
	check(w, "unparked", w.unparks(p.Key()), true)
}
