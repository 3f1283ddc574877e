package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCommand says which build this is.
type versionCommand struct{}

// Run prints the build.
func (*versionCommand) Run(out output) error {
	_, err := fmt.Fprintln(out.stdout, versionText(debug.ReadBuildInfo()))
	return err
}

// versionText is the module's version, the revision it was built from and Go's version,
// on one line. What is unknown of a build is left out.
func versionText(info *debug.BuildInfo, ok bool) string {
	text, platform := "retryproof (devel)", runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH
	if !ok {
		return text + ", " + platform
	}
	if info.Main.Version != "" {
		text = "retryproof " + info.Main.Version
	}
	setting := map[string]string{}
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	if revision := setting["vcs.revision"]; revision != "" {
		text += ", revision " + revision
		if setting["vcs.time"] != "" {
			text += " of " + setting["vcs.time"]
		}
		if setting["vcs.modified"] == "true" {
			text += ", with changes"
		}
	}
	return text + ", " + platform
}
