package story_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/retryproof/retryproof/sim/story"
)

// The values of the reference, as it prints them, for the defaults: a second look
// that does not go through the computed expectations.
func TestTheReferencesNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, total, charges, m1 string
		shown, alerts          int64
	}{
		{"main", "3000", "ch_1 pay_7:charge 0.28", "15000", 1, 2},
		{"naive", "6000", "ch_1  10.28, ch_2  12.28", "12000", 0, 0},
		{"X", "6000", "ch_1 pay_7:charge 0.28, ch_2 pay_9:charge 7,200.28", "15000", 1, 2},
		{"W", "3000", "ch_1 pay_7:charge 0.28", "15000", 1, 2},
		{"N-none", "3000", "ch_1 pay_7:charge 0.28", "15000", 3, 3},
		{"N-replace", "3000", "ch_1 pay_7:charge 0.28", "15000", 1, 3},
		{"R", "3000", "ch_1 pay_7:charge 0.28", "15000", 0, 0},
		{"R-rule", "3000", "ch_1 pay_7:charge 0.28", "15000", 1, 1},
		{"3d", "3000", "ch_1 pay_7:charge 0.28", "15000", 1, 1},
		{"key-store-down", "3000", "ch_1 pay_7:charge 0.28", "15000", 1, 2},
		{"D-deadline", "3000", "ch_1 pay_9:charge 10.28", "15000", 1, 1},
		{"D-void", "3000", "ch_1 pay_9:charge 10.28", "15000", 1, 1},
		{"D-void-late", "3000", "ch_1 pay_9:charge 10.28", "15000", 1, 1},
		{"D-race", "3000", "ch_1 pay_7:charge 10.23", "15000", 1, 1},
		{"D-race-void", "3000", "ch_1 pay_9:charge 10.24", "15000", 1, 1},
		{"reinstall", "3000", "ch_1 pay_7:charge 0.28", "15000", 1, 1},
		{"refund", "3000", "ch_1 pay_7:charge 0.28", "12000", 2, 2},
		{"saga-lost", "3000", "ch_1 book_7:charge 0.32", "0", 0, 0},
		{"saga-refund", "3000", "ch_1 book_7:charge 0.32", "0", 0, 0},
		{"saga-crash", "3000", "ch_1 book_7:charge 0.32", "0", 0, 0},
	} {
		r := play(t, c.id)
		var charges []string
		for _, ch := range r.Charges {
			charges = append(charges, fmt.Sprintf("%s %s %s", ch.ID, ch.Key, ch.At))
		}
		got := fmt.Sprint(r.ChargedTotal, "|", strings.Join(charges, ", "), "|", r.Balances["m1"], "|", r.Notifications.Shown, r.Notifications.Alerts)
		want := fmt.Sprint(c.total, "|", c.charges, "|", c.m1, "|", c.shown, c.alerts)
		if got != want {
			t.Errorf("%s: got %s, want %s", c.id, got, want)
		}
	}
}

func TestTheMainLinesEventsHaveTheStorysNumbersAndTimes(t *testing.T) {
	t.Parallel()
	r := play(t, "main")
	want := []string{"0.00", "0.02", "0.02", "0.28", "0.45", "0.54", "5.02", "5.02", "10.00", "11.00", "11.52", "12.00", "12.50", "14.00", "14.50", "14.50", "14.50", "44.50", "400.00", "7,200.00"}
	if len(r.Events) != len(want) {
		t.Fatalf("events: got %d, want %d", len(r.Events), len(want))
	}
	for i, e := range r.Events {
		if e.N != i+1 || e.At.String() != want[i] || e.What == "" || e.Where == "" {
			t.Errorf("event %d: got %+v, want it at %s", i+1, e, want[i])
		}
	}
}

func answer(t *testing.T, r story.Result, request string) story.Answer {
	t.Helper()
	for _, a := range r.Answers {
		if a.Request == request {
			return a
		}
	}
	t.Fatalf("%s: no answer to %s", r.ID, request)
	return story.Answer{}
}

