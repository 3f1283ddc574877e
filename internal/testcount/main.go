// Command testcount counts what a test run did. It reads the output of
// "go test -json" or of node's TAP reporter, prints failures in full and otherwise one
// line per package, and keeps the results in a file; a last call adds the files
// up. scripts/test.sh is its only user.
//
//	go test -json ./... | testcount go -module NAME -out FILE
//	node --test --test-reporter=tap | testcount tap -module NAME -out FILE
//	testcount sum [-ci] [-broken CHECK]... FILE...
//
// A test is counted once, where it has no sub-tests. A test with sub-tests counts
// too when it fails and none of them does, and so does a package that fails
// without a failed test: it did not build, or a goroutine panicked.
//
// sum also counts per driver. A test belongs to a driver when an element of its
// name says so, "TestClaims/store=postgres/expired"; else to the driver in whose
// folder its package is, store/NAME or queue/NAME. "store=postgres-pooled" is PostgreSQL
// through the transaction pooler, "queue=nats" the embedded server and
// "queue=nats-server" a server of its own.
//
// sum fails when a test or a check failed, and with -ci also when a test was
// skipped because its service is missing.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// errFailed ends the program with exit code 1 and without a message: what failed
// was printed already.
var errFailed = errors.New("tests failed")

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout)
	if err == nil {
		return
	}
	if !errors.Is(err, errFailed) {
		fmt.Fprintln(os.Stderr, "testcount:", err)
	}
	os.Exit(1)
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say go, tap or sum")
	}
	flags := flag.NewFlagSet("testcount "+args[0], flag.ContinueOnError)
	module := flags.String("module", "", "name of what is tested")
	file := flags.String("out", "", "file for the results")
	ci := flags.Bool("ci", false, "fail when a test was skipped for want of a service")
	var broken []string
	flags.Func("broken", "a check that failed, to be listed", func(s string) error {
		broken = append(broken, s)
		return nil
	})
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "go":
		return save(*file, Module{Name: *module, Results: readGoTest(in, out)})
	case "tap":
		return save(*file, Module{Name: *module, Results: readTAP(in, out)})
	case "sum":
		modules, err := load(flags.Args())
		if err != nil {
			return err
		}
		if !report(out, modules, broken, *ci) {
			return errFailed
		}
		return nil
	}
	return fmt.Errorf("%q is none of go, tap and sum", args[0])
}

func save(file string, m Module) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func load(files []string) ([]Module, error) {
	var out []Module
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var m Module
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, m)
	}
	return out, nil
}
