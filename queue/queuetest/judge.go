package queuetest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
)

// Failure is a case that a driver did not pass.
type Failure struct {
	// Case is the name of the case.
	Case string
	// Message is what it said.
	Message string
}

// Judge runs all cases and returns those that the driver failed, in the order of
// [Cases]. A failure does not fail t.
func Judge(t testing.TB, tr Traits, open Open) []Failure {
	t.Helper()
	var out []Failure
	for _, c := range Cases() {
		if message, failed := judge(t, c, tr, open); failed {
			out = append(out, Failure{c.Name, message})
		}
	}
	return out
}

// judge runs one case on a goroutine of its own, since a fatal failure ends the
// goroutine that it happens on.
func judge(t testing.TB, c Case, tr Traits, open Open) (message string, failed bool) {
	rec := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer rec.cleanup()
		defer func() {
			if p := recover(); p != nil {
				rec.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		c.Run(rec, tr, open)
	}()
	<-done
	return rec.message, rec.failed
}

// recorder is a testing.TB that keeps failures to itself. What it does not
// override, such as TempDir, belongs to the test around it.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	message  string
	cleanups []func()
}

func (r *recorder) Helper()             {}
func (r *recorder) Log(...any)          {}
func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) cleanup() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func (r *recorder) note(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	if r.message == "" {
		r.message = message
	}
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Fail()                     { r.note("failed") }
func (r *recorder) Error(args ...any)         { r.note(fmt.Sprintln(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.note(fmt.Sprintf(f, a...)) }

func (r *recorder) FailNow() {
	r.note("failed")
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.note(fmt.Sprintln(args...))
	runtime.Goexit()
}

func (r *recorder) Fatalf(f string, a ...any) {
	r.note(fmt.Sprintf(f, a...))
	runtime.Goexit()
}

func (r *recorder) Skip(...any)          { runtime.Goexit() }
func (r *recorder) Skipf(string, ...any) { runtime.Goexit() }
func (r *recorder) SkipNow()             { runtime.Goexit() }
