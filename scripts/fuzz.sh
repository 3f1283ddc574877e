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
  while IFS=' ' read -r package name; do
    printf '== %s %s\n' "$package" "$name"
    (cd "$module" && go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$package") </dev/null || rc=1
  done < <(cd "$module" && go test -json -list '^Fuzz' ./... |
    sed -n 's/.*"Action":"output","Package":"\([^"]*\)".*"Output":"\(Fuzz[A-Za-z0-9_]*\)\\n".*/\1 \2/p')
done < <(scripts/each-module.sh)
exit "$rc"
