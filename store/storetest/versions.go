package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/version"
)

// VersionTx is a driver's open transaction, when the driver has a version.Store and
// Stores.Within.
type VersionTx interface {
	ApplyVersion(ctx context.Context, w version.Write) (version.Result, error)
}

func (s suite) runVersions(t *testing.T) {
	if s.traits.NoVersions {
		return
	}
	s.group(t, "Versions", versionCases())
	if !s.traits.NoPayments && !s.traits.NoWithin {
		s.group(t, "VersionsWithin", versionWithinCases())
	}
}

func versionCases() []testCase {
	return []testCase{
		{"LateCopyNeverUndoesANewerAction", versionLate},
		{"RepeatIsAnsweredWithWhatWasRecorded", versionRepeat},
		{"OneVersionWithTwoMeaningsIsRefused", versionMismatch},
		{"SubjectsAndLinesDoNotMeet", versionNames},
		{"LastIsTheHighestVersionOfTheLine", versionLast},
		{"RecentGoesFromTheHighestDown", versionRecent},
		{"EveryVersionUpToTheLargestIsExact", versionLarge},
		{"TimesOrderNothing", versionTimes},
		{"WritesThatCannotBeAreRefused", versionBad},
		{"WhatWasGivenAndReturnedAreCopies", versionCopies},
		{"VersionsAtOnceEndAtTheHighest", versionRace},
		{"TwoMeaningsAtOnceHaveOneWinner", versionRaceMeanings},
		{"MarksOutliveARestart", versionRestart},
		{"EndedContextAppliesNoVersion", versionEnded},
	}
}

func versionWithinCases() []testCase {
	return []testCase{
		{"VersionCommitsWithTheRest", versionCommits},
		{"VersionThatRollsBackIsNotThere", versionRollsBack},
		{"TransactionSeesItsOwnVersions", versionOwn},
		{"VersionAfterTheEndIsAnError", versionOver},
		{"VersionAtOnceInTransactionsIsAppliedOnce", versionWithinRace},
	}
}

// phone is the line of the story's branch V.
var phone = version.Line{Stream: "likes", Caller: "u1", Device: "D1"}

// write is the n-th action of the phone: it sets a post's state.
func write(subject string, n int64, value string) version.Write {
	return version.Write{Line: phone, Subject: subject, Version: n, Action: fmt.Sprintf("act_%d", n), Value: []byte(value), Now: at(float64(n % 1000))}
}

func (w *world) applyVersion(a version.Write) version.Result {
	w.Helper()
	return must(w, func(ctx context.Context) (version.Result, error) { return w.Versions.Apply(ctx, a) })
}

func (w *world) lookVersion(l version.Line, subject string) *version.Mark {
	w.Helper()
	return must(w, func(ctx context.Context) (*version.Mark, error) { return w.Versions.Look(ctx, l, subject) })
}

func (w *world) lastVersion(l version.Line) *version.Mark {
	w.Helper()
	return must(w, func(ctx context.Context) (*version.Mark, error) { return w.Versions.Last(ctx, l) })
}

func describeVersion(m *version.Mark) string {
	if m == nil {
		return "no mark"
	}
	return fmt.Sprintf("%q %q: version %d, action %q, print %q, value %q (nil %v), at %s", m.Line, m.Subject, m.Version, m.Action,
		m.Fingerprint, m.Value, m.Value == nil, instant(m.At))
}

// markOf is the mark that a write leaves.
func markOf(a version.Write) *version.Mark {
	a, _ = version.Check(a)
	m := version.Next(nil, a).Mark
	return &m
}

// wantVersion checks a verdict and what stands after it, in the result and in the
// store.
func (w *world) wantVersion(what string, got version.Result, verdict version.Verdict, stands version.Write) {
	w.Helper()
	check(w, what, got.Verdict, verdict)
	check(w, what+": the result's mark", describeVersion(&got.Mark), describeVersion(markOf(stands)))
	check(w, what+": the mark that is there", describeVersion(w.lookVersion(stands.Line, stands.Subject)), describeVersion(markOf(stands)))
}

