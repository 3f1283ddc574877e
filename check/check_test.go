package check_test

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/check"
	"github.com/retryproof/retryproof/deadline"
)

const example = "../examples/check/payments.json"

func parse(t *testing.T, file string) check.Config {
	t.Helper()
	c, err := check.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheExampleIsFineAndComplete(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	r := parse(t, string(file)).Report()
	if len(r.Findings) > 0 || len(r.NotDescribed) > 0 {
		t.Errorf("got %+v, not described %v, want nothing", r.Findings, r.NotDescribed)
	}
	var got []string
	for _, h := range r.Held {
		got = append(got, h.Code)
	}
	want := []string{"formula-1", "formula-2", "shedding", "lease", "clock-margin", "answer-ttl", "balancer-timeout", "psp-timeout", "psp-window",
		"psp-window-margin", "psp-window-margin", "resolver-lease", "resolver-rate", "relay-lease", "relay-window", "inbox-retention", "redelivery", "visibility", "cache-eviction"}
	if !slices.Equal(got, want) {
		t.Errorf("held %v, want %v", got, want)
	}
}

// good is a path without a finding; each test changes one thing.
func good(t *testing.T) check.Config {
	t.Helper()
	file, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(file))
}

func TestEachUnsafeSettingIsNamedWithItsNumbers(t *testing.T) {
	t.Parallel()
	const ms, s, h, d = time.Millisecond, time.Second, time.Hour, 24 * time.Hour
	for name, c := range map[string]struct {
		change   func(*check.Config)
		severity check.Severity
		code     string
		numbers  string
	}{
		"a window for a guard":    {func(c *check.Config) { c.Server.Guard = "window"; c.Client.RetryHorizon = 2 * h }, check.Refuse, "formula-1", "1h < 2h"},
		"a guard with an end":     {func(c *check.Config) { c.Server.GuardMemory = 7 * d }, check.Refuse, "formula-1", "7d < 30d"},
		"only the PSP's key":      {func(c *check.Config) { c.Server.Guard = "none" }, check.Refuse, "formula-1", "24h < 30d"},
		"more than the PSP knows": {func(c *check.Config) { c.Server.Guard, c.Server.GuardMemory = "none", deadline.Forever }, check.Refuse, "formula-1", "24h < 30d"},
		"nothing, for ever": {func(c *check.Config) {
			c.Server.Guard, c.Server.GuardMemory = "none", deadline.Forever
			c.PSP, c.Resolver = nil, nil
		}, check.Refuse, "formula-1", "no psp"},
		"a retry at the end":  {func(c *check.Config) { c.Server.Guard, c.Client.RetryHorizon = "window", h }, check.Refuse, "guard-memory", "1h < 1h + 5s = 1h0m5s"},
		"a call at the end":   {func(c *check.Config) { c.Server.Guard, c.Client.RetryHorizon = "none", d-6*s }, check.Refuse, "guard-memory", "24h < 23h59m54s + 5s + 4s = 24h0m3s"},
		"nothing at all":      {func(c *check.Config) { c.Server.Guard = "none"; c.PSP, c.Resolver = nil, nil }, check.Refuse, "formula-1", "no psp"},
		"no horizon":          {func(c *check.Config) { c.Client.RetryHorizon = 0 }, check.Warn, "not-stated", "client.retry_horizon not stated"},
		"impatient client":    {func(c *check.Config) { c.Client.Timeout = 5 * s }, check.Refuse, "formula-2", "5s + 20ms + 500ms = 5.52s ≥ 5s"},
		"the queue before it": {func(c *check.Config) { c.Server.Stamp = "accept"; c.Server.WaitBeforeStamp = 6 * s }, check.Refuse, "formula-2", "5s + 6s = 11s ≥ 10s"},
		"no wait":             {func(c *check.Config) { c.Server.WaitBeforeStamp = 0 }, check.Warn, "not-stated", "server.wait_before_stamp not stated"},
		"no timeout":          {func(c *check.Config) { c.Client.Timeout = 0 }, check.Warn, "not-stated", "client.timeout not stated"},
		"the balancer's own view": {func(c *check.Config) {
			c.Server.Stamp, c.Server.WaitBeforeStamp, c.Server.BalancerTimeout = "accept", 3*s, 8*s
		}, check.Warn, "balancer-timeout", "8s ≤ 5s + 3s = 8s"},
		"shed, and the network":   {func(c *check.Config) { pickup(c, 9*s, 4*s, s) }, check.Refuse, "formula-2", "5s + 4s + 1s = 10s ≥ 10s"},
		"shed, in one number":     {func(c *check.Config) { pickup(c, 9*s, 0, s) }, check.Refuse, "formula-2", "5s + 9s = 14s ≥ 10s"},
		"shed, and no number":     {func(c *check.Config) { pickup(c, 0, 0, s) }, check.Warn, "not-stated", "server.wait_before_queue not stated"},
		"a part above the whole":  {func(c *check.Config) { pickup(c, s, 9*s, s) }, check.Refuse, "formula-2", "5s + 9s + 1s = 15s ≥ 10s"},
		"the same, not shed":      {func(c *check.Config) { pickup(c, s, 9*s, 0) }, check.Refuse, "formula-2", "5s + 9s = 14s ≥ 10s"},
		"late shedding":           {func(c *check.Config) { c.Server.ShedAfter = 5 * s }, check.Warn, "shedding", "5s ≥ 5s"},
		"short lease":             {func(c *check.Config) { c.Server.Lease = 4500 * time.Millisecond }, check.Refuse, "lease", "4.5s < 5s"},
		"a small margin":          {func(c *check.Config) { c.Server.Margin, c.Server.ClockOffset = ms, 0 }, check.Refuse, "clock-margin", "1ms < 1s"},
		"clocks apart":            {func(c *check.Config) { c.Server.ClockOffset = 2 * s }, check.Refuse, "clock-margin", "1s < 2s"},
		"short answers":           {func(c *check.Config) { c.Server.AnswerTTL = 5 * s }, check.Refuse, "answer-ttl", "5s < 5s + 1s = 6s"},
		"impatient balancer":      {func(c *check.Config) { c.Server.BalancerTimeout = 3 * s }, check.Warn, "balancer-timeout", "3s ≤ 5s"},
		"a call that begins late": {func(c *check.Config) { c.PSP.CutOff, c.PSP.Timeout = "", 4900*ms }, check.Refuse, "psp-timeout", "5s < 5s + 4.9s = 9.9s"},
		"a lease 1 ms short":      {func(c *check.Config) { c.PSP.CutOff, c.Server.Lease = "timeout", 8999*ms }, check.Refuse, "psp-timeout", "8.999s < 5s + 4s = 9s"},
		"short PSP memory":        {func(c *check.Config) { c.PSP.KeyWindow = h }, check.Refuse, "psp-window", "1h ≤ 1h + 5s + 1s = 1h0m6s"},
		"no room at its end":      {func(c *check.Config) { c.PSP.WindowMargin = 15 * s }, check.Refuse, "psp-window-margin", "15s < 15s + 1s = 16s"},
		"no room for a takeover":  {func(c *check.Config) { c.Resolver, c.PSP.WindowMargin = nil, ms }, check.Refuse, "psp-window-margin", "1ms < 4s + 1s = 5s"},
		"nor for its whole lease": {func(c *check.Config) { c.Resolver, c.PSP.Timeout, c.PSP.WindowMargin = nil, s*60, 5*s }, check.Refuse, "psp-window-margin", "5s < 5s + 1s = 6s"},
		"short questions":         {func(c *check.Config) { c.PSP.CutOff, c.Server.Lease, c.Resolver.Lease = "timeout", 9*s, 4*s }, check.Refuse, "resolver-lease", "4s ≤ 4s"},
		"many questions":          {func(c *check.Config) { c.Resolver.Rate = 20 }, check.Warn, "resolver-rate", "20 > 25 / 2 = 12.5"},
		"long send":               {func(c *check.Config) { c.Relay.SendTimeout = 15 * s }, check.Refuse, "relay-lease", "15s ≤ 15s"},
		"short dedup window":      {func(c *check.Config) { c.Queue.DedupWindow = 20 * s }, check.Warn, "relay-window", "20s ≤ 15s + 5s = 20s"},
		"short inbox":             {func(c *check.Config) { c.Inbox.Retention = 14 * d }, check.Refuse, "inbox-retention", "14d < 14d + 14d = 28d"},
		"a queue that keeps all":  {func(c *check.Config) { c.Queue.Retention = deadline.Forever }, check.Refuse, "inbox-retention", "30d < forever + 14d = forever"},
		"no retention":            {func(c *check.Config) { c.Queue.Retention = 0 }, check.Warn, "not-stated", "queue.retention not stated"},
		"no inbox":                {func(c *check.Config) { c.Inbox = nil }, check.Refuse, "window-only", "queue.dedup_window 5m and no inbox"},
		"an endless window":       {func(c *check.Config) { c.Inbox, c.Queue.DedupWindow = nil, deadline.Forever }, check.Refuse, "window-only", "queue.dedup_window forever and no inbox"},
		"dropped before due":      {func(c *check.Config) { c.Queue.Visibility = 14 * d }, check.Refuse, "redelivery", "14d ≥ 14d"},
		"no takeover": {func(c *check.Config) {
			c.PSP, c.Resolver, c.Server.AnswerTTL, c.Server.Lease = nil, nil, deadline.Forever, deadline.Forever
		}, check.Refuse, "lease", "forever"},
		"no takeover, later": {func(c *check.Config) {
			c.PSP, c.Resolver, c.Server.AnswerTTL, c.Server.Margin = nil, nil, deadline.Forever, deadline.Forever
		}, check.Refuse, "lease", "forever"},
		"a batch for ever":        {func(c *check.Config) { c.Queue, c.Relay.Lease = nil, deadline.Forever }, check.Refuse, "relay-lease", "forever"},
		"slow worker":             {func(c *check.Config) { c.Worker.Time = 30 * s }, check.Warn, "visibility", "30s ≤ 30s"},
		"evicting cache":          {func(c *check.Config) { c.Cache.MaxMemoryPolicy = "volatile-lru" }, check.Refuse, "cache-eviction", "volatile-lru"},
		"a policy nobody knows":   {func(c *check.Config) { c.Cache.MaxMemoryPolicy = "" }, check.Warn, "not-stated", "maxmemory_policy not stated"},
		"no such stamp":           {func(c *check.Config) { c.Server.Stamp = "phone" }, check.Refuse, "invalid", `"phone"`},
		"negative":                {func(c *check.Config) { c.Inbox.Retention = -s }, check.Refuse, "invalid", "-1s"},
		"not a number":            {func(c *check.Config) { c.PSP.Rate = math.NaN() }, check.Refuse, "invalid", "NaN"},
		"assumed offset":          {func(c *check.Config) { c.Server.ClockOffset, c.Client.Timeout = 0, 6*s }, check.Refuse, "formula-2", "5s + 20ms + 1s = 6.02s ≥ 6s"},
		"relay without an answer": {func(c *check.Config) { c.Relay.Lease, c.Relay.SendTimeout = 3*s, 4*s }, check.Refuse, "relay-lease", "3s ≤ 4s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := good(t)
			c.change(&config)
			r := config.Report()
			if len(r.Findings) != 1 {
				t.Fatalf("got %+v, want one finding", r.Findings)
			}
			f := r.Findings[0]
			if f.Severity != c.severity || f.Code != c.code || !strings.Contains(f.Numbers, c.numbers) || f.Harm == "" || f.Formula == "" {
				t.Errorf("got %+v, want %s %s with %q", f, c.severity, c.code, c.numbers)
			}
			var asFinding check.Finding
			if err := config.Validate(); (err != nil) != (c.severity == check.Refuse) || err != nil && !errors.As(err, &asFinding) {
				t.Errorf("Validate: got %v", err)
			}
		})
	}
}

