package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/reconcile"
)

// books is one side: entries in the order of the list, in pages of two.
type books struct {
	entries []reconcile.Entry
	// failAt fails the page with this number, from 1; stuck repeats a cursor.
	failAt int
	stuck  bool
	pages  int
	looks  []string
	// moved are references that are final by the time of a settlement.
	moved   map[string]bool
	settled []string
	broken  error
	// refused are references whose settlement fails, and why.
	refused map[string]error
	// onSettle is called before a settlement is judged.
	onSettle func()
}

var errAway = errors.New("away")

func (b *books) List(_ context.Context, from, to time.Time, after string) ([]reconcile.Entry, string, error) {
	b.pages++
	if b.pages == b.failAt {
		return nil, "", errAway
	}
	if b.stuck {
		return nil, "again", nil
	}
	var in []reconcile.Entry
	for _, e := range b.entries {
		if !e.At.Before(from) && e.At.Before(to) {
			in = append(in, e)
		}
	}
	at, _ := strconv.Atoi(after)
	end := min(at+2, len(in))
	if end == len(in) {
		return in[at:], "", nil
	}
	return in[at:end], strconv.Itoa(end), nil
}

func (b *books) Look(_ context.Context, reference string) (reconcile.Entry, bool, error) {
	b.looks = append(b.looks, reference)
	if b.broken != nil {
		return reconcile.Entry{}, false, b.broken
	}
	for _, e := range b.entries {
		if e.Reference == reference {
			return e, true, nil
		}
	}
	return reconcile.Entry{}, false, nil
}

func (b *books) Settle(_ context.Context, reference string, there reconcile.Entry) (bool, error) {
	if b.onSettle != nil {
		b.onSettle()
	}
	if err := b.refused[reference]; err != nil {
		return false, err
	}
	b.settled = append(b.settled, reference+" "+there.Ref+" "+string(there.State))
	return !b.moved[reference], nil
}

func (b *books) add(reference, ref string, state effect.State, at time.Duration) {
	e := entry(reference, ref, 3000, state)
	e.At = start.Add(at)
	b.entries = append(b.entries, e)
}