// Branch V: LIKE(41), UNLIKE(42), and the LIKE again, last.
func versionLate(w *world) {
	like, unlike := write("post_7", 41, "liked"), write("post_7", 42, "unliked")
	w.wantVersion("LIKE", w.applyVersion(like), version.Applied, like)
	w.wantVersion("UNLIKE", w.applyVersion(unlike), version.Applied, unlike)
	for range 3 {
		w.wantVersion("the late LIKE", w.applyVersion(like), version.Stale, unlike)
	}
	w.wantVersion("an action that comes first when it is overtaken", w.applyVersion(write("post_7", 40, "seen")), version.Stale, unlike)
	next := write("post_7", 50, "liked") // a gap means nothing
	w.wantVersion("behind a gap", w.applyVersion(next), version.Applied, next)
}

func versionRepeat(w *world) {
	first := write("post_7", 1, "liked")
	first.Fingerprint = retryproof.FingerprintOf(retryproof.Text("like", "post_7"))
	w.wantVersion("first", w.applyVersion(first), version.Applied, first)
	again := first
	again.Value, again.Now = []byte("another outcome of the same action"), at(9)
	for range 2 {
		w.wantVersion("again", w.applyVersion(again), version.Repeat, first)
	}
	empty := write("post_8", 2, "")
	w.wantVersion("nothing to say", w.applyVersion(empty), version.Applied, empty)
	empty.Value = nil
	w.wantVersion("nothing to say, again", w.applyVersion(empty), version.Repeat, empty)
}

func versionMismatch(w *world) {
	first := write("post_7", 7, "liked")
	w.applyVersion(first)
	other := first
	other.Value = []byte("unliked")
	w.wantVersion("another value", w.applyVersion(other), version.Mismatch, first)
	other = first
	other.Action = "act_other"
	w.wantVersion("another action", w.applyVersion(other), version.Mismatch, first)
	other = first
	other.Fingerprint = retryproof.FingerprintOf(retryproof.Text("unlike", "post_7"))
	w.wantVersion("another fingerprint", w.applyVersion(other), version.Mismatch, first)
	w.wantVersion("the first one", w.applyVersion(first), version.Repeat, first)
	next := write("post_7", 8, "unliked")
	w.wantVersion("the next version", w.applyVersion(next), version.Applied, next)
}

// Names that would meet if they were joined, or compared without case or blanks.
func versionNames(w *world) {
	lines := []version.Line{
		phone, {Stream: "likes", Caller: "u1", Device: "D2"}, {Stream: "likes", Caller: "u2", Device: "D1"}, {Stream: "votes", Caller: "u1", Device: "D1"},
		{Stream: "likes:u1", Caller: "D1", Device: "x"}, {Stream: "likes", Caller: "u1:D1", Device: "x"}, {Stream: "likes", Caller: "u1", Device: "d1"},
		{Stream: "likes ", Caller: "u1", Device: "D1"},
	}
	subjects := []string{"", "a", "A", "a ", "a:b", "é"}
	for i, l := range lines {
		for k, subject := range subjects {
			a := version.Write{Line: l, Subject: subject, Version: int64(1 + i*len(subjects) + k), Action: "act", Value: []byte(fmt.Sprint(i, k)), Now: at(1)}
			w.wantVersion(fmt.Sprintf("%q %q", l, subject), w.applyVersion(a), version.Applied, a)
		}
	}
	for i, l := range lines {
		got := w.lastVersion(l)
		check(w, fmt.Sprintf("last of %q", l), got.Version, int64((i+1)*len(subjects)))
		for k, subject := range subjects {
			check(w, fmt.Sprintf("%q %q", l, subject), string(w.lookVersion(l, subject).Value), fmt.Sprint(i, k))
		}
	}
	for _, l := range []version.Line{{Stream: "likes", Caller: "u1", Device: "D1\x00"}, {Stream: "likes", Caller: "u1", Device: "none"}, {}} {
		check(w, fmt.Sprintf("last of %q", l), describeVersion(w.lastVersion(l)), "no mark")
		check(w, fmt.Sprintf("a look at %q", l), describeVersion(w.lookVersion(l, "a")), "no mark")
	}
	check(w, "another subject", describeVersion(w.lookVersion(phone, "a\x00")), "no mark")
}

