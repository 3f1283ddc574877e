// Package tidy holds the repository's own rules, as far as a machine can check
// them; docs/STYLE.md says why they exist. Run them with
//
//	go test ./internal/tidy
//
// A rule is one function from the repository to its problems. It needs three
// things: a line in [Rules], a tree under testdata that breaks it and keeps it,
// and, if a file needs an exemption, a line in exemptions with the reason.
//
// The rules read source text and syntax trees of every module at once; they
// build nothing and need no network. They do not promise to catch somebody who
// hides a rule's subject on purpose, for example a channel behind a named type
// of another package.
package tidy