// What the reference says of the late original, of the formulas, of versions,
// locators, refunds and a lost journal, as it says it.
func TestTheReferencesWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ id, request, want string }{
		{"D-deadline", "A1", "503 too-late at 12.00"}, {"D-deadline", "ask", "404 not-found at 10.00"},
		{"D-void", "ask", "200 VOID at 10.00"}, {"D-void", "A1", "409 void at 12.00"},
		{"D-void-late", "A1", "409 void at 3,700.00"}, {"D-race", "ask", "409 in-progress at 10.00"},
		{"D-race-void", "ask", "200 VOID at 9.96"}, {"D-race-void", "A1", "409 void at 9.97"},
		{"refund", "C1", "202 PROCESSING at 20.00"}, {"reinstall", "last?", "200 SUCCEEDED at 8.00"}, {"V", "LIKE again", "200 stale unliked at 10.00"},
	} {
		if got := answer(t, play(t, c.id), c.request).String(); got != c.want {
			t.Errorf("%s: %s: got %s, want %s", c.id, c.request, got, c.want)
		}
	}
	if got := answer(t, play(t, "D-void-late"), "A1").From; got != "ledger row" {
		t.Errorf("D-void-late: got A1 refused by the %s, want the ledger row", got)
	}
	for _, c := range []struct{ id, of, want string }{
		{"V", "post 7, with versions", "unliked"}, {"V", "post 7, without", "liked"},
		{"M", "parse 2, twin", "Inbox and Archive"}, {"M", "parse 2, locator", "exists"}, {"M", "parse 3, locator", "gone"},
		{"reinstall", "the device's last action", "41: pay_7"}, {"saga", "seat 12A", "FREE"}, {"saga-late", "the late original", "refused, void"},
	} {
		got := "nothing"
		for _, e := range play(t, c.id).Ends {
			if e.Of == c.of {
				got = e.Is
			}
		}
		if got != c.want {
			t.Errorf("%s: %s: got %s, want %s", c.id, c.of, got, c.want)
		}
	}
	for id, want := range map[string][]string{
		"formula-2": {"5.02 < 10.00 holds: 3000", "16.98 < 10.00 fails: 6000", "7.00 < 10.00 holds: 3000"},
		"formula-1": {"for ever ≥ 7,200.00 holds: 3000", "3,600.00 ≥ 7,200.00 fails: 6000"},
	} {
		for i, w := range play(t, id).Ways {
			if got := fmt.Sprintf("%s: %d", w.Why, w.ChargedTotal); got != want[i] {
				t.Errorf("%s: got %s, want %s", id, got, want[i])
			}
		}
	}
	r := play(t, "refund")
	if len(r.Refunds) != 1 || r.Refunds[0].Key != "pay_7:cancel:refund" || r.Refunds[0].State != "SUCCEEDED" || r.Refunds[0].Requests != 5 {
		t.Errorf("refund: got %+v, want one, asked for 5 times with pay_7:cancel:refund", r.Refunds)
	}
	for _, w := range play(t, "six-ways").Ways {
		want := map[string]int64{"a saga named after the client's key": 3000, "a saga, without keys": 6000}[w.Approach]
		if want != 0 && w.ChargedTotal != want {
			t.Errorf("%s: got %d, want %d", w.Approach, w.ChargedTotal, want)
		}
	}
}

func TestAParameterChangesTheOutcome(t *testing.T) {
	t.Parallel()
	if r := play(t, "naive", "amount=4200"); r.ChargedTotal != 8400 {
		t.Errorf("naive: got %d, want 8400", r.ChargedTotal)
	}
	if r := play(t, "main", "amount=4200"); r.ChargedTotal != 4200 || r.Balances["m1"] != 16_200 {
		t.Errorf("main: got %d and %v, want 4200 and m1 16200", r.ChargedTotal, r.Balances)
	}
	if got := answer(t, play(t, "main", "retry_at=3000"), "A3"); got.From != "key record" || got.Status != 201 {
		t.Errorf("A3 at 3000: got %+v, want 201 from the key record", got)
	}
	if got := answer(t, play(t, "main"), "A3"); got.From != "ledger row" {
		t.Errorf("A3 at 7200: got %+v, want the ledger row", got)
	}
	if got := answer(t, play(t, "main", "key_window=2h"), "A3"); got.From != "key record" {
		t.Errorf("A3 with a longer window: got %+v, want the key record", got)
	}
	if r := play(t, "X", "retry_at=3000"); r.ChargedTotal != 3000 {
		t.Errorf("X within the key record's window: got %d, want one charge", r.ChargedTotal)
	}
	if r := play(t, "X", "psp_latency=400ms", "retry_at=8000"); len(r.Charges) != 2 || r.Charges[1].At.String() != "8,000.42" {
		t.Errorf("X: got %+v, want ch_2 at 8,000.42", r.Charges)
	}
	if r := play(t, "naive", "queued_until=5"); len(r.Charges) != 1 {
		t.Errorf("naive with a short queue: got %d charges, want 1", len(r.Charges))
	}
	if r := play(t, "main", "queue_window=1"); r.Queue.Stored != 3 || r.Balances["m1"] != 15_000 {
		t.Errorf("a dedup window of 1 s: got %+v and %v, want 3 messages and one credit", r.Queue, r.Balances)
	}
	if r := play(t, "D-deadline", "deadline=15"); r.ChargedTotal != 6000 || r.Harm != "double-charge" {
		t.Errorf("D-deadline with a deadline that is too long: got %d and %s, want two charges", r.ChargedTotal, r.Harm)
	}
	if got := answer(t, play(t, "D-race", "ask_at=9.5"), "A1"); got.String() != "409 void at 9.95" || got.From != "key record" {
		t.Errorf("D-race with an early question: got %s from the %s, want 409 void from the key record", got, got.From)
	}
	if r := play(t, "V", "unlike_at=12"); r.Ends[1].Is != "unliked" {
		t.Errorf("V when the like is resent before the unlike: got %+v, want unliked both ways", r.Ends)
	}
	if r := play(t, "saga-late", "late_at=3"); r.Ends[0].Is != "done" || r.Ends[2].Is != "FREE" {
		t.Errorf("saga-late when the original comes before the release: got %+v, want it done and undone", r.Ends)
	}
	if got := answer(t, play(t, "main", "client_timeout=4"), "A2"); got.Status != 409 {
		t.Errorf("a retry within the deadline: got %+v, want 409", got)
	}
}