func run(t *testing.T, ours, theirs *books, c reconcile.Config) reconcile.Report {
	t.Helper()
	r, err := reconcile.Run(t.Context(), ours, theirs, start, start.Add(24*time.Hour), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryPageIsRead(t *testing.T) {
	t.Parallel()
	ours, theirs := &books{}, &books{}
	for i := range 7 {
		ours.add("pay_"+strconv.Itoa(i), "ch_"+strconv.Itoa(i), effect.Succeeded, time.Duration(i)*time.Hour)
		theirs.add("pay_"+strconv.Itoa(i), "ch_"+strconv.Itoa(i), effect.Succeeded, time.Duration(i)*time.Hour)
	}
	ours.add("pay_7", "ch_7", effect.Succeeded, 8*time.Hour)
	r := run(t, ours, theirs, reconcile.Config{})
	wantKinds(t, r.Differences, kinds{reconcile.MissingThere})
	if r.Here != 8 || r.There != 7 || ours.pages != 4 || theirs.pages != 4 || !r.Open() || len(ours.looks) != 0 {
		t.Errorf("got %d and %d entries in %d and %d pages, %d looks, want 8 and 7 in 4 each", r.Here, r.There, ours.pages, theirs.pages, len(ours.looks))
	}
}

// What begins at the period's start is in it, what begins at its end is not; what one
// side has in it is compared with the other side's, wherever that is.
func TestThePeriodsBorders(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	ours, theirs := &books{}, &books{}
	ours.add("at the start", "a", effect.Succeeded, 0)
	theirs.add("at the start", "a", effect.Succeeded, 0)
	ours.add("charged after the end", "b", effect.Succeeded, day-time.Second)
	theirs.add("charged after the end", "b", effect.Succeeded, day+10*time.Second)
	ours.add("recorded before the start", "c", effect.Unknown, -time.Second)
	theirs.add("recorded before the start", "c", effect.Succeeded, time.Second)
	ours.add("of the next day", "d", effect.Succeeded, day)
	theirs.add("of the next day, and not here", "e", effect.Succeeded, day)
	theirs.add("of the day before, and not here", "f", effect.Succeeded, -time.Second)
	theirs.add("not here", "g", effect.Succeeded, day-time.Second)
	ours.add("charged long after", "h", effect.Succeeded, day-time.Second)
	theirs.add("charged long after", "h", effect.Succeeded, day+time.Hour)
	r := run(t, ours, theirs, reconcile.Config{})
	wantKinds(t, r.Differences, kinds{reconcile.MissingThere, reconcile.MissingHere, reconcile.Closable})
	if r.Here != 4 || r.There != 4 {
		t.Errorf("got %d and %d, want 4 of ours and 4 of theirs", r.Here, r.There)
	}
	// More slack finds what was charged long after.
	r = run(t, ours, theirs, reconcile.Config{Slack: time.Hour + time.Second, Late: 2 * time.Hour})
	wantKinds(t, r.Differences, kinds{reconcile.MissingHere, reconcile.Closable})
}

// Two of theirs for a record of another period: the one outside the period counts too,
// in whichever order they are listed.
func TestASecondOneOutsideThePeriodCounts(t *testing.T) {
	t.Parallel()
	for _, order := range [][2]time.Duration{{-time.Minute, time.Minute}, {time.Minute, -time.Minute}} {
		ours, theirs := &books{}, &books{}
		ours.add("pay_1", "", effect.Unknown, -2*time.Minute)
		theirs.add("pay_1", "ch_1", effect.Succeeded, order[0])
		theirs.add("pay_1", "ch_2", effect.Succeeded, order[1])
		r := run(t, ours, theirs, reconcile.Config{Settle: true, Late: time.Hour})
		wantKinds(t, r.Differences, kinds{reconcile.Several})
		if len(ours.settled) != 0 || len(ours.looks) != 1 {
			t.Errorf("settled %v after %d looks, want none after 1", ours.settled, len(ours.looks))
		}
	}
}

// case 22: only what is definite and fits closes an unknown; what somebody else was
// faster with is not counted.
func TestOnlyWhatIsClosableIsSettled(t *testing.T) {
	t.Parallel()
	fill := func() (*books, *books) {
		ours, theirs := &books{moved: map[string]bool{"pay_moved": true}}, &books{}
		for reference, state := range map[string]effect.State{"pay_yes": effect.Succeeded, "pay_no": effect.Failed, "pay_moved": effect.Succeeded, "pay_undecided": effect.Unknown} {
			ours.add(reference, "", effect.Unknown, time.Minute)
			theirs.add(reference, "ch of "+reference, state, time.Minute)
		}
		ours.add("pay_nothing", "", effect.Unknown, time.Minute)
		ours.add("pay_failed", "", effect.Failed, time.Minute)
		theirs.add("pay_failed", "ch", effect.Succeeded, time.Minute)
		theirs.add("elsewhere", "ch", effect.Succeeded, time.Minute)
		return ours, theirs
	}
	ours, theirs := fill()
	if r := run(t, ours, theirs, reconcile.Config{}); r.Settled != 0 || len(ours.settled) != 0 || !r.Open() {
		t.Errorf("got %d settled, %v, want none without being asked", r.Settled, ours.settled)
	}
	ours, theirs = fill()
	r := run(t, ours, theirs, reconcile.Config{Settle: true})
	if got, want := strings.Join(ours.settled, ", "), "pay_moved ch of pay_moved SUCCEEDED, pay_no ch of pay_no FAILED, pay_yes ch of pay_yes SUCCEEDED"; got != want {
		t.Errorf("settled: got %q, want %q", got, want)
	}
	for _, d := range r.Differences {
		if want := d.Kind == reconcile.Closable && d.Here.Reference != "pay_moved"; d.Settled != want {
			t.Errorf("%s: settled: got %v, want %v", d.What, d.Settled, want)
		}
	}
	if r.Settled != 2 || !r.Open() {
		t.Errorf("got %d settled, open %v, want 2 and something open", r.Settled, r.Open())
	}
}

func TestOneThatCannotBeClosedKeepsNoOtherOpen(t *testing.T) {
	t.Parallel()
	ours, theirs := &books{refused: map[string]error{"pay_0": errors.Join(errAway, errors.New("for good"))}}, &books{}
	for i := range 3 {
		reference := "pay_" + strconv.Itoa(i)
		ours.add(reference, "", effect.Unknown, time.Hour)
		theirs.add(reference, "ch_"+strconv.Itoa(i), effect.Succeeded, time.Hour)
	}
	r := run(t, ours, theirs, reconcile.Config{Settle: true})
	if r.Settled != 2 || r.Failed != 1 || !r.Open() || len(ours.settled) != 2 {
		t.Errorf("got %d closed, %d failed, %v, want 2, 1 and the last two", r.Settled, r.Failed, ours.settled)
	}
	if len(r.Differences) != 3 || r.Differences[0].Settled || r.Differences[0].Error != "away\nfor good" || r.Differences[1].Error != "" {
		t.Fatalf("got %+v, want the first one's error", r.Differences)
	}
	var text, object bytes.Buffer
	if err := errors.Join(r.WriteText(&text), r.WriteJSON(&object)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 unknowns closed, 1 could not be\n", "; closing it failed: away for good\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", text.String(), want)
		}
	}
	if got := strings.Count(text.String(), "\n"); got != 5 {
		t.Errorf("got %d lines, want one for each difference:\n%s", got, text.String())
	}
	for _, want := range []string{`"failed": 1`, `"error": "away\nfor good"`} {
		if !strings.Contains(object.String(), want) {
			t.Errorf("got %s, want %s in it", object.String(), want)
		}
	}
	if got := strings.Count(object.String(), `"error"`); got != 1 {
		t.Errorf("got %d errors, want one", got)
	}
}

func TestARunThatIsToldToStopClosesNothingMoreAndReports(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	ours, theirs := &books{onSettle: stop}, &books{}
	for i := range 3 {
		reference := "pay_" + strconv.Itoa(i)
		ours.add(reference, "", effect.Unknown, time.Hour)
		theirs.add(reference, "ch_"+strconv.Itoa(i), effect.Succeeded, time.Hour)
	}
	r, err := reconcile.Run(ctx, ours, theirs, start, start.Add(24*time.Hour), reconcile.Config{Settle: true})
	if err != nil || r.Settled != 1 || r.Failed != 2 || len(ours.settled) != 1 || !strings.Contains(r.Differences[2].Error, "canceled") {
		t.Errorf("got %+v, %v, want one closed and two told to be open", r, err)
	}
}

// shifted lists pages as they are given, whatever the period.
type shifted struct {
	books
	shown [][]reconcile.Entry
}

func (s *shifted) List(_ context.Context, _, _ time.Time, after string) ([]reconcile.Entry, string, error) {
	at, _ := strconv.Atoi(after)
	if at+1 == len(s.shown) {
		return s.shown[at], "", nil
	}
	return s.shown[at], strconv.Itoa(at + 1), nil
}

// A page that shifts while it is listed shows an entry twice: it is one entry, in its
// later state.
func TestAnEntryThatIsListedTwiceIsOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		here        effect.State
		first, last effect.State
		want        kinds
		settled     string
	}{
		{"a success", effect.Succeeded, effect.Succeeded, effect.Succeeded, nil, ""},
		{"a success, unknown here", effect.Unknown, effect.Succeeded, effect.Succeeded, kinds{reconcile.Closable}, "pay_1 ch_1 SUCCEEDED"},
		{"a decline, unknown here", effect.Unknown, effect.Failed, effect.Failed, kinds{reconcile.Closable}, "pay_1 ch_1 FAILED"},
		{"decided while it was listed", effect.Unknown, effect.Unknown, effect.Succeeded, kinds{reconcile.Closable}, "pay_1 ch_1 SUCCEEDED"},
		{"sent back while it was listed", effect.Succeeded, effect.Succeeded, effect.Failed, kinds{reconcile.OtherOutcome}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ref := ""
			if c.here == effect.Succeeded {
				ref = "ch_1"
			}
			ours := &shifted{shown: [][]reconcile.Entry{{entry("pay_1", ref, 3000, c.here)}, {entry("pay_1", ref, 3000, c.here)}}}
			theirs := &shifted{shown: [][]reconcile.Entry{
				{entry("pay_1", "ch_1", 3000, c.first)}, {entry("pay_1", "ch_1", 3000, c.last), entry("", "", 700, effect.Failed), entry("", "", 700, effect.Failed)}}}
			r, err := reconcile.Run(t.Context(), ours, theirs, start, start.Add(time.Hour), reconcile.Config{Settle: true})
			if err != nil {
				t.Fatal(err)
			}
			wantKinds(t, r.Differences, c.want)
			if got := strings.Join(ours.settled, ", "); got != c.settled || r.Here != 1 || r.There != 3 {
				t.Errorf("got %q closed, %d here and %d there, want %q, 1 and 3: what has no name is not compared by it", got, r.Here, r.There, c.settled)
			}
		})
	}
}

