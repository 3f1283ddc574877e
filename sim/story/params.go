package story

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Params are the constants of the story. Times without another word are counted
// from the tap.
type Params struct {
	Amount, OtherAmount, Opening int64
	Seed                         int64
	Network, PSPLatency          time.Duration
	ClientTimeout, Deadline      time.Duration
	Margin, KeyWindow, KeyMemory time.Duration
	QueueWindow, Visibility      time.Duration
	CopyAt, ResolveAt, SweepAt   time.Duration
	RelayAt, RelayAgainAt        time.Duration
	RelayLastAt, RelayLease      time.Duration
	WebhookAt, WebhookAgainAt    time.Duration
	WorkAt, QueuedUntil          time.Duration
	HandOver, RetryAt, WakeAt    time.Duration
	Lag, StreamDelay, Horizon    time.Duration
	ShedAfter, AskAt, RowAfter   time.Duration
	CancelAt, AskEvery           time.Duration
	ReconcileAt, UnlikeAt        time.Duration
	ReinstallAt, ParseAt, MoveAt time.Duration
	DeleteAt, ResumeAt, LateAt   time.Duration
	RetryBudget, FirstNumber     int64
}

// Parameter describes one constant.
type Parameter struct {
	// Name is what --set takes.
	Name string `json:"name"`
	// Unit is "s", "minor units" or "number".
	Unit string `json:"unit"`
	// Default is the value in the main line, as --set would take it.
	Default string `json:"default"`
	// Given says that the reference gives the value; the others were chosen.
	Given bool `json:"given"`
	// About says what it is.
	About string `json:"about"`
}

// field is a parameter with its place in Params.
type field struct {
	name    string
	given   bool
	about   string
	number  func(*Params) *int64
	seconds func(*Params) *time.Duration
	unit    string
	// least is the smallest number.
	least int64
}

func money(name string, given bool, least int64, about string, at func(*Params) *int64) field {
	return field{name: name, given: given, about: about, number: at, unit: "minor units", least: least}
}

func seconds(name string, given bool, about string, at func(*Params) *time.Duration) field {
	return field{name: name, given: given, about: about, seconds: at, unit: "s"}
}

func count(name, about string, at func(*Params) *int64) field {
	return field{name: name, about: about, number: at, unit: "number", least: 1}
}

