package story

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/locator"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/sim"
)

// The mail of branch M.
const (
	mail    = "m9"
	inboxOf = "Inbox"
	archive = "Archive"
	parses  = 3
)

var mailName = locator.Name{Kind: "mail", Owner: buyer, ID: mail}

// folders is the twin: its condition stands on the item in the folder.
type folders map[string]bool

func (f folders) put(folder string) bool {
	was := f[folder]
	f[folder] = true
	return !was
}

// where lists the folders that have the mail.
func (f folders) where() string {
	var in []string
	for _, folder := range []string{inboxOf, archive} {
		if f[folder] {
			in = append(in, folder)
		}
	}
	if len(in) == 0 {
		return "nowhere"
	}
	return strings.Join(in, " and ")
}

// mailbox is branch M while it is played.
type mailbox struct {
	st    *stage
	queue queue.Queue
	twin  folders
}

// mailSteps plays a parse that is redelivered after a move and after a deletion.
func mailSteps(st *stage) {
	p, d := st.w.Enter("w1")
	_, broker := st.w.Enter("queue") // it outlives the worker
	q, err := memory.New(broker.Clock, memory.Config{Visibility: st.p.Visibility, DedupWindow: st.p.QueueWindow})
	if err != nil {
		st.note(err)
		return
	}
	b := &mailbox{st, q, folders{}}
	st.moment(0, func() {
		st.note(q.Send(background, queue.Message{Group: buyer, ID: mail, Body: []byte("blob 9")}))
		st.say("queue", "mail", "stored", "a job: parse "+mail)
	})
	n := 0
	for _, at := range mailTimes(st.p) {
		switch at {
		case st.p.MoveAt:
			st.moment(at, b.move)
		case st.p.DeleteAt:
			st.moment(at, b.delete)
		default:
			n++
			if n > 1 {
				p, d = st.w.Enter("w1")
			}
			st.moment(at, func() { b.parse(p, d.Clock, n) })
		}
	}
	st.until(st.w.Now() + time.Second)
	st.ends = append(st.ends, End{"condition on the folder's item", b.twin.where()}, End{"condition on the locator", b.located()})
}

// mailTimes are the moments of the branch in their order.
func mailTimes(p Params) []time.Duration {
	out := append(parseTimes(p), p.MoveAt, p.DeleteAt)
	slices.Sort(out)
	return out
}

// parseTimes are when the parse is delivered.
func parseTimes(p Params) []time.Duration {
	var out []time.Duration
	for i := range parses {
		out = append(out, p.ParseAt+time.Duration(i)*p.Visibility)
	}
	return out
}

// parse lets the worker receive the job; all but the last die before they delete it.
func (b *mailbox) parse(p *sim.Process, c clock.Clock, n int) {
	st, tag := b.st, fmt.Sprintf("parse %d", n)
	st.tags["w1"] = tag
	st.w.Go(p, 0, func() {
		got, err := b.queue.Receive(background, 1)
		st.note(err)
		if len(got) == 0 {
			st.say("w1", tag, "nothing", "finds nothing to do")
			return
		}
		st.say("w1", tag, "receive", fmt.Sprintf("receives the parse of %s, delivery %d", got[0].ID, got[0].Attempt))
		r, err := sim.Through(background, st.w, p, "store", "put item", mail, func() (locator.Result, error) {
			return st.store.Locators().Put(background, locator.Put{Name: mailName, Place: inboxOf, Value: got[0].Body, Now: c.Now()})
		})
		st.note(err)
		what := "the item is in " + inboxOf + ": nothing"
		if b.twin.put(inboxOf) {
			what = "no item in " + inboxOf + ": put there"
		}
		st.say("mailbox", tag, "locator", "locator M#"+mail+": "+r.Verdict.String()+"; the mail is "+b.located())
		st.say("twin", tag, "put", what+"; the mail is in "+b.twin.where())
		st.ends = append(st.ends, End{tag + ", locator", r.Verdict.String()}, End{tag + ", twin", b.twin.where()})
		if n < parses {
			st.w.KillRunning("before the job is deleted")
		}
		deleted, err := b.queue.Finish(context.WithoutCancel(background), got[0])
		st.note(err)
		if deleted {
			st.say("queue", tag, "finish", "the job is deleted")
		}
	})
}

