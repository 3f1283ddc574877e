#!/usr/bin/env bash
# Runs a command in the folder of every Go module of the repository and fails if
# it failed in one.
#
#   scripts/each-module.sh CMD [ARG]...
#   scripts/each-module.sh            # prints the folders
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rc=0
while IFS= read -r mod; do
  folder=$(dirname "$mod")
  if [[ $# -eq 0 ]]; then
    echo "$folder"
    continue
  fi
  printf '== %s\n' "$folder" >&2
  (cd "$folder" && "$@") </dev/null || rc=1
done < <(find . -name go.mod -not -path '*/node_modules/*' -not -path '*/testdata/*' -not -path './.retryproof/*' | LC_ALL=C sort)
exit "$rc"