var fields = []field{
	money("amount", true, 1, "what the buyer pays", func(p *Params) *int64 { return &p.Amount }),
	money("balance", true, 0, "m1's balance before", func(p *Params) *int64 { return &p.Opening }),
	money("other_amount", true, 1, "the amount of the reused key in 3d", func(p *Params) *int64 { return &p.OtherAmount }),
	seconds("network", true, "phone to load balancer, one way", func(p *Params) *time.Duration { return &p.Network }),
	seconds("psp_latency", false, "API to PSP, one way", func(p *Params) *time.Duration { return &p.PSPLatency }),
	seconds("client_timeout", true, "how long the phone waits before it tries again", func(p *Params) *time.Duration { return &p.ClientTimeout }),
	seconds("deadline", true, "how long a request may work, from its arrival", func(p *Params) *time.Duration { return &p.Deadline }),
	seconds("margin", true, "clock margin before a takeover", func(p *Params) *time.Duration { return &p.Margin }),
	seconds("key_window", true, "how long a completed key record is kept", func(p *Params) *time.Duration { return &p.KeyWindow }),
	seconds("key_memory", true, "how long the PSP remembers a key", func(p *Params) *time.Duration { return &p.KeyMemory }),
	seconds("queue_window", true, "how long the queue remembers a dedup id", func(p *Params) *time.Duration { return &p.QueueWindow }),
	seconds("visibility", true, "how long a delivery is its worker's alone", func(p *Params) *time.Duration { return &p.Visibility }),
	seconds("copy_at", true, "when the network's copy of A1 arrives", func(p *Params) *time.Duration { return &p.CopyAt }),
	seconds("resolve_at", true, "when the resolver looks", func(p *Params) *time.Duration { return &p.ResolveAt }),
	seconds("sweep_at", false, "when the resolver looks in 3b and 3b-sweep", func(p *Params) *time.Duration { return &p.SweepAt }),
	seconds("relay_at", false, "the relay's first send", func(p *Params) *time.Duration { return &p.RelayAt }),
	seconds("relay_again_at", true, "the restarted relay's send", func(p *Params) *time.Duration { return &p.RelayAgainAt }),
	seconds("relay_last_at", false, "the third send, and the worker after it", func(p *Params) *time.Duration { return &p.RelayLastAt }),
	seconds("relay_lease", false, "how long a claimed outbox row is the relay's", func(p *Params) *time.Duration { return &p.RelayLease }),
	seconds("webhook_at", false, "when evt_1 arrives (10.5 in W)", func(p *Params) *time.Duration { return &p.WebhookAt }),
	seconds("webhook_again_at", true, "when evt_1 arrives again in W", func(p *Params) *time.Duration { return &p.WebhookAgainAt }),
	seconds("work_at", true, "when w1 receives; w2 receives a visibility timeout later", func(p *Params) *time.Duration { return &p.WorkAt }),
	seconds("queued_until", true, "when A1 leaves api-1's queue in naive and in the D branches", func(p *Params) *time.Duration { return &p.QueuedUntil }),
	seconds("hand_over", false, "from leaving the queue to running", func(p *Params) *time.Duration { return &p.HandOver }),
	seconds("retry_at", true, "when the buyer comes back: A3", func(p *Params) *time.Duration { return &p.RetryAt }),
	seconds("wake_at", false, "when the paused server of 3c goes on", func(p *Params) *time.Duration { return &p.WakeAt }),
	seconds("lag", true, "replication lag between Regions (later parts)", func(p *Params) *time.Duration { return &p.Lag }),
	seconds("stream_delay", true, "from a commit to the stream's reading of it (later parts)", func(p *Params) *time.Duration { return &p.StreamDelay }),
	seconds("horizon", true, "acceptance horizon of the stream (later parts)", func(p *Params) *time.Duration { return &p.Horizon }),
	seconds("shed_after", true, "formula-2's gate refuses what waited longer", func(p *Params) *time.Duration { return &p.ShedAfter }),
	seconds("ask_at", false, "when the phone asks in D-race (in the other D branches it asks at client_timeout)", func(p *Params) *time.Duration { return &p.AskAt }),
	seconds("row_after", false, "from A1's claim to its row in D-race", func(p *Params) *time.Duration { return &p.RowAfter }),
	seconds("cancel_at", false, "when the buyer cancels in refund", func(p *Params) *time.Duration { return &p.CancelAt }),
	seconds("ask_every", false, "the pause between the resolver's looks in refund", func(p *Params) *time.Duration { return &p.AskEvery }),
	count("retry_budget", "how many questions without an answer call for a person, in refund", func(p *Params) *int64 { return &p.RetryBudget }),
	seconds("reconcile_at", false, "when the night's reconciliation runs in refund", func(p *Params) *time.Duration { return &p.ReconcileAt }),
	{name: "first_number", given: true, about: "the number that the device gives its first action in V and reinstall", number: func(p *Params) *int64 { return &p.FirstNumber }, unit: "number", least: 1},
	seconds("unlike_at", false, "when the user unlikes in V", func(p *Params) *time.Duration { return &p.UnlikeAt }),
	seconds("reinstall_at", false, "when the app is installed again in reinstall", func(p *Params) *time.Duration { return &p.ReinstallAt }),
	seconds("parse_at", false, "when the message is parsed first in M; again a visibility timeout later, twice", func(p *Params) *time.Duration { return &p.ParseAt }),
	seconds("move_at", false, "when the user moves the message in M", func(p *Params) *time.Duration { return &p.MoveAt }),
	seconds("delete_at", false, "when the user deletes the message in M", func(p *Params) *time.Duration { return &p.DeleteAt }),
	seconds("resume_at", false, "when the other server looks in saga-crash", func(p *Params) *time.Duration { return &p.ResumeAt }),
	seconds("late_at", false, "when the late original arrives in saga-late", func(p *Params) *time.Duration { return &p.LateAt }),
	{name: "seed", about: "decides what the scenario leaves open", number: func(p *Params) *int64 { return &p.Seed }, unit: "number"},
}

