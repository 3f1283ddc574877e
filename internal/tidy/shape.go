package tidy

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
)

const (
	maxFileLines     = 500
	maxFunctionLines = 70
)

// findBroken reports Go files that do not parse.
func findBroken(r *Repo) []Problem { return r.broken }

// findUnlisted reports packages that no list names, once each.
func findUnlisted(r *Repo) []Problem {
	var out []Problem
	seen := map[string]bool{}
	for _, f := range r.goFiles(anyFile) {
		if !seen[f.Dir] && !listed(f.Dir) {
			out = append(out, r.at(f, f.Go.Name.Pos(), "no list in internal/tidy/lists.go names %s", shown(f.Dir)))
		}
		seen[f.Dir] = true
	}
	return out
}

// findLongFiles reports Go files with more than maxFileLines lines.
func findLongFiles(r *Repo) []Problem {
	var out []Problem
	for _, f := range r.goFiles(anyFile) {
		if n := len(f.Lines); n > maxFileLines {
			out = append(out, Problem{File: f.Path, Line: maxFileLines + 1, What: plural(n, "line") + ": split the file"})
		}
	}
	return out
}

// findLongFunctions reports functions outside _test.go files whose body has more
// than maxFunctionLines lines between its braces.
func findLongFunctions(r *Repo) []Problem {
	var out []Problem
	report := func(f *File, pos token.Pos, name string, body *ast.BlockStmt) {
		if body == nil {
			return
		}
		if n := r.line(body.Rbrace) - r.line(body.Lbrace) - 1; n > maxFunctionLines {
			out = append(out, r.at(f, pos, "%s has %s: split it", name, plural(n, "line")))
		}
	}
	for _, f := range r.goFiles(func(f *File) bool { return !f.Test }) {
		for _, d := range f.Go.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				report(f, d.Pos(), d.Name.Name, d.Body)
			case *ast.GenDecl:
				ast.Inspect(d, func(n ast.Node) bool {
					if lit, ok := n.(*ast.FuncLit); ok {
						report(f, lit.Pos(), "a function literal", lit.Body)
					}
					return true
				})
			}
		}
	}
	return out
}

// findEmptyNames reports packages and folders whose name says nothing.
func findEmptyNames(r *Repo) []Problem {
	empty := map[string]bool{
		"util": true, "utils": true, "common": true, "helper": true, "helpers": true, "misc": true,
	}
	var out []Problem
	for _, f := range r.goFiles(anyFile) {
		name := strings.TrimSuffix(f.Go.Name.Name, "_test")
		if empty[name] || empty[path.Base(f.Dir)] {
			out = append(out, r.at(f, f.Go.Name.Pos(), "name the package after what it is for, not %q", name))
		}
	}
	return out
}

// findUndocumentedPackages reports packages without a package comment.
func findUndocumentedPackages(r *Repo) []Problem {
	documented := map[string]bool{}
	first := map[string]*File{}
	var order []string
	for _, f := range r.goFiles(func(f *File) bool { return !f.Test }) {
		if first[f.Dir] == nil {
			first[f.Dir] = f
			order = append(order, f.Dir)
		}
		name := f.Go.Name.Name
		doc := f.Go.Doc.Text()
		documented[f.Dir] = documented[f.Dir] || doc != "" && (name == "main" || startsWithName(doc, "Package "+name))
	}
	var out []Problem
	for _, dir := range order {
		if f := first[dir]; !documented[dir] {
			out = append(out, r.at(f, f.Go.Name.Pos(), "no file of package %s has a comment that starts \"Package %[1]s\"", f.Go.Name.Name))
		}
	}
	return out
}

// findUndocumented reports exported names of packages other than main whose doc
// comment does not start with the name. A comment on a parenthesised group of
// constants or variables speaks for the whole group.
func findUndocumented(r *Repo) []Problem {
	var out []Problem
	report := func(f *File, name *ast.Ident, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			if startsWithName(doc.Text(), name.Name) {
				return
			}
		}
		out = append(out, r.at(f, name.Pos(), "%s needs a doc comment that starts with its name", name.Name))
	}
	for _, f := range r.goFiles(func(f *File) bool { return !f.Test && f.Go.Name.Name != "main" }) {
		for _, d := range f.Go.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) {
					report(f, d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					name, doc := exportedSpec(d, s)
					if name != nil {
						report(f, name, doc, d.Doc)
					}
				}
			}
		}
	}
	return out
}

// findUndocumentedSettings reports exported fields without a comment in exported
// structs whose name ends in Config.
func findUndocumentedSettings(r *Repo) []Problem {
	var out []Problem
	r.inspect(production, func(f *File, n ast.Node) {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !spec.Name.IsExported() || !strings.HasSuffix(spec.Name.Name, "Config") {
			return
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, field := range fields.Fields.List {
			for _, name := range field.Names {
				if name.IsExported() && field.Doc.Text() == "" && field.Comment.Text() == "" {
					out = append(out, r.at(f, name.Pos(), "%s.%s needs a comment", spec.Name.Name, name.Name))
				}
			}
		}
	})
	return out
}

// exportedSpec returns the first exported name that a declaration must document,
// and its own comment; nil if there is none or its group speaks for it.
func exportedSpec(d *ast.GenDecl, s ast.Spec) (*ast.Ident, *ast.CommentGroup) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			return s.Name, s.Doc
		}
	case *ast.ValueSpec:
		if d.Lparen.IsValid() && d.Doc.Text() != "" {
			return nil, nil
		}
		for _, n := range s.Names {
			if n.IsExported() {
				return n, s.Doc
			}
		}
	}
	return nil, nil
}

// exportedReceiver reports whether a function has no receiver or one whose type
// is exported.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// startsWithName reports whether a comment begins with the name, an article
// before it allowed.
func startsWithName(doc, name string) bool {
	for _, article := range []string{"", "A ", "An ", "The "} {
		rest, ok := strings.CutPrefix(doc, article+name)
		if ok && (rest == "" || !isWordByte(rest[0])) {
			return true
		}
	}
	return false
}

func isWordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
