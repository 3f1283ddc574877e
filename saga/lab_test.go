package saga_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/saga"
	"github.com/retryproof/retryproof/store/memory"
)

var start = time.Date(2026, 3, 29, 0, 59, 57, 0, time.UTC)

// counter is a seeded source that differs per runner.
type counter struct{ n uint64 }

func (c *counter) Uint64() uint64 {
	c.n++
	return c.n * 0x9e3779b97f4a7c15
}

// die ends the process in the middle of a call: nothing of it runs any more.
func die() { runtime.Goexit() }

// dies runs a step of a process and reports whether the process ended in it.
func dies(step func()) (died bool) {
	died = true
	var wait sync.WaitGroup
	wait.Go(func() {
		step()
		died = false
	})
	wait.Wait()
	return died
}

// lab is a world with one store, a clock and runners that come and go.
type lab struct {
	t      *testing.T
	clock  *clocktest.Clock
	memory *memory.Store
	store  saga.Store
	rand   *counter
	seen   []string
	alarms []saga.Alarm
}

func newLab(t *testing.T) *lab {
	m := memory.New()
	return &lab{t: t, clock: clocktest.New(start), memory: m, store: m.Sagas(), rand: &counter{}}
}

func (l *lab) config() saga.Config {
	return saga.Config{Clock: l.clock, Rand: l.rand, AlertAfter: 3,
		Observe: func(o saga.Observation) {
			what := o.What
			if o.Step != "" {
				what += " " + o.Step
			}
			if o.Cancel {
				what += "!"
			}
			l.seen = append(l.seen, what)
		},
		Alert: func(_ context.Context, a saga.Alarm) { l.alarms = append(l.alarms, a) },
	}
}

// runner is a new process: it knows nothing but the store.
func (l *lab) runner(d ...saga.Definition) *saga.Runner {
	l.t.Helper()
	r, err := saga.New(l.store, l.config(), d...)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func (l *lab) start(r *saga.Runner, name string, id retryproof.ID) saga.Record {
	l.t.Helper()
	rec, err := r.Start(l.t.Context(), saga.Start{ID: id, Name: name, Input: []byte("12A")})
	if err != nil {
		l.t.Fatal(err)
	}
	return rec
}

func (l *lab) read(id retryproof.ID) saga.Record {
	l.t.Helper()
	rec, err := l.memory.Sagas().Read(l.t.Context(), id)
	if err != nil || rec == nil {
		l.t.Fatalf("got %v, %v, want the saga %s", rec, err, id)
	}
	return *rec
}

// once runs one step; a planted crash is reported, and other errors are not looked at.
func (l *lab) once(r *saga.Runner) (n int, crashed bool) {
	crashed = dies(func() { n, _ = r.RunOnce(l.t.Context()) })
	return n, crashed
}

// settle runs steps, with pauses longer than any lease and backoff, until the saga
// is final.
func (l *lab) settle(id retryproof.ID, d saga.Definition) saga.Record {
	l.t.Helper()
	r := l.runner(d)
	for range 60 {
		if rec := l.read(id); rec.State.Final() {
			return rec
		}
		if _, crashed := l.once(r); crashed {
			r = l.runner(d)
		}
		l.clock.Advance(20 * time.Minute)
	}
	l.t.Fatalf("the saga does not end: %+v, alarms %v", l.read(id), len(l.alarms))
	return saga.Record{}
}

// callee is a service that honours keys, as a processor does: the first outcome of a
// key is its outcome forever.
type callee struct {
	outcomes map[string]string // key → result
	calls    []string          // every call that arrived, by key
	net      map[string]int64  // what stands, by kind
}

func newCallee() *callee { return &callee{outcomes: map[string]string{}, net: map[string]int64{}} }

// do applies an effect once per key.
func (c *callee) do(key, kind string, amount int64) string {
	c.calls = append(c.calls, key)
	if r, known := c.outcomes[key]; known {
		return r
	}
	c.net[kind] += amount
	r := fmt.Sprintf("%s_%d", kind, len(c.outcomes)+1)
	c.outcomes[key] = r
	return r
}

func (c *callee) count(key string) int {
	n := 0
	for _, k := range c.calls {
		if k == key {
			n++
		}
	}
	return n
}

func done(context.Context, saga.Call) ([]byte, error) { return nil, nil }

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func keysOf(rec saga.Record) []string {
	var out []string
	for _, e := range rec.Log {
		out = append(out, e.Key+"="+string(e.State))
	}
	return slices.Clip(out)
}