// Defaults are the constants of the main line.
func Defaults() Params {
	const ms = time.Millisecond
	return Params{
		Amount: 3000, OtherAmount: 3500, Opening: 12_000, Seed: 1,
		Network: 20 * ms, PSPLatency: 260 * ms, ClientTimeout: 10 * time.Second, Deadline: 5 * time.Second, Margin: time.Second,
		KeyWindow: time.Hour, KeyMemory: 24 * time.Hour, QueueWindow: 300 * time.Second, Visibility: 30 * time.Second,
		CopyAt: 450 * ms, ResolveAt: 11 * time.Second, SweepAt: 8 * time.Second,
		RelayAt: 12 * time.Second, RelayAgainAt: 14 * time.Second, RelayLastAt: 400 * time.Second, RelayLease: 1500 * ms,
		WebhookAt: 12_500 * ms, WebhookAgainAt: 10_900 * ms, WorkAt: 14_500 * ms, QueuedUntil: 12 * time.Second, HandOver: 20 * ms,
		ShedAfter: 2 * time.Second, AskAt: 10 * time.Second, RowAfter: 20 * ms, CancelAt: 20 * time.Second, AskEvery: time.Minute, RetryBudget: 3,
		ReconcileAt: 24 * time.Hour, FirstNumber: 41, UnlikeAt: 3 * time.Second, ReinstallAt: 8 * time.Second, ParseAt: time.Second,
		MoveAt: 10 * time.Second, DeleteAt: 40 * time.Second, ResumeAt: 12 * time.Second, LateAt: time.Minute,
		RetryAt: 7200 * time.Second, WakeAt: 12 * time.Second, Lag: time.Second, StreamDelay: 4 * time.Second, Horizon: 7200 * time.Second,
	}
}

// Parameters lists every constant in the order of the story.
func Parameters() []Parameter {
	p := Defaults()
	var out []Parameter
	for _, f := range fields {
		out = append(out, Parameter{Name: f.name, Unit: f.unit, Default: f.show(&p), Given: f.given, About: f.about})
	}
	return out
}

func (f field) show(p *Params) string {
	if f.seconds != nil {
		return strconv.FormatFloat(Seconds(*f.seconds(p)).float(), 'f', -1, 64)
	}
	return strconv.FormatInt(*f.number(p), 10)
}

// set takes one "name=value".
func (p *Params) set(assignment string) error {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return misuse("--set takes name=value, not %q", assignment)
	}
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return misuse("there is no parameter %q; there are: %s", name, parameterNames())
	}
	f := fields[i]
	if f.seconds == nil {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < f.least || n > maxNumber {
			return misuse("%s is an integer of %d to %d (%s), not %q", name, f.least, int64(maxNumber), f.unit, value)
		}
		*f.number(p) = n
		return nil
	}
	d, err := parseSeconds(value)
	if err != nil {
		return misuse("%s: %v", name, err)
	}
	*f.seconds(p) = d
	return nil
}

// maxNumber keeps sums far from overflow, maxSeconds the designs that poll from
// running for minutes.
const (
	maxNumber  = 99_999_999
	maxSeconds = 1_000_000
)

var units = []struct {
	name string
	is   time.Duration
}{{"ms", time.Millisecond}, {"min", time.Minute}, {"s", time.Second}, {"h", time.Hour}}

// parseSeconds reads a number of seconds, or a number with a unit.
func parseSeconds(text string) (time.Duration, error) {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµ")
	unit := time.Second
	if suffix := text[len(number):]; suffix != "" {
		unit = 0
		for _, u := range units {
			if u.name == suffix {
				unit = u.is
			}
		}
		if unit == 0 {
			return 0, fmt.Errorf("there is no unit %q; there are: ms, s, min, h", suffix)
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0 && n*unit.Seconds() <= maxSeconds) {
		return 0, fmt.Errorf("%q is no time: give seconds, 0 to %d, as in 7.5, or a number with ms, s, min or h", text, maxSeconds)
	}
	return time.Duration(n * float64(unit)).Round(time.Microsecond), nil
}

func parameterNames() string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// MisuseError says that there is no such branch, parameter, unit or value.
type MisuseError struct{ What string }

// Error is the problem on one line, with what there is instead.
func (e *MisuseError) Error() string { return e.What }

func misuse(format string, args ...any) error { return &MisuseError{fmt.Sprintf(format, args...)} }
