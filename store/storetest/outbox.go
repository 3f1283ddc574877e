package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/outbox"
)

func outboxCases() []testCase {
	return []testCase{
		{"RowsComeBackAsTheyWereStored", outboxExact},
		{"GroupsStayInOrderInAnyPhysicalOrder", outboxScrambled},
		{"TwoRelaysNeverShareAGroup", outboxTwoRelays},
		{"RelaysAtOnceNeverShareAGroup", outboxRace},
		{"DeferredHeadHoldsBackItsGroupOnly", outboxDeferred},
		{"LeasedHeadHoldsBackItsGroupForItsOwnRelayToo", outboxOwnLease},
		{"GroupIsTakenWithoutAGap", outboxGap},
		{"LeaseIsAliveAtItsEnd", outboxLeaseEnd},
		{"RelayThatLostItsLeaseChangesNothing", outboxLateRelay},
		{"DeletedRowIsGone", outboxDeleted},
		{"RowsOfABatchAreDeletedTogetherIfTheyAreLeased", outboxDeleteBatch},
		{"ParkedRowLetsItsGroupPass", outboxParked},
		{"ParkedRowsDoNotFillBatches", outboxPoison},
		{"RedriveSendsOnce", outboxRedrive},
		{"RedrivenRowIsAsIfNeverTried", outboxRedriveAttempts},
		{"AttemptsCountClaimsThatWereTried", outboxAttempts},
		{"LimitBoundsABatch", outboxLimit},
		{"BacklogOfAHeldGroupHidesNoOther", outboxBacklog},
		{"HundredEventsOfAGroupLeaveInOrder", outboxHundred},
		{"StatsCountWhatWaits", outboxStats},
		{"BadClaimIsRefused", outboxBadClaim},
	}
}

// publish stores events as the follow-ups of a message of their own.
func (w *world) publish(events ...retryproof.Event) {
	w.Helper()
	a := inbox.Apply{Key: retryproof.InboxKey{Consumer: "publish", Source: "test", EventID: events[0].ID}, Now: at(0), Events: events}
	check(w, "published", w.applies(a), true)
}

func (w *world) claim(relay string, now, until float64, limit int) []outbox.Row {
	w.Helper()
	c := outbox.Claim{Relay: relay, Now: at(now), Until: at(until), Limit: limit}
	rows := must(w, func(ctx context.Context) ([]outbox.Row, error) { return w.Payments.Outbox.Claim(ctx, c) })
	for i := 1; i < len(rows); i++ {
		if rows[i-1].Seq >= rows[i].Seq {
			w.Errorf("rows are not ordered by Seq: %d before %d", rows[i-1].Seq, rows[i].Seq)
		}
	}
	return rows
}

// wantClaim claims and compares the ids.
func (w *world) wantClaimed(relay string, now, until float64, limit int, want string) {
	w.Helper()
	check(w, fmt.Sprintf("%s claims at %.6f", relay, now), eventIDs(w.claim(relay, now, until, limit)), want)
}

