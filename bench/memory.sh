#!/bin/bash
# SPDX-License-Identifier: MIT
# Decoding in less memory than the weights take, with and without --memory auto: tokens/s and bytes read from the disk
# for each token, in a memory cgroup (version 1 or 2) of so many percent of the file. Needs root; else it says that it
# skips. One line for each limit; with two models, a dense one and a mixture of experts.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
quern=${QUERN:-${BUILD:-$here/build}/quern}
work=${WORK:-${TMPDIR:-/tmp}/quern-bench-memory}
limits=${LIMITS:-100 95 90 75 50 30} tokens=${TOKENS:-16} threads=${THREADS:-$(nproc)}

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

# MODEL BYTES OPTIONS..: "tokens/s, MB read a token". The second run is the first and as many tokens again: what is
# read once, when the model is opened, is in both.
run() {
    model=$1 bytes=$2
    shift 2
    echo "$bytes" >"$group/$limit"
    (
        echo $BASHPID >"$group/cgroup.procs"
        for n in $tokens $((2 * tokens)); do
            dd if="$model" iflag=nocache count=0 2>/dev/null # out of the page cache
            # the shell that has waited for it has its bytes
            bash -c 'err=$1 io=$2; shift 2; "$@" >/dev/null 2>"$err" || { cat "$err" >&2; exit 1; }
                sed -n "s/^read_bytes: //p" /proc/$$/io >"$io"' _ "$work/err" "$work/io.$n" \
                "$quern" run "$model" "a b c" -n $n --temp 0 --ignore-eos -c 256 -b 64 -t "$threads" --memory-limit none \
                --stats "$work/stats.$n" "$@"
        done
    )
    python3 - "$work" "$tokens" <<'END'
import json, sys
work, n = sys.argv[1], int(sys.argv[2])
a, b = (json.load(open(f"{work}/stats.{k}")) for k in (n, 2 * n))
io = [int(open(f"{work}/io.{k}").read()) for k in (n, 2 * n)]
seconds = b["decode_seconds"] - a["decode_seconds"]
steps = b["decode_tokens"] - a["decode_tokens"]
print(f"{steps / seconds:8.2f} {(io[1] - io[0]) / steps / 1e6:8.1f}", end="")
END
}

disk=$(df --output=source "$work" | tail -1)
ahead=$(cat "/sys/block/$(basename "$disk")/queue/read_ahead_kb" 2>/dev/null || echo unknown)
echo "disk $disk, read-ahead $ahead KiB, $(uname -r), $threads threads, $tokens tokens"
printf '%-8s %8s %8s %8s %8s %8s\n' model limit t/s MB/token t/s MB/token
for model in "$dense" "$experts"; do
    size=$(stat -Lc %s "$model")
    for percent in $limits; do
        printf '%-8s %7s%%' "$(basename "$model" .gguf)" "$percent"
        run "$model" $((size / 100 * percent))
        run "$model" $((size / 100 * percent)) --memory auto
        echo
    done
done