// An app that lost its journal asks for its last action.
func versionLast(w *world) {
	check(w, "of a new device", describeVersion(w.lastVersion(phone)), "no mark")
	steps := []version.Write{write("post_7", 9, "liked"), write("post_8", 10, "liked"), write("post_7", 8, "late"), write("post_6", 3, "late but new"),
		write("post_7", 100, "unliked"), write("post_8", 11, "unliked")}
	for i, highest := range []int{0, 1, 1, 1, 4, 4} {
		w.applyVersion(steps[i])
		check(w, fmt.Sprintf("last after step %d", i), describeVersion(w.lastVersion(phone)), describeVersion(markOf(steps[highest])))
	}
	tie := write("post_9", 100, "a broken device counts twice")
	w.applyVersion(tie)
	check(w, "of two with one version", describeVersion(w.lastVersion(phone)), describeVersion(markOf(tie)))
	other := write("a post", 100, "and again")
	w.applyVersion(other)
	check(w, "of three with one version", describeVersion(w.lastVersion(phone)), describeVersion(markOf(tie)))
}

func versionLarge(w *world) {
	for _, n := range []int64{1, 1 << 31, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		a := write("", n, fmt.Sprint(n))
		w.wantVersion(fmt.Sprint(n), w.applyVersion(a), version.Applied, a)
		below := write("", n-1, "below")
		if n > 1 {
			w.wantVersion(fmt.Sprint(n-1), w.applyVersion(below), version.Stale, a)
		}
	}
	big := write("big", 1, strings.Repeat("\x00\xff", version.MaxValueBytes/2))
	w.wantVersion("the largest value", w.applyVersion(big), version.Applied, big)
}

func versionTimes(w *world) {
	first := write("post_7", 41, "liked")
	first.Now = at(7200)
	w.applyVersion(first)
	second := write("post_7", 42, "unliked")
	second.Now = at(-7200) // this clock was set back
	w.wantVersion("a higher version with an older time", w.applyVersion(second), version.Applied, second)
	first.Now = at(9999)
	w.wantVersion("a lower version with a newer time", w.applyVersion(first), version.Stale, second)
}

func versionBad(w *world) {
	good := write("post_7", 5, "liked")
	for what, spoil := range map[string]func(*version.Write){ // order: each is refused alone
		"version 0":            func(a *version.Write) { a.Version = 0 },
		"a negative version":   func(a *version.Write) { a.Version = -1 },
		"the lowest version":   func(a *version.Write) { a.Version = math.MinInt64 },
		"no stream":            func(a *version.Write) { a.Stream = "" },
		"no caller":            func(a *version.Write) { a.Caller = "" },
		"no device":            func(a *version.Write) { a.Device = "" },
		"no action":            func(a *version.Write) { a.Action = "" },
		"a broken fingerprint": func(a *version.Write) { a.Fingerprint = "no" },
		"a value too long":     func(a *version.Write) { a.Value = make([]byte, version.MaxValueBytes+1) },
	} {
		bad := good
		spoil(&bad)
		invalid(w, what, func(ctx context.Context) (version.Result, error) { return w.Versions.Apply(ctx, bad) })
	}
	check(w, "what the refused left", describeVersion(w.lastVersion(phone)), "no mark")
	for _, text := range []string{"a\x00b", "a\xffb"} { // refused, or kept as it is
		odd := good
		odd.Subject = text
		got, err := ask(w, func(ctx context.Context) (version.Result, error) { return w.Versions.Apply(ctx, odd) })
		if err != nil {
			check(w, "what a text that cannot be held is", retryproof.OutcomeOf(err), retryproof.NotDone)
			continue
		}
		w.wantVersion("an odd text", got, version.Applied, odd)
	}
}

