package storetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/saga"
)

func sagaCases() []testCase {
	return []testCase{
		{"StartKeepsTheFirst", sagaStart},
		{"StartsAtOnceLeaveOneSaga", sagaStartRace},
		{"SagasComeBackAsTheyWereSaved", sagaExact},
		{"CallersMayChangeWhatTheyPassedAndGot", sagaCopies},
		{"LeaseTakesWhatIsDueInATotalOrder", sagaOrder},
		{"SagaIsDueAtExactlyItsTime", sagaDueBoundary},
		{"LeaseIsAliveAtItsEndAndMargin", sagaLeaseEnd},
		{"AliveLeaseHoldsBackItsOwnOwnerToo", sagaOwnLease},
		{"LeaseOfOneSagaDoesNotWaitForItsTime", sagaLeaseOne},
		{"LeaseTakesItsOwnKindsOnly", sagaKinds},
		{"LeaseForgetsWhoSavedLast", sagaForgetsSaver},
		{"LeasesAtOnceHaveOneOwnerEach", sagaLeaseRace},
		{"SaveNeedsTheOwnerAndTheVersion", sagaFence},
		{"SaveOfAStaleOwnerLandsWhileNobodyTookOver", sagaStaleSave},
		{"SaveIsRepeatable", sagaRepeat},
		{"SavesAtOnceMoveOnce", sagaSaveRace},
		{"FinalSagaNeverChanges", sagaFinal},
		{"ListIsOrderedAndPaged", sagaList},
		{"BadSagaIsRefused", sagaBad},
		{"SagaThatCannotExistIsNotFound", sagaAbsent},
		{"SagasSurviveARestart", sagaRestart},
		{"RunnersAtOnceBringEverySagaToItsEnd", sagaRunners},
	}
}

func (w *world) startSaga(id string, now float64) saga.Record {
	w.Helper()
	s := saga.Start{ID: retryproof.ID(id), Name: "order", Fingerprint: "1=a", Input: []byte("in-" + id), Now: at(now)}
	return must(w, func(ctx context.Context) (saga.Record, error) { return w.Sagas.Start(ctx, s) })
}

func leaseOf(owner string, now float64) saga.Lease {
	return saga.Lease{Names: []string{"other", "order"}, Owner: owner, Now: at(now), Until: at(now + lease), Margin: margin}
}

func (w *world) leaseSaga(l saga.Lease) *saga.Record {
	w.Helper()
	return must(w, func(ctx context.Context) (*saga.Record, error) { return w.Sagas.Lease(ctx, l) })
}

// wantLeased leases and compares the id, "" for nothing.
func (w *world) wantLeased(l saga.Lease, want string) {
	w.Helper()
	got := ""
	if r := w.leaseSaga(l); r != nil {
		got = string(r.ID)
		check(w, "the owner of what was leased", r.Owner, l.Owner)
		sameTime(w, "the lease's end", r.Until, l.Until)
	}
	check(w, fmt.Sprintf("%s leases at %v", l.Owner, l.Now.Sub(start)), got, want)
}

// progress is a record of progress over r.
func progress(r saga.Record, now float64) saga.Save {
	return saga.Save{ID: r.ID, Owner: r.Owner, Version: r.Version, Now: at(now), State: r.State, NextAt: at(now), Until: at(now + lease),
		Log: append(saga.CloneLog(r.Log), saga.Entry{Step: fmt.Sprintf("s%d", len(r.Log)+1), State: saga.Started, Tries: 1, BegunAt: at(now), UpdatedAt: at(now)})}
}

func (w *world) saves(s saga.Save) bool {
	w.Helper()
	return must(w, func(ctx context.Context) (bool, error) { return w.Sagas.Save(ctx, s) })
}

func (w *world) readSaga(id string) saga.Record {
	w.Helper()
	r := must(w, func(ctx context.Context) (*saga.Record, error) { return w.Sagas.Read(ctx, retryproof.ID(id)) })
	if r == nil {
		w.Fatalf("the saga %q is not there", id)
	}
	return *r
}

