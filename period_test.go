package retryproof_test

import (
	"context"
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // Europe/Paris, also where the machine has no time zones

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/memory"
)

func periodKey(t *testing.T, subject, start string) retryproof.Key {
	t.Helper()
	key, err := retryproof.PeriodKey(subject, start)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestPeriodKeyIsPinned(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"2026-03", "2026-03-29", "2026-03-29T10:59"} {
		got := periodKey(t, "subscription 17: bill", start)
		if want := "period_" + sum("period", "subscription 17: bill", start); string(got) != want {
			t.Errorf("%s: got another key than %s", start, want)
		}
		if _, err := retryproof.ParseKey(string(got)); err != nil {
			t.Errorf("%s: got error %v, want a key that every server takes", start, err)
		}
	}
	if got, want := string(periodKey(t, "subscription 17: bill", "2026-03-29")), "period_3arnhccx3nshy5r0tmm1jv8twd1tzajz"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPeriodHasOneSpelling(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"", "2026", "2026-3", "2026-3-29", "2026-02-30", "29.03.2026", " 2026-03-29", "2026-03-29 ", "2026-03-29T10:59Z",
		"2026-03-29T10:59:00", "2026-03-29 10:59", "2026-03-29T24:00", "2026-03-29T10:59+02:00", "2026-W13", "1774778340"} {
		if key, err := retryproof.PeriodKey("bill", start); retryproof.CodeOf(err) != retryproof.CodeInvalid || key != "" {
			t.Errorf("%q: got a key or error %v, want CodeInvalid", start, err)
		}
	}
	if _, err := retryproof.PeriodKey("", "2026-03-29"); retryproof.CodeOf(err) != retryproof.CodeInvalid {
		t.Errorf("no subject: got error %v, want CodeInvalid", err)
	}
}

// till counts what was charged, once per key.
type till struct {
	t       *testing.T
	clock   *clocktest.Clock
	engine  *effect.Engine
	charges int
}

func newTill(t *testing.T) *till {
	t.Helper()
	c := clocktest.New(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	engine, err := effect.New(memory.New().Effects(), effect.Config{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	return &till{t: t, clock: c, engine: engine}
}

func (b *till) charge(key retryproof.Key, amount int64) {
	b.t.Helper()
	r := effect.Request{Scope: retryproof.Scope{Endpoint: "charges", Caller: "shop", Key: key}, Fingerprint: retryproof.FingerprintOf(retryproof.Int("amount", amount))}
	_, err := b.engine.Do(context.Background(), r, func(context.Context, *effect.Attempt) (effect.Finish, error) {
		b.charges++
		return effect.Finish{State: effect.Succeeded}, nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func paris(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// case 29: the weekly bill of Sunday, 29 March 2026, the day on which Paris changes to
// summer time. 20:00Z is that Sunday there, 23:00Z is Monday of the next week.
func TestWeeklyBillIsChargedOncePerPeriod(t *testing.T) {
	t.Parallel()
	zone := paris(t)
	schedule := []string{"2026-03-22", "2026-03-29", "2026-04-05"} // what the subscription's rows say is due
	bills, naive := newTill(t), map[string]bool{}
	run := func(now time.Time) {
		bills.clock.Advance(now.Sub(bills.clock.Now()))
		for _, due := range schedule {
			day, err := time.ParseInLocation(time.DateOnly, due, zone)
			if err != nil {
				t.Fatal(err)
			}
			if !now.Before(day) { // due: and its key is the row's, however late the run is
				bills.charge(periodKey(t, "subscription 17: bill", due), 3000)
			}
		}
		year, week := now.In(zone).ISOWeek()
		naive[fmt.Sprint(year, "-", week)] = true
	}
	run(time.Date(2026, 3, 22, 20, 0, 0, 0, time.UTC))
	clear(naive)
	for _, hour := range []int{20, 23, 20} { // the last one is a copy that got stuck
		run(time.Date(2026, 3, 29, hour, 0, 0, 0, time.UTC))
		if bills.charges != 2 {
			t.Errorf("run at %d:00Z: got %d bills, want 2 for two periods", hour, bills.charges)
		}
	}
	if len(naive) != 2 {
		t.Errorf("got keys %v cut from the clock, want the two that would have charged twice", naive)
	}
	run(time.Date(2026, 4, 5, 20, 0, 0, 0, time.UTC))
	if bills.charges != 3 {
		t.Errorf("a week later: got %d bills, want 3 for three periods", bills.charges)
	}
}

// case 29: a job that is due at 10:59 runs just before and just after 11:00.
func TestJobThatRunsAgainInTheNextMinuteHasTheSameKey(t *testing.T) {
	t.Parallel()
	jobs, naive := newTill(t), map[string]bool{}
	for _, now := range []time.Time{
		time.Date(2026, 3, 29, 10, 59, 59, 990e6, time.UTC), time.Date(2026, 3, 29, 11, 0, 0, 10e6, time.UTC),
	} {
		jobs.clock.Advance(now.Sub(jobs.clock.Now()))
		jobs.charge(periodKey(t, "payout", "2026-03-29T10:59"), 100)
		naive[now.Format("2006-01-02T15:04")] = true
	}
	if jobs.charges != 1 || len(naive) != 2 {
		t.Errorf("got %d runs and naive keys %v, want 1 and 2", jobs.charges, naive)
	}
}

// case 29: two people's taps of one minute and amount are two intents, with a key each.
func TestTwoOrdersOfOneMinuteAndAmountAreTwoCharges(t *testing.T) {
	t.Parallel()
	orders, naive := newTill(t), newTill(t)
	for _, intent := range []retryproof.Key{"0192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e07", "0192f0c4-5b7e-7f00-8a11-77d0c2b94e55"} {
		for range 2 { // each is sent twice
			orders.charge(intent, 3000)
			naive.charge(retryproof.Key("u1-2026-03-29T10:59-3000"), 3000)
		}
	}
	if orders.charges != 2 || naive.charges != 1 {
		t.Errorf("got %d charges, and %d with keys cut from minute and amount, want 2 and 1", orders.charges, naive.charges)
	}
}

func ExamplePeriodKey() {
	onTime, _ := retryproof.PeriodKey("subscription 17: bill", "2026-03-29")
	late, _ := retryproof.PeriodKey("subscription 17: bill", "2026-03-29") // the run that failed, again on Monday
	next, _ := retryproof.PeriodKey("subscription 17: bill", "2026-04-05")
	fmt.Println(onTime == late, onTime == next)
	// Output: true false
}
