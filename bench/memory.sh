#!/bin/bash
# SPDX-License-Identifier: MIT
# Decoding in less memory than the weights take, with and without --memory auto: tokens/s and bytes read from the disk
# for each token, in a memory cgroup (version 1 or 2) of so many percent of the file; and what `quern trace advise` said
# of each limit before, out of one recording at the first. Needs root; else it says that it skips. One line for each
# limit; with two models, a dense one and a mixture of experts. PAIRS runs of each take turns, medians are shown; ! is a
# speed that was predicted wrongly by more than a fifth. Without --memory a least and a most are said (kernel_ms,
# kernel_least_ms), which are the same but where nearly all fits.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
quern=${QUERN:-${BUILD:-$here/build}/quern}
work=${WORK:-${TMPDIR:-/tmp}/quern-bench-memory}
limits=${LIMITS:-100 95 90 75 50 30} tokens=${TOKENS:-16} threads=${THREADS:-$(nproc)} pairs=${PAIRS:-1}
context=$((2 * tokens + 64 > 256 ? 2 * tokens + 64 : 256))

usage() {
    cat <<END
usage: [NAME=VALUE ..] bash bench/memory.sh

Decoding in less memory than the weights take, with and without --memory auto. Needs root, for a memory cgroup.

  LIMITS="100 95 .."       percent of the file, the greatest first ($limits)
  TOKENS, THREADS, PAIRS   tokens of a run, threads, runs of each in turn ($tokens, $threads, $pairs)
  MODELS="FILE .."         instead of two that 'quern synth' writes
  QUERN, WORK              the program; a folder on the disk that is measured ($quern, $work)
END
}

case ${1-} in
'') ;;
--help | -h) usage; exit 0 ;;
*) echo "memory.sh: $1: see --help" >&2; exit 2 ;;
esac

skip() {
    echo "memory.sh: skipped: $*" >&2
    exit 0
}

v1=/sys/fs/cgroup/memory v2=/sys/fs/cgroup
if [ -d $v1 ] && mkdir "$v1/quern-bench.$$" 2>/dev/null; then
    group=$v1/quern-bench.$$ limit=memory.limit_in_bytes
elif [ -f $v2/cgroup.controllers ] && grep -qw memory $v2/cgroup.subtree_control && mkdir "$v2/quern-bench.$$" 2>/dev/null; then
    group=$v2/quern-bench.$$ limit=memory.max
else
    skip "no memory cgroup can be made here"
fi
trap 'rmdir "$group"' EXIT

mkdir -p "$work"
dense=$work/dense.gguf experts=$work/experts.gguf
[ -f "$dense" ] || "$quern" synth "$dense" --preset tinyllama-1.1b --type Q4_K_M
[ -f "$experts" ] || "$quern" synth "$experts" --arch qwen3moe --layers 16 --embd 1024 --heads 16 --kv-heads 4 --ff 512 \
    --vocab-size 32000 --type Q4_0 --set expert_count=64 --set expert_used_count=6 --set expert_feed_forward_length=512
models=${MODELS:-$dense $experts}

# MODEL BYTES TOKENS OPTIONS..: a run in the group, from a cold page cache; its statistics and what it has read.
in_group() {
    model=$1 bytes=$2 n=$3
    shift 3
    echo "$bytes" >"$group/$limit"
    (
        echo $BASHPID >"$group/cgroup.procs"
        dd if="$model" iflag=nocache count=0 2>/dev/null # out of the page cache
        # the shell that has waited for it has its bytes
        bash -c 'err=$1 io=$2; shift 2; "$@" >/dev/null 2>"$err" || { cat "$err" >&2; exit 1; }
            sed -n "s/^read_bytes: //p" /proc/$$/io >"$io"' _ "$work/err" "$work/io.$n" \
            "$quern" run "$model" "a b c" -n "$n" --temp 0 --ignore-eos -c "$context" -b 64 -t "$threads" --memory-limit none \
            --stats "$work/stats.$n" "$@"
    )
}

# FILE MODEL BYTES OPTIONS..: adds "tokens/s, MB read a token". The second run is the first and as many tokens again:
# what is read once, when the model is opened, is in both. The speed is that of the second half of its steps, by its
# trace: the difference of two runs has the noise of both.
run() {
    to=$1 model=$2 bytes=$3
    shift 3
    in_group "$model" "$bytes" "$tokens" "$@"
    rm -f "$work/steps.qtr"
    in_group "$model" "$bytes" $((2 * tokens)) --trace "$work/steps.qtr" "$@"
    "$quern" trace export --csv -o "$work/steps.csv" "$work/steps.qtr"
    python3 - "$work" "$tokens" >>"$to" <<'END'
import csv, sys
work, n = sys.argv[1], int(sys.argv[2])
io = [int(open(f"{work}/io.{k}").read()) for k in (n, 2 * n)]
steps = [row for row in csv.DictReader(open(f"{work}/steps.csv")) if row["kind"] == "step"][-n:]
first, last = steps[0], steps[-1]
seconds = (int(last["begin_ns"]) + int(last["ns"]) - int(first["begin_ns"])) * 1e-9
print(n / seconds, (io[1] - io[0]) / n / 1e6)
END
}

# What was measured beside what was predicted, for a limit.
show() {
    python3 - "$work" <<'END'
import json, statistics, sys
work = sys.argv[1]
told = json.load(open(f"{work}/advice.json")).get("memory")
def column(name, ms, read_of, least=None):
    rows = [list(map(float, line.split())) for line in open(f"{work}/{name}")]
    speed, read = (statistics.median(r[i] for r in rows) for i in (0, 1))
    expected = 1e3 / told[ms] if told else float("nan")
    most = 1e3 / told[least] if told and least else expected
    wrong = "!" if told and not expected - 0.2 * speed <= speed <= most + 0.2 * speed else " "
    said = f"{expected:.2f}" if most < 1.01 * expected else f"{expected:.2f}-{most:.2f}"
    print(f" {speed:8.2f} {said:>{14 if least else 8}}{wrong} {read:8.1f}", end="")
    print(f" {read_of() / 1e6 if told else float('nan'):8.1f} ", end="")
    return speed
alone = column("alone", "kernel_ms", lambda: told["kernel_bytes"], "kernel_least_ms")
kept = column("kept", "ms", lambda: told["ahead_bytes"] + max(told["expert_bytes"], 0))
print(f" {kept / alone:6.2f}")
END
}

disk=$(df --output=source "$work" | tail -1)
ahead=$(cat "/sys/block/$(basename "$disk")/queue/read_ahead_kb" 2>/dev/null || echo unknown)
echo "disk $disk, read-ahead $ahead KiB, $(uname -r), $threads threads, $tokens tokens, $pairs pairs"
echo "                without                                     with --memory auto                     with /"
echo "model    limit       t/s           said  MB/token     said       t/s     said  MB/token     said  without"
for model in $models; do
    size=$(stat -Lc %s "$model")
    rm -f "$work/trace.qtr"
    in_group "$model" $((size / 100 * ${limits%% *})) $((2 * tokens)) --trace "$work/trace.qtr"
    for percent in $limits; do
        bytes=$((size / 100 * percent))
        rm -f "$work/alone" "$work/kept"
        for ((pair = 0; pair < pairs; pair++)); do
            run "$work/alone" "$model" "$bytes"
            run "$work/kept" "$model" "$bytes" --memory auto
        done
        "$quern" trace advise "$work/trace.qtr" --json --memory "$bytes" --disk measure >"$work/advice.json"
        printf '%-8s %4s%%' "$(basename "$model" .gguf)" "$percent"
        show
    done
done
