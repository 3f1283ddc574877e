// Package schema reads numbered migrations and decides which to run. The SQL
// drivers share it; it does no I/O beyond the embedded files.
package schema

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/retryproof/retryproof"
)

// Direction says what a migration run does.
type Direction int

const (
	// Status changes nothing.
	Status Direction = iota
	// Up applies every migration that is missing.
	Up
	// Down undoes the newest migration that is applied.
	Down
)

// Migration is one numbered step of the schema.
type Migration struct {
	Version int
	Name    string
	// Applied says that the database has it.
	Applied bool
	// Compatible says that a program which does not know the migration may run on a
	// database that has it.
	Compatible bool

	up, down string
}

// compatibleMark begins the file of a migration that is [Migration.Compatible].
const compatibleMark = "-- compatible"

// Applied is a migration as the database remembers it.
type Applied struct {
	Version    int
	Name       string
	Compatible bool
}

// SQL is what the direction runs.
func (m Migration) SQL(d Direction) string {
	if d == Down {
		return m.down
	}
	return m.up
}

// Load reads NNNN_name.up.sql and NNNN_name.down.sql, ordered by number.
func Load(files fs.FS) ([]Migration, error) {
	ups, err := fs.Glob(files, "migrations/*.up.sql")
	if err != nil {
		return nil, err
	}
	var out []Migration
	for _, file := range ups {
		number, name, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".up.sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", path.Base(file), err)
		}
		up, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		down, err := fs.ReadFile(files, strings.TrimSuffix(file, ".up.sql")+".down.sql")
		if err != nil {
			return nil, err
		}
		out = append(out, Migration{Version: version, Name: name, Compatible: strings.HasPrefix(string(up), compatibleMark), up: string(up), down: string(down)})
	}
	slices.SortFunc(out, func(a, b Migration) int { return cmp.Compare(a.Version, b.Version) })
	return out, nil
}

// Mark returns the migrations with Applied set. One that this program does not know is
// among them when it is compatible: a newer program is being rolled out, or was rolled
// back. Any other is an error, since this program could break what it does not
// understand.
func Mark(known []Migration, applied []Applied) ([]Migration, error) {
	out := slices.Clone(known)
	for _, a := range applied {
		i := slices.IndexFunc(out, func(m Migration) bool { return m.Version == a.Version })
		switch {
		case i >= 0:
			out[i].Applied = true
		case a.Compatible:
			out = append(out, Migration{Version: a.Version, Name: a.Name, Applied: true, Compatible: true})
		default:
			return nil, unknown(a.Version)
		}
	}
	slices.SortFunc(out, func(a, b Migration) int { return cmp.Compare(a.Version, b.Version) })
	return out, nil
}

func unknown(version int) error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodePermanent,
		Message: fmt.Sprintf("the database has migration %d, which this program does not know", version),
		Hint:    "start the newer program that applied it"}
}

// Plan is what the direction has to run, in order. Only a program that knows the newest
// migration can undo it.
func Plan(marked []Migration, d Direction) ([]Migration, error) {
	var out []Migration
	switch d {
	case Up:
		for _, m := range marked {
			if !m.Applied {
				out = append(out, m)
			}
		}
	case Down:
		for _, m := range slices.Backward(marked) {
			if m.Applied && m.down == "" {
				return nil, unknown(m.Version)
			}
			if m.Applied {
				return []Migration{m}, nil
			}
		}
	}
	return out, nil
}

// Missing is the error of a database that lacks migrations; nil when it has all.
func Missing(marked []Migration, hint string) error {
	for _, m := range marked {
		if !m.Applied {
			return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodePermanent,
				Message: fmt.Sprintf("the database lacks migration %d (%s)", m.Version, m.Name), Hint: hint}
		}
	}
	return nil
}
