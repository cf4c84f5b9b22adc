#!/usr/bin/env bash
# redis-benchmark against Bloomgate, RESP2 or RESP3: it ends well and says nothing of errors. Its figures are not looked
# at here; `scripts/bench server` measures.
#
#   redis_benchmark.sh PORT 2|3
set -euo pipefail

port=$1
protocol=$2
title="redis-benchmark, RESP$protocol"
flags=()
[ "$protocol" = 2 ] || flags=(-3)

# loads NAME WORDS...: runs it with 50 connections.
loads() {
  local name=$1 said status=0
  shift
  said=$(timeout 120 redis-benchmark -p "$port" "${flags[@]}" -c 50 -q "$@" 2>&1 | tr '\r' '\n' | sed '/rps=/d;/^ *$/d;/Keepalive disabled/d') || status=$?
  if [ "$status" != 0 ] || grep -Eiq 'error|warning|failed' <<<"$said" || ! grep -q 'requests per second' <<<"$said"; then
    printf '%s: %s: FAILED\nsent      redis-benchmark %s\nexpected  exit 0, requests per second, no error\ngot       exit %s\n%s\n' \
      "$title" "$name" "$*" "$status" "$said"
    exit 1
  fi
  echo "$title: $name: ok"
}

[ "$(redis-cli -p "$port" FLUSHALL)" = OK ]
loads 'PING' -t ping_inline,ping_mbulk -P 16 -n 100000
loads 'PING, one at a time' -t ping_inline,ping_mbulk -n 20000
loads 'BF.ADD' -P 16 -n 100000 -r 1000000 BF.ADD f __rand_int__
loads 'BF.EXISTS' -P 16 -n 100000 -r 1000000 BF.EXISTS f __rand_int__
loads 'BF.ADD, two threads' --threads 2 -P 16 -n 100000 -r 1000000 BF.ADD f __rand_int__
loads 'BF.ADD, a connection for each' -k 0 -n 5000 -r 1000000 BF.ADD f __rand_int__
loads 'CF.ADDNX' -P 16 -n 50000 -r 1000000 CF.ADDNX c __rand_int__

# It was not refused without a word: 205,000 draws of a million hit 1,000,000 x (1 - exp(-0.205)) = 185,353 of them
# (deviation 130), of which at most 1 % were taken for known.
card=$(redis-cli -p "$port" BF.CARD f)
if [ "$card" -lt 180000 ] || [ "$card" -gt 190000 ]; then
  printf '%s: BF.CARD f: FAILED\nexpected  180000 to 190000\ngot       %s\n' "$title" "$card"
  exit 1
fi
echo "$title: BF.CARD: ok"
