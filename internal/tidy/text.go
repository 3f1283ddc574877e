package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// findLines reports every line of the text files that keep accepts on which the
// pattern matches.
func (r *Repo) findLines(keep func(*File) bool, pattern *regexp.Regexp, hint string) []Problem {
	var out []Problem
	for _, f := range r.Files {
		if !keep(f) {
			continue
		}
		for i, line := range f.Lines {
			if m := pattern.FindString(line); m != "" {
				out = append(out, Problem{File: f.Path, Line: i + 1, What: fmt.Sprintf("%q: %s", strings.TrimSpace(m), hint)})
			}
		}
	}
	return out
}

// lockFile keeps files of checksums out: any word can appear in them.
func lockFile(f *File) bool {
	base := path.Base(f.Path)
	return base == "go.sum" || base == "go.work.sum" || base == "package-lock.json"
}

// The bracketed letters keep the patterns from matching their own source.
var (
	unfinishedWord = regexp.MustCompile(`\b(?:TOD[O]|FIXM[E]|XX[X])\b`)
	machinePath    = regexp.MustCompile(`(?:^|[^\w.~-])/(?:work|farm|home|root|Users)/|\.\./shared\b`)
)

// findUnfinished reports notes about work that is left to do.
func findUnfinished(r *Repo) []Problem {
	return r.findLines(func(f *File) bool { return !lockFile(f) }, unfinishedWord, "finish it or open an issue")
}

// findMachinePaths reports paths that exist on one machine only.
func findMachinePaths(r *Repo) []Problem {
	return r.findLines(func(f *File) bool { return !lockFile(f) }, machinePath, "this path exists on one machine only")
}

var sqlClock = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\bnow\s*\(`,
	`\b(?:current_timestamp|current_time|current_date|localtimestamp|localtime)\b`,
	`\b(?:clock|statement|transaction)_timestamp\s*\(`,
	`\btimeofday\s*\(`,
	`\bgen_random_(?:uuid|bytes)\s*\(`,
	`\buuid(?:v4|v7|_generate_v\w*)\s*\(`,
	`\brandom\s*\(`,
	`\brandomblob\s*\(`,
	`\b(?:date|time|datetime|julianday|unixepoch)\s*\(\s*(?:'now'|\))`,
	`\bstrftime\s*\([^)]*'now'`,
}, "|"))

// findSQLClocks reports clocks and randomness in SQL: in the string literals of
// Go files below store, and in .sql files anywhere.
func findSQLClocks(r *Repo) []Problem {
	const hint = "hand it in as an argument"
	sqlLine := func(f *File) bool { return path.Ext(f.Path) == ".sql" }
	out := r.findLines(sqlLine, sqlClock, hint)
	r.inspect(func(f *File) bool { return production(f) && inTree(f.Dir, []string{"store"}) }, func(f *File, n ast.Node) {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		for _, at := range sqlClock.FindAllStringIndex(lit.Value, -1) {
			p := r.at(f, lit.Pos(), "%q: %s", lit.Value[at[0]:at[1]], hint)
			p.Line += strings.Count(lit.Value[:at[0]], "\n")
			out = append(out, p)
		}
	})
	return out
}

var (
	inlineCode = regexp.MustCompile("``[^`]+(?:`[^`]+)*``|`[^`]*`")
	inlineLink = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)`)
	refLink    = regexp.MustCompile(`^ {0,3}\[[^\]^][^\]]*\]:\s*<?([^\s>]+)>?`)
	htmlLink   = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	heading    = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*\s*$`)
	htmlAnchor = regexp.MustCompile(`(?:id|name)="([^"]+)"`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	noSlug     = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`)
)

// findDeadLinks reports relative links in Markdown files to files, folders and
// headings that do not exist.
func findDeadLinks(r *Repo) []Problem {
	var out []Problem
	for _, f := range r.Files {
		if path.Ext(f.Path) != ".md" {
			continue
		}
		for i, line := range prose(f) {
			for _, pattern := range []*regexp.Regexp{inlineLink, refLink, htmlLink} {
				for _, m := range pattern.FindAllStringSubmatch(line, -1) {
					if what := r.deadLink(f, m[1]); what != "" {
						out = append(out, Problem{File: f.Path, Line: i + 1, What: m[1] + ": " + what})
					}
				}
			}
		}
	}
	return out
}

// codePath is a file with a folder before it, alone in its code span.
var codePath = regexp.MustCompile("`([\\w.-]+(?:/[\\w.-]+)+\\.(?:css|go|html|js|json|md|mod|png|sh|sql|txt|yml))`")

// findDeadPaths reports files that Markdown names in code and that are neither below
// the root nor beside the text.
func findDeadPaths(r *Repo) []Problem {
	var out []Problem
	for _, f := range r.Files {
		if path.Ext(f.Path) != ".md" {
			continue
		}
		for i, line := range f.Lines {
			for _, m := range codePath.FindAllStringSubmatch(line, -1) {
				if !r.exists(m[1]) && !r.exists(path.Join(f.Dir, m[1])) {
					out = append(out, Problem{File: f.Path, Line: i + 1, What: m[1] + ": no such file"})
				}
			}
		}
	}
	return out
}

func (r *Repo) exists(p string) bool {
	_, err := fs.Stat(r.FS, path.Clean(p))
	return err == nil
}

// prose returns the lines of a Markdown file with code taken out.
func prose(f *File) []string {
	out := make([]string, len(f.Lines))
	fence := ""
	for i, line := range f.Lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
		default:
			out[i] = inlineCode.ReplaceAllString(line, "")
		}
	}
	return out
}

// deadLink says what is wrong with a link, or "".
func (r *Repo) deadLink(from *File, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return "not a URL"
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	target := from.Path
	if u.Path != "" {
		target = path.Join(from.Dir, u.Path)
		if strings.HasPrefix(u.Path, "/") {
			target = strings.TrimPrefix(path.Clean(u.Path), "/")
		}
		if target != "." && !fs.ValidPath(target) {
			return "leads out of the repository"
		}
		if _, err := fs.Stat(r.FS, target); err != nil {
			return "no such file"
		}
	}
	to := r.file(target)
	if u.Fragment == "" || to == nil || path.Ext(target) != ".md" || anchors(to)[u.Fragment] {
		return ""
	}
	return "no such heading"
}

// anchors returns the names that links can give to places of a Markdown file.
func anchors(f *File) map[string]bool {
	out := map[string]bool{}
	fenced := prose(f)
	for i, line := range f.Lines {
		for _, m := range htmlAnchor.FindAllStringSubmatch(fenced[i], -1) {
			out[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil || fenced[i] == "" {
			continue
		}
		slug := linkText.ReplaceAllString(m[1], "$1")
		slug = strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(slug), ""), " ", "-")
		name := slug
		for n := 1; out[name]; n++ {
			name = fmt.Sprintf("%s-%d", slug, n)
		}
		out[name] = true
	}
	return out
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
