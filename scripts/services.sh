#!/usr/bin/env bash
# Starts the services that tests need, runs a command, and stops them again.
#
#   scripts/services.sh run [--only LIST] -- CMD [ARG]...
#
# LIST is comma-separated: postgres, replica, pgbouncer, nats, chromium; all by
# default. CMD sees the variables below and its exit code is the script's. A
# variable that is set already stays as it is and its service is not started.
#
#   RETRYPROOF_TEST_POSTGRES          PostgreSQL, default settings (fsync on)
#   RETRYPROOF_TEST_POSTGRES_REPLICA  its hot standby, read-only
#   RETRYPROOF_TEST_PGBOUNCER         pgbouncer before it, pool_mode=transaction
#   RETRYPROOF_TEST_NATS              nats-server with JetStream, every write synced
#   RETRYPROOF_TEST_CHROMIUM          path of a Chromium binary (nothing is started)
#
# Everything lives in one temporary folder, listens on 127.0.0.1 only and runs on
# free ports, so that several runs can share a machine. What is missing is
# installed with apt-get when the script is root on such a system (Chromium: in CI
# only, it is large). What cannot be had is a warning, and an error when the
# variable CI is set.
# shellcheck disable=SC2317 # functions are called by trap and until_true
set -euo pipefail

readonly NATS_VERSION=v2.15.2 # a released server; the embedded one has its own version
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly repo

say() { printf 'services: %s\n' "$*" >&2; }
die() {
  say "ERROR: $*"
  exit 1
}
usage() {
  sed -n '2,/^# shellcheck/{/^# shellcheck/!s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}" >&2
  exit 2
}

# missing SERVICE WHY: an error in CI, else a warning.
missing() {
  [[ -z ${CI:-} ]] || die "$1: $2"
  say "WARNING: no $1: $2; tests that need it will skip"
}

# --- leaving -----------------------------------------------------------------

dir=       # the temporary folder
command_pid= # CMD, when it runs in the background
pids=()    # servers started with &
clusters=() # data folders of running PostgreSQL servers, the replica last

