package saboteurs

import (
	"context"
	"runtime"
	"sync"

	"github.com/retryproof/retryproof/store/storetest"
	"github.com/retryproof/retryproof/version"
)

// versionFaults are wrong in the high-water marks.
func versionFaults() []Saboteur {
	return []Saboteur{
		{"version-by-time", "writes are ordered by the device's time", "TimesOrderNothing", inVersions(func(s version.Store) version.Store { return versionByTime{s} })},
		{"version-of-the-device", "a device has one mark for all its subjects", "SubjectsAndLinesDoNotMeet", inVersions(func(s version.Store) version.Store { return versionOfDevice{s} })},
		{"version-of-anybody", "two callers with one device name share a mark", "SubjectsAndLinesDoNotMeet", inVersions(func(s version.Store) version.Store { return versionOfAnybody{s} })},
		{"version-as-float", "a version goes through a floating-point number", "EveryVersionUpToTheLargestIsExact", inVersions(func(s version.Store) version.Store { return versionFloat{s} })},
		{"version-zero", "a write without a version gets the first one", "WritesThatCannotBeAreRefused", inVersions(func(s version.Store) version.Store { return versionZero{s} })},
		{"version-stale-is-repeat", "an older write is told that it is the last one", "LateCopyNeverUndoesANewerAction", inVersions(func(s version.Store) version.Store { return versionSays{s, version.Stale} })},
		{"version-mismatch-is-repeat", "another meaning is told that it is the last write", "OneVersionWithTwoMeaningsIsRefused", inVersions(func(s version.Store) version.Store { return versionSays{s, version.Mismatch} })},
		{"version-repeat-is-renewed", "a repeat is answered with its own outcome, not the recorded one", "RepeatIsAnsweredWithWhatWasRecorded", inVersions(func(s version.Store) version.Store { return versionRenews{s} })},
		{"version-last-is-latest", "Last is what was applied last, whatever its version", "LastIsTheHighestVersionOfTheLine", inVersions(func(s version.Store) version.Store { return &versionLatest{Store: s} })},
		{"version-recent-cuts-ties", "a page of Recent begins below the version of the page before", "RecentGoesFromTheHighestDown", inVersions(func(s version.Store) version.Store { return versionPages{s, 0} })},
		{"version-recent-repeats", "a page of Recent begins at the version of the page before", "RecentGoesFromTheHighestDown", inVersions(func(s version.Store) version.Store { return versionPages{s, 1} })},
		{"version-check-then-act", "a write is compared in one step and made in another", "VersionsAtOnceEndAtTheHighest", inVersions(func(s version.Store) version.Store {
			return &versionTwoSteps{Store: s, made: map[string]version.Mark{}}
		})},
		{"version-beside-the-transaction", "ApplyVersion writes at once", "VersionThatRollsBackIsNotThere", versionBeside},
	}
}

func inVersions(plant func(version.Store) version.Store) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Versions = plant(s.Versions)
		return s
	}
}

type versionByTime struct{ version.Store }

func (v versionByTime) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	if w.Version > 0 {
		w.Version = w.Now.UnixMicro()
	}
	return v.Store.Apply(ctx, w)
}

type versionOfDevice struct{ version.Store }

func (v versionOfDevice) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	w.Subject = ""
	return v.Store.Apply(ctx, w)
}

func (v versionOfDevice) Look(ctx context.Context, l version.Line, _ string) (*version.Mark, error) {
	return v.Store.Look(ctx, l, "")
}

type versionOfAnybody struct{ version.Store }

func anybody(l version.Line) version.Line {
	if l.Caller != "" {
		l.Caller = "anybody"
	}
	return l
}

func (v versionOfAnybody) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	w.Line = anybody(w.Line)
	return v.Store.Apply(ctx, w)
}

func (v versionOfAnybody) Last(ctx context.Context, l version.Line) (*version.Mark, error) {
	return v.Store.Last(ctx, anybody(l))
}

