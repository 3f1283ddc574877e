package story

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/sim"
)

// scenario is one branch of the story, as data.
type scenario struct {
	// group is the heading in the list.
	group, id, title, moral string
	// notYet says why the branch cannot be played; the rest is then empty.
	notYet string
	// defaults changes constants for this branch; --set comes after it.
	defaults func(*Params)
	// needs are what the parameters must satisfy for the steps to make sense.
	needs func(Params) []need
	// world changes what the processes run on.
	world func(Params) setting
	// steps say who does what when.
	steps func(Params) []step
	// program plays the branch instead of steps: other designs.
	program func(*stage)
	// numbers give the lines of the timeline the numbers of the story's events.
	numbers []number
	// expect computes what must come out.
	expect func(Params, *Result, *checks)
}

// need is a formula that the parameters must satisfy.
type need struct {
	holds   bool
	formula string
}

// setting is what the processes of a branch run on.
type setting struct {
	queue  memory.Config
	config payments.Config
	// split puts the keys into a database of their own; keysDown makes it
	// unreachable; crashBetween kills the first owner between claim and row.
	split, keysDown, crashBetween bool
	twins                         []sim.Twin
	// twoKeys says that the phone may give K1 up and make K2.
	twoKeys bool
	// unstamped lets requests arrive when a server sees them; sheds puts a gate in
	// front of the servers; slowRow lets time pass between claim and row on api-1.
	unstamped, sheds, slowRow bool
	// devices numbers the phone's requests.
	devices bool
}

// The actions of steps.
const (
	doTap       = "tap"       // the phone sends a request
	doCopy      = "copy"      // the network delivers a copy of a request
	doLook      = "look"      // the phone asks for the payment of its key
	doVoid      = "void"      // the phone asks what became of its key, or has it voided
	doLast      = "last"      // the phone asks for the device's last action
	doCancel    = "cancel"    // the phone cancels the payment
	doForget    = "forget"    // the phone's app is installed again
	doSilence   = "silence"   // the processor's replies to an operation are lost from now on
	doReconcile = "reconcile" // the ledger is compared with the processor's list
	doResolve   = "resolve"   // the resolver looks once
	doRelay     = "relay"     // the relay publishes one batch
	doWork      = "work"      // a worker receives one message
	doDrain     = "drain"     // a worker receives until there is none
	doSnap      = "snapshot"  // everybody's state is written down
)

// step is one line of a scenario.
type step struct {
	at  time.Duration
	do  string
	who string
	// tag names the step: a request's label, "relay 1". shown is the time that a
	// snapshot carries.
	tag   string
	shown time.Duration
	// amount, body and lost belong to requests: lost loses the API's answer.
	amount int64
	body   string
	lost   bool
	held   bool
	// key is the request's key. Defaults to K1.
	key retryproof.Key
	// queued is how long the request waits behind the load balancer.
	queued time.Duration
	// again is what the phone does at once when its question was answered "not found"
	// or void; keep, when it was told to wait, at its own time.
	again, keep *step
	// faults meet the step's calls.
	faults []sim.ScriptedFault
}

// number gives the first lines that match a number of the story.
type number struct {
	n int
	// tag and op select lines; empty matches all. where names the event's place.
	tag   string
	ops   []string
	where string
}

// scenarios are all branches, in the order of the story.
func scenarios() []scenario {
	var all []scenario
	for _, list := range [][]scenario{mainBranches(), openingBranches(), crashBranches(), storeBranches(), queueBranches(), noticeBranches(), designBranches(), lateBranches(), formulaBranches(), deviceBranches(), mailBranches(), refundBranches(), sagaBranches(), laterBranches()} {
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(a, b scenario) int {
		return slices.Index(groups, a.group) - slices.Index(groups, b.group)
	})
	return all
}

var groups = []string{"Main line", "Side traces", "Queue, log and notification branches", "Stream branches", "Region branches", "Six ways", "Sagas"}

