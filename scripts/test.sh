#!/usr/bin/env bash
# The test command: formatting, vet and all tests of all modules, against real
# services, with counts at the end.
#
#   scripts/test.sh [--no-services] [--run REGEX] [MODULE]...
#
# MODULE is the folder of a Go module, or js; all by default. --run selects Go
# tests by name. --no-services uses the services named by RETRYPROOF_TEST_*
# variables and starts none. With the variable CI set, a test that is skipped for
# want of a service is a failure.
#
# Packages run with the race detector, except the simulator and modules with very
# large dependencies, where it would take most of the time and see little.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

services=yes
run=.
modules=()
while [[ $# -gt 0 ]]; do
  case $1 in
  --no-services) services=no ;;
  --run)
    run=$2
    shift
    ;;
  -*)
    sed -n '2,/^set -/{/^set -/!s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
  *) modules+=("${1%/}") ;;
  esac
  shift
done
if [[ $services == yes ]]; then
  exec scripts/services.sh run -- scripts/test.sh --no-services --run "$run" ${modules[@]+"${modules[@]}"}
fi
if [[ ${#modules[@]} -eq 0 ]]; then
  while IFS= read -r module; do modules+=("$module"); done < <(scripts/each-module.sh)
  modules+=(js)
fi

tmp=$(mktemp -d "${TMPDIR:-/tmp}/retryproof-test.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
go build -o "$tmp/testcount" ./internal/testcount

broken=()  # arguments for testcount sum
results=() # its files
fail() { broken+=(-broken "$1"); }

can_race=no
if [[ $(go env CGO_ENABLED) == 1 ]] && command -v "$(go env CC)" >/dev/null; then can_race=yes; fi

# race_flag FOLDER PACKAGES: "-race" where it is affordable.
race_flag() {
  [[ $can_race == yes && $2 != *sim* ]] || return 0
  if ! grep -qE '^\s*(require\s+)?(modernc\.org/sqlite|github\.com/ncruces/go-sqlite3|github\.com/nats-io/nats-server)' "$1/go.mod"; then
    echo -race
  fi
}

# go_test NAME FOLDER PACKAGE...
go_test() {
  local name=$1 folder=$2 flags=(-json -vet=all -timeout=15m "-run=$run") race out status
  shift 2
  out=$tmp/${#results[@]}.json
  race=$(race_flag "$folder" "$*")
  [[ -z $race ]] || flags+=("$race")
  [[ -z ${CI:-} ]] || flags+=(-count=1)
  echo "== $name ${race:+(race)}"
  set +e
  (cd "$folder" && go test "${flags[@]}" "$@" 2>&1) | "$tmp/testcount" go -module "$name" -out "$out"
  status=("${PIPESTATUS[@]}")
  set -e
  [[ ${status[0]} -eq 0 ]] || fail "go test in $name"
  [[ ${status[1]} -eq 0 ]] || fail "counting the tests of $name"
  [[ ! -f $out ]] || results+=("$out")
}

# go_module FOLDER: the root's simulator is tested apart, without -race.
go_module() {
  local all pure sim
  if [[ $1 != . ]]; then
    go_test "${1#./}" "$1" ./...
    return
  fi
  # -e: a package that does not parse must fail, not drop out of the list.
  all=$(go list -e ./...) || fail "go list in root"
  pure=$(grep -v '/sim\(/\|$\)' <<<"$all" || true)
  sim=$(grep '/sim\(/\|$\)' <<<"$all" || true)
  # shellcheck disable=SC2086 # package paths have no blanks
  [[ -z $pure ]] || go_test root . $pure
  # shellcheck disable=SC2086
  [[ -z $sim ]] || go_test "root, simulator" . $sim
}

javascript() {
  local files=() file out=$tmp/js.json status
  while IFS= read -r file; do files+=("$file"); done < <(
    find . \( -name .git -o -name node_modules -o -name testdata \) -prune -o \
      \( -name '*.test.js' -o -name '*.test.mjs' \) -print | LC_ALL=C sort
  )
  [[ ${#files[@]} -gt 0 ]] || return 0
  echo "== JavaScript"
  if ! command -v node >/dev/null; then
    echo "node is missing: install it to run ${#files[@]} files of tests"
    [[ -z ${CI:-} ]] || fail "node is missing"
    return 0
  fi
  if [[ -f js/package-lock.json && ! -d js/node_modules ]]; then
    (cd js && npm ci --silent --no-audit --no-fund) || fail "npm ci in js"
  fi
  set +e
  node --test --test-reporter=tap "${files[@]}" 2>&1 | "$tmp/testcount" tap -module JavaScript -out "$out"
  status=("${PIPESTATUS[@]}")
  set -e
  [[ ${status[0]} -eq 0 ]] || fail "node --test"
  [[ ! -f $out ]] || results+=("$out")
}

unformatted=$(find . \( -name .git -o -name node_modules -o -name testdata -o -name bin \) -prune -o -name '*.go' -print0 | xargs -0 gofmt -l) ||
  fail "gofmt: a file does not parse"
if [[ -n $unformatted ]]; then
  printf 'not formatted with gofmt:\n%s\n' "$unformatted"
  fail gofmt
fi
for module in "${modules[@]}"; do
  if [[ $module == js ]]; then
    javascript
  else
    go_module "$module"
  fi
done

ci=()
[[ -z ${CI:-} ]] || ci=(-ci)
"$tmp/testcount" sum ${ci[@]+"${ci[@]}"} ${broken[@]+"${broken[@]}"} ${results[@]+"${results[@]}"}
