package effect_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/store/memory"
)

// jumble runs requests for one key inside one another, at every call of the store and
// at every sleep, with lost answers, crashes, stores that go away and leases that end.
// Afterwards everything heals, and the key must still get one definite answer.
type jumble struct {
	r       *rand.Rand
	now     time.Time
	guards  *memory.Store
	keys    *memory.Store
	split   bool
	rerun   effect.Rerun
	faults  bool
	depth   int
	started int
	keysDown, guardsDown,
	voided bool

	effects int // what stands outside
	finals  map[string]bool
	working map[string]time.Time
	wrong   []string
}

func (j *jumble) bad(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// seam is where others get in.
func (j *jumble) seam() {
	if !j.faults {
		return
	}
	if j.r.IntN(6) == 0 {
		j.now = j.now.Add(time.Duration(j.r.IntN(3500)) * time.Millisecond)
	}
	if j.depth < 3 && j.started < 10 && j.r.IntN(5) == 0 {
		j.somebody()
	}
}

// crash ends a process in the middle of a call.
type crash struct{}

// process is one server that may die; a dead one calls nothing more.
type process struct {
	j     *jumble
	name  string
	dead  bool
	stood int // effects that stood when its request came, or when its run returned
}

func (p *process) die() {
	p.dead = true
	panic(crash{})
}

func (p *process) call(down bool, do func() error) error {
	j := p.j
	if p.dead {
		panic(crash{})
	}
	if j.seam(); p.dead {
		panic(crash{})
	}
	away := retryproof.Refused(retryproof.CodeUnavailable, "away", nil)
	if !j.faults {
		return do()
	}
	fault := j.r.IntN(24)
	switch {
	case down, fault == 4:
		return away
	case fault == 0:
		p.die()
	case fault == 1:
		_ = do()
		p.die()
	case fault == 2:
		return errLost
	case fault == 3:
		_ = do()
		j.seam()
		return errLost
	}
	err := do()
	j.seam()
	return err
}

// Now, Sleep and WithTimeout are the process's clock.
func (p *process) Now() time.Time { return p.j.now }
func (p *process) Sleep(_ context.Context, d time.Duration) error {
	p.j.now = p.j.now.Add(d)
	p.j.seam()
	return nil
}
func (p *process) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (p *process) engine() *effect.Engine {
	j := p.j
	config := effect.Config{Rerun: j.rerun, Clock: p, Rand: j.r, AnswerTTL: 30 * time.Second}
	var store effect.Store = jumbledStore{p, j.guards.Effects()}
	if j.split {
		store = effect.Split(jumbledKeys{p, j.keys.Keys()}, jumbledGuards{p, j.guards.Guards()})
	}
	e, err := effect.New(store, config)
	if err != nil {
		panic(err)
	}
	return e
}

// somebody does something: a request mostly.
func (j *jumble) somebody() {
	j.started++
	j.depth++
	defer func() { j.depth-- }()
	p := &process{j: j, name: "A" + strconv.Itoa(j.started)}
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(crash); !ok {
				panic(v)
			}
			p.dead = true
			delete(j.working, p.name)
		}
	}()
	switch j.r.IntN(12) {
	case 0:
		j.keysDown = !j.keysDown
	case 1:
		j.guardsDown = !j.guardsDown
	case 2:
		p.resolve()
	case 3:
		p.ask()
	default:
		p.request(j.r.IntN(12) == 0)
	}
}

// ask asks what became of the key, and voids it when nothing did.
func (p *process) ask() {
	j := p.j
	d, err := p.engine().Resolve(context.Background(), effect.Request{Scope: scope})
	if err != nil {
		return
	}
	if d.Verdict == effect.Replay && j.voided {
		j.bad("an answer after the void")
	}
	if j.voided = j.voided || d.Verdict == effect.Voided; j.voided && j.effects > 0 {
		j.bad("voided, with %d effects", j.effects)
	}
}