func sagaStart(w *world) {
	first := w.startSaga("o_1", 1)
	check(w, "the state", first.State, saga.Running)
	check(w, "the version", first.Version, 1)
	check(w, "the owner", first.Owner, "")
	check(w, "the log", len(first.Log), 0)
	sameTime(w, "when it is due", first.NextAt, at(1))
	other := saga.Start{ID: "o_1", Name: "other", Fingerprint: "1=b", Input: []byte("another"), Now: at(9)}
	again := must(w, func(ctx context.Context) (saga.Record, error) { return w.Sagas.Start(ctx, other) })
	check(w, "the saga that a repeat is told", describeSaga(again), describeSaga(first))
	r := *w.leaseSaga(leaseOf("A", 2))
	check(w, "saved", w.saves(progress(r, 3)), true)
	check(w, "the saga after some progress", describeSaga(w.startSaga("o_1", 9)), describeSaga(w.readSaga("o_1")))
	check(w, "the log is not emptied", len(w.readSaga("o_1").Log), 1)
}

func sagaStartRace(w *world) {
	all := w.instances()
	got := together(w, 30, func(ctx context.Context, i int) (saga.Record, error) {
		return all[i%len(all)].Sagas.Start(ctx, saga.Start{ID: "o_1", Name: "order", Fingerprint: "1=a", Input: fmt.Append(nil, i), Now: at(float64(i))})
	})
	for _, r := range got {
		check(w, "the saga that everybody sees", describeSaga(r), describeSaga(got[0]))
	}
}

func describeSaga(r saga.Record) string {
	log, err := saga.EncodeLog(r.Log)
	return fmt.Sprintf("%q %q %q %x %s %s %v %q v%d owner %q until %d saved by %q next %d created %d updated %d", r.ID, r.Name, r.Fingerprint, r.Input, r.State,
		log, err, r.Reason, r.Version, r.Owner, r.Until.UnixMicro(), r.SavedBy, r.NextAt.UnixMicro(), r.CreatedAt.UnixMicro(), r.UpdatedAt.UnixMicro())
}

func sagaExact(w *world) {
	id := "o_1:with:colons 日本"
	s := saga.Start{ID: retryproof.ID(id), Name: "order", Fingerprint: "2=b,1=a", Input: []byte{0, 255, '\'', 0xc3}, Now: at(1 + tick)}
	first := must(w, func(ctx context.Context) (saga.Record, error) { return w.Sagas.Start(ctx, s) })
	want := saga.Record{ID: s.ID, Name: "order", Fingerprint: s.Fingerprint, Input: s.Input, State: saga.Running, Version: 1,
		NextAt: s.Now, CreatedAt: s.Now, UpdatedAt: s.Now}
	check(w, "the new saga", describeSaga(first), describeSaga(want))
	leased := *w.leaseSaga(leaseOf("A", 2))
	want.Version, want.Owner, want.Until = 2, "A", at(2+lease)
	check(w, "the leased saga", describeSaga(leased), describeSaga(want))
	save := saga.Save{ID: s.ID, Owner: "A", Version: 2, Now: at(3 + tick), State: saga.Compensating, Reason: "'no' \"way\" 日本", NextAt: at(4 + tick),
		Log: []saga.Entry{
			{Step: "charge", Key: "o_1:charge", State: saga.Refused, Tries: 7, Alerted: 3, Code: "card-declined", Message: "a\x00b", BegunAt: at(3), UpdatedAt: at(3 + tick)},
			{Step: "charge", Cancel: true, Key: "o_1:cancel:refund", State: saga.Done, Result: bytes.Repeat([]byte{0, 255}, saga.MaxResultBytes/2), ResultDropped: true},
		}, Until: at(9 + tick)}
	check(w, "saved", w.saves(save), true)
	want.State, want.Log, want.Reason, want.NextAt, want.Until = save.State, save.Log, save.Reason, save.NextAt, save.Until
	want.Version, want.SavedBy, want.UpdatedAt = 3, "A", save.Now
	check(w, "the saved saga", describeSaga(w.readSaga(id)), describeSaga(want))
	save.Version, save.Until, save.Log = 3, saga.Save{}.Until, nil
	check(w, "given back", w.saves(save), true)
	want.Version, want.Owner, want.Until, want.Log = 4, "", saga.Save{}.Until, nil
	check(w, "the saga that was given back", describeSaga(w.readSaga(id)), describeSaga(want))
	check(w, "a time that is none", w.readSaga(id).Until.IsZero(), true)
}

