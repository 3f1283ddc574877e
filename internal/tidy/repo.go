package tidy

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// rootModule is the import path of the repository's root; the path of every other
// module and package is this one plus its folder.
const rootModule = "github.com/retryproof/retryproof"

// maxFileBytes bounds what is read as text.
const maxFileBytes = 4 << 20

// Problem is one broken rule at one place.
type Problem struct {
	File string // slash-separated, from the repository's root
	Line int    // from 1; 0 means the whole file
	Rule string
	What string
}

// String returns "file:line: rule: what".
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Rule, p.What)
}

// File is one text file of the repository.
type File struct {
	Path  string // slash-separated, from the repository's root
	Dir   string // Path's folder, "" for the root
	Text  string
	Lines []string
	// Go is the syntax tree of a Go file, nil for other files and for Go files
	// that do not parse.
	Go *ast.File
	// Test says that the file's name ends in _test.go.
	Test bool
}

// Repo is everything that the rules look at.
type Repo struct {
	FS    fs.FS
	Fset  *token.FileSet
	Files []*File // in the order of their paths

	broken []Problem // Go files that do not parse
	types  *typeChecker
}

// Load reads all text files below the root of fsys, of all modules. Version
// control, dependencies, build results and testdata are left out.
func Load(fsys fs.FS) (*Repo, error) {
	r := &Repo{FS: fsys, Fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skippedDir(p) {
				return fs.SkipDir
			}
			return nil
		}
		return r.read(p, d)
	})
	if err != nil {
		return nil, fmt.Errorf("read the repository: %w", err)
	}
	slices.SortFunc(r.Files, func(a, b *File) int { return cmp.Compare(a.Path, b.Path) })
	r.types = newTypeChecker(r)
	return r, nil
}

func skippedDir(p string) bool {
	switch path.Base(p) {
	case ".git", "node_modules", "testdata", ".retryproof":
		return true
	}
	return p == "bin"
}

func (r *Repo) read(p string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil
	}
	text, err := fs.ReadFile(r.FS, p)
	if err != nil {
		return err
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return nil // not text
	}
	f := &File{Path: p, Dir: path.Dir(p), Text: string(text), Test: strings.HasSuffix(p, "_test.go")}
	if f.Dir == "." {
		f.Dir = ""
	}
	f.Lines = strings.Split(strings.TrimSuffix(f.Text, "\n"), "\n")
	r.Files = append(r.Files, f)
	if path.Ext(p) != ".go" {
		return nil
	}
	tree, err := parser.ParseFile(r.Fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		r.broken = append(r.broken, Problem{File: p, Line: 1, What: err.Error()})
		return nil //nolint:nilerr // the rule "parse" reports it
	}
	f.Go = tree
	return nil
}

// goFiles returns the Go files that parsed and that keep accepts.
func (r *Repo) goFiles(keep func(*File) bool) []*File {
	var out []*File
	for _, f := range r.Files {
		if f.Go != nil && keep(f) {
			out = append(out, f)
		}
	}
	return out
}

// file returns the text file with the given path, nil if there is none.
func (r *Repo) file(p string) *File {
	i, found := slices.BinarySearchFunc(r.Files, p, func(f *File, p string) int { return cmp.Compare(f.Path, p) })
	if !found {
		return nil
	}
	return r.Files[i]
}

func (r *Repo) line(pos token.Pos) int { return r.Fset.PositionFor(pos, false).Line }

// at makes a problem at a place in a Go file; Check fills in the rule's name.
func (r *Repo) at(f *File, pos token.Pos, format string, args ...any) Problem {
	return Problem{File: f.Path, Line: r.line(pos), What: fmt.Sprintf(format, args...)}
}

// inspect calls visit for every node of every file that keep accepts.
func (r *Repo) inspect(keep func(*File) bool, visit func(*File, ast.Node)) {
	for _, f := range r.goFiles(keep) {
		ast.Inspect(f.Go, func(n ast.Node) bool {
			if n != nil {
				visit(f, n)
			}
			return true
		})
	}
}

// imports maps the names under which a file knows its imports to their paths.
func imports(f *ast.File) map[string]string {
	out := map[string]string{}
	for _, spec := range f.Imports {
		p := strings.Trim(spec.Path.Value, "`\"")
		if spec.Name != nil {
			out[spec.Name.Name] = p
			continue
		}
		out[defaultName(p)] = p
	}
	return out
}

// defaultName guesses a package's name from its path: the last element that is
// not a major version.
func defaultName(p string) string {
	base := path.Base(p)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(p))
	}
	return base
}

// selected returns the import path and the name of an expression like time.Now,
// and "" for anything else.
func selected(n ast.Node, names map[string]string) (importPath, name string) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || names[x.Name] == "" {
		return "", ""
	}
	return names[x.Name], sel.Sel.Name
}