// resolve settles what is due, by evidence.
func (p *process) resolve() {
	j, e := p.j, p.engine()
	due, _ := j.guards.Due().Due(context.Background(), resolve.Due{Now: j.now, Margin: time.Second, Limit: 5})
	for _, g := range due {
		token := p.name + "-resolver"
		got, mine, _ := e.Lease(context.Background(), g, token, 5*time.Second)
		if j.seam(); !mine || j.effects == 0 {
			continue
		}
		body := []byte("resolved by " + p.name)
		out, err := e.Settle(context.Background(), effect.Settle{ID: got.ID, From: []effect.State{effect.Unknown}, To: effect.Succeeded,
			By: token, Fenced: true, Now: j.now, Result: body})
		if err == nil && out.Moved {
			_, _ = e.Rewrite(context.Background(), *out.Guard, effect.Answer{Body: body})
		}
	}
}

// request asks for the effect, with another meaning now and then.
func (p *process) request(other bool) (effect.Decision, error) {
	j := p.j
	r := effect.Request{Scope: scope, Fingerprint: h1}
	if other {
		r.Fingerprint = h2
	}
	p.stood = j.effects
	d, err := p.engine().Do(context.Background(), r, p.run)
	if d.Verdict == effect.Replay {
		body := ""
		switch {
		case d.Answer != nil:
			body = string(d.Answer.Body)
		case d.Guard != nil:
			body = string(d.Guard.Result)
		}
		if j.finals[body] = true; len(j.finals) > 1 || d.State != effect.Succeeded {
			j.bad("got final answers %v and state %q, want one that succeeded", j.finals, d.State)
		}
	}
	if j.rerun == effect.RerunNever && j.effects > 1 {
		j.bad("%d effects, although nobody may run again", j.effects)
	}
	if retryproof.OutcomeOf(err) == retryproof.NotDone && p.stood > 0 {
		j.bad("the error says not done (%v), and %d effects stood before it", err, p.stood)
	}
	return d, err
}

func (p *process) run(_ context.Context, a *effect.Attempt) (effect.Finish, error) {
	j := p.j
	if j.voided {
		j.bad("runs although it is void")
	}
	if j.now.After(a.Until()) {
		j.bad("runs after the end of its lease")
	}
	for name, until := range j.working {
		if !j.now.After(until) {
			j.bad("%s runs beside %s, whose lease is alive", p.name, name)
		}
	}
	j.working[p.name] = a.Until()
	defer delete(j.working, p.name)
	j.seam()
	body := "done by " + p.name
	switch j.r.IntN(5) {
	case 0:
		p.stood = j.effects
		return effect.Finish{}, retryproof.Refused(retryproof.CodeTooMany, "come again", nil)
	case 1:
		j.effects++
		return effect.Finish{}, errors.New("after the effect")
	}
	j.effects++
	j.seam()
	return effect.Finish{State: effect.Succeeded, Answer: effect.Answer{Body: []byte(body)}, Result: []byte(body)}, nil
}

func newJumble(seed uint64) *jumble {
	r := rand.New(rand.NewPCG(seed, 7))
	return &jumble{r: r, now: now, guards: memory.New(), keys: memory.New(), split: r.IntN(2) == 0, rerun: effect.Rerun(r.IntN(3)),
		faults: true, finals: map[string]bool{}, working: map[string]time.Time{}}
}

// play makes trouble, heals, and asks until there is an answer.
func (j *jumble) play() {
	for range 6 {
		if j.started < 10 {
			j.somebody()
		}
		j.now = j.now.Add(time.Duration(j.r.IntN(5000)) * time.Millisecond)
		if j.r.IntN(6) == 0 {
			j.now = j.now.Add(40 * time.Second)
		}
	}
	j.faults, j.keysDown, j.guardsDown = false, false, false
	clear(j.working)
	for i := range 4 {
		j.now = j.now.Add(10 * time.Second)
		p := &process{j: j, name: "H" + strconv.Itoa(i)}
		d, err := p.request(false)
		if code := retryproof.CodeOf(err); code == retryproof.CodeUnavailable || code == retryproof.CodeTooLate {
			j.bad("healed: %v", err)
		}
		if d.Verdict == effect.Busy && i > 0 {
			j.bad("healed, and still in progress")
		}
	}
}

// case 28
func TestRequestsInsideOneAnotherKeepEveryPromise(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4000) {
		j := newJumble(seed)
		j.play()
		for _, what := range j.wrong {
			t.Errorf("seed %d, split %t, rerun %d: %s", seed, j.split, j.rerun, what)
		}
	}
}
