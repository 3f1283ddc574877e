// Command retryproof runs the payments system of this repository, and the tools
// around it.
//
//	retryproof serve      run the whole path, from the tap to the notification
//	retryproof migrate    create, remove or show the tables of a store
//	retryproof bench      measure payments a second beside raw commits a second
//	retryproof audit      count what must agree in a store
//	retryproof explore    look for harm in thousands of random faulty worlds
//	retryproof story      play one payment and its branches in virtual time
//	retryproof operator   look at what has no outcome, decide it, reconcile
//	retryproof check      check the settings of a path against each other
//	retryproof version    say which build this is
//
// Exit codes: 0 success, 1 failure, 2 misuse.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// exit codes of the command line.
const (
	exitOK      = 0
	exitFailure = 1
	exitMisuse  = 2
)

// commandLine is the whole command line.
type commandLine struct {
	Serve    serveCommand    `cmd:"" help:"Run the whole path: phone page, payment API, ledger, processor, resolver, relay, queue, worker, push. Without flags everything is embedded."`
	Migrate  migrateCommand  `cmd:"" help:"Create (up), remove (down) or show (status) the tables of a store."`
	Bench    benchCommand    `cmd:"" help:"Measure the system on this machine."`
	Audit    auditCommand    `cmd:"" help:"Count what must agree in a store: charges, credits, notifications, sums."`
	Explore  exploreCommand  `cmd:"" help:"Run random faulty worlds of the system in virtual time and look for harm."`
	Story    storyCommand    `cmd:"" help:"Play the story of one payment, and what other designs would do, in virtual time."`
	Operator operatorCommand `cmd:"" help:"Look at what has no outcome, decide it, reconcile with the processor."`
	Check    checkCommand    `cmd:"" help:"Check a configuration: which formula fails, by which numbers."`
	Version  versionCommand  `cmd:"" help:"Say which build this is: version, revision, Go."`

	ShowVersion kong.VersionFlag `name:"version" help:"Say which build this is."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// misuse is an error in what the user typed; it ends with exit code 2.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// helpShown ends the parser after --help.
type helpShown struct{ code int }

// run parses and runs one command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		if shown, ok := recover().(helpShown); ok {
			code = shown.code
		}
	}()
	var cli commandLine
	parser, err := kong.New(&cli, kong.Name("retryproof"), kong.Description("Tapped twice, charged once."),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { panic(helpShown{code}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), durations, kong.Vars{"version": versionText(debug.ReadBuildInfo())})
	if err != nil {
		fmt.Fprintln(stderr, "retryproof:", err)
		return exitFailure
	}
	if len(args) == 0 {
		fmt.Fprintln(stderr, "retryproof: give a command, such as serve (retryproof --help lists the commands, retryproof COMMAND --help its flags)")
		return exitMisuse
	}
	parsed, err := parser.Parse(joinNegatives(args))
	if err != nil {
		fmt.Fprintf(stderr, "retryproof: %s (retryproof --help lists the commands, retryproof COMMAND --help its flags)\n", plainly(oneLine(err)))
		return exitMisuse
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.Bind(output{stdout: stdout, stderr: stderr})
	err = parsed.Run()
	var m misuse
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &m):
		fmt.Fprintln(stderr, "retryproof:", oneLine(err))
		return exitMisuse
	}
	fmt.Fprintln(stderr, "retryproof:", oneLine(err))
	return exitFailure
}

// noValue is what the parser says of a flag at the end of the line.
var noValue = regexp.MustCompile(`expected \S+ value but got "EOL"[^;]*`)

// plainly says in plain words what the parser says in those of its own.
func plainly(text string) string { return noValue.ReplaceAllString(text, "it needs a value") }

// output is where a command writes.
type output struct {
	stdout, stderr io.Writer
}

// oneLine keeps an error on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