func sagaCopies(w *world) {
	input := []byte("input")
	s := saga.Start{ID: "o_1", Name: "order", Fingerprint: "1=a", Input: input, Now: at(1)}
	r := must(w, func(ctx context.Context) (saga.Record, error) { return w.Sagas.Start(ctx, s) })
	input[0], r.Input[1] = 'X', 'X'
	r = *w.leaseSaga(leaseOf("A", 2))
	save := progress(r, 3)
	save.Log[0].Result = []byte("result")
	check(w, "saved", w.saves(save), true)
	save.Log[0].Result[0], save.Log[0].Step = 'X', "X"
	got := w.readSaga("o_1")
	got.Log[0].Result[1], got.Log[0].Key, got.Input[2] = 'X', "X", 'X'
	listed := must(w, func(ctx context.Context) ([]saga.Record, error) { return w.Sagas.List(ctx, saga.Query{Limit: 9}) })
	listed[0].Log[0].Result[2] = 'X'
	got = w.readSaga("o_1")
	check(w, "the input", string(got.Input), "input")
	check(w, "the result", string(got.Log[0].Result), "result")
	check(w, "the entry", got.Log[0].Step+got.Log[0].Key, "s1")
}

// deferSaga leases one saga and gives it back to be due at next.
func (w *world) deferSaga(id string, now, next float64) {
	w.Helper()
	l := leaseOf("D", now)
	l.ID = retryproof.ID(id)
	r := w.leaseSaga(l)
	if r == nil {
		w.Fatalf("the saga %s cannot be leased at %v", id, now)
	}
	save := progress(*r, now)
	save.NextAt, save.Until = at(next), saga.Save{}.Until
	check(w, "given back", w.saves(save), true)
}

func sagaOrder(w *world) {
	for _, id := range []string{"o_c", "o_B", "o_a", "o_d"} {
		w.startSaga(id, 1)
	}
	w.startSaga("o_z", 0.5)
	w.deferSaga("o_d", 2, 0.7)
	for _, want := range []string{"o_z", "o_d", "o_B", "o_a", "o_c", ""} { // bytes, not a locale
		w.wantLeased(leaseOf("A", 3), want)
	}
}

func sagaDueBoundary(w *world) {
	w.startSaga("o_1", 1)
	w.wantLeased(leaseOf("A", 1-tick), "")
	w.wantLeased(leaseOf("A", 1), "o_1")
	w.startSaga("o_2", 1)
	w.deferSaga("o_2", 1, 8)
	w.wantLeased(leaseOf("A", 5), "")
	w.wantLeased(leaseOf("B", 8-tick), "o_1") // stale since 7 s
	w.wantLeased(leaseOf("C", 8), "o_2")
}

func sagaLeaseEnd(w *world) {
	w.startSaga("o_1", 1)
	w.wantLeased(leaseOf("A", 2), "o_1") // until 7, stale after 8
	w.wantLeased(leaseOf("B", 7), "")
	w.wantLeased(leaseOf("B", 8), "")
	w.wantLeased(leaseOf("B", 8+tick), "o_1")
	check(w, "the version", w.readSaga("o_1").Version, 3)
	r := w.readSaga("o_1")
	check(w, "renewed", w.saves(progress(r, 12)), true) // until 17
	w.wantLeased(leaseOf("C", 18), "")
	w.wantLeased(leaseOf("C", 18+tick), "o_1")
}

