#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/trace.sh MODEL [ROUNDS [THREADS [TOKENS]]]: what a recording costs. Four ways in turn, ROUNDS times: a program
# built without the hook, one with it and nothing recorded, the same recording, and recording with page faults and lost
# cores sampled, as --trace does; medians of the pairs' quotients. Then what a tap on a node costs (bench/taps.c). Builds
# in build-trace and build-untraced beside the sources.
set -e
source=$(cd "$(dirname "$0")/.." && pwd)
usage="usage: bench/trace.sh MODEL [ROUNDS [THREADS [TOKENS]]]"
case ${1-} in
--help | -h)
    echo "$usage"
    echo "What a recording of MODEL's decoding costs (20 rounds, 1 thread, 64 tokens)."
    exit 0
    ;;
-* | '') echo "trace.sh: ${1:+$1: see --help; }$usage" >&2; exit 2 ;;
esac
[ $# -le 4 ] || { echo "trace.sh: $5: see --help" >&2; exit 2; }
model=$1
rounds=${2:-20} threads=${3:-1} tokens=${4:-64}
for hook in ON OFF; do
    build=$source/build-$([ $hook = ON ] && echo trace || echo untraced)
    cmake -G Ninja -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DQN_TESTS=OFF -DQN_TRACE=$hook >/dev/null
    cmake --build "$build" --target quern $([ $hook = ON ] && echo bench_taps) >/dev/null
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
speed() { # PROGRAM OPTION ..: tokens a second of decoding
    program=$1
    shift
    "$program" bench "$model" -p 0 -n "$tokens" -r 3 -t "$threads" -o csv "$@" 2>"$work/err" | awk -F, 'NR == 2 { print $6 }'
}
i=0
while [ $i -lt "$rounds" ]; do
    without=$(speed "$source/build-untraced/quern")
    off=$(speed "$source/build-trace/quern")
    on=$(speed "$source/build-trace/quern" --trace "$work/t.qtr" --trace-no-faults)
    faults=$(speed "$source/build-trace/quern" --trace "$work/t.qtr")
    echo "$without $off $on $faults"
    i=$((i + 1))
done >"$work/speeds"
"$source/build-trace/quern" trace stats "$work/t.qtr" --top 0 | grep -E '^(recorded|its cost)'
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
against() { awk -v a="$1" -v b="$2" '{ print 100 * ($b / $a - 1) }' "$work/speeds" | median; }
printf '%s: %s rounds, %s threads\n' "$model" "$rounds" "$threads"
printf 'without the hook  %10.2f tokens/s\n' "$(awk '{ print $1 }' "$work/speeds" | median)"
printf 'off               %+9.2f %%\n' "$(against 1 2)"
printf 'on                %+9.2f %%\n' "$(against 2 3)"
printf 'on with faults    %+9.2f %%\n' "$(against 2 4)"
"$source/build-trace/bench_taps" "$model" "$threads" || true
