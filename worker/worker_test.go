package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retryproof/retryproof/worker"
)

// zero makes no jitter.
type zero struct{}

func (zero) Uint64() uint64 { return 0 }

func quiet() worker.Config {
	return worker.Config{Rand: zero{}, Log: slog.New(slog.DiscardHandler)}
}

func since(start time.Time) time.Duration { return time.Since(start) }

// recorder returns a step that notes when it is called, does what script says
// and then nothing, and ends the run after the script.
func recorder(at *[]time.Duration, stop context.CancelFunc, script ...func() (int, error)) func(context.Context) (int, error) {
	start := time.Now()
	return func(context.Context) (int, error) {
		*at = append(*at, since(start))
		if len(*at) > len(script) {
			stop()
			return 0, nil
		}
		return script[len(*at)-1]()
	}
}

func did(n int) func() (int, error) { return func() (int, error) { return n, nil } }

func failed() (int, error) { return 0, errors.New("the database is away") }

func TestAStepThatFoundWorkIsCalledAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var at []time.Duration
		worker.Run(ctx, quiet(), worker.Loop{Step: recorder(&at, stop, did(3), did(1), did(0), did(2), did(0))})
		want := []time.Duration{0, 0, 0, 100 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}
		if !slices.Equal(at, want) {
			t.Errorf("got calls at %v, want %v", at, want)
		}
	})
}

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var at []time.Duration
		step := recorder(&at, stop, failed, failed, failed, failed, failed, did(1), failed)
		worker.Run(ctx, quiet(), worker.Loop{Step: step, Idle: time.Second, MaxBackoff: 5 * time.Second})
		second := time.Second
		want := []time.Duration{0, second, 3 * second, 7 * second, 12 * second, 17 * second, 17 * second, 18 * second}
		if !slices.Equal(at, want) {
			t.Errorf("got calls at %v, want %v", at, want)
		}
	})
}

func TestAStepThatFailedInPartIsCalledAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var at []time.Duration
		partly := func() (int, error) { return 2, errors.New("one of three failed") }
		worker.Run(ctx, quiet(), worker.Loop{Step: recorder(&at, stop, partly, failed, failed, partly, failed), Idle: time.Second})
		want := []time.Duration{0, 0, time.Second, 3 * time.Second, 3 * time.Second, 4 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("got calls at %v, want %v", at, want)
		}
	})
}

func TestADailyLoopThatFailsForWeeksStillPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var at []time.Duration
		worker.Run(ctx, quiet(), worker.Loop{Step: recorder(&at, stop, slices.Repeat([]func() (int, error){failed}, 80)...),
			Idle: 24 * time.Hour, MaxBackoff: 36 * time.Hour})
		for i := 1; i < len(at); i++ {
			if pause := at[i] - at[i-1]; pause < 24*time.Hour || pause > 36*time.Hour {
				t.Fatalf("pause %d: got %v, want between 24 h and 36 h", i, pause)
			}
		}
	})
}

func TestJitterIsAtMostAQuarter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var at []time.Duration
		worker.Run(ctx, worker.Config{}, worker.Loop{Step: recorder(&at, stop, slices.Repeat([]func() (int, error){did(0)}, 50)...)})
		for i := 1; i < len(at); i++ {
			if pause := at[i] - at[i-1]; pause < 100*time.Millisecond || pause >= 125*time.Millisecond {
				t.Errorf("pause %d: got %v, want 100 ms and less than a quarter more", i, pause)
			}
		}
	})
}

func TestAStreakOfFailuresIsTwoLogLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var at []time.Duration
		var log bytes.Buffer
		config := quiet()
		config.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		worker.Run(ctx, config, worker.Loop{Name: "relay", Step: recorder(&at, stop, did(1), failed, failed, failed, did(0), did(1), failed, did(1))})
		want := `level=WARN msg="a step fails and is tried again" loop=relay error="the database is away"
level=INFO msg="a step works again" loop=relay after_failures=3
level=WARN msg="a step fails and is tried again" loop=relay error="the database is away"
level=INFO msg="a step works again" loop=relay after_failures=1
`
		if got := log.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// logged returns what a run logs, one "level message" a line.
func logged(at *[]time.Duration, ctx context.Context, stop context.CancelFunc, idle time.Duration, script ...func() (int, error)) string {
	var log bytes.Buffer
	config := quiet()
	config.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key != slog.MessageKey && a.Key != slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
	worker.Run(ctx, config, worker.Loop{Step: recorder(at, stop, script...), Idle: idle})
	return log.String()
}

const (
	fails = "level=WARN msg=\"a step fails and is tried again\"\n"
	works = "level=INFO msg=\"a step works again\"\n"
)

func TestAnIdleStepDoesNotSayThatItWorksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		putBack := func() (int, error) { return 1, errors.New("the message failed") }
		var script []func() (int, error)
		for range 5 { // a message that waits a minute for each try, and nothing else to do
			script = append(append(script, putBack), slices.Repeat([]func() (int, error){did(0)}, 60)...)
		}
		var at []time.Duration
		if got := logged(&at, ctx, stop, time.Second, append(script, did(1))...); got != fails+works {
			t.Errorf("got\n%s\nwant\n%s", got, fails+works)
		}
	})
}