func TestAReportWithNothingOpen(t *testing.T) {
	t.Parallel()
	ours, theirs := &books{}, &books{}
	if r := run(t, ours, theirs, reconcile.Config{}); r.Open() || r.Differences == nil {
		t.Errorf("got %+v, want an empty list and nothing open", r)
	}
	ours.add("pay_1", "", effect.Unknown, 0)
	theirs.add("pay_1", "ch_1", effect.Succeeded, 0)
	if r := run(t, ours, theirs, reconcile.Config{Settle: true}); r.Open() || r.Settled != 1 {
		t.Errorf("got %+v, want the unknown closed and nothing open", r)
	}
}

func TestARunThatCannotReadReportsNothing(t *testing.T) {
	t.Parallel()
	five := func() *books {
		b := &books{}
		for i := range 5 {
			b.add("pay_"+strconv.Itoa(i), "", effect.Unknown, time.Duration(i)*time.Hour)
		}
		return b
	}
	foreign := &books{}
	foreign.add("pay_elsewhere", "ch_1", effect.Succeeded, time.Hour)
	broken := func(err error) *books { b := five(); b.broken = err; return b }
	for _, c := range []struct {
		name         string
		ours, theirs *books
		want         string
	}{
		{"our first page", &books{failAt: 1}, five(), "our records"},
		{"our second page", func() *books { b := five(); b.failAt = 2; return b }(), five(), "our records"},
		{"their second page", five(), func() *books { b := five(); b.failAt = 2; return b }(), "their records"},
		{"their list does not go on", five(), &books{stuck: true}, "did not go on"},
		{"our look", broken(errAway), foreign, "our records"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := reconcile.Run(t.Context(), c.ours, c.theirs, start, start.Add(24*time.Hour), reconcile.Config{Settle: true})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to time.Time
		config   reconcile.Config
	}{
		{start, start, reconcile.Config{}}, {start.Add(time.Second), start, reconcile.Config{}},
		{start, start.Add(time.Hour), reconcile.Config{Slack: -1}}, {start, start.Add(time.Hour), reconcile.Config{Late: -1}},
	} {
		b := &books{}
		if _, err := reconcile.Run(t.Context(), b, b, c.from, c.to, c.config); err == nil || b.pages != 0 {
			t.Errorf("%+v: got %v after %d pages, want an error before anything", c, err, b.pages)
		}
	}
}

func TestTheReportInJSONIsTheReport(t *testing.T) {
	t.Parallel()
	ours, theirs := &books{}, &books{}
	ours.add("pay_1", "", effect.Unknown, 0)
	theirs.add("pay_1", "ch_1", effect.Succeeded, 0)
	theirs.add("", "ch_2", effect.Succeeded, 0)
	want := run(t, ours, theirs, reconcile.Config{Settle: true})
	var b bytes.Buffer
	if err := want.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got reconcile.Report
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Settled != 1 || len(got.Differences) != 2 || !got.Differences[1].Settled || got.Differences[0].Here != nil || got.Differences[0].There.Ref != "ch_2" {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// brokenWriter takes some bytes and no more.
type brokenWriter struct{ left int }

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errAway
	}
	return len(b), nil
}

func TestAReportThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	ours, theirs := &books{}, &books{}
	theirs.add("", "ch_2", effect.Succeeded, 0)
	r := run(t, ours, theirs, reconcile.Config{})
	for _, room := range []int{0, 130} {
		if r.WriteText(&brokenWriter{room}) == nil || r.WriteJSON(&brokenWriter{room}) == nil {
			t.Errorf("room for %d bytes: got no error", room)
		}
	}
}