cleanup() {
  local rc=$? i
  trap '' INT TERM HUP
  trap - EXIT
  set +e
  if [[ -n $command_pid ]]; then
    kill -TERM -- "-$command_pid" 2>/dev/null
    wait "$command_pid" 2>/dev/null
  fi
  # Their data are thrown away, and newer pgbouncers wait for clients on TERM.
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill -KILL "${pids[i]}" 2>/dev/null
    wait "${pids[i]}" 2>/dev/null
  done
  for ((i = ${#clusters[@]} - 1; i >= 0; i--)); do
    as_server "$pg_bin/pg_ctl" stop -D "${clusters[i]}" -m immediate -t 30 >/dev/null 2>&1
  done
  [[ -z $dir ]] || rm -rf "$dir"
  exit "$rc"
}

# --- tools -------------------------------------------------------------------

is_root() { [[ $(id -u) -eq 0 ]]; }

server_user() {
  if id -u postgres >/dev/null 2>&1; then echo postgres; else echo nobody; fi
}

# become CMD...: turns this process into CMD as the servers' user, since PostgreSQL
# and pgbouncer refuse to run as root.
become() {
  local user
  user=$(server_user)
  cd "$dir"
  if is_root; then
    HOME=$dir exec setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups -- "$@"
  fi
  exec "$@"
}

# as_server CMD...: runs CMD as the servers' user.
as_server() { (become "$@"); }

# install PACKAGE...: fails when this is no apt system or we are not root.
install() {
  local try
  is_root && command -v apt-get >/dev/null || return 1
  say "installing $*"
  for try in 1 2 3; do # another process may hold apt's lock
    # RUNLEVEL=1: Debian then does not start the services that it installs.
    if { apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends "$@"; } >"$dir/apt.log" 2>&1; then
      return 0
    fi
    sleep $((try * 5))
  done
  tail -n 20 "$dir/apt.log" >&2
  return 1
}

used_ports=" "
# free_port sets port to one that nobody listens on, below the ephemeral range.
free_port() {
  while :; do
    port=$((20000 + RANDOM % 12000))
    if [[ $used_ports != *" $port "* ]] && ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      used_ports+="$port "
      return
    fi
  done
}

# until_true SECONDS CMD...: asks ten times a second.
until_true() {
  local n=$(($1 * 10))
  shift
  while ((n-- > 0)); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  return 1
}

# log_of FILE: the end of a server's log, when it did not start.
log_of() { [[ ! -f $1 ]] || tail -n 15 "$1" >&2; }

# --- PostgreSQL --------------------------------------------------------------

pg_bin=
find_postgres() {
  local candidate
  for candidate in "$(readlink -f "$(command -v initdb || true)" 2>/dev/null || true)" \
    $(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort -Vr) /opt/homebrew/opt/postgresql*/bin/initdb; do
    if [[ -x $candidate && -x $(dirname "$candidate")/postgres ]]; then
      pg_bin=$(dirname "$candidate")
      return 0
    fi
  done
  return 1
}

# pg_start DATA PORT: starts the server whose data are in the folder DATA.
pg_start() {
  as_server "$pg_bin/pg_ctl" start -D "$1" -w -t 60 -l "$1.log" -o "-p $2" >/dev/null 2>&1 || return 1
  clusters+=("$1")
}

# pg_true PORT CONDITION: whether the server there answers and says true.
pg_true() {
  [[ $(as_server "$pg_bin/psql" -X -q -A -t -h 127.0.0.1 -p "$1" -U retryproof -d retryproof -c "select $2") == t ]]
}

pg_port=
start_postgres() {
  if ! find_postgres && ! { install postgresql && find_postgres; }; then
    missing PostgreSQL "install it (Debian: apt-get install postgresql; macOS: brew install postgresql)"
    return
  fi
  local data=$dir/primary try
  # A language's sort order, as most databases have, shows a missing COLLATE.
  as_server "$pg_bin/initdb" -D "$data" -U retryproof --auth=trust --encoding=UTF8 --locale=C.UTF-8 \
    --locale-provider=icu --icu-locale=en-US >"$dir/initdb.log" 2>&1 ||
    { rm -rf "$data" && as_server "$pg_bin/initdb" -D "$data" -U retryproof --auth=trust --encoding=UTF8 >"$dir/initdb.log" 2>&1; } ||
    { log_of "$dir/initdb.log" && die "initdb failed"; }
  as_server tee -a "$data/postgresql.conf" >/dev/null <<EOF
listen_addresses = '127.0.0.1'
unix_socket_directories = '$dir/sockets'
max_connections = 300
EOF
  for try in 1 2 3; do # somebody may take the port between the look and the start
    free_port
    if pg_start "$data" "$port"; then break; fi
    ((try < 3)) || { log_of "$data.log" && die "PostgreSQL did not start"; }
  done
  pg_port=$port
  as_server "$pg_bin/createdb" -h "$dir/sockets" -p "$pg_port" -U retryproof retryproof
  until_true 30 pg_true "$pg_port" "not pg_is_in_recovery()" || die "PostgreSQL does not answer"
  export RETRYPROOF_TEST_POSTGRES="postgres://retryproof@127.0.0.1:$pg_port/retryproof?sslmode=disable"
  say "PostgreSQL $("$pg_bin/postgres" -V | grep -oE '[0-9]+(\.[0-9]+)?' | head -n 1) on port $pg_port"
}

start_replica() {
  if [[ -z $pg_port ]]; then
    missing "PostgreSQL replica" "this script has not started a primary for it"
    return
  fi
  local data=$dir/replica try
  as_server "$pg_bin/pg_basebackup" -h "$dir/sockets" -p "$pg_port" -U retryproof -D "$data" -R -X stream \
    -c fast -C -S replica >"$dir/basebackup.log" 2>&1 || { log_of "$dir/basebackup.log" && die "pg_basebackup failed"; }
  for try in 1 2 3; do
    free_port
    if pg_start "$data" "$port"; then break; fi
    ((try < 3)) || { log_of "$data.log" && die "the replica did not start"; }
  done
  until_true 30 pg_true "$port" "pg_is_in_recovery()" || die "the replica does not answer"
  until_true 30 pg_true "$pg_port" "exists(select from pg_stat_replication where state = 'streaming')" ||
    die "the replica does not stream"
  export RETRYPROOF_TEST_POSTGRES_REPLICA="postgres://retryproof@127.0.0.1:$port/retryproof?sslmode=disable"
  say "its read replica on port $port"
}

find_pgbouncer() {
  pgbouncer=$(command -v pgbouncer || ls /usr/sbin/pgbouncer 2>/dev/null)
}

start_pgbouncer() {
  if [[ -z $pg_port ]]; then
    missing pgbouncer "this script has not started a PostgreSQL for it"
    return
  fi
  if ! find_pgbouncer && ! { install pgbouncer && find_pgbouncer; }; then
    missing pgbouncer "install it (Debian: apt-get install pgbouncer; macOS: brew install pgbouncer)"
    return
  fi
  local try
  as_server tee "$dir/users.txt" >/dev/null <<<'"retryproof" ""'
  for try in 1 2 3; do
    free_port
    as_server tee "$dir/pgbouncer.ini" >/dev/null <<EOF
[databases]
retryproof = host=127.0.0.1 port=$pg_port
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir = $dir/sockets
auth_type = trust
auth_file = $dir/users.txt
pool_mode = transaction
max_client_conn = 300
EOF
    become "$pgbouncer" "$dir/pgbouncer.ini" >"$dir/pgbouncer.log" 2>&1 </dev/null &
    pids+=("$!")
    if until_true 10 pg_true "$port" true; then break; fi
    kill "$!" 2>/dev/null || true
    ((try < 3)) || { log_of "$dir/pgbouncer.log" && die "pgbouncer did not start"; }
  done
  export RETRYPROOF_TEST_PGBOUNCER="postgres://retryproof@127.0.0.1:$port/retryproof?sslmode=disable"
  say "$("$pgbouncer" --version | head -n 1), pool_mode=transaction, on port $port"
}

# --- NATS --------------------------------------------------------------------

# nats_answers PORT: whether the server there greets with JetStream on.
nats_answers() {
  local greeting
  exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
  read -r -t 2 greeting <&3 || greeting=
  exec 3>&-
  [[ $greeting == INFO*'"jetstream":true'* ]]
}

start_nats() {
  local bin=$repo/bin/nats-server-$NATS_VERSION try
  if [[ ! -x $bin/nats-server ]]; then
    say "building nats-server $NATS_VERSION"
    if ! (cd / && GOBIN=$bin go install "github.com/nats-io/nats-server/v2@$NATS_VERSION") >"$dir/nats-build.log" 2>&1; then
      log_of "$dir/nats-build.log"
      missing nats-server "it could not be built"
      return
    fi
  fi
  for try in 1 2 3; do
    free_port
    mkdir -p "$dir/jetstream"
    cat >"$dir/nats.conf" <<EOF
listen: "127.0.0.1:$port"
jetstream {
  store_dir: "$dir/jetstream"
  sync_interval: always
}
EOF
    "$bin/nats-server" -c "$dir/nats.conf" >"$dir/nats.log" 2>&1 </dev/null &
    pids+=("$!")
    if until_true 10 nats_answers "$port"; then break; fi
    kill "$!" 2>/dev/null || true
    ((try < 3)) || { log_of "$dir/nats.log" && die "nats-server did not start"; }
  done
  export RETRYPROOF_TEST_NATS="nats://127.0.0.1:$port"
  say "nats-server $NATS_VERSION with JetStream on port $port"
}

# --- Chromium ----------------------------------------------------------------

find_chromium() {
  local name
  for name in chromium chromium-browser google-chrome "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
    if chromium=$(command -v "$name"); then return 0; fi
  done
  return 1
}

find_or_install_chromium() {
  if ! find_chromium && ! { [[ -n ${CI:-} ]] && install chromium && find_chromium; }; then
    missing Chromium "install it (Debian: apt-get install chromium)"
    return
  fi
  export RETRYPROOF_TEST_CHROMIUM=$chromium
  say "Chromium at $chromium"
}

# --- tools -------------------------------------------------------------------

# curl walks through the documentation in a test; without it that test says so.
install_curl() {
  command -v curl >/dev/null || { [[ -n ${CI:-} ]] && install curl ca-certificates; } || true
}

# --- main --------------------------------------------------------------------

# wanted SERVICE VARIABLE: whether to start it.
wanted() {
  if [[ -n ${!2:-} ]]; then
    say "$1: $2 is set, using that"
    return 1
  fi
  [[ ,$only, == *,$1,* ]]
}

run_command() {
  if [[ -t 0 ]]; then
    "$@" # keeps the terminal; Ctrl-C reaches it directly
    return
  fi
  # A process group of its own, so that a signal to this script ends all of it.
  set -m
  "$@" <&0 &
  command_pid=$!
  set +m
  local rc=0
  wait "$command_pid" || rc=$?
  command_pid=
  return "$rc"
}

main() {
  only=postgres,replica,pgbouncer,nats,chromium
  [[ ${1:-} == run ]] || usage
  shift
  if [[ ${1:-} == --only ]]; then
    [[ $# -ge 2 ]] || usage
    only=$2
    shift 2
  fi
  [[ ${1:-} == -- && $# -ge 2 ]] || usage
  shift

  trap cleanup EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  dir=$(mktemp -d "${TMPDIR:-/tmp}/retryproof-services.XXXXXX")
  mkdir "$dir/sockets"
  chmod 755 "$dir"
  ! is_root || chown -R "$(server_user)" "$dir"

  install_curl
  if wanted postgres RETRYPROOF_TEST_POSTGRES; then start_postgres; fi
  if wanted replica RETRYPROOF_TEST_POSTGRES_REPLICA; then start_replica; fi
  if wanted pgbouncer RETRYPROOF_TEST_PGBOUNCER; then start_pgbouncer; fi
  if wanted nats RETRYPROOF_TEST_NATS; then start_nats; fi
  if wanted chromium RETRYPROOF_TEST_CHROMIUM; then find_or_install_chromium; fi

  local rc=0
  run_command "$@" || rc=$?
  exit "$rc"
}

main "$@"