func (v versionOfAnybody) Look(ctx context.Context, l version.Line, subject string) (*version.Mark, error) {
	return v.Store.Look(ctx, anybody(l), subject)
}

type versionFloat struct{ version.Store }

func (v versionFloat) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	if w.Version < 1<<62 {
		w.Version = int64(float64(w.Version))
	}
	return v.Store.Apply(ctx, w)
}

type versionZero struct{ version.Store }

func (v versionZero) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	if w.Version == 0 {
		w.Version = 1
	}
	return v.Store.Apply(ctx, w)
}

// versionSays calls one verdict a repeat.
type versionSays struct {
	version.Store
	instead version.Verdict
}

func (v versionSays) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	out, err := v.Store.Apply(ctx, w)
	if out.Verdict == v.instead {
		out.Verdict = version.Repeat
	}
	return out, err
}

type versionRenews struct{ version.Store }

func (v versionRenews) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	out, err := v.Store.Apply(ctx, w)
	if out.Verdict == version.Repeat {
		out.Mark.Value = w.Value
	}
	return out, err
}

type versionLatest struct {
	version.Store
	mu     sync.Mutex
	latest map[version.Line]version.Mark
}

func (v *versionLatest) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	out, err := v.Store.Apply(ctx, w)
	if out.Verdict == version.Applied {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.latest == nil {
			v.latest = map[version.Line]version.Mark{}
		}
		v.latest[w.Line] = out.Mark
	}
	return out, err
}

func (v *versionLatest) Last(_ context.Context, l version.Line) (*version.Mark, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, ok := v.latest[l]
	if !ok {
		return nil, nil
	}
	m.Value = append([]byte(nil), m.Value...)
	return &m, nil
}

// versionPages pages by the version alone.
type versionPages struct {
	version.Store
	add int64
}

func (v versionPages) Recent(ctx context.Context, l version.Line, after version.Mark, limit int) ([]version.Mark, error) {
	if after.Version > 0 && after.Version < 1<<62 {
		after = version.Mark{Version: after.Version + v.add}
	}
	return v.Store.Recent(ctx, l, after, limit)
}

type versionTwoSteps struct {
	version.Store
	mu   sync.Mutex
	made map[string]version.Mark
}

func (v *versionTwoSteps) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	w, err := version.Check(w)
	if err != nil || ctx.Err() != nil {
		return v.Store.Apply(ctx, w)
	}
	have, err := v.Look(ctx, w.Line, w.Subject)
	if err != nil {
		return version.Result{}, err
	}
	goOn()
	out := version.Next(have, w)
	if out.Verdict == version.Applied {
		v.mu.Lock()
		defer v.mu.Unlock()
		m := out.Mark
		m.Value = append([]byte(nil), m.Value...)
		v.made[w.Stream+w.Caller+w.Device+w.Subject] = m
	}
	return out, nil
}

// goOn lets others go on in the middle of what should be one step.
func goOn() {
	for range 20 {
		runtime.Gosched()
	}
}

func (v *versionTwoSteps) Look(ctx context.Context, l version.Line, subject string) (*version.Mark, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m, ok := v.made[l.Stream+l.Caller+l.Device+subject]; ok {
		m.Value = append([]byte(nil), m.Value...)
		return &m, nil
	}
	return v.Store.Look(ctx, l, subject)
}

func versionBeside(s storetest.Stores) storetest.Stores {
	within := s.Within
	versions := s.Versions
	s.Within = func(ctx context.Context, fn func(tx storetest.Tx) error) error {
		return within(ctx, func(tx storetest.Tx) error { return fn(besideVersions{tx, versions}) })
	}
	return s
}

type besideVersions struct {
	storetest.Tx
	versions version.Store
}

func (b besideVersions) ApplyVersion(ctx context.Context, w version.Write) (version.Result, error) {
	return b.versions.Apply(ctx, w)
}
