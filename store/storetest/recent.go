package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/retryproof/retryproof/version"
)

func (w *world) recentVersions(l version.Line, after version.Mark, limit int) []version.Mark {
	w.Helper()
	return must(w, func(ctx context.Context) ([]version.Mark, error) { return w.Versions.Recent(ctx, l, after, limit) })
}

func describeVersions(all []version.Mark) string {
	var out strings.Builder
	for i := range all {
		out.WriteString(describeVersion(&all[i]) + "\n")
	}
	return out.String()
}

// Where an action came to nothing after its mark, the one before it is needed.
func versionRecent(w *world) {
	check(w, "of a new device", len(w.recentVersions(phone, version.Mark{}, 9)), 0)
	other := write("post_1", 90, "another device's")
	other.Device = "D2"
	want := []version.Mark{}
	for _, a := range []version.Write{other, write("post_7", 9, "replaced"), write("post_6", 41, ""), write("10", 10, "liked"), write("9", 9, "liked"),
		write("post_7", math.MaxInt64, "liked"), write("", 41, "a broken device"), write("a", 41, "counts twice"), write("post_7", 8, "stale"), write("8", 8, "late")} {
		w.applyVersion(a)
	}
	for _, a := range []version.Write{write("post_7", math.MaxInt64, "liked"), write("post_6", 41, ""), write("a", 41, "counts twice"),
		write("", 41, "a broken device"), write("10", 10, "liked"), write("9", 9, "liked"), write("8", 8, "late")} {
		want = append(want, *markOf(a))
	}
	for limit := range len(want) + 2 {
		check(w, fmt.Sprintf("the first %d", limit), describeVersions(w.recentVersions(phone, version.Mark{}, limit)), describeVersions(want[:min(limit, len(want))]))
		var got []version.Mark
		for more := limit > 0; more; {
			var after version.Mark
			if len(got) > 0 {
				after = got[len(got)-1]
			}
			page := w.recentVersions(phone, after, limit)
			got = append(got, page...)
			more = len(page) > 0 && len(got) <= len(want)
		}
		if limit > 0 {
			check(w, fmt.Sprintf("all, %d at a time", limit), describeVersions(got), describeVersions(want))
		}
	}
	for _, c := range []struct {
		version int64
		subject string
		from    int
	}{{42, "", 1}, {41, "b", 2}, {1, "", 7}} {
		got := w.recentVersions(phone, version.Mark{Version: c.version, Subject: c.subject}, 9)
		check(w, fmt.Sprintf("behind %d %q, which is not there", c.version, c.subject), describeVersions(got), describeVersions(want[c.from:]))
	}
	check(w, "a negative limit", len(w.recentVersions(phone, version.Mark{}, -1)), 0)
	check(w, "of no line", len(w.recentVersions(version.Line{}, version.Mark{}, 9)), 0)
}