func (b *mailbox) located() string {
	r, err := b.st.store.Locators().Look(background, mailName)
	b.st.note(err)
	switch {
	case r == nil:
		return "nowhere"
	case r.State == locator.Tombstone:
		return "deleted"
	}
	return "in " + r.Place
}

func (b *mailbox) move() {
	st := b.st
	st.say("phone", "move", "tap", "moves "+mail+" from "+inboxOf+" to "+archive)
	r, err := st.store.Locators().Move(background, locator.Move{Name: mailName, From: inboxOf, To: archive, Now: sim.Epoch.Add(st.w.Now())})
	st.note(err)
	delete(b.twin, inboxOf)
	b.twin[archive] = true
	st.say("mailbox", "move", "locator", "locator M#"+mail+": "+r.Verdict.String()+"; the mail is "+b.located())
	st.say("twin", "move", "put", "the mail is in "+b.twin.where())
}

func (b *mailbox) delete() {
	st := b.st
	st.say("phone", "delete", "tap", "deletes "+mail)
	r, err := st.store.Locators().Delete(background, locator.Delete{Name: mailName, Now: sim.Epoch.Add(st.w.Now())})
	st.note(err)
	clear(b.twin)
	st.say("mailbox", "delete", "locator", "locator M#"+mail+": "+r.Verdict.String()+", a tombstone stays")
	st.say("twin", "delete", "put", "the mail is "+b.twin.where())
}

func mailBranches() []scenario {
	return []scenario{{
		group: "Side traces", id: "M", title: "A message that is parsed again after it was moved, and after it was deleted",
		moral: "Both writes are “put if absent”. One condition stands on an item that the move took away; the other on a locator that never moves and becomes a tombstone.",
		needs: func(p Params) []need {
			t := parseTimes(p)
			return []need{
				{p.ParseAt > 0 && p.ParseAt < p.MoveAt && p.MoveAt < p.DeleteAt, "0 < parse_at < move_at < delete_at"},
				{p.MoveAt != t[1] && p.MoveAt != t[2] && p.DeleteAt != t[1] && p.DeleteAt != t[2], "move_at and delete_at ≠ parse_at + 1 or 2 times visibility"},
			}
		},
		program: mailSteps, expect: expectMail,
	}}
}

func expectMail(p Params, r *Result, c *checks) {
	t := parseTimes(p)
	c.given("the parse is delivered", moments(r.moments("receive")), moments(t))
	// The twin's item is in Inbox from a parse until the next move or deletion.
	twin := folders{}
	last := time.Duration(0)
	for i, at := range t {
		if last < p.MoveAt && at > p.MoveAt {
			twin = folders{archive: true}
		}
		if last < p.DeleteAt && at > p.DeleteAt {
			twin = folders{}
		}
		twin[inboxOf], last = true, at
		verdict := "created"
		switch {
		case i > 0 && at > p.DeleteAt:
			verdict = "gone"
		case i > 0:
			verdict = "exists"
		}
		tag := fmt.Sprintf("parse %d", i+1)
		c.given(tag+", condition on the locator M#m9", r.end(tag+", locator"), verdict)
		c.given(tag+", condition on the folder's item: the mail is in", r.end(tag+", twin"), twin.where())
	}
	located := "deleted"
	if last < p.MoveAt {
		twin = folders{archive: true}
	}
	if last < p.DeleteAt {
		twin = folders{}
	}
	c.given("at the end, condition on the folder's item", r.end("condition on the folder's item"), twin.where())
	c.given("at the end, condition on the locator", r.end("condition on the locator"), located)
}
