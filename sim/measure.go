package sim

import (
	"time"

	"github.com/retryproof/retryproof/clock"
)

// MeasureSwitches measures the scheduler alone: two tasks that give the baton to
// each other n times. It returns switches per real second.
func MeasureSwitches(n int) float64 {
	s := NewScheduler(1)
	p := NewProcess(s, "a", 0, 0)
	for range 2 {
		s.Go(p, 0, func() {
			for range n / 2 {
				_ = s.wait(nil, time.Microsecond)
			}
		})
	}
	real := clock.System()
	began := real.Now()
	s.Run(time.Hour)
	s.Close([]*Process{p})
	return float64(s.Steps()) / max(real.Now().Sub(began).Seconds(), 1e-9)
}
