package sim

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/store/memory"
)

// Subject is a handler of your own that ExploreHandler puts into faulty worlds.
type Subject struct {
	// Handler builds what one life of one process serves; it is called again after
	// every crash. What it keeps in memory is gone then; what must outlive it is
	// the Subject's, as a database or a bank would be. It must not start goroutines
	// and must take its time from env.Clock.
	Handler func(env Env) (http.Handler, error)
	// Request is the request of the nth intent, without the key: ExploreHandler
	// gives every intent a key and repeats it until there is a definite answer.
	Request func(n int) Message
	// Check is the invariant, asked after every answer and at the end; done are the
	// intents that were answered with 2xx.
	Check func(done []int) error
	// Intents is how many intents there are. Defaults to 5.
	Intents int
}

// Env is what a Subject's process is handed.
type Env struct {
	// Store keeps claims and guards, through faults; it outlives crashes.
	Store effect.Store
	Clock clock.Clock
	Rand  entropy.Source
	// Outside calls something outside through the world's faults: it may be refused
	// before, lost after, slow, or the last thing that the process does. do must
	// not wait.
	Outside func(ctx context.Context, name string, do func() error) error
}

// lives are the processes that serve a Subject.
type lives struct {
	w       *World
	subject Subject
	store   effect.Store
	process [2]*Process
	handler [2]http.Handler
	done    []int
	left    int
	failed  error
}

// ExploreHandler runs seeds from, from+1, … of faulty worlds around the handlers
// that build makes, one Subject per seed. It returns the first violation, nil when
// there is none; its rule is "invariant" when Check failed and "stuck" when an
// intent had no definite answer after the faults had ended.
func ExploreHandler(from uint64, seeds int, build func() Subject) (*Violation, error) {
	for seed := from; seed < from+uint64(seeds); seed++ {
		v, err := exploreOne(seed, build())
		if v != nil || err != nil {
			return v, err
		}
	}
	return nil, nil
}

func exploreOne(seed uint64, s Subject) (*Violation, error) {
	p := PlanOf(seed)
	w, err := NewWorld(p.Options)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if s.Intents == 0 {
		s.Intents = 5
	}
	l := &lives{w: w, subject: s, store: memory.New().Effects(), left: s.Intents}
	w.faulty = true
	l.revive()
	for n := range s.Intents {
		l.send(n)
	}
	for w.now < p.FaultsFor && l.left > 0 && l.failed == nil {
		w.Run(w.now + 250*time.Millisecond)
		l.revive()
	}
	w.faulty, w.healed = false, true
	for deadline := w.now + 10*time.Minute; w.now < deadline && l.left > 0 && l.failed == nil; {
		l.revive()
		w.Run(w.now + time.Second)
	}
	violation := func(rule, what string) *Violation {
		return &Violation{Seed: seed, Rule: rule, What: what, AtSeconds: w.now.Seconds()}
	}
	if l.failed == nil && l.left == 0 {
		l.failed = s.Check(l.done)
	}
	switch {
	case l.failed != nil:
		return violation("invariant", l.failed.Error()), nil
	case l.left > 0:
		return violation(HarmStuck, fmt.Sprintf("%d intents have no definite answer", l.left)), nil
	}
	return nil, nil
}

// revive starts a new life where the old one is over.
func (l *lives) revive() {
	for i := range l.process {
		if l.process[i] != nil && !l.process[i].dead {
			continue
		}
		p := NewProcess(l.w.Scheduler, nodeName("api", i), 0, 0)
		x := &seam{l.w, p}
		h, err := l.subject.Handler(Env{Store: effects{x: x, in: l.store}, Clock: p.Clock(), Rand: random{l.w},
			Outside: func(ctx context.Context, name string, do func() error) error {
				_, err := call(x, ctx, "outside", name, "", func() (struct{}, error) { return struct{}{}, do() })
				return err
			}})
		if err != nil {
			l.failed = err
			return
		}
		l.process[i], l.handler[i] = p, h
		l.w.processes = append(l.w.processes, p)
	}
}

// send lets one intent be sent until it has a definite answer.
func (l *lives) send(n int) {
	w := l.w
	phone := NewProcess(w.Scheduler, "phone", 0, 0)
	w.processes = append(w.processes, phone)
	w.Go(phone, w.upTo(2*time.Second), func() {
		for {
			m := l.subject.Request(n)
			m.Key = fmt.Sprintf("intent-%d", n)
			status := l.exchange(phone, m)
			if status/100 == 2 && status != http.StatusAccepted {
				l.done = append(l.done, n)
			}
			if status >= 200 && status < 500 && status != http.StatusAccepted && status != http.StatusConflict && status != http.StatusTooManyRequests {
				l.left--
				return
			}
			_ = w.wait(nil, w.upTo(time.Second)+50*time.Millisecond)
		}
	})
}

// exchange is one try: there, perhaps twice, and perhaps back. 0 is no answer.
func (l *lives) exchange(phone *Process, m Message) int {
	w := l.w
	answer := &future{w: w}
	status := 0
	deliver := func(after time.Duration, copied bool) {
		i := w.rand.IntN(len(l.process))
		p, h := l.process[i], l.handler[i]
		if p.dead || w.chance(w.chaos.Refuse) {
			return
		}
		w.Go(p, after, func() {
			r, err := m.request()
			if err != nil {
				l.failed = err
				return
			}
			rec := &recorder{header: http.Header{}}
			h.ServeHTTP(rec, r)
			rec.WriteHeader(http.StatusOK)
			if err := l.subject.Check(l.done); err != nil && l.failed == nil {
				l.failed = err
			}
			if !copied && !w.chance(w.chaos.Lose) {
				w.After(20*time.Millisecond, func() { status = rec.status; answer.resolve() })
			}
		})
	}
	deliver(w.upTo(50*time.Millisecond), false)
	if w.chance(w.chaos.Copy) {
		deliver(w.extent(3*time.Second), true)
	}
	if !answer.await(background, phone, 10*time.Second) {
		return 0
	}
	return status
}
