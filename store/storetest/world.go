package storetest

import (
	"context"
	"math"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
)

// world is one case: a test with an empty store of its own.
type world struct {
	*testing.T
	Stores
	traits Traits
	// paid are the payments that refunds of a caller's are taken from; see payer.
	paid map[string]retryproof.ID
}

// failOnPanic makes a panic a failure of one case. A case may panic because a
// record that must be there is not, and the other cases have something to say too.
func (w *world) failOnPanic() {
	if p := recover(); p != nil {
		w.Fatalf("the case panicked: %v\n%s", p, debug.Stack())
	}
}

// start is second 0 of every case, with a digit at every place of a microsecond.
var start = time.Date(2026, 3, 29, 0, 59, 57, 123456000, time.UTC)

// at is a time in seconds after start, exact to the microsecond.
func at(seconds float64) time.Time {
	return start.Add(time.Duration(math.Round(seconds*1e6)) * time.Microsecond)
}

const (
	tick   = 1e-6 // the precision of all stores, in seconds
	lease  = 5.0
	margin = time.Second
)

// ask calls f again, a bounded number of times, while the driver refuses it because a
// lock is held. That a driver may do so is part of effect.Store; one that retries inside
// has no reason to.
func ask[T any](w *world, f func(ctx context.Context) (T, error)) (T, error) {
	ctx := w.Context()
	for try := 0; ; try++ {
		got, err := f(ctx)
		held := err != nil && retryproof.OutcomeOf(err) == retryproof.NotDone && retryproof.CodeOf(err) == retryproof.CodeConflict
		if !held || w.traits.RetriesInside || try >= w.traits.Tries {
			return got, err
		}
		wait := min(w.traits.Pause, time.Duration(try+1)*100*time.Microsecond)
		if err := clock.System().Sleep(ctx, wait); err != nil {
			return got, err
		}
	}
}

// patient is the same case for transactions of a program's own: no driver can run those
// again, so that the program does.
func (w *world) patient() *world {
	p := *w
	p.traits.RetriesInside = false
	return &p
}

// must is ask for calls that cannot fail.
func must[T any](w *world, f func(ctx context.Context) (T, error)) T {
	w.Helper()
	got, err := ask(w, f)
	if err != nil {
		w.Fatalf("got error %v (%v, %q), want none", err, retryproof.OutcomeOf(err), retryproof.CodeOf(err))
	}
	return got
}

// refused is ask for calls that must say NotDone.
func refused[T any](w *world, what string, f func(ctx context.Context) (T, error)) {
	w.Helper()
	_, err := ask(w, f)
	if err == nil {
		w.Errorf("%s: got no error, want a refusal", what)
		return
	}
	if got := retryproof.OutcomeOf(err); got != retryproof.NotDone {
		w.Errorf("%s: got an error that says %q, want %q: %v", what, got, retryproof.NotDone, err)
	}
}

// together runs f(0) … f(n-1) at once and returns what they gave.
func together[T any](w *world, n int, f func(ctx context.Context, i int) (T, error)) []T {
	w.Helper()
	out, errs := make([]T, n), make([]error, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			out[i], errs[i] = ask(w, func(ctx context.Context) (T, error) { return f(ctx, i) })
		})
	}
	close(gate)
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			w.Fatalf("call %d of %d at once: got error %v (%v, %q), want none", i, n, err, retryproof.OutcomeOf(err), retryproof.CodeOf(err))
		}
	}
	return out
}

// check compares two values that can be compared.
func check[T comparable](w *world, what string, got, want T) {
	w.Helper()
	if got != want {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// sameTime compares two instants, whatever their zones.
func sameTime(w *world, what string, got, want time.Time) {
	w.Helper()
	if !got.Equal(want) {
		w.Errorf("%s: got %v, want %v", what, got.UTC(), want.UTC())
	}
}

// instances are this case's stores, seen by one process or by two.
func (w *world) instances() []Stores {
	if w.Second == nil {
		return []Stores{w.Stores}
	}
	return []Stores{w.Stores, w.Second(w.T)}
}

func (w *world) audit() payments.Audit {
	w.Helper()
	return must(w, w.Payments.Ledger.Audit)
}

func (w *world) stats() outbox.Stats {
	w.Helper()
	return must(w, w.Payments.Outbox.Stats)
}

func (w *world) balance(account string) int64 {
	w.Helper()
	return must(w, func(ctx context.Context) (int64, error) { return w.Payments.Ledger.Balance(ctx, account, "USD") })
}

// event is an event of a group.
func event(id, group string) retryproof.Event {
	return retryproof.Event{ID: id, Type: "payment.succeeded", Group: group, Body: []byte(`{"id":"` + id + `"}`), At: at(11.52)}
}
