#!/usr/bin/env bash
# Runs every fuzz test of every module for a while and fails if one found
# something.
#
#   scripts/fuzz.sh [TIME]      # per fuzz test; 20s by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-20s}
rc=0
while IFS= read -r module; do
  # A package that does not build must not look like one without fuzz tests.
  list=$(cd "$module" && go test -json -list '^Fuzz' ./...) || rc=1
  while IFS=' ' read -r package name; do
    printf '== %s %s\n' "$package" "$name"
    (cd "$module" && go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$package") </dev/null || rc=1
  done < <(sed -n 's/.*"Action":"output","Package":"\([^"]*\)".*"Output":"\(Fuzz[A-Za-z0-9_]*\)\\n".*/\1 \2/p' <<<"$list")
done < <(scripts/each-module.sh)
((rc == 0)) || echo "fuzz.sh: something failed, or a package does not build" >&2
exit "$rc"