func versionCopies(w *world) {
	a := write("post_7", 1, "liked")
	want := describeVersion(markOf(a))
	got := w.applyVersion(a)
	a.Value[0], got.Mark.Value[0] = 'X', 'Y'
	again := w.applyVersion(write("post_7", 1, "liked"))
	again.Mark.Value[0] = 'Z'
	w.lookVersion(phone, "post_7").Value[0] = 'V'
	w.lastVersion(phone).Value[0] = 'W'
	w.recentVersions(phone, version.Mark{}, 1)[0].Value[0] = 'U'
	check(w, "the mark", describeVersion(w.lookVersion(phone, "post_7")), want)
	check(w, "the last mark", describeVersion(w.lastVersion(phone)), want)
}

func versionRace(w *world) {
	all := w.instances()
	const n = 60
	got := together(w, n, func(ctx context.Context, i int) (version.Result, error) {
		// every version twice, in no order
		return all[i%len(all)].Versions.Apply(ctx, write("post_7", int64(i*17%n/2+1), fmt.Sprint("value ", i*17%n/2+1)))
	})
	applied := map[int64]int{}
	for i, one := range got {
		mine := int64(i*17%n/2 + 1)
		switch one.Verdict {
		case version.Applied:
			applied[mine]++
			check(w, "the applied mark", one.Mark.Version, mine)
		case version.Repeat:
			check(w, "the repeated mark", one.Mark.Version, mine)
		case version.Stale:
			check(w, fmt.Sprintf("a newer mark than %d: %d", mine, one.Mark.Version), one.Mark.Version > mine, true)
		default:
			w.Errorf("version %d: got %v, want applied, repeat or stale", mine, one.Verdict)
		}
	}
	for v, times := range applied { // order: each is judged alone
		check(w, fmt.Sprintf("version %d was applied", v), times, 1)
	}
	check(w, "the highest was applied", applied[n/2], 1)
	check(w, "the end", describeVersion(w.lookVersion(phone, "post_7")), describeVersion(markOf(write("post_7", n/2, fmt.Sprint("value ", n/2)))))
}

func versionRaceMeanings(w *world) {
	all := w.instances()
	got := together(w, 24, func(ctx context.Context, i int) (version.Result, error) {
		return all[i%len(all)].Versions.Apply(ctx, write("post_7", 5, fmt.Sprint("meaning ", i%3)))
	})
	stands := w.lookVersion(phone, "post_7")
	applied := 0
	for i, one := range got {
		check(w, "what everybody is shown", describeVersion(&one.Mark), describeVersion(stands))
		mine := fmt.Sprint("meaning ", i%3) == string(stands.Value)
		if one.Verdict == version.Applied {
			applied++
		}
		check(w, "applied or repeated exactly when the meaning won", one.Verdict != version.Mismatch, mine)
	}
	check(w, "applied", applied, 1)
}

func versionRestart(w *world) {
	a := write("post_7", 42, "unliked")
	w.applyVersion(a)
	if w.Reopen == nil {
		return
	}
	w.Stores = w.Reopen(w.T)
	w.wantVersion("the late copy", w.applyVersion(write("post_7", 41, "liked")), version.Stale, a)
	check(w, "last", describeVersion(w.lastVersion(phone)), describeVersion(markOf(a)))
	check(w, "recent", describeVersions(w.recentVersions(phone, version.Mark{}, 9)), describeVersions([]version.Mark{*markOf(a)}))
}

func versionEnded(w *world) {
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	if _, err := w.Versions.Apply(ctx, write("post_7", 1, "liked")); retryproof.OutcomeOf(err) != retryproof.NotDone {
		w.Errorf("got error %v, want one that is NotDone", err)
	}
	check(w, "the mark", describeVersion(w.lookVersion(phone, "post_7")), "no mark")
}

// inVersionTx runs fn in a transaction of the program's own.
func (w *world) inVersionTx(fn func(ctx context.Context, tx Tx, versions VersionTx) error) error {
	w.Helper()
	return w.within(func(ctx context.Context, tx Tx) error {
		versions, err := versionTx(tx)
		if err != nil {
			return err
		}
		return fn(ctx, tx, versions)
	})
}

func versionTx(tx Tx) (VersionTx, error) {
	if versions, ok := tx.(VersionTx); ok {
		return versions, nil
	}
	return nil, errors.New("the transaction has no ApplyVersion and no trait says so")
}