// Without an inbox what it makes harmless is refused.
func TestWithoutAnInboxDuplicatesAreRefused(t *testing.T) {
	t.Parallel()
	c := good(t)
	c.Inbox = nil
	c.Queue.DedupWindow, c.Queue.Visibility = time.Second, time.Second
	var got []string
	for _, f := range c.Report().Refused() {
		got = append(got, f.Code)
	}
	if want := []string{"relay-window", "window-only", "visibility"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// pickup stamps at the server's thread, after these waits.
func pickup(c *check.Config, beforeStamp, beforeQueue, shedAfter time.Duration) {
	s := &c.Server
	s.Stamp, s.WaitBeforeStamp, s.WaitBeforeQueue, s.ShedAfter = "pickup", beforeStamp, beforeQueue, shedAfter
}

// The story's formula 2: 11.98 s in the queue fail, shedding after 2 s holds with 7 s and
// the network, and only for what the server's own queue holds up.
func TestSheddingBoundsTheServersOwnQueueAlone(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	c := good(t)
	pickup(&c, 11980*ms, 20*ms, 0)
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "5s + 11.98s = 16.98s ≥ 10s") {
		t.Errorf("got %v, want formula 2 to fail", err)
	}
	pickup(&c, 11980*ms, 0, 2*time.Second)
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "once server.wait_before_queue is stated") {
		t.Errorf("got %v, want to be told what makes shedding count", err)
	}
	for want, wait := range map[string]time.Duration{"5s + 20ms + 2s = 7.02s < 10s": 11980 * ms, "5s + 1s = 6s < 10s": time.Second} {
		pickup(&c, wait, 20*ms, 2*time.Second)
		if r := c.Report(); len(r.Findings) > 0 || r.Held[1].Numbers != want {
			t.Errorf("got %+v, %+v, want %s", r.Findings, r.Held[1], want)
		}
	}
	c.Server.Stamp, c.Server.WaitBeforeStamp = "accept", 6*time.Second // it waited elsewhere
	if err := c.Validate(); err == nil {
		t.Error("shedding does not bound what happens before accept")
	}
}

