package tidy

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/types"
	"path"
	"strings"
)

// typeChecker finds out the types of expressions as far as it can. Packages of
// the repository are checked from their syntax trees, the standard library from
// the go command's export data, and packages of other modules are left empty:
// what depends on them has no known type, and the rules that ask treat that as
// the worst case.
type typeChecker struct {
	repo     *Repo
	standard types.Importer
	packages map[string]*types.Package // by folder; nil while being checked
}

func newTypeChecker(r *Repo) *typeChecker {
	return &typeChecker{
		repo:     r,
		standard: importer.ForCompiler(r.Fset, "gc", nil),
		packages: map[string]*types.Package{},
	}
}

// Import implements types.Importer and fails on import cycles only.
func (c *typeChecker) Import(p string) (*types.Package, error) {
	if p == "unsafe" {
		return types.Unsafe, nil
	}
	if dir, ok := localDir(p); ok && len(c.sources(dir)) > 0 {
		pkg, seen := c.packages[dir]
		if seen && pkg == nil {
			return nil, errors.New("import cycle through " + p)
		}
		if !seen {
			c.packages[dir] = nil
			pkg = c.check(dir, nil)
			c.packages[dir] = pkg
		}
		return pkg, nil
	}
	if first, _, _ := strings.Cut(p, "/"); !strings.Contains(first, ".") {
		if pkg, err := c.standard.Import(p); err == nil {
			return pkg, nil
		}
	}
	empty := types.NewPackage(p, defaultName(p))
	empty.MarkComplete()
	return empty, nil
}

// infoOf returns what is known about the expressions of the package in dir.
func (c *typeChecker) infoOf(dir string) *types.Info {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	c.check(dir, info)
	return info
}

// check type-checks the package in dir and goes on after every error. Without
// info it looks at declarations only.
func (c *typeChecker) check(dir string, info *types.Info) *types.Package {
	conf := types.Config{
		Importer:         c,
		Error:            func(error) {}, // incomplete knowledge is expected
		FakeImportC:      true,
		IgnoreFuncBodies: info == nil,
	}
	pkg, _ := conf.Check(path.Join(rootModule, dir), c.repo.Fset, c.sources(dir), info)
	return pkg
}

// sources returns the package's files, tests left out.
func (c *typeChecker) sources(dir string) []*ast.File {
	var out []*ast.File
	for _, f := range c.repo.goFiles(func(f *File) bool { return f.Dir == dir && !f.Test }) {
		if len(out) == 0 || out[0].Name.Name == f.Go.Name.Name {
			out = append(out, f.Go)
		}
	}
	return out
}
