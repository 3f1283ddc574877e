// Package worker runs steps in loops. It is the only library package with a go
// statement: a step does its work once and returns, a loop calls it again.
//
// Promises: while ctx lives, every step is called again after it returned; a step
// that did nothing, with or without an error, is called after a pause; when ctx ends, a
// running step gets Grace to return, and Run returns when all have. A panic in a
// step is not caught: it ends the process, which is a crash that every step is
// built for, whereas a loop that is gone unnoticed is not. A step that ends its
// goroutine with runtime.Goexit panics for the same reason.
//
// Does not promise: safety. Steps are safe to run at any time, anywhere, and twice.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/internal/backoff"
)

// Loop is a step and how often to call it.
type Loop struct {
	// Name appears in logs.
	Name string
	// Step does its work once and returns how much it did.
	Step func(ctx context.Context) (int, error)
	// Idle is the pause after a call that did nothing, plus up to a quarter of it
	// at random. Defaults to 100 ms.
	Idle time.Duration
	// MaxBackoff bounds the pause after errors, which doubles from Idle, plus up
	// to a quarter of it at random. Defaults to 10 s.
	MaxBackoff time.Duration
}

// Config sets a runner. The zero value works.
type Config struct {
	// Grace is how long a running step may go on after ctx ended.
	// Defaults to 10 s.
	Grace time.Duration
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Rand makes jitter. Defaults to entropy.System().
	Rand entropy.Source
	// Log gets one line when a step begins to fail and one when it works again: when
	// it did something without an error, or has not failed for 2 min. A step that
	// finds nothing to do proves nothing: what failed may only be waiting for its next
	// try. Defaults to slog.Default().
	Log *slog.Logger
}

// Validate returns everything that is wrong with the loop at once.
func (l Loop) Validate() error {
	var errs []error
	if l.Step == nil {
		errs = append(errs, fmt.Errorf("worker: loop %q has no Step", l.Name))
	}
	if l.Idle < 0 || l.MaxBackoff < 0 {
		errs = append(errs, fmt.Errorf("worker: Idle %v and MaxBackoff %v of loop %q must not be negative", l.Idle, l.MaxBackoff, l.Name))
	}
	return errors.Join(errs...)
}

// Validate returns what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Grace < 0 {
		return fmt.Errorf("worker: Grace %v must not be negative", c.Grace)
	}
	return nil
}

// Run calls the loops' steps, each loop in its own goroutine, until ctx ends; then
// it waits for running steps and returns. It panics, before any step, when Validate of
// the configuration or of a loop has an error.
func Run(ctx context.Context, config Config, loops ...Loop) {
	wrong := []error{config.Validate()}
	for _, l := range loops {
		wrong = append(wrong, l.Validate())
	}
	if err := errors.Join(wrong...); err != nil {
		panic(err)
	}
	if config.Grace == 0 {
		config.Grace = 10 * time.Second
	}
	if config.Clock == nil {
		config.Clock = clock.System()
	}
	if config.Rand == nil {
		config.Rand = entropy.System()
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	// Steps get a context that outlives ctx by Grace, so that one is not cut
	// between its effect and its answer.
	stepCtx, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(context.Canceled)
	stop := context.AfterFunc(ctx, func() {
		if config.Clock.Sleep(stepCtx, config.Grace) == nil {
			cut(context.DeadlineExceeded)
		}
	})
	defer stop()
	var running sync.WaitGroup
	for _, l := range loops {
		running.Add(1)
		go func() {
			l.run(ctx, stepCtx, config)
			running.Done() // not deferred: a panic must not let Run return before the process ends
		}()
	}
	running.Wait()
}

// calm is how long a step has not failed when it counts as working again although it
// did nothing. It is longer than what failed waits for its next try, which for the steps
// of this module is a minute.
const calm = 2 * time.Minute

// run calls the step until ctx ends.
func (l Loop) run(ctx, stepCtx context.Context, config Config) {
	if l.Idle == 0 {
		l.Idle = 100 * time.Millisecond
	}
	if l.MaxBackoff == 0 {
		l.MaxBackoff = 10 * time.Second
	}
	failures, idleFailures := 0, 0
	var failedAt time.Time
	for ctx.Err() == nil {
		n, err := l.call(stepCtx)
		pause := time.Duration(0)
		switch {
		case err != nil:
			failedAt = config.Clock.Now()
			if failures++; failures == 1 {
				config.Log.Warn("a step fails and is tried again", "loop", l.Name, "error", err)
			}
		case failures > 0 && (n > 0 || config.Clock.Now().Sub(failedAt) >= calm):
			config.Log.Info("a step works again", "loop", l.Name, "after_failures", failures)
			failures = 0
		}
		// A step that did something is called again at once, even when a part of it
		// failed: one message that fails must not slow down all others.
		switch {
		case n > 0:
			idleFailures = 0
		case err != nil:
			idleFailures++
			pause = backoff.Doubling{Min: min(l.Idle, l.MaxBackoff), Max: l.MaxBackoff}.After(idleFailures)
		default:
			idleFailures, pause = 0, l.Idle
		}
		if pause > 0 {
			jitter := time.Duration(entropy.Fraction(config.Rand) * float64(pause) / 4)
			_ = config.Clock.Sleep(ctx, pause+jitter)
		}
	}
}

// call runs the step. It recovers nothing: it adds the loop's name to a panic, and
// makes one of a runtime.Goexit, which would end the loop silently.
func (l Loop) call(ctx context.Context) (int, error) {
	returned := false
	defer func() {
		if !returned {
			panic("worker: the step of loop " + l.Name + " panicked or called runtime.Goexit")
		}
	}()
	n, err := l.Step(ctx)
	returned = true
	return n, err
}