func versionCommits(w *world) {
	a := write("post_7", 41, "liked")
	for _, want := range []version.Verdict{version.Applied, version.Repeat} {
		err := w.inVersionTx(func(ctx context.Context, tx Tx, versions VersionTx) error {
			got, err := versions.ApplyVersion(ctx, a)
			if err != nil || got.Verdict != version.Applied {
				check(w, "the verdict", got.Verdict, want)
				return err
			}
			return tx.Publish(ctx, event("liked", "u1"))
		})
		if err != nil {
			w.Fatal(err)
		}
	}
	w.wantVersion("outside", w.applyVersion(a), version.Repeat, a)
	check(w, "waiting", w.stats().Waiting, 1)
	err := w.inVersionTx(func(ctx context.Context, tx Tx, versions VersionTx) error {
		got, err := versions.ApplyVersion(ctx, write("post_7", 40, "seen"))
		check(w, "the late one", got.Verdict, version.Stale)
		return errors.Join(err, tx.Publish(ctx, event("audit", "u1"))) // the transaction is usable
	})
	if err != nil {
		w.Fatal(err)
	}
	check(w, "waiting", w.stats().Waiting, 2)
}

func versionRollsBack(w *world) {
	rollback := errors.New("rolled back")
	err := w.inVersionTx(func(ctx context.Context, _ Tx, versions VersionTx) error {
		_, err := versions.ApplyVersion(ctx, write("post_7", 42, "unliked"))
		return errors.Join(err, rollback)
	})
	if !errors.Is(err, rollback) {
		w.Fatalf("got error %v, want %v", err, rollback)
	}
	check(w, "the mark", describeVersion(w.lookVersion(phone, "post_7")), "no mark")
	check(w, "recent marks", len(w.recentVersions(phone, version.Mark{}, 9)), 0)
	like := write("post_7", 41, "liked")
	w.wantVersion("an older one", w.applyVersion(like), version.Applied, like)
}

func versionOwn(w *world) {
	w.applyVersion(write("post_7", 1, "seen"))
	unlike := write("post_7", 42, "unliked")
	steps := []struct {
		write version.Write
		want  version.Verdict
	}{
		{write("post_7", 41, "liked"), version.Applied}, {unlike, version.Applied}, {write("post_7", 41, "liked"), version.Stale},
		{unlike, version.Repeat}, {write("post_7", 42, "liked"), version.Mismatch},
	}
	err := w.inVersionTx(func(ctx context.Context, _ Tx, versions VersionTx) error {
		for i, s := range steps {
			got, err := versions.ApplyVersion(ctx, s.write)
			if err != nil {
				return err
			}
			check(w, fmt.Sprintf("step %d", i), got.Verdict, s.want)
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	check(w, "the mark", describeVersion(w.lookVersion(phone, "post_7")), describeVersion(markOf(unlike)))
}

func versionOver(w *world) {
	var late VersionTx
	err := w.inVersionTx(func(_ context.Context, _ Tx, versions VersionTx) error {
		late = versions
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := late.ApplyVersion(w.Context(), write("post_7", 1, "liked")); err == nil {
		w.Error("got no error, want one")
	}
	check(w, "the mark", describeVersion(w.lookVersion(phone, "post_7")), "no mark")
}

func versionWithinRace(w *world) {
	all := w.instances()
	got := together(w.patient(), 6, func(ctx context.Context, i int) (first bool, err error) {
		err = all[i%len(all)].Within(ctx, func(tx Tx) error {
			versions, err := versionTx(tx)
			if err != nil {
				return err
			}
			got, err := versions.ApplyVersion(ctx, write("post_7", 41, "liked"))
			if first = got.Verdict == version.Applied; err != nil || !first {
				return err
			}
			return tx.Publish(ctx, event(fmt.Sprintf("e%d", i), "g"))
		})
		return first && err == nil, err
	})
	check(w, "applied", countTrue(got), 1)
	check(w, "waiting", w.stats().Waiting, 1)
}
