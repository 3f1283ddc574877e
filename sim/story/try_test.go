package story

import ("testing";"fmt";"encoding/json")

func TestTry(t *testing.T) {
	r, err := Run("main")
	if err != nil { t.Fatal(err) }
	for _, l := range r.lines { fmt.Printf("%2d %10s %-9s %-9s %-9s %s\n", l.n, Seconds(l.at), l.where, l.tag, l.op, l.what) }
	for _, c := range r.Checks { fmt.Printf("%v %s: got %s want %s\n", c.OK, c.What, c.Got, c.Want) }
	b, _ := json.MarshalIndent(r.Events, "", " ")
	_ = b
}