func sagaOwnLease(w *world) {
	w.startSaga("o_1", 1)
	w.wantLeased(leaseOf("A", 2), "o_1")
	w.wantLeased(leaseOf("A", 2), "")
	l := leaseOf("A", 2)
	l.ID = "o_1"
	w.wantLeased(l, "")
	check(w, "the version", w.readSaga("o_1").Version, 2)
}

func sagaLeaseOne(w *world) {
	w.startSaga("o_1", 1)
	w.startSaga("o_2", 100)
	l := leaseOf("A", 2)
	l.ID = "o_2"
	w.wantLeased(l, "o_2")
	l.Owner = "B"
	w.wantLeased(l, "")
	l.ID = "o_3"
	w.wantLeased(l, "")
	w.wantLeased(leaseOf("C", 2), "o_1")
}

func sagaKinds(w *world) {
	w.startSaga("o_1", 1)
	for _, names := range [][]string{nil, {}, {"other"}, {"orde"}, {"Order"}, {`order","x`}} {
		l := leaseOf("A", 2)
		l.Names = names
		w.wantLeased(l, "")
		l.ID = "o_1"
		w.wantLeased(l, "")
	}
	w.wantLeased(leaseOf("A", 2), "o_1")
}

func sagaForgetsSaver(w *world) {
	w.startSaga("o_1", 1)
	r := *w.leaseSaga(leaseOf("A", 2))
	check(w, "saved", w.saves(progress(r, 3)), true)
	check(w, "saved by", w.readSaga("o_1").SavedBy, "A")
	w.wantLeased(leaseOf("B", 20), "o_1")
	// The version is now what A's next Save would have made: A must not take the
	// lease for its own write.
	check(w, "saved by, after another lease", w.readSaga("o_1").SavedBy, "")
}

func sagaLeaseRace(w *world) {
	const sagas = 10
	for i := range sagas {
		w.startSaga(fmt.Sprintf("o_%d", i), 1)
	}
	all := w.instances()
	owners := map[retryproof.ID]string{}
	for range 5 { // a driver may leave a saga that somebody takes now
		got := together(w, 2*sagas, func(ctx context.Context, i int) (*saga.Record, error) {
			return all[i%len(all)].Sagas.Lease(ctx, leaseOf(fmt.Sprintf("A%d", i), 2))
		})
		for i, r := range got {
			if r == nil {
				continue
			}
			if other := owners[r.ID]; other != "" {
				w.Errorf("%s was leased to %s and to A%d", r.ID, other, i)
			}
			owners[r.ID] = r.Owner
		}
	}
	check(w, "sagas that were leased", len(owners), sagas)
	for id, owner := range owners {
		r := w.readSaga(string(id))
		check(w, "the owner", r.Owner, owner)
		check(w, "the version", r.Version, 2)
	}
}

func sagaFence(w *world) {
	w.startSaga("o_1", 1)
	r := *w.leaseSaga(leaseOf("A", 2))
	before := describeSaga(w.readSaga("o_1"))
	for what, change := range map[string]func(*saga.Save){
		"another owner":     func(s *saga.Save) { s.Owner = "B" },
		"an older version":  func(s *saga.Save) { s.Version-- },
		"a version to come": func(s *saga.Save) { s.Version++ },
		"another saga":      func(s *saga.Save) { s.ID = "o_2" },
	} {
		s := progress(r, 3)
		change(&s)
		check(w, what+" saved", w.saves(s), false)
		check(w, "the saga after "+what, describeSaga(w.readSaga("o_1")), before)
	}
	w.wantLeased(leaseOf("B", 20), "o_1")
	s := progress(r, 21)
	check(w, "the owner that was overtaken saved", w.saves(s), false)
	s.Version++
	check(w, "… with the new version", w.saves(s), false)
	check(w, "the log", len(w.readSaga("o_1").Log), 0)
}