// Branch is one line of the list.
type Branch struct {
	ID    string `json:"id"`
	Group string `json:"group"`
	Title string `json:"title"`
	// NotYet says why the branch cannot be played; empty when it can.
	NotYet string `json:"not_yet,omitempty"`
}

// List lists every branch of the story.
func List() []Branch {
	var out []Branch
	for _, s := range scenarios() {
		out = append(out, Branch{ID: s.id, Group: s.group, Title: s.title, NotYet: s.notYet})
	}
	return out
}

// Run plays one branch with the given "name=value" settings. The error is a
// *MisuseError when there is no such branch, parameter or value, or when the
// values leave the branch without a meaning.
func Run(id string, set ...string) (Result, error) {
	s, err := find(id)
	if err != nil {
		return Result{}, err
	}
	p, err := s.params(set)
	if err != nil {
		return Result{}, err
	}
	r, err := s.play(p)
	if err != nil {
		return Result{}, fmt.Errorf("story: %s: %w", id, err)
	}
	s.judge(p, &r)
	return r, nil
}

// RunAll plays every branch that can be played, in the order of the story. A branch
// that has no meaning with these settings is left out, and the second result says
// why.
func RunAll(set ...string) ([]Result, []Branch, error) {
	p := Defaults()
	for _, assignment := range set {
		if err := p.set(assignment); err != nil {
			return nil, nil, err
		}
	}
	var out []Result
	var left []Branch
	for _, s := range scenarios() {
		if s.notYet != "" {
			continue
		}
		r, err := Run(s.id, set...)
		var misuse *MisuseError
		switch {
		case errors.As(err, &misuse):
			left = append(left, Branch{ID: s.id, Group: s.group, Title: s.title, NotYet: misuse.What})
		case err != nil:
			return nil, nil, err
		default:
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		return nil, nil, misuse("no branch has a meaning with these parameters: %s", left[0].NotYet)
	}
	return out, left, nil
}

func find(id string) (scenario, error) {
	var ids []string
	for _, s := range scenarios() {
		switch {
		case s.id == id && s.notYet != "":
			return scenario{}, misuse("branch %q cannot be played yet: %s", id, s.notYet)
		case s.id == id:
			return s, nil
		case s.notYet == "":
			ids = append(ids, s.id)
		}
	}
	return scenario{}, misuse("there is no branch %q; there are: all, %s", id, strings.Join(ids, ", "))
}

// params applies the branch's constants and then the settings.
func (s scenario) params(set []string) (Params, error) {
	p := Defaults()
	if s.defaults != nil {
		s.defaults(&p)
	}
	for _, assignment := range set {
		if err := p.set(assignment); err != nil {
			return p, err
		}
	}
	needs := commonNeeds(p)
	if s.needs != nil {
		needs = append(needs, s.needs(p)...)
	}
	var broken []string
	for _, n := range needs {
		if !n.holds {
			broken = append(broken, n.formula)
		}
	}
	if len(broken) > 0 {
		return p, misuse("branch %s has no meaning with these parameters: it needs %s", s.id, strings.Join(broken, " and "))
	}
	return p, nil
}

// commonNeeds are what every branch needs: the system takes 0 for its defaults, and
// refuses a processor that forgets too soon.
func commonNeeds(p Params) []need {
	return []need{
		{p.Deadline > 0 && p.Margin > 0 && p.KeyWindow > 0 && p.QueueWindow > 0 && p.Visibility > 0 && p.RelayLease > 0, "deadline, margin, key_window, queue_window, visibility and relay_lease > 0"},
		{p.KeyWindow >= p.Deadline+p.Margin, "deadline + margin ≤ key_window: the system refuses less"},
		{p.KeyMemory > time.Hour+p.Deadline+p.Margin, "key_memory > 1 h + deadline + margin"},
	}
}

// judge compares what came out with what must come out.
func (s scenario) judge(p Params, r *Result) {
	var c checks
	s.expect(p, r, &c)
	r.Checks, r.OK = c, len(c) > 0
	for _, check := range c {
		r.OK = r.OK && check.OK
	}
}
