#!/usr/bin/env bash
# Unknown outcomes by hand: a question that voids, a late original, a refund whose
# reply is lost, and an operator's verdict. It needs curl and a running
#
#   go run ./cmd/retryproof serve
#
# with its defaults. Each step prints what it asks and what it hears, and the script
# stops when an answer is not the one that the text promises.
#
#   examples/unknown/walk.sh [http://127.0.0.1:8080]
set -euo pipefail

base=${1:-http://127.0.0.1:8080}
run=$(date +%s)-$$ # so that every run is about payments of its own
buyer='Authorization: Bearer demo-u1'
operator='Authorization: Bearer demo-operator'
answer= status=

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'walk.sh: %s\n' "$*" >&2; exit 1; }

# ask METHOD PATH [CURL ARG]… keeps the status and the body.
ask() {
  local method=$1 path=$2 text
  shift 2
  printf '%s %s\n' "$method" "$path"
  text=$(curl -sS -X "$method" "$base$path" -w '\n%{http_code}' "$@")
  status=${text##*$'\n'} answer=${text%$'\n'*}
  printf '  %s %s\n' "$status" "${answer%$'\n'}"
}

# expect STATUS TEXT checks the last answer.
expect() {
  [[ $status == "$1" ]] || fail "the status is $status, not $1"
  [[ $answer == *"$2"* ]] || fail "the answer does not say $2"
}

# field NAME reads a string member of the last answer.
field() { sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p' <<<"$answer" | head -n 1; }

pay() { # pay KEY ORDER
  ask POST /payments -H "$buyer" -H "Idempotency-Key: $1" \
    -d '{"order_id":"'"$2"'","amount":3000,"currency":"USD","payment_method":"pm_1","merchant_id":"m1"}'
}
fault() { ask POST /outside/psp/_emulator/faults -H 'Content-Type: application/json' -d "[$1]"; expect 200 faults; }

# until TEXT COMMAND… repeats a question for at most ten seconds.
until_says() {
  local text=$1 i
  shift
  for i in $(seq 50); do
    "$@" >/dev/null
    [[ $answer == *"$text"* ]] && { printf '  %s\n' "${answer%$'\n'}"; return; }
    sleep 0.2
  done
  fail "the answer never says $text: $answer"
}

say "1. A key that nothing is known of: the question voids it"
ask POST /payments/resolve -H "$buyer" -H "Idempotency-Key: lost-$run"
expect 200 '"state":"VOID"'

say "2. The original arrives late: it is refused, for ever"
pay "lost-$run" "late-$run"
expect 409 '"code":"void"'

say "3. A new tap is a new key, and pays"
pay "tap-$run" "order-$run"
expect 201 '"state":"SUCCEEDED"'
payment=$(field id)
ask POST /payments/resolve -H "$buyer" -H "Idempotency-Key: tap-$run"
expect 200 '"state":"SUCCEEDED"'

say "4. A refund whose reply is lost is not known, and settles by itself"
fault '{"operation":"refund","do":"lose_reply"},{"operation":"refund","do":"webhook_never"}'
ask POST "/payments/$payment/refunds" -H "$buyer" -H "Idempotency-Key: back-$run" -d '{"amount":1000}'
expect 202 '"state":"PROCESSING"'
until_says '"state":"SUCCEEDED"' ask GET "/payments/$payment/refunds" -H "$buyer"
ask POST "/payments/$payment/refunds" -H "$buyer" -H "Idempotency-Key: back-$run" -d '{"amount":1000}'
expect 201 '"state":"SUCCEEDED"'
ask GET "/payments/$payment" -H "$buyer"
expect 200 '"refunded":1000'

say "5. No more than was paid goes back"
ask POST "/payments/$payment/refunds" -H "$buyer" -H "Idempotency-Key: more-$run" -d '{"amount":2001}'
expect 422 '"code":"exceeds"'

say "6. A payment of which the processor says nothing definite stays unknown"
fault '{"operation":"charge","do":"error_500","when":"before"}'
pay "stuck-$run" "stuck-$run"
expect 202 '"state":"PROCESSING"'
stuck=$(field id)
ask GET /operator/unknown -H "$operator"
expect 200 "$stuck"

say "7. An operator has asked the processor by telephone: it never ran"
# While the resolver asks the processor about it, the answer is 409 in-progress.
until_says '"state":"VOID"' ask POST "/operator/payments/$stuck/verdict" -H "$operator" \
  -d '{"state":"VOID","reason":"the processor has no charge for it, said their support, ticket 4711"}'
expect 200 '"state":"VOID"'
[[ $answer == *'"by":"operator demo"'* ]] || fail "the verdict has no name"
ask POST "/operator/payments/$stuck/verdict" -H "$operator" -d '{"state":"FAILED","reason":"another opinion"}'
expect 409 '"code":"moved"'
pay "stuck-$run" "stuck-$run"
expect 409 '"code":"void"'

say "8. The day's books agree"
ask POST /operator/reconciliations -H "$operator" -d '{"from":"'"$(date -u +%F)"'T00:00:00Z","to":"'"$(date -u +%F)"'T23:59:59Z"}'
expect 200 '"differences"'
say "done"
