package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryMetricSaysWhatItCounts(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`"(retryproof_[a-z_]+)"`)
	used := map[string]bool{}
	for _, pattern := range []string{"*.go", "../../payments/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: got %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || file == "metrics.go" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				used[m[1]] = true
			}
		}
	}
	got, want := slices.Sorted(maps.Keys(metricHelp)), slices.Sorted(maps.Keys(used))
	if !slices.Equal(got, want) {
		t.Errorf("metrics with a help text:\n%v\nmetrics in use:\n%v", got, want)
	}
}
