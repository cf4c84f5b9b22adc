#!/usr/bin/env bash
# Bloomgate through redis-cli: what an operator types, RESP2 or RESP3, each line of the answer compared.
#
#   redis_cli.sh PORT GUARDED_PORT PASSWORD 2|3
#
# Prints one line for each group of checks and ends at the first wrong answer.
set -euo pipefail

port=$1
guarded=$2
password=$3
protocol=$4
title="redis-cli, RESP$protocol"

# Yes and no as redis-cli shows them.
if [ "$protocol" = 2 ]; then
  yes='(integer) 1' no='(integer) 0'
else
  yes='(true)' no='(false)'
fi

wrong() {
  printf '%s: %s: FAILED\nsent      %s\nexpected  %s\ngot       %s\n' "$title" "$group" "$1" "$2" "$3"
  exit 1
}

ask() {
  timeout 30 redis-cli --no-raw -p "$port" "-$protocol" "$@" 2>&1
}

# gives EXPECTED WORDS...: the command's answer is exactly this.
gives() {
  local expected=$1 got
  shift
  got=$(ask "$@") || true
  [ "$got" = "$expected" ] || wrong "$*" "$expected" "$got"
}

# shows PATTERN WORDS...: the command's answer matches this extended regular expression.
shows() {
  local pattern=$1 got
  shift
  got=$(ask "$@") || true
  grep -Eq -- "$pattern" <<<"$got" || wrong "$*" "/$pattern/" "$got"
}

done_with() {
  echo "$title: $group: ok"
}

group=filters
gives OK FLUSHALL
gives OK BF.RESERVE f 0.01 1000
gives "$yes" BF.ADD f a
gives "$no" BF.ADD f a
gives "1) $no"$'\n'"2) $yes" BF.MADD f a b
gives "1) $yes"$'\n'"2) $no" BF.MEXISTS f a z
gives '(integer) 2' BF.CARD f
gives "$no" BF.EXISTS nothing a
gives '(error) ERR item exists' BF.RESERVE f 0.01 1000
gives "(error) ERR wrong number of arguments for 'bf.add' command" BF.ADD f
gives "(error) ERR unknown command 'GET', with args beginning with: 'f' " GET f
gives "$yes" CF.ADD c a
gives '(integer) 1' CF.COUNT c a
gives "$yes" CF.DEL c a
gives "$no" CF.EXISTS c a
gives MBbloom-- TYPE f
gives '(error) WRONGTYPE Operation against a key holding the wrong kind of value' CF.ADD f a
shows 'Number of items inserted"? ?(=>|$)' BF.INFO f
done_with

group="the shell's status"
# -e: an error is told by the exit code.
ask -e BF.ADD f a >/dev/null || wrong '-e BF.ADD f a' 'exit 0' "exit $?"
if ask -e BF.ADD f >/dev/null; then wrong '-e BF.ADD f' 'exit 1' 'exit 0'; fi
done_with

group=transactions
got=$(printf 'MULTI\nBF.ADD t a\nBF.ADD t a\nEXEC\n' | ask)
expected=$(printf 'OK\nQUEUED\nQUEUED\n1) %s\n2) %s' "$yes" "$no")
[ "$got" = "$expected" ] || wrong 'MULTI … EXEC' "$expected" "$got"
done_with

group='a terminal'
# With a terminal redis-cli reads COMMAND DOCS first, for its hints and help. A dumb one is read line by line.
got=$(printf 'BF.EXISTS f a\nhelp BF.ADD\nquit\n' |
  timeout 30 script -qec "env TERM=dumb redis-cli -p $port -$protocol" /dev/null 2>&1) || true
grep -qF "$yes" <<<"$got" || wrong 'BF.EXISTS f a in a terminal' "$yes" "$got"
grep -q 'Adds an item' <<<"$got" || wrong 'help BF.ADD in a terminal' 'Adds an item …' "$got"
shows 'summary' COMMAND DOCS bf.add
shows '\(integer\) 3' COMMAND INFO bf.add
done_with

group='mass insertion'
got=$(for number in $(seq 20000); do echo "BF.ADD mass item$number"; done |
  timeout 60 redis-cli -p "$port" "-$protocol" --pipe 2>&1) || true
grep -q 'errors: 0, replies: 20000' <<<"$got" || wrong '20000 BF.ADD by --pipe' 'errors: 0, replies: 20000' "$got"
gives "$yes" BF.EXISTS mass item20000
done_with

group='looking around'
gives OK FLUSHALL
for number in $(seq 30); do echo "BF.ADD user:$number x"; done | ask >/dev/null
got=$(ask --scan --pattern 'user:1?' | sort | tr '\n' ' ')
expected='"user:10" "user:11" "user:12" "user:13" "user:14" "user:15" "user:16" "user:17" "user:18" "user:19" '
[ "$got" = "$expected" ] || wrong '--scan' "$expected" "$got"
shows 'Sampled 30 keys' --memkeys
shows 'redis_version:' INFO server
shows 'name=bf' INFO modules
shows 'max-memory' CONFIG GET 'max-*'
shows 'resp=[23] .*user=default' CLIENT LIST
gives OK SAVE
shows '\(integer\) 1[0-9]{9}' LASTSAVE
got=$(timeout 30 redis-cli -p "$port" "-$protocol" -r 3 -i 0 PING | sort -u)
[ "$got" = PONG ] || wrong 'PING three times' PONG "$got"
done_with

group=password
got=$(redis-cli -p "$guarded" "-$protocol" PING 2>&1) || true
grep -q NOAUTH <<<"$got" || wrong 'PING without AUTH' NOAUTH "$got"
got=$(redis-cli -p "$guarded" "-$protocol" -a "$password" --no-auth-warning PING 2>&1) || true
[ "$got" = PONG ] || wrong 'PING with -a' PONG "$got"
got=$(redis-cli -p "$guarded" "-$protocol" -a wrong --no-auth-warning PING 2>&1) || true
grep -q WRONGPASS <<<"$got" || wrong 'PING with a wrong password' WRONGPASS "$got"
done_with
