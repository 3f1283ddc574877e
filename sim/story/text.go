package story

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Text writes the branch for people: what happened to whom and when, what
// everybody held, what the buyer was told, and every expectation.
func (r *Result) Text(out io.Writer) {
	w := &writer{out: out}
	w.line("%s — %s", r.ID, r.Title)
	w.line("%s", r.Moral)
	if changed := r.params.changed(); changed != "" {
		w.line("With %s.", changed)
	}
	r.timeline(w)
	r.ways(w)
	r.snapshots(w)
	r.replies(w)
	r.count(w)
	r.chain(w)
	w.line("")
	w.line("Expectations, computed from the parameters ([G]: the reference gives it)")
	for _, c := range r.Checks {
		mark, kind := "✓", "   "
		if c.Given {
			kind = "[G]"
		}
		if c.OK {
			w.line("  %s %s %s: %s", mark, kind, c.What, c.Got)
		} else {
			w.line("  ✗ %s %s: %s — expected %s", kind, c.What, c.Got, c.Want)
		}
	}
	w.line("")
}

type writer struct{ out io.Writer }

func (w *writer) line(format string, args ...any) {
	_, _ = io.WriteString(w.out, strings.TrimRight(fmt.Sprintf(format, args...), " ")+"\n") // nobody is left to tell
}

// timeline writes a column per actor. The heading is a staircase, so that the
// columns can be narrow.
func (r *Result) timeline(w *writer) {
	if len(r.lines) == 0 {
		return
	}
	const margin = "                "
	w.line("")
	for i, lane := range r.lanes {
		w.line("%s%s%s", margin, strings.Repeat("│ ", i), lane)
	}
	last := 0
	for _, l := range r.lines {
		n := ""
		if l.n != last {
			n, last = fmt.Sprint(l.n), l.n
		}
		var b strings.Builder
		for _, lane := range r.lanes {
			if lane == l.where {
				b.WriteString("● ")
			} else {
				b.WriteString("│ ")
			}
		}
		w.line("  %2s %9s  %s %-9s %s", n, Seconds(l.at), b.String(), l.where, l.what)
	}
}

// snapshots writes a column per snapshot.
func (r *Result) snapshots(w *writer) {
	if len(r.Snapshots) == 0 {
		return
	}
	var names []string
	for name := range r.Snapshots { // order: sorted below
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Snapshots[a].At, r.Snapshots[b].At), cmp.Compare(a, b))
	})
	rows := []struct {
		name string
		of   func(*Snapshot) string
	}{
		{"at", func(s *Snapshot) string { return s.At.String() }},
		{"ledger", func(s *Snapshot) string { return s.Ledger }},
		{"key record", func(s *Snapshot) string { return s.KeyRecord.State }},
		{"  holds", func(s *Snapshot) string { return s.KeyRecord.Holds }},
		{"  ends", func(s *Snapshot) string {
			return map[bool]string{true: (s.KeyRecord.Until + s.KeyRecord.ExpiresAt).String()}[s.KeyRecord.Until+s.KeyRecord.ExpiresAt > 0]
		}},
		{"charges", func(s *Snapshot) string { return fmt.Sprintf("%d, %s", s.Charges, dollars(s.ChargedTotal)) }},
		{"PSP requests", func(s *Snapshot) string { return fmt.Sprint(s.PSPRequests) }},
		{"outbox rows", func(s *Snapshot) string { return fmt.Sprint(s.OutboxRows) }},
		{"sends/messages", func(s *Snapshot) string { return fmt.Sprintf("%d/%d", s.Queue.Sends, s.Queue.Stored) }},
		{"m1", func(s *Snapshot) string { return amount(s.Balances[merchant]) }},
		{"intent", func(s *Snapshot) string { return s.Intent }},
		{"shown/alerts", func(s *Snapshot) string { return fmt.Sprintf("%d/%d", s.Notifications.Shown, s.Notifications.Alerts) }},
		{"phone knows", func(s *Snapshot) string { return s.PhoneKnows }},
	}
	w.line("")
	text := fmt.Sprintf("  %-15s", "Snapshots")
	for _, name := range names {
		text += " " + pad(name, 16)
	}
	w.line("%s", text)
	for _, row := range rows {
		text := fmt.Sprintf("  %-15s", row.name)
		for _, name := range names {
			text += " " + pad(row.of(r.Snapshots[name]), 16)
		}
		w.line("%s", text)
	}
}