func TestAnIdleStepThatHasNotFailedForLongWorksAgain(t *testing.T) {
	t.Parallel()
	for calls, want := range map[int]string{119: fails, 120: fails + works} { // order: each has a run of its own; one more call ends it
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var at []time.Duration
			script := append([]func() (int, error){failed}, slices.Repeat([]func() (int, error){did(0)}, calls-1)...)
			if got := logged(&at, ctx, stop, time.Second, script...); got != want {
				t.Errorf("%d calls: got\n%s\nwant\n%s", calls, got, want)
			}
		})
	}
}

func TestAPauseAfterAnErrorIsBoundedAlsoWhenTheIdlePauseIsLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var at []time.Duration
		worker.Run(ctx, quiet(), worker.Loop{Step: recorder(&at, stop, failed, failed, did(0)), Idle: time.Minute})
		want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 80 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("got calls at %v, want %v", at, want)
		}
	})
}

func TestSettingsThatCannotWorkAreRefusedBeforeAnyStep(t *testing.T) {
	t.Parallel()
	called := false
	step := func(context.Context) (int, error) { called = true; return 0, nil }
	for _, bad := range []struct {
		config worker.Config
		loop   worker.Loop
		want   string
	}{
		{worker.Config{Grace: -1}, worker.Loop{Step: step}, "Grace"},
		{worker.Config{}, worker.Loop{Step: step, Idle: -1}, "Idle"},
		{worker.Config{}, worker.Loop{Step: step, MaxBackoff: -1}, "MaxBackoff"},
		{worker.Config{}, worker.Loop{}, "Step"},
	} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), bad.want) {
					t.Errorf("%+v: got %v, want a panic about %s", bad, err, bad.want)
				}
			}()
			worker.Run(t.Context(), bad.config, worker.Loop{Step: step}, bad.loop)
		}()
	}
	if called {
		t.Error("a step was called")
	}
}

func TestDrainLetsARunningStepFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		calls := 0
		finished := errors.New("never")
		start := time.Now()
		worker.Run(ctx, quiet(), worker.Loop{Step: func(ctx context.Context) (int, error) {
			calls++
			stop()
			select {
			case <-time.After(9 * time.Second):
				finished = nil
			case <-ctx.Done():
				finished = context.Cause(ctx)
			}
			return 1, nil
		}})
		if finished != nil || calls != 1 {
			t.Errorf("got %v and %d calls, want nil and 1", finished, calls)
		}
		if got, want := since(start), 9*time.Second; got != want {
			t.Errorf("returned after %v, want %v", got, want)
		}
	})
}

func TestDrainCutsAStepAfterGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		config := quiet()
		config.Grace = 4 * time.Second
		var cause error
		start := time.Now()
		worker.Run(ctx, config,
			worker.Loop{Step: func(ctx context.Context) (int, error) {
				stop()
				<-ctx.Done()
				cause = context.Cause(ctx)
				time.Sleep(time.Second)
				return 0, cause
			}},
			worker.Loop{Step: func(context.Context) (int, error) { return 0, nil }})
		if !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", cause, context.DeadlineExceeded)
		}
		if got, want := since(start), 5*time.Second; got != want {
			t.Errorf("returned after %v, want %v: when the last step has returned", got, want)
		}
	})
}

func TestNoStepBeginsAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		worker.Run(ctx, worker.Config{}, worker.Loop{Step: func(context.Context) (int, error) {
			t.Error("a step was called")
			return 0, nil
		}})
	})
}

func TestTheEndCutsAPauseShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		start := time.Now()
		worker.Run(ctx, quiet(), worker.Loop{Idle: time.Hour, Step: func(context.Context) (int, error) { return 0, nil }})
		if got, want := since(start), time.Minute; got != want {
			t.Errorf("returned after %v, want %v", got, want)
		}
	})
}

func TestLoopsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		calls := 0
		worker.Run(ctx, quiet(),
			worker.Loop{Step: func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, nil
			}},
			worker.Loop{Step: func(context.Context) (int, error) {
				if calls++; calls == 10 {
					stop()
				}
				return 1, nil
			}})
		if calls != 10 {
			t.Errorf("got %d calls, want 10", calls)
		}
	})
}

// TestAPanicEndsTheProcess runs itself in a process of its own, which has to die.
func TestAPanicEndsTheProcess(t *testing.T) {
	t.Parallel()
	const variable = "RETRYPROOF_TEST_WORKER_ENDS_BY"
	end := os.Getenv(variable)
	step := func(context.Context) (int, error) {
		if end == "goexit" {
			runtime.Goexit()
		}
		panic("the step is broken")
	}
	if end != "" {
		worker.Run(t.Context(), quiet(), worker.Loop{Name: "relay", Step: step})
		return
	}
	for how, want := range map[string]string{"panic": "the step is broken", "goexit": "runtime.Goexit"} {
		command := exec.Command(os.Args[0], "-test.run=^TestAPanicEndsTheProcess$")
		command.Env = append(os.Environ(), variable+"="+how)
		output, err := command.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(string(output), want) || !strings.Contains(string(output), "loop relay") {
			t.Errorf("%s: got %v with\n%s\nwant a crash that says %q and names the loop", how, err, output, want)
		}
	}
}
