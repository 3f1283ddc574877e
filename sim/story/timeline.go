package story

import "time"

// Line is one line of the timeline. An event may join several.
type Line struct {
	// N is the number of the line's event.
	N     int     `json:"n"`
	At    Seconds `json:"at"`
	Where string  `json:"where"`
	// Tag names the step that the line belongs to: a request, "relay 1"; empty when
	// nobody's.
	Tag string `json:"tag"`
	// Op is the kind of the line: "tap", "claim", "charge", "lost", "answer".
	Op   string `json:"op"`
	What string `json:"what"`
}

// Timeline returns the columns of the timeline, from the tap to the screen, and
// its lines in their order. Both are empty when the branch plays several designs.
func (r *Result) Timeline() (actors []string, lines []Line) {
	actors, lines = append([]string{}, r.lanes...), []Line{}
	for _, l := range r.lines {
		lines = append(lines, Line{N: l.n, At: Seconds(l.at), Where: l.where, Tag: l.tag, Op: l.op, What: l.what})
	}
	return actors, lines
}

// ParametersOf lists the constants with the values that a branch begins with. The
// error is a *MisuseError when there is no such branch.
func ParametersOf(id string) ([]Parameter, error) {
	s, err := find(id)
	if err != nil {
		return nil, err
	}
	p := Defaults()
	if s.defaults != nil {
		s.defaults(&p)
	}
	out := Parameters()
	for i, f := range fields {
		out[i].Default = f.show(&p)
	}
	return out, nil
}

// Longest returns the longest time that the given "name=value" settings name, and
// its parameter. A branch of programs takes real time in proportion to
// it. The error is a *MisuseError when there is no such parameter or value.
func Longest(set ...string) (name string, longest time.Duration, err error) {
	for _, assignment := range set {
		var p Params
		if err := p.set(assignment); err != nil {
			return "", 0, err
		}
		for _, f := range fields {
			if f.seconds != nil && *f.seconds(&p) > longest {
				name, longest = f.name, *f.seconds(&p)
			}
		}
	}
	return name, longest, nil
}