func sagaStaleSave(w *world) {
	w.startSaga("o_1", 1)
	r := *w.leaseSaga(leaseOf("A", 2))
	check(w, "saved long after the lease", w.saves(progress(r, 1000)), true)
	w.wantLeased(leaseOf("B", 1000+lease+1), "")
}

func sagaRepeat(w *world) {
	w.startSaga("o_1", 1)
	r := *w.leaseSaga(leaseOf("A", 2))
	s := progress(r, 3)
	check(w, "saved", w.saves(s), true)
	after := describeSaga(w.readSaga("o_1"))
	check(w, "saved again", w.saves(s), false)
	check(w, "the saga after the repeat", describeSaga(w.readSaga("o_1")), after)
	check(w, "the version by which the first is recognised", w.readSaga("o_1").Version, r.Version+1)
	check(w, "the saver by which it is recognised", w.readSaga("o_1").SavedBy, "A")
}

func sagaSaveRace(w *world) {
	w.startSaga("o_1", 1)
	r := *w.leaseSaga(leaseOf("A", 2))
	all := w.instances()
	moved := together(w, 20, func(ctx context.Context, i int) (bool, error) {
		s := progress(r, 3)
		s.Log[0].Step = fmt.Sprint(i)
		return all[i%len(all)].Sagas.Save(ctx, s)
	})
	winners := 0
	for i, m := range moved {
		if m {
			winners++
			check(w, "the log is the winner's", w.readSaga("o_1").Log[0].Step, fmt.Sprint(i))
		}
	}
	check(w, "saves that moved", winners, 1)
}

func sagaFinal(w *world) {
	for i, state := range []saga.State{saga.Completed, saga.Compensated} {
		id := fmt.Sprintf("o_%d", i)
		w.startSaga(id, 1)
		r := *w.leaseSaga(leaseOf("A", 2))
		s := progress(r, 3)
		s.State = state
		check(w, "finished", w.saves(s), true)
		got := w.readSaga(id)
		check(w, "the state", got.State, state)
		check(w, "the owner of what is final", got.Owner, "")
		w.wantLeased(leaseOf("B", 1000), "")
		l := leaseOf("B", 1000)
		l.ID = retryproof.ID(id)
		w.wantLeased(l, "")
		for _, version := range []int64{s.Version, s.Version + 1} {
			for _, to := range []saga.State{saga.Running, saga.Compensating, saga.Completed} {
				again := s
				again.Version, again.State = version, to
				check(w, "a final saga saved", w.saves(again), false)
			}
		}
		check(w, "the saga afterwards", describeSaga(w.readSaga(id)), describeSaga(got))
	}
}

func (w *world) listSagas(q saga.Query) string {
	w.Helper()
	var out []string
	for _, r := range must(w, func(ctx context.Context) ([]saga.Record, error) { return w.Sagas.List(ctx, q) }) {
		out = append(out, string(r.ID))
	}
	return strings.Join(out, " ")
}

