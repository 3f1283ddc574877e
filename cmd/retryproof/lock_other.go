//go:build !unix

package main

// lockFolder locks nothing where there is no flock: run one process per folder.
func lockFolder(string) (func() error, error) { return func() error { return nil }, nil }