// Every branch under every setting that it accepts must still come out as
// computed.
func TestExpectationsFollowTheParameters(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"psp_latency=0.4", "psp_latency=1", "deadline=3", "deadline=0.3", "client_timeout=12", "client_timeout=4", "queue_window=1",
		"queue_window=1000", "visibility=60", "visibility=500", "key_window=10", "key_window=100000", "margin=3", "retry_at=20", "retry_at=3600", "webhook_at=11.2",
		"webhook_at=10.5", "resolve_at=4", "resolve_at=20", "relay_at=11", "relay_again_at=30", "work_at=13", "work_at=20", "relay_lease=5", "deadline=12",
		"seed=7", "seed=99", "amount=1", "balance=5", "balance=0", "network=0.1", "network=200ms", "copy_at=4", "copy_at=6", "queued_until=9.6", "hand_over=0", "wake_at=20",
		"sweep_at=9", "other_amount=3000", "relay_last_at=2min", "key_memory=30h", "lag=2", "horizon=1h", "queued_until=20", "queued_until=3605", "queued_until=3620", "deadline=15", "deadline=9.99",
		"shed_after=1", "shed_after=9", "shed_after=11.98", "shed_after=12", "ask_at=9.5", "ask_at=9.96", "ask_at=10.3", "row_after=0", "row_after=0.1", "row_after=1", "cancel_at=25", "cancel_at=100", "ask_every=5min", "ask_every=48",
		"retry_budget=1", "retry_budget=2", "retry_budget=6", "reconcile_at=1h", "reconcile_at=90000", "first_number=1", "first_number=99", "unlike_at=1", "unlike_at=11", "reinstall_at=0.1", "reinstall_at=60",
		"parse_at=5", "move_at=32", "move_at=70", "delete_at=11", "delete_at=62", "visibility=5", "visibility=100", "resume_at=7.2", "resume_at=500", "late_at=1", "late_at=5.03", "late_at=2h", "client_timeout=11.9"} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			results, left, err := story.RunAll(set)
			if err != nil {
				t.Fatal(err)
			}
			if len(results) < 10 {
				t.Errorf("only %d of %d branches accept %s", len(results), len(results)+len(left), set)
			}
			for _, r := range results {
				for _, c := range r.Checks {
					if !c.OK {
						t.Errorf("%s: %s: got %s, want %s", r.ID, c.What, c.Got, c.Want)
					}
				}
			}
		})
	}
}

func TestTheJSONHasTheContractsNames(t *testing.T) {
	t.Parallel()
	r := play(t, "main")
	b, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	first := func(list string) map[string]any {
		l, _ := got[list].([]any)
		if len(l) == 0 {
			t.Fatalf("%s is empty", list)
		}
		m, _ := l[0].(map[string]any)
		return m
	}
	for list, names := range map[string][]string{
		"charges": {"id", "key", "at", "amount"}, "credits": {"merchant", "amount", "event"},
		"answers": {"request", "at", "status", "code", "body_state"}, "events": {"n", "at", "where", "what"},
	} {
		for _, name := range names {
			if _, ok := first(list)[name]; !ok {
				t.Errorf("%s has no %s: %v", list, name, first(list))
			}
		}
	}
	if at := first("charges")["at"]; at != 0.28 {
		t.Errorf("a time: got %v, want the number 0.28", at)
	}
	snapshots, _ := got["snapshots"].(map[string]any)
	for _, name := range []string{"P1", "P2", "P3", "P4", "P6"} {
		if snapshots[name] == nil {
			t.Errorf("there is no snapshot %s", name)
		}
	}
	if got["ok"] != true || got["charged_total"] != 3000.0 {
		t.Errorf("got ok %v, charged_total %v", got["ok"], got["charged_total"])
	}
}

func TestTheTextShowsEverything(t *testing.T) {
	t.Parallel()
	all, _, err := story.RunAll("amount=4200")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for i := range all {
		all[i].Text(&out)
	}
	story.Summary(&out, all)
	for _, want := range []string{"$42.00", "$84.00", "resolver", "Snapshots", "pay_7:charge", "With amount = 4200.", "✓ [G]", "[G] values came out", "two-phase commit", "16,200"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text has no %q", want)
		}
	}
	for _, never := range []string{"✗", "%!", "pay_3j8 "} {
		if strings.Contains(out.String(), never) {
			t.Errorf("the text has %q", never)
		}
	}
	all[0].Checks[0].OK, all[0].OK = false, false
	out.Reset()
	all[0].Text(&out)
	story.Summary(&out, all)
	if !strings.Contains(out.String(), "✗") || !strings.Contains(out.String(), "expected") {
		t.Error("a failed expectation does not show")
	}
}

func BenchmarkTheWholeStory(b *testing.B) {
	for b.Loop() {
		if _, _, err := story.RunAll(); err != nil {
			b.Fatal(err)
		}
	}
}