// pad counts letters, not bytes.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func (r *Result) replies(w *writer) {
	if len(r.Answers) == 0 {
		return
	}
	w.line("")
	w.line("  Answers")
	width := 5
	for _, a := range r.Answers {
		width = max(width, utf8.RuneCountInString(a.Request))
	}
	for _, a := range r.Answers {
		text := a.told()
		if a.From != "" {
			text += ", from the " + a.From
		}
		if a.Lost {
			text += " (lost)"
		}
		w.line("    %s %9s  %s", pad(a.Request, width), a.At, text)
	}
}

func (r *Result) count(w *writer) {
	w.line("")
	for i, e := range r.Ends {
		if i == 0 {
			w.line("  At the end")
		}
		w.line("    %s: %s", e.Of, e.Is)
	}
	if len(r.Ways) > 0 || len(r.Ends) > 0 && len(r.Charges) == 0 && len(r.Payments) == 0 {
		return
	}
	credits, debits := int64(0), ""
	for _, c := range r.Credits {
		if credits++; c.Amount < 0 {
			credits, debits = credits-1, ", 1 debit"
		}
	}
	w.line("  Final count: %d %s, %s; %d %s%s; m1 %s; %d shown, %d %s; auditor: %s", len(r.Charges), plural(int64(len(r.Charges)), "charge"), dollars(r.ChargedTotal),
		credits, plural(credits, "credit"), debits, amount(r.Balances[merchant]), r.Notifications.Shown, r.Notifications.Alerts, plural(r.Notifications.Alerts, "alert"), r.Harm)
	w.line("    charges: %s", chargeList(r.Charges))
	w.line("    credits: %s", creditList(r.Credits))
	for _, f := range r.Refunds {
		w.line("    refund %s: %s; at the PSP %s (%s) %s at %s, asked %d times", f.ID, f.State, f.PSPID, f.Key, amount(f.Amount), f.At, f.Requests)
	}
}

// chain writes what the story's names stand for.
func (r *Result) chain(w *writer) {
	if len(r.IDs) < 2 {
		return
	}
	w.line("")
	w.line("  Names")
	for _, n := range r.IDs {
		w.line("    %-13s %s", n.Name, n.ID)
	}
}

// ways writes the designs side by side.
func (r *Result) ways(w *writer) {
	if len(r.Ways) == 0 {
		return
	}
	w.line("")
	w.line("  %-44s %-8s %-9s %-30s %s", "approach", "charges", "charged", "the buyer is told", "why")
	for _, way := range r.Ways {
		w.line("  %-44s %-8d %-9s %-30s %s", way.Approach, len(way.Charges), dollars(way.ChargedTotal), way.Told, way.Why)
	}
}

// changed lists the parameters that differ from the main line's.
func (p Params) changed() string {
	d := Defaults()
	var out []string
	for _, f := range fields {
		if got, was := f.show(&p), f.show(&d); got != was {
			out = append(out, f.name+" = "+got)
		}
	}
	return strings.Join(out, ", ")
}

// Summary writes one line per branch, and how many values were checked.
func Summary(out io.Writer, results []Result) {
	w := &writer{out: out}
	w.line("%-16s %-4s %-7s %-9s %-8s %-7s %-7s %s", "branch", "ok", "charges", "charged", "m1", "shown", "alerts", "what it shows")
	given, met, all := 0, 0, 0
	for _, r := range results {
		mark := "✓"
		if !r.OK {
			mark = "✗"
		}
		m1 := amount(r.Balances[merchant])
		if len(r.Payments) == 0 && r.Balances[merchant] == 0 {
			m1 = "–" // no merchant has a part in it
		}
		w.line("%-16s %s %-7d %-9s %s %-7d %-7d %s", r.ID, pad(mark, 4), len(r.Charges), dollars(r.ChargedTotal), pad(m1, 8), r.Notifications.Shown, r.Notifications.Alerts, r.Title)
		for _, c := range r.Checks {
			all++
			if c.Given {
				given++
				if c.OK {
					met++
				}
			}
		}
	}
	w.line("")
	w.line("%d branches; %d of %d [G] values came out; %d expectations in all.", len(results), met, given, all)
}