func eventIDs(rows []outbox.Row) string {
	var out []string
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

func (w *world) deletes(relay, id string) bool {
	w.Helper()
	return len(w.deletesAll(relay, id)) == 1
}

func (w *world) deletesAll(relay string, ids ...string) []string {
	w.Helper()
	return must(w, func(ctx context.Context) ([]string, error) { return w.Payments.Outbox.Delete(ctx, relay, ids) })
}

func (w *world) defers(relay, id string, next float64) bool {
	w.Helper()
	d := outbox.Defer{Relay: relay, EventID: id, NextAt: at(next), Reason: "no answer"}
	return must(w, func(ctx context.Context) (bool, error) { return w.Payments.Outbox.Defer(ctx, d) })
}

func (w *world) parks(relay, id string, now float64) bool {
	w.Helper()
	p := outbox.Park{Relay: relay, EventID: id, Now: at(now), Reason: "2 MiB over the broker's limit"}
	return must(w, func(ctx context.Context) (bool, error) { return w.Payments.Outbox.Park(ctx, p) })
}

func (w *world) redrives(id string, now float64, body []byte) bool {
	w.Helper()
	r := outbox.Redrive{EventID: id, Now: at(now), Body: body}
	return must(w, func(ctx context.Context) (bool, error) { return w.Payments.Outbox.Redrive(ctx, r) })
}

func outboxExact(w *world) {
	events := []retryproof.Event{
		event("e1", "m1"),
		{ID: "e2:with:colons", Type: "t", Group: "g2", Body: nil, At: at(1)},
		{ID: "e3 日本", Type: "", Group: "g,\"'", Body: []byte{0, 255, 10, 0xc3}, At: at(2 + tick)},
		{ID: "e4", Type: "t", Group: "g4", Body: []byte(strings.Repeat("x", 1<<20)), At: at(3)},
	}
	want := make([]string, len(events))
	for i, e := range events {
		want[i] = describeEvent(e)
	}
	w.publish(events...)
	events[0].Body[0] = 'X' // the store has its own copy
	rows := w.claim("r1", 5, 10, 10)
	check(w, "rows", len(rows), len(events))
	for i, r := range rows {
		check(w, "the event", describeEvent(r.Event) == want[i], true)
		check(w, "attempts", r.Attempts, 1)
	}
	rows[0].Body[0] = 'Y'
	check(w, "the event at its second claim", describeEvent(w.claim("r1", 11, 20, 1)[0].Event), want[0])
}

// case 31: deferring rewrites rows, so that their physical order is not theirs.
func outboxScrambled(w *world) {
	random := rand.New(rand.NewPCG(31, 1))
	var want [3]string
	for i := range 30 {
		g := i * 7 % 3
		id := fmt.Sprintf("m%d-e%02d", g, i)
		w.publish(event(id, fmt.Sprintf("m%d", g)))
		want[g] += id + " "
	}
	for round := range 3 {
		now := float64(10 * (round + 1))
		rows := w.claim("r1", now, now+5, 100)
		check(w, "rows", len(rows), 30)
		var got [3]string
		for _, r := range rows {
			got[r.Group[1]-'0'] += r.ID + " "
		}
		check(w, "the order in each group", got, want)
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		for _, r := range rows {
			check(w, "deferred", w.defers("r1", r.ID, now), true)
		}
	}
}

func outboxTwoRelays(w *world) {
	w.publish(event("a1", "a"), event("a2", "a"), event("b1", "b"), event("a3", "a"), event("b2", "b"), event("c1", "c"))
	w.wantClaimed("r1", 10, 20, 2, "a1 a2")
	w.wantClaimed("r2", 10, 20, 2, "b1 b2")
	w.wantClaimed("r3", 10, 20, 9, "c1")
	w.wantClaimed("r4", 10, 20, 9, "")
	check(w, "deleted", w.deletes("r1", "a1"), true)
	w.wantClaimed("r2", 11, 20, 9, "") // a2 is still r1's, so a3 waits
	check(w, "deleted", w.deletes("r1", "a2"), true)
	w.wantClaimed("r2", 11, 20, 9, "a3")
}

func outboxRace(w *world) {
	all := w.instances()
	for i := range 60 {
		w.publish(event(fmt.Sprintf("e%02d", i), fmt.Sprintf("g%d", i%6)))
	}
	var sent []string
	for round := 0; len(sent) < 60 && round < 60; round++ {
		now := float64(10 + 10*round)
		claimed := together(w, 6, func(ctx context.Context, i int) ([]outbox.Row, error) {
			return all[i%len(all)].Payments.Outbox.Claim(ctx, outbox.Claim{Relay: fmt.Sprintf("r%d", i), Now: at(now), Until: at(now + 5), Limit: 7})
		})
		owner := map[string]int{}
		for i, rows := range claimed {
			for _, r := range rows {
				if before, ok := owner[r.Group]; ok && before != i {
					w.Fatalf("group %s belongs to relays %d and %d at once", r.Group, before, i)
				}
				owner[r.Group] = i
				check(w, "deleted", w.deletes(fmt.Sprintf("r%d", i), r.ID), true)
				sent = append(sent, r.ID)
			}
		}
	}
	check(w, "sent", len(sent), 60)
	for g := range 6 {
		var group []string
		for _, id := range sent {
			if (int(id[1]-'0')*10+int(id[2]-'0'))%6 == g {
				group = append(group, id)
			}
		}
		check(w, fmt.Sprintf("group %d left in order", g), slices.IsSorted(group), true)
	}
}

func outboxDeferred(w *world) {
	w.publish(event("a1", "a"), event("a2", "a"), event("b1", "b"))
	w.wantClaimed("r1", 10, 20, 1, "a1")
	check(w, "deferred by another", w.defers("r2", "a1", 11), false)
	check(w, "deferred", w.defers("r1", "a1", 15), true)
	check(w, "deferred twice", w.defers("r1", "a1", 12), false)
	w.wantClaimed("r2", 11, 20, 9, "b1")
	w.wantClaimed("r2", 15-tick, 20, 9, "")
	w.wantClaimed("r2", 15, 20, 9, "a1 a2")
}

func outboxOwnLease(w *world) {
	w.publish(event("a1", "a"), event("a2", "a"), event("b1", "b"))
	w.wantClaimed("r1", 10, 20, 1, "a1") // say this answer is lost
	w.wantClaimed("r1", 10, 20, 9, "b1") // a2 must not overtake a1
	w.wantClaimed("r1", 20+tick, 30, 9, "a1 a2 b1")
}

func outboxGap(w *world) {
	w.publish(event("a1", "a"), event("a2", "a"), event("a3", "a"), event("a4", "a"))
	w.wantClaimed("r1", 10, 20, 4, "a1 a2 a3 a4")
	check(w, "deferred", w.defers("r1", "a3", 50), true)
	for _, id := range []string{"a1", "a2", "a4"} {
		check(w, "deferred", w.defers("r1", id, 11), true)
	}
	w.wantClaimed("r2", 12, 20, 9, "a1 a2")
	w.deletes("r2", "a1")
	w.deletes("r2", "a2")
	w.wantClaimed("r2", 21, 30, 9, "")
	w.wantClaimed("r2", 50, 60, 9, "a3 a4")
}

func outboxLeaseEnd(w *world) {
	w.publish(event("a1", "a"))
	w.wantClaimed("r1", 10, 20, 9, "a1")
	w.wantClaimed("r2", 20-tick, 40, 9, "")
	w.wantClaimed("r2", 20, 40, 9, "")
	w.wantClaimed("r2", 20+tick, 40, 9, "a1")
	w.wantClaimed("r1", 21, 40, 9, "")
}

// case 33: relay 1 pauses past its lease, relay 2 sends and deletes, relay 1 wakes.
func outboxLateRelay(w *world) {
	w.publish(event("a1", "a"), event("a2", "a"))
	w.wantClaimed("r1", 10, 20, 9, "a1 a2")
	w.wantClaimed("r2", 21, 40, 9, "a1 a2")
	late := func() {
		for _, id := range []string{"a1", "a2", "a3"} {
			check(w, "a late delete", w.deletes("r1", id), false)
			check(w, "a late defer", w.defers("r1", id, 22), false)
			check(w, "a late park", w.parks("r1", id, 22), false)
			check(w, "a delete by nobody", w.deletes("", id), false)
		}
	}
	late()
	check(w, "waiting", w.stats().Waiting, 2)
	check(w, "parked", w.stats().Parked, 0)
	check(w, "deleted", w.deletes("r2", "a1"), true)
	late()
	check(w, "waiting", w.stats().Waiting, 1)
	w.wantClaimed("r3", 22, 60, 9, "") // r2's lease on a2 stands
	check(w, "deleted", w.deletes("r2", "a2"), true)
	late()
	check(w, "nothing came back", w.stats(), outbox.Stats{})
	w.wantClaimed("r3", 100, 120, 9, "")
}

func outboxDeleted(w *world) {
	w.publish(event("a1", "a"), event("a2", "a"))
	check(w, "an unclaimed row is not deleted", w.deletes("r1", "a1"), false)
	w.wantClaimed("r1", 10, 20, 1, "a1")
	check(w, "deleted", w.deletes("r1", "a1"), true)
	check(w, "deleted again", w.deletes("r1", "a1"), false)
	w.wantClaimed("r1", 100, 120, 9, "a2")
}

// case 33
func outboxDeleteBatch(w *world) {
	w.publish(event("a1", "a"), event("a2", "a"), event("b1", "b"), event("b2", "b"), event("c1", "c"))
	w.wantClaimed("r1", 10, 20, 3, "a1 a2 b1")
	w.wantClaimed("r2", 10, 40, 9, "c1")
	check(w, "nothing is deleted by name of nobody", strings.Join(w.deletesAll("", "b2", "a1"), " "), "")
	check(w, "deleted", strings.Join(w.deletesAll("r1", "a2", "c1", "nothing", "b2", "a1", "b1"), " "), "a2 a1 b1")
	check(w, "deleted again", strings.Join(w.deletesAll("r1", "a2", "a1", "b1"), " "), "")
	check(w, "of none", strings.Join(w.deletesAll("r1"), " "), "")
	check(w, "waiting", w.stats().Waiting, 2)
	w.wantClaimed("r3", 21, 30, 9, "b2")
	check(w, "the other relay's", strings.Join(w.deletesAll("r2", "c1"), " "), "c1")
}

func outboxParked(w *world) {
	w.publish(event("a1", "a"), event("a2", "a"), event("a3", "a"))
	check(w, "an unclaimed row is not parked", w.parks("r1", "a1", 10), false)
	w.wantClaimed("r1", 10, 20, 2, "a1 a2")
	check(w, "parked", w.parks("r1", "a1", 11), true)
	check(w, "parked again", w.parks("r1", "a1", 11), false)
	check(w, "a parked row is not deleted", w.deletes("r1", "a1"), false)
	check(w, "a parked row is not deferred", w.defers("r1", "a1", 12), false)
	w.wantClaimed("r2", 12, 40, 9, "") // a2 is r1's
	check(w, "deleted", w.deletes("r1", "a2"), true)
	w.wantClaimed("r2", 12, 40, 9, "a3")
	check(w, "deleted", w.deletes("r2", "a3"), true)
	w.publish(event("a4", "a"))
	w.wantClaimed("r2", 13, 40, 9, "a4")
	w.wantClaimed("r2", 1000, 1040, 9, "a4")
}

// case 32
func outboxPoison(w *world) {
	var good string
	for i := range 10 {
		w.publish(event(fmt.Sprintf("bad%d", i), fmt.Sprintf("g%d", i%3)))
	}
	for i := range 5 {
		w.publish(event(fmt.Sprintf("good%d", i), fmt.Sprintf("g%d", i%3)))
		good += fmt.Sprintf(" good%d", i)
	}
	sent := ""
	for poll := range 2 {
		for _, r := range w.claim("r1", 10+float64(poll), 20, 10) {
			if strings.HasPrefix(r.ID, "bad") {
				check(w, "parked", w.parks("r1", r.ID, 11), true)
				continue
			}
			check(w, "deleted", w.deletes("r1", r.ID), true)
			sent += " " + r.ID
		}
	}
	check(w, "sent in two polls", sent, good)
	check(w, "parked", w.stats().Parked, 10)
	check(w, "waiting", w.stats().Waiting, 0)
}

func outboxRedrive(w *world) {
	w.publish(event("a1", "a"), event("a2", "a"), event("b1", "b"))
	check(w, "a row that waits is not redriven", w.redrives("a1", 9, []byte("no")), false)
	w.wantClaimed("r1", 10, 20, 9, "a1 a2 b1")
	check(w, "a leased row is not redriven", w.redrives("a1", 10, nil), false)
	w.parks("r1", "a1", 11)
	w.deletes("r1", "a2")
	w.parks("r1", "b1", 11)
	check(w, "nothing is not redriven", w.redrives("x", 12, nil), false)
	check(w, "redriven", w.redrives("a1", 12, []byte("repaired")), true)
	check(w, "redriven again", w.redrives("a1", 12, []byte("again")), false)
	w.publish(event("a3", "a"))
	rows := w.claim("r1", 12, 20, 9)
	check(w, "rows", eventIDs(rows), "a1 a3")
	repaired := event("a1", "a")
	repaired.Body = []byte("repaired")
	check(w, "the repaired event", describeEvent(rows[0].Event), describeEvent(repaired))
	w.deletes("r1", "a1")
	w.deletes("r1", "a3")
	check(w, "a sent row is not redriven", w.redrives("a1", 13, nil), false)
	check(w, "redriven as it is", w.redrives("b1", 13, nil), true)
	rows = w.claim("r1", 13, 20, 9)
	check(w, "rows", len(rows), 1)
	check(w, "the event as it is", describeEvent(rows[0].Event), describeEvent(event("b1", "b")))
	w.parks("r1", "b1", 14)
	check(w, "redriven with an empty body", w.redrives("b1", 14, []byte{}), true)
	check(w, "the empty body", len(w.claim("r1", 14, 20, 9)[0].Body), 0)
}

func outboxRedriveAttempts(w *world) {
	w.publish(event("a1", "a"))
	for i := range 3 {
		now := float64(10 * (i + 1))
		check(w, "attempts", w.claim("r1", now, now+5, 1)[0].Attempts, i+1)
	}
	check(w, "parked", w.parks("r1", "a1", 31), true)
	check(w, "redriven", w.redrives("a1", 32, nil), true)
	check(w, "attempts after a redrive", w.claim("r1", 33, 38, 1)[0].Attempts, 1)
}

func outboxAttempts(w *world) {
	w.publish(event("a1", "a"))
	for i := range 3 {
		now := float64(10 * (i + 1))
		check(w, "attempts", w.claim("r1", now, now+5, 1)[0].Attempts, i+1)
	}
	d := outbox.Defer{Relay: "r1", EventID: "a1", NextAt: at(40), Untried: true}
	check(w, "given back untried", must(w, func(ctx context.Context) (bool, error) { return w.Payments.Outbox.Defer(ctx, d) }), true)
	check(w, "attempts after an untried claim", w.claim("r1", 40, 45, 1)[0].Attempts, 3)
	w.defers("r1", "a1", 50)
	check(w, "attempts after a failed one", w.claim("r1", 50, 55, 1)[0].Attempts, 4)
}

func outboxLimit(w *world) {
	for i := range 5 {
		w.publish(event(fmt.Sprintf("e%d", i), fmt.Sprintf("g%d", i)))
	}
	w.wantClaimed("r1", 10, 20, 2, "e0 e1")
	w.wantClaimed("r2", 10, 20, 1, "e2")
	w.wantClaimed("r3", 10, 20, 100, "e3 e4")
}

// outboxBacklog holds back more rows than a driver may care to look at one by one.
func outboxBacklog(w *world) {
	const backlog = 1500
	events := make([]retryproof.Event, backlog)
	for i := range events {
		events[i] = event(fmt.Sprintf("a%04d", i), "a")
	}
	w.publish(events...)
	w.publish(event("b1", "b"), event("c1", "c"), event("b2", "b"), event("d1", "d"), event("c2", "c"), event("b3", "b"))
	w.wantClaimed("r1", 10, 20, 1, "a0000")
	check(w, "deferred", w.defers("r1", "a0000", 50), true)
	w.wantClaimed("r1", 21, 30, 3, "b1 c1 b2")
	w.wantClaimed("r2", 21, 30, 9, "d1")
	check(w, "deferred", w.defers("r1", "b2", 25), true)
	check(w, "deleted", strings.Join(w.deletesAll("r1", "b1", "c1"), " "), "b1 c1")
	w.wantClaimed("r2", 24, 40, 9, "c2")
	w.wantClaimed("r2", 25, 40, 1, "b2")
	w.wantClaimed("r1", 26, 40, 9, "")
	check(w, "deleted", w.deletes("r2", "b2"), true)
	w.wantClaimed("r1", 27, 40, 9, "b3")
	w.wantClaimed("r1", 41, 60, 9, "d1 c2 b3")
	w.wantClaimed("r3", 50, 60, 2, "a0000 a0001")
	w.wantClaimed("r3", 50, 60, 9, "")
}

// case 31: two relays, e1 fails three times, one m2 event behind.
func outboxHundred(w *world) {
	events := make([]retryproof.Event, 100)
	for i := range events {
		events[i] = event(fmt.Sprintf("e%03d", i+1), "m1")
	}
	w.publish(events...)
	w.publish(event("f1", "m2"))
	var sent []string
	failures := 0
	for round := 0; len(sent) < 101 && round < 400; round++ {
		now := 10 + float64(round)
		relay := fmt.Sprintf("r%d", round%2)
		held := false
		for _, r := range w.claim(relay, now, now+0.5, 10) {
			if r.ID == "e001" && failures < 3 {
				failures++
				held = true
			}
			if held && r.Group == "m1" {
				check(w, "deferred", w.defers(relay, r.ID, now+1.5), true)
				continue
			}
			check(w, "deleted", w.deletes(relay, r.ID), true)
			sent = append(sent, r.ID)
		}
	}
	check(w, "sent", len(sent), 101)
	check(w, "m2 did not wait", slices.Index(sent, "f1") < 10, true)
	sent = slices.DeleteFunc(sent, func(id string) bool { return id == "f1" })
	check(w, "m1 left in order", slices.IsSorted(sent), true)
}

func outboxStats(w *world) {
	check(w, "an empty outbox", w.stats(), outbox.Stats{})
	for i, t := range []float64{30, 10, 20} {
		e := event(fmt.Sprintf("e%d", i), "g")
		e.At = at(t)
		w.publish(e)
	}
	st := w.stats()
	check(w, "waiting", st.Waiting, 3)
	check(w, "parked", st.Parked, 0)
	sameTime(w, "the oldest", st.OldestAt, at(10))
	w.claim("r1", 40, 50, 9)
	check(w, "leased rows wait", w.stats().Waiting, 3)
	w.parks("r1", "e1", 41)
	st = w.stats()
	check(w, "waiting", st.Waiting, 2)
	check(w, "parked", st.Parked, 1)
	sameTime(w, "the oldest that waits", st.OldestAt, at(20))
	w.deletes("r1", "e2")
	sameTime(w, "the oldest after a delete", w.stats().OldestAt, at(30))
	w.redrives("e1", 42, nil)
	sameTime(w, "the oldest after a redrive", w.stats().OldestAt, at(10))
}

func outboxBadClaim(w *world) {
	w.publish(event("a1", "a"))
	refused(w, "a claim by nobody", func(ctx context.Context) ([]outbox.Row, error) {
		return w.Payments.Outbox.Claim(ctx, outbox.Claim{Now: at(10), Until: at(20), Limit: 1})
	})
	w.wantClaimed("r1", 10, 20, 0, "")
	w.wantClaimed("r1", 10, 20, 1, "a1")
}
