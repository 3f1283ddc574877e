package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/sim/story"
	"github.com/retryproof/retryproof/web"
)

const (
	// maxStoryQuery is more than every parameter at its longest needs.
	maxStoryQuery = 2048
	// maxStoryTime bounds how long a run can take: other designs poll, so that a
	// wait of months would keep a processor busy for minutes. A day and a bit is
	// enough for every window.
	maxStoryTime = 100_000 * time.Second
	// storyPatience is how long a run waits for the one before it.
	storyPatience = 5 * time.Second
)

// storyView serves the story to the page /story. A run is in virtual time: it
// takes milliseconds, opens nothing and leaves nothing behind. There is one at a
// time, so that a reader who plays with the page cannot slow the payments down.
type storyView struct {
	turn     chan struct{}
	patience time.Duration
}

func newStoryView() *storyView {
	return &storyView{turn: make(chan struct{}, 1), patience: storyPatience}
}

// storyBranch is a branch as the page lists it.
type storyBranch struct {
	story.Branch
	// Defaults are the constants that differ from the main line's.
	Defaults map[string]string `json:"defaults,omitempty"`
}

// storyRun is a result with its timeline, which the page draws.
type storyRun struct {
	*story.Result
	Actors []string     `json:"actors"`
	Lines  []story.Line `json:"lines"`
}

// storyProblem is a problem document that lists what there is instead.
type storyProblem struct {
	httpkey.Problem
	Branches   []string `json:"branches,omitempty"`
	Parameters []string `json:"parameters,omitempty"`
}

// listStory answers GET /story/branches: what can be chosen.
func listStory(w http.ResponseWriter, _ *http.Request) {
	sendStory(w, http.StatusOK, "application/json", map[string]any{"branches": storyBranches(), "parameters": story.Parameters()})
}

// run answers GET /story/run?id=main&amount=4200: it plays one branch.
func (v *storyView) run(w http.ResponseWriter, r *http.Request) {
	if len(r.URL.RawQuery) > maxStoryQuery {
		refuseStory(w, http.StatusRequestURITooLong, "the query is longer than 2048 bytes")
		return
	}
	id, settings, problem := storySettings(r.URL.RawQuery)
	if name, longest, err := story.Longest(settings...); problem == "" && err == nil && longest > maxStoryTime {
		problem = name + " is more than 100000 s here: the command retryproof story run takes longer times"
	}
	if problem != "" {
		refuseStory(w, http.StatusBadRequest, problem)
		return
	}
	wait := time.NewTimer(v.patience)
	defer wait.Stop()
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-wait.C:
		httpkey.ProblemOf(retryproof.Refused(retryproof.CodeTooMany, "another run of the story takes long; nothing ran", nil)).Write(w)
		return
	case <-r.Context().Done():
		return // nobody waits for an answer
	}
	result, err := story.Run(id, settings...)
	var wrong *story.MisuseError
	switch {
	case errors.As(err, &wrong):
		refuseStory(w, http.StatusBadRequest, wrong.What)
	case err != nil:
		refuseStory(w, http.StatusInternalServerError, err.Error())
	default:
		actors, lines := result.Timeline()
		sendStory(w, http.StatusOK, "application/json", storyRun{&result, actors, lines})
	}
}

// storySettings reads a query as a branch, the main line by default, and its
// constants, by name. The problem is empty when there is none.
func storySettings(query string) (id string, settings []string, problem string) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, "the query is malformed: a branch and its constants look like id=main&amount=4200"
	}
	id = "main"
	for name, given := range values { // order: sorted below
		switch {
		case len(given) > 1:
			return "", nil, name + " is given twice"
		case name == "id":
			id = given[0]
		case strings.Contains(name, "="):
			return "", nil, "there is no such parameter" // it would be read as a value
		default:
			settings = append(settings, name+"="+given[0])
		}
	}
	slices.Sort(settings)
	if !slices.ContainsFunc(story.List(), func(b story.Branch) bool { return b.ID == id }) {
		return "", nil, "there is no such branch"
	}
	return id, settings, ""
}

func storyBranches() []storyBranch {
	var out []storyBranch
	plain := story.Parameters()
	for _, b := range story.List() {
		line := storyBranch{Branch: b, Defaults: map[string]string{}}
		own, err := story.ParametersOf(b.ID) // an error: it cannot be played yet
		for i := range own {
			if err == nil && own[i].Default != plain[i].Default {
				line.Defaults[own[i].Name] = own[i].Default
			}
		}
		out = append(out, line)
	}
	return out
}

// refuseStory lists what there is, so that the next request can be right.
func refuseStory(w http.ResponseWriter, status int, detail string) {
	code := retryproof.CodeInvalid
	if status >= http.StatusInternalServerError {
		code = retryproof.CodePermanent
	}
	p := storyProblem{Problem: httpkey.ProblemOf(retryproof.Refused(code, detail, nil))}
	p.Status = status
	for _, b := range story.List() {
		if b.NotYet == "" {
			p.Branches = append(p.Branches, b.ID)
		}
	}
	for _, parameter := range story.Parameters() {
		p.Parameters = append(p.Parameters, parameter.Name)
	}
	sendStory(w, status, httpkey.ProblemType, p)
}

func sendStory(w http.ResponseWriter, status int, kind string, v any) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", web.Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a reader that left is no error
}