// What is safe passes, also where it looks unusual.
func TestSafeSettingsAreNotRefused(t *testing.T) {
	t.Parallel()
	const s, h = time.Second, time.Hour
	for name, change := range map[string]func(*check.Config){
		"a lease for the last call":        func(c *check.Config) { c.PSP.CutOff, c.Server.Lease = "timeout", 9*s },
		"a call cut off at the lease":      func(c *check.Config) { c.PSP.Timeout = 60 * s },
		"no timeout but the lease":         func(c *check.Config) { c.PSP.Timeout = 0 },
		"a takeover's call cut off, too":   func(c *check.Config) { c.Resolver, c.PSP.Timeout, c.PSP.WindowMargin = nil, 60*s, 6*s },
		"shedding late, stamped at pickup": func(c *check.Config) { pickup(c, 20*s, s, 3*s); c.Server.Deadline = 3 * s },
		"a window just long enough":        func(c *check.Config) { c.Server.Guard, c.Client.RetryHorizon = "window", h-5*s },
		"the PSP's key just long enough":   func(c *check.Config) { c.Server.Guard, c.Client.RetryHorizon = "none", 24*h-9*s },
		"a stated offset below 1 s":        func(c *check.Config) { c.Server.Margin = c.Server.ClockOffset },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := good(t)
			change(&c)
			if r := c.Report(); len(r.Findings) > 0 {
				t.Errorf("got %+v, want nothing", r.Findings)
			}
		})
	}
}

