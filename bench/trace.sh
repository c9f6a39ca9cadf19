#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/trace.sh MODEL [ROUNDS [TOKENS]]: what a recording costs. A program built without the hook beside one with it and
# nothing recorded; that beside itself, beside the same that records, and beside one that records with page faults and
# lost cores sampled, as --trace does: processor time of all its threads, in pairs at once on one core (bench/pairs.py).
# Then what a tap on a node costs (bench/taps.c). Builds in build-trace and build-untraced beside the sources.
set -e
source=$(cd "$(dirname "$0")/.." && pwd)
usage="usage: bench/trace.sh MODEL [ROUNDS [TOKENS]]"
case ${1-} in
--help | -h)
    echo "$usage"
    echo "What a recording of MODEL's decoding costs (20 rounds, 128 tokens). A small model wants 1000 tokens and more:"
    echo "the start and the end of a recording take 10 ms, whatever it records."
    exit 0
    ;;
-* | '') echo "trace.sh: ${1:+$1: see --help; }$usage" >&2; exit 2 ;;
esac
[ $# -le 3 ] || { echo "trace.sh: $4: see --help" >&2; exit 2; }
model=$1
rounds=${2:-20} tokens=${3:-128}
for hook in ON OFF; do
    build=$source/build-$([ $hook = ON ] && echo trace || echo untraced)
    cmake -G Ninja -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DQN_TESTS=OFF -DQN_TRACE=$hook >/dev/null
    cmake --build "$build" --target quern $([ $hook = ON ] && echo bench_taps) >/dev/null
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
decode="run '$model' x -n $tokens -c $((tokens + 64)) -t 1 --seed 1 --ignore-eos"
off="'$source/build-trace/quern' $decode"
pairs() { python3 "$source/bench/pairs.py" --rounds "$rounds" "$@" >"$work/pairs"; }
pairs "'$source/build-untraced/quern' $decode" "$off"
printf '%s: %s rounds of %s tokens, one thread\n' "$model" "$rounds" "$tokens"
printf 'off, by without the hook  %s\n' "$(cat "$work/pairs")"
pairs "$off" "$off" "$off --trace '$work/t.qtr' --trace-no-faults" "$off --trace '$work/f.qtr'"
printf 'off, by itself            %s\n' "$(sed -n 1p "$work/pairs")"
printf 'on, by off                %s\n' "$(sed -n 2p "$work/pairs")"
printf 'on with faults, by off    %s\n' "$(sed -n 3p "$work/pairs")"
"$source/build-trace/quern" trace stats "$work/f.qtr" --top 0 | grep -E '^(recorded|its cost)'
"$source/build-trace/bench_taps" "$model" 1 || true
