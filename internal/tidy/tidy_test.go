package tidy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTheRepositoryKeepsItsRules(t *testing.T) {
	t.Parallel()
	root := os.DirFS(filepath.Join("..", ".."))
	if _, err := fs.Stat(root, "docs/STYLE.md"); err != nil {
		t.Fatalf("this is not the repository's root: %v", err)
	}
	r, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Check(r) {
		t.Error(p)
	}
}

// tree is a small repository that breaks one rule in the places named by want,
// "file:line", and keeps it everywhere else.
type tree struct {
	rule  string
	files fstest.MapFS
	want  []string
}

func TestEveryRuleFindsWhatBreaksItAndNothingElse(t *testing.T) {
	t.Parallel()
	broken := map[string]bool{}
	for name, tree := range trees(t) {
		broken[tree.rule] = broken[tree.rule] || len(tree.want) > 0
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == tree.rule })
			if i < 0 {
				t.Fatalf("there is no rule %q", tree.rule)
			}
			r, err := Load(tree.files)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range check(r, Rules[i:i+1], nil) {
				got = append(got, fmt.Sprintf("%s:%d", p.File, p.Line))
				if p.What == "" || p.Rule != tree.rule {
					t.Errorf("problem without a name or a text: %v", p)
				}
			}
			slices.Sort(got)
			slices.Sort(tree.want)
			if !slices.Equal(got, tree.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tree.want, "\n  "))
			}
		})
	}
	for _, rule := range Rules {
		if !broken[rule.Name] {
			t.Errorf("no tree breaks the rule %s: it may be unable to fail", rule.Name)
		}
	}
}

// trees returns the trees under testdata, named after their files, and those
// that are easier to compute.
func trees(t *testing.T) map[string]tree {
	t.Helper()
	out := computedTrees()
	names, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no trees: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(filepath.Base(name), ".txt")
		rule, _, _ := strings.Cut(base, ".")
		out[base] = parseTree(rule, string(text))
	}
	return out
}

// parseTree reads lines "want file:line", then files behind "-- path --" lines.
func parseTree(rule, text string) tree {
	out := tree{rule: rule, files: fstest.MapFS{}}
	file := ""
	for line := range strings.Lines(text) {
		name, header := strings.CutPrefix(strings.TrimSpace(line), "-- ")
		if want, ok := strings.CutPrefix(line, "want "); ok && file == "" {
			out.want = append(out.want, strings.TrimSpace(want))
		} else if header && strings.HasSuffix(name, " --") {
			file = strings.TrimSuffix(name, " --")
			out.files[file] = &fstest.MapFile{Mode: 0o644}
		} else if file != "" {
			out.files[file].Data = append(out.files[file].Data, line...)
		}
	}
	return out
}

func computedTrees() map[string]tree {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
	lines := func(n int) string { return strings.Repeat("\n", n-1) }
	long, fits := "func f() {\n"+strings.Repeat("\t_ = 1\n", 71)+"}\n", "func f() {\n"+strings.Repeat("\t_ = 1\n", 70)+"}\n"
	work, farm, home, word := "/wo"+"rk/", "/fa"+"rm/", "/ho"+"me/", "TO"+"DO"
	return map[string]tree{
		"file-length": {
			rule: "file-length",
			files: fstest.MapFS{
				"a/long.go":      file("package a\n" + lines(501)),
				"a/long_test.go": file("package a\n" + lines(501)),
				"a/fits.go":      file("package a\n" + lines(500)),
				"a/long.md":      file(lines(900)),
			},
			want: []string{"a/long.go:501", "a/long_test.go:501"},
		},
		"function-length": {
			rule: "function-length",
			files: fstest.MapFS{
				"a/long.go":      file("package a\n" + long),
				"a/literal.go":   file("package a\nvar g = " + strings.Replace(long, " f", "", 1)),
				"a/fits.go":      file("package a\n" + fits + "func external()\n"),
				"a/long_test.go": file("package a\n" + long),
			},
			want: []string{"a/long.go:2", "a/literal.go:2"},
		},
		"unfinished": {
			rule: "unfinished",
			files: fstest.MapFS{
				"a/a.go":              file("package a\n\n// " + word + ": more\n"),
				"run.sh":              file("# FIX" + "ME\n"),
				"docs/a.md":           file("fine\nXX" + "X here\n"),
				"docs/fine.md":        file("mktemp a." + strings.Repeat("X", 6) + " " + word + "S\n"),
				"go.sum":              file(word + "\n"),
				"node_modules/a/a.js": file("// " + word + "\n"),
				"a/testdata/a.txt":    file(word + "\n"),
			},
			want: []string{"a/a.go:3", "run.sh:1", "docs/a.md:2"},
		},
		"machine-path": {
			rule: "machine-path",
			files: fstest.MapFS{
				"a/a.go":       file("package a\n\nconst p = \"" + work + "main\"\n"),
				"docs/a.md":    file("see ..' '\nsee .." + "/shared/a\n"),
				"run.sh":       file("cd " + farm + "x\n"),
				"b/a.sh":       file("ls /ro" + "ot/x\nls " + home + "ann/x\nls /Us" + "ers/ann\n"),
				"docs/fine.md": file("a" + home + " a/net" + work + " and home" + farm + " and .." + "/sharedness\n"),
				"picture.png":  file("\x00 " + work),
			},
			want: []string{"a/a.go:3", "docs/a.md:2", "run.sh:1", "b/a.sh:1", "b/a.sh:2", "b/a.sh:3"},
		},
	}
}

func TestAnExemptionLetsOffOneFileOfOneRule(t *testing.T) {
	t.Parallel()
	files := parseTree("", "-- effect/a.go --\npackage effect\n\nfunc f() { go f() }\n-- effect/b.go --\npackage effect\n\nfunc g() { go g() }\n").files
	tests := []struct {
		name   string
		exempt []exemption
		want   []string
	}{
		{"none", nil, []string{"effect/a.go go-statement", "effect/b.go go-statement"}},
		{"one file", []exemption{{"go-statement", "effect/a.go", "a good reason"}}, []string{"effect/b.go go-statement"}},
		{"other rule", []exemption{{"sim-time", "effect/a.go", "a good reason"}}, []string{"effect/a.go exemption", "effect/a.go go-statement", "effect/b.go go-statement"}},
		{"no reason", []exemption{{"go-statement", "effect/a.go", ""}}, []string{"effect/a.go exemption", "effect/b.go go-statement"}},
		{"no such file", []exemption{{"go-statement", "effect/z.go", "a good reason"}}, []string{"effect/a.go go-statement", "effect/b.go go-statement", "effect/z.go exemption"}},
	}
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == "go-statement" })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := Load(files)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range check(r, Rules[i:i+1], tt.exempt) {
				got = append(got, p.File+" "+p.Rule)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
