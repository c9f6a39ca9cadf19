#!/bin/sh
# SPDX-License-Identifier: MIT
# Load on quern serve, and on llama-server beside it: the same file, slots and client, in one run.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$here/build}
work=${WORK:-${TMPDIR:-/tmp}/quern-bench-serve}
preset=tinyllama-1.1b type=Q4_K_M layers= model= rival= threads=$(nproc) slots=64 ctx=65536 beside=8 long=16384 csv= port=18190 modes=

usage() {
    cat <<END
usage: sh bench/serve.sh [OPTION..] [MODE..]

  --rival FILE     llama-server, measured after quern serve (none)
  --model FILE     instead of a model that 'quern synth' writes
  --preset NAME --type TYPE --layers N   of that model (tinyllama-1.1b, Q4_K_M, all)
  --threads N --slots N --ctx N          of the servers (all cores, 64, 65536)
  --long N --beside N                    tokens of the long prompt, streams beside it (16384, 8)
  --csv FILE       rows are appended: server,mode,streams,figure,value
  --port N         the first of two (18190)

modes (all of them): 1 8 64    streams at once: tokens/s, first token, between tokens, second turn
                     beside    a long prompt beside streams: their gaps, its time
                     behind    a question of 32 tokens behind a long prompt
                     health    /health while a long prompt is read beside streams
                     idle      CPU of an idle minute

Before it: cmake --build build --target quern bench_serve. One line for each figure:

  sh bench/serve.sh 1 64        64 streams decode at least 5 times the tokens/s of one
  sh bench/serve.sh beside      p99 between tokens at most 2.5 times the median without it; at most 2.5 times its time alone
  sh bench/serve.sh behind      first token of the question within 6 steps
  sh bench/serve.sh health      at most 50 ms
  sh bench/serve.sh idle        under 10 ms a minute
  sh bench/serve.sh --rival llama.cpp/build/bin/llama-server 1 8 64    the table of docs/SERVE.md
END
}

while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage; exit 0 ;;
    --rival | --model | --preset | --type | --layers | --threads | --slots | --ctx | --long | --beside | --csv | --port)
        [ $# -gt 1 ] || { echo "serve.sh: $1 needs a value" >&2; exit 2; }
        name=${1#--}
        eval "$name=\$2"
        shift
        ;;
    -*) echo "serve.sh: $1: see --help" >&2; exit 2 ;;
    *) modes="$modes $1" ;;
    esac
    shift
done
[ -n "$modes" ] || modes="1 8 64 beside behind health idle"

mkdir -p "$work"
if [ -z "$model" ]; then
    model=$work/$preset-$type${layers:+-$layers}.gguf
    [ -f "$model" ] || "$build/quern" synth "$model" --preset "$preset" --type "$type" ${layers:+--layers "$layers"} --ctx "$ctx"
fi

server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null' EXIT INT TERM

# NAME PORT COMMAND..: a server, measured, ended.
measure() {
    name=$1 at=$2
    shift 2
    "$@" >"$work/$name.log" 2>&1 &
    server=$!
    n=0
    until curl -sf "http://127.0.0.1:$at/health" >/dev/null; do
        n=$((n + 1))
        if [ $n -gt 600 ] || ! kill -0 "$server" 2>/dev/null; then
            echo "serve.sh: $name does not serve: $(tail -3 "$work/$name.log")" >&2
            exit 1
        fi
        sleep 0.2
    done
    # shellcheck disable=SC2086
    "$build/bench_serve" --port "$at" --name "$name" --pid "$server" --long "$long" --beside "$beside" ${csv:+--csv "$csv"} $modes
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
}

measure quern "$port" "$build/quern" serve "$model" --port "$port" --parallel "$slots" --ctx-size "$ctx" --threads "$threads" --log-disable
[ -z "$rival" ] || measure llama-server $((port + 1)) "$rival" -m "$model" --port $((port + 1)) --host 127.0.0.1 -np "$slots" \
    -c "$ctx" -t "$threads" -tb "$threads" --kv-unified --no-webui
