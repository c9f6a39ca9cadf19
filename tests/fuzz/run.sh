#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh BUILD SECONDS JOBS [TARGET] -- runs every fuzz target, or one, over a copy of its seeds, JOBS at a time: those of LONG for SECONDS,
# the others for half of it. Seeds are
# the corpus, made by hand, and what earlier runs of a minute found beyond it: found/TARGET, one input for each edge (libFuzzer's
# -merge=1 -use_counters=0), so that a run begins where those ended.
#
# Every run draws the same inputs (FUZZ_SEED, 1), as far as its time goes: what is red stays red, and a change isn't refused for what was
# there before it. FUZZ_SEED=0 draws others, for long runs by hand.
set -u
build=$1 seconds=$2 jobs=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$build/fuzz
LONG="fuzz_gguf fuzz_tokenizer fuzz_args" # files of strangers that hold most kinds of things, and what is found out late
mkdir -p "$work"
# What readers of texts have to get wrong fits in a page; longer ones cost runs.
max_len() {
    case $1 in fuzz_schema | fuzz_messages | fuzz_grammar | fuzz_template | fuzz_conversation | fuzz_reader | fuzz_serve) echo -max_len=1024 ;; fuzz_batch) echo -max_len=192 ;; esac
}
# The order of inputs hangs on the addresses that are compared and on the time of each run, unless both are taken out.
case ${FUZZ_SEED:=1} in
0) same= order= ;;
*) same="-seed=$FUZZ_SEED -entropic=0 -reload=0" order=$(setarch -R true 2>/dev/null && echo setarch -R) ;;
esac
one() {
    name=$1
    mkdir -p "$work/$name"
    cp -r "$here/corpus/$name/." "$work/$name/" 2>/dev/null
    [ ! -d "$here/found/$name" ] || cp -r "$here/found/$name/." "$work/$name/"
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=16 # or each allocation is fresh memory from the system
    export ASAN_OPTIONS
    # libFuzzer counts whole seconds, and ends when they are more.
    $order "$build/$name" $same $(max_len "$name") -max_total_time=$((seconds > 1 ? seconds - 1 : 1)) -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$work/$name-" \
        "$work/$name" >"$work/$name.log" 2>&1
    status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log")
    echo "$name: status $status, ${runs:-no} runs in $seconds s"
    [ $status -eq 0 ] || { tail -n 40 "$work/$name.log"; touch "$work/failed"; }
}
if [ "${4:-}" ]; then
    case " $LONG " in *" $4 "*) ;; *) seconds=$((seconds / 2)) ;; esac
    one "$4"
else
    rm -f "$work/failed"
    { # the long ones first, so that none is left to run alone
        for name in $LONG; do echo "$name"; done
        for source in "$here"/fuzz_*.c; do basename "$source" .c; done | grep -vxF "$(echo "$LONG" | tr ' ' '\n')"
    } | xargs -P "$jobs" -n 1 sh "$0" "$build" "$seconds" "$jobs"
fi
[ ! -e "$work/failed" ]