// A call that only its own timeout ends needs one.
func TestACallWithoutAnyEndIsSaid(t *testing.T) {
	t.Parallel()
	c := good(t)
	c.PSP.CutOff, c.PSP.Timeout, c.Resolver = "", 0, nil
	var got []string
	for _, f := range c.Report().Findings {
		got = append(got, f.Code+": "+f.Numbers+": "+f.Harm)
	}
	want := []string{"not-stated: psp.timeout not stated: psp-timeout was not checked", "not-stated: psp.timeout not stated: psp-window-margin was not checked"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnEmptyFileIsNotFine(t *testing.T) {
	t.Parallel()
	r := parse(t, "{}").Report()
	if len(r.Findings) != 2 || len(r.Refused()) != 0 || len(r.NotDescribed) != 7 {
		t.Errorf("got %+v, not described %v, want two warnings and seven hops", r.Findings, r.NotDescribed)
	}
}

func TestReportChangesNothing(t *testing.T) {
	t.Parallel()
	c := check.Config{Relay: &check.Relay{}, PSP: &check.PSP{}, Cache: &check.Cache{}}
	c.Report()
	if *c.Relay != (check.Relay{}) || *c.PSP != (check.PSP{}) || *c.Cache != (check.Cache{}) {
		t.Errorf("got %+v, want it as it was", c)
	}
}
