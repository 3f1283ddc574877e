package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/retryproof/retryproof/check"
)

// negative is a number below zero, as a word of its own.
var negative = regexp.MustCompile(`^-\.?[0-9]`)

// joinNegatives makes "--seeds -5" one word, "--seeds=-5": the parser would read the
// number as a short flag, and say so instead of what is wrong with the number.
func joinNegatives(args []string) []string {
	var out []string
	for _, arg := range args {
		if n := len(out); n > 0 && negative.MatchString(arg) && strings.HasPrefix(out[n-1], "--") && len(out[n-1]) > 2 && !strings.Contains(out[n-1], "=") {
			out[n-1] += "=" + arg
			continue
		}
		out = append(out, arg)
	}
	return out
}

// durations reads every duration flag, like check config.
var durations = kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := check.ParseDuration(text)
	target.SetInt(int64(d))
	return err
}))

// checkWebURL refuses what is no http or https URL.
func checkWebURL(flag, raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return misuse{fmt.Errorf("--%s %q is not an http or https URL", flag, redacted(raw))}
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return misuse{fmt.Errorf("--%s %q: the URL must have no user, query or fragment", flag, redacted(raw))}
	}
	return nil
}

// checkSQLiteFile refuses a database that opening would make. Other URLs pass.
func checkSQLiteFile(store string) error {
	path, ok := strings.CutPrefix(store, "sqlite:")
	if !ok {
		return nil
	}
	if _, err := os.Stat(strings.TrimPrefix(path, "//")); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = errors.New("there is no such file")
		}
		return misuse{fmt.Errorf("--store %s: %w", store, err)}
	}
	return nil
}

// reworded is an error in the words of the command line.
type reworded struct {
	text string
	err  error
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.err }

// flagOf names the flags of serve that set fields of the packages' configurations.
var flagOf = map[string]string{
	"AnswerTTL": "--answer-ttl", "Deadline": "--deadline", "Margin": "--margin", "MaxWait": "--max-wait",
	"TrustedProxies": "--trusted-proxies", "Headers": "--stamp-header",
}

var (
	fieldNames = regexp.MustCompile(`\b(AnswerTTL|Deadline|Margin|MaxWait|TrustedProxies|Headers)\b`)
	packages   = regexp.MustCompile(`(?m)^(payments|effect|deadline|check): `)
)

// inFlags says a configuration's error with the flags' names for the fields', and
// without the packages' names.
func inFlags(err error) error {
	text := packages.ReplaceAllString(err.Error(), "")
	return reworded{fieldNames.ReplaceAllStringFunc(text, func(field string) string { return flagOf[field] }), err}
}

// withoutPackage takes the package's name off every line of an error.
func withoutPackage(err error) error {
	return reworded{packages.ReplaceAllString(err.Error(), ""), err}
}