func sagaList(w *world) {
	for _, id := range []string{"o_c", "o_B", "o_a"} {
		w.startSaga(id, 2)
	}
	w.startSaga("o_z", 1)
	w.startSaga("o_y", 3)
	w.deferSaga("o_y", 4, 0) // due first, and not listed first
	finish := func(id string, state saga.State) {
		l := leaseOf("A", 5)
		l.ID = retryproof.ID(id)
		s := progress(*w.leaseSaga(l), 6)
		s.State = state
		check(w, "saved", w.saves(s), true)
	}
	finish("o_a", saga.Completed)
	finish("o_c", saga.Compensating)
	check(w, "not final", w.listSagas(saga.Query{Limit: 9}), "o_z o_B o_c o_y")
	check(w, "running", w.listSagas(saga.Query{State: saga.Running, Limit: 9}), "o_z o_B o_y")
	check(w, "compensating", w.listSagas(saga.Query{State: saga.Compensating, Limit: 9}), "o_c")
	check(w, "completed", w.listSagas(saga.Query{State: saga.Completed, Limit: 9}), "o_a")
	check(w, "compensated", w.listSagas(saga.Query{State: saga.Compensated, Limit: 9}), "")
	check(w, "two", w.listSagas(saga.Query{Limit: 2}), "o_z o_B")
	check(w, "none", w.listSagas(saga.Query{Limit: 0}), "")
	var pages []string
	q := saga.Query{Limit: 1}
	for range 6 {
		page := must(w, func(ctx context.Context) ([]saga.Record, error) { return w.Sagas.List(ctx, q) })
		if len(page) == 0 {
			break
		}
		pages = append(pages, string(page[0].ID))
		q.After = &page[0]
	}
	check(w, "pages of one", strings.Join(pages, " "), "o_z o_B o_c o_y")
}

func sagaBad(w *world) {
	begin := saga.Start{ID: "o_1", Name: "order", Fingerprint: "1=a", Now: at(1)}
	for what, change := range map[string]func(*saga.Start){
		"no id":          func(s *saga.Start) { s.ID = "" },
		"no name":        func(s *saga.Start) { s.Name = "" },
		"no fingerprint": func(s *saga.Start) { s.Fingerprint = "" },
		"a large input":  func(s *saga.Start) { s.Input = make([]byte, saga.MaxInputBytes+1) },
	} {
		s := begin
		change(&s)
		refused(w, what, func(ctx context.Context) (saga.Record, error) { return w.Sagas.Start(ctx, s) })
	}
	l := leaseOf("", 2)
	refused(w, "a lease without an owner", func(ctx context.Context) (*saga.Record, error) { return w.Sagas.Lease(ctx, l) })
	l = leaseOf("A", 2)
	l.Until = at(1)
	refused(w, "a lease into the past", func(ctx context.Context) (*saga.Record, error) { return w.Sagas.Lease(ctx, l) })
	must(w, func(ctx context.Context) (saga.Record, error) { return w.Sagas.Start(ctx, begin) })
	s := progress(w.readSaga("o_1"), 3)
	refused(w, "a save without an owner", func(ctx context.Context) (bool, error) { return w.Sagas.Save(ctx, s) })
	s.Owner, s.State = "A", "LOST"
	refused(w, "a save with a state that is none", func(ctx context.Context) (bool, error) { return w.Sagas.Save(ctx, s) })
	check(w, "the saga", describeSaga(w.readSaga("o_1")), describeSaga(saga.Record{ID: "o_1", Name: "order", Fingerprint: "1=a", State: saga.Running,
		Version: 1, NextAt: at(1), CreatedAt: at(1), UpdatedAt: at(1)}))
}

func sagaAbsent(w *world) {
	for _, id := range []retryproof.ID{"", "o_1", "o\x00", "\xff"} {
		r := must(w, func(ctx context.Context) (*saga.Record, error) { return w.Sagas.Read(ctx, id) })
		check(w, fmt.Sprintf("the saga %q is there", id), r != nil, false)
	}
}

func sagaRestart(w *world) {
	if w.Reopen == nil {
		return // said by ADriverHasThePartsThatItsTraitsPromise
	}
	w.startSaga("o_1", 1)
	r := *w.leaseSaga(leaseOf("A", 2))
	check(w, "saved", w.saves(progress(r, 3)), true)
	want := describeSaga(w.readSaga("o_1"))
	w.Stores = w.Reopen(w.T)
	check(w, "the saga after a restart", describeSaga(w.readSaga("o_1")), want)
	w.wantLeased(leaseOf("B", 9), "")
	w.wantLeased(leaseOf("B", 9+tick), "o_1")
}
