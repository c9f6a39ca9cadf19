#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/aarch64.sh [NATIVE_BUILD] -- the levels of AArch64, cross-compiled and run by an emulator: every kernel that a level has, at that
# level; unit tests of what knows the processor; processors that lack a level; and whole models, whose logits must be those of
# NATIVE_BUILD/quern (build, with its tests) to the bit. Results only: an emulator has no speed to measure.
# The libraries for AArch64 are unpacked beside the build, the system gets none of them.
set -eu
cd "$(dirname "$0")/.."
. tools/need.sh
native=${1:-build}
dir=build-aarch64
need ninja-build cmake pkg-config gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
libs=$PWD/$dir/sysroot
emulator="qemu-aarch64 -L /usr/aarch64-linux-gnu"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch_libraries() { # the packages of the system's own sources, in another architecture
    mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial" "$libs"
    set -- -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$PWD/$dir/apt/lists" \
        -o Dir::Cache="$PWD/$dir/apt" -o Acquire::Languages=none -o APT::Sandbox::User=root -q
    apt-get "$@" update >"$dir/apt.log" 2>&1 || { cat "$dir/apt.log"; return 1; }
    (cd "$dir/apt" && apt-get "$@" download libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2 zlib1g-dev zlib1g libjansson-dev libjansson4 \
        libcmocka-dev libcmocka0) >"$dir/apt.log" 2>&1 || { cat "$dir/apt.log"; return 1; }
    for package in "$dir"/apt/*.deb; do dpkg -x "$package" "$libs"; done
    rm -r "$dir/apt" "$dir/apt.log"
    touch "$libs/complete"
}
[ -e "$libs/complete" ] || fetch_libraries

began=$(date +%s)
PKG_CONFIG_LIBDIR=$libs/usr/lib/aarch64-linux-gnu/pkgconfig PKG_CONFIG_SYSROOT_DIR=$libs cmake -G Ninja -B "$dir" \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64;-L;/usr/aarch64-linux-gnu;-cpu;max" \
    "-DQN_PLAIN=trace;grad;gpu;array;nn;text;store;model;lm;train;quern" -DQN_IMAGES="$(realpath "$native")/embedded" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
# Not the drivers' tests that take long here (linear 54 s, attention 85, rows 12): what they stand on is in check and in the models' logits.
units="t_base_ladder t_base_machine t_cpu_dispatch t_cpu_op_rope t_cpu_op_update t_quant_unpack"
# shellcheck disable=SC2086
cmake --build "$dir" --target quern check t_golden_golden $units >"$work/log" 2>&1 || { tail -n 60 "$work/log"; exit 1; }
echo "built ($(($(date +%s) - began)) s)"


one_job() { # CPU NAME COMMAND...: what it printed where it failed
    cpu=$1 name=$2
    shift 2
    log=$(mktemp "$work/log.XXXXXX") began=$(date +%s)
    if $emulator -cpu "$cpu" "$@" >"$log" 2>&1; then
        echo "ok   $name ($(($(date +%s) - began)) s)"
    else
        echo "FAIL $name"
        cat "$log"
        touch "$work/failed"
    fi
}

# Logits of one model, of this machine and of every level of the other: columns one by one, some at a time, all in one batch.
one_model() { # TYPE KV-TYPE
    model=$work/$1.gguf
    "$native/quern" synth --arch llama --layers 2 --embd 256 --heads 4 --kv-heads 2 --ff 512 --vocab-size 300 --type "$1" "$model"
    tokens=$(awk 'BEGIN { for (i = 0; i < 40; i++) printf "%s%d", i ? "," : "", (i * 37 + 5) % 300 }')
    level=
    case $1 in F16 | BF16) level="--cpu ref" ;; esac # not every level has ref's bits there (src/cpu/dispatch.h)
    # shellcheck disable=SC2086
    "$native/quern" eval "$model" --tokens "$tokens" --kv-type "$2" $level -o "$work/want.npy"
    for how in neon:7 dotprod:1 dotprod:40 i8mm:40; do
        $emulator -cpu max "$dir/quern" eval "$model" --tokens "$tokens" --kv-type "$2" --cpu ${how%:*} -b ${how#*:} -t 2 -o "$work/got.npy"
        cmp "$work/want.npy" "$work/got.npy" || { echo "FAIL logits of $1 at $how, KV $2"; touch "$work/failed"; return; }
    done
    echo "ok   logits of $1, KV $2, to the bit"
}
models() {
    for type in F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4; do one_model $type f16; done
    for kv in f32 bf16 q8_0; do one_model Q4_K $kv; done
}

# Two lines of work side by side. A level takes over what it does not replace: products of block formats and the peak are all that is
# new in one.
# cortex-a53 has neon alone, a64fx too, though it is later than 8.2; neoverse-n1 has dot products. The C library's own SVE code makes a64fx slow here.
{
    # What oracles say of functions this machine computes meanwhile. The shell opens the pipe, so that it ends where nothing is told.
    mkfifo "$work/oracles"
    "$native/check" --oracles-to /dev/fd/3 3>"$work/oracles" >"$work/oracles.log" 2>&1 &
    one_job max "check, level neon" "$dir/check" --level neon --oracles-from "$work/oracles"
    [ ! -e "$work/failed" ] || kill $! 2>/dev/null || : # nobody may read any more
    wait $! || { cat "$work/oracles.log"; touch "$work/failed"; }
    for cpu in cortex-a53 a64fx neoverse-n1; do
        one_job "$cpu" "t_base_machine on $cpu" "$dir/t_base_machine"
        [ $cpu = a64fx ] || one_job "$cpu" "check, Q8_0 at every level of $cpu" "$dir/check" --filter mm_Q8_0
    done
} &
first=$!
{
    for level in dotprod i8mm; do
        for kernels in mm_Q mm_IQ4 mm_MXFP4 probe_int8; do one_job max "check, level $level, $kernels" "$dir/check" --level $level --filter $kernels; done
    done
    for unit in $units; do one_job max "$unit" "$dir/$unit"; done
    one_job max "synthetic models, byte for byte" "$dir/t_golden_golden" --bytes
    models
} &
second=$!
wait $first
wait $second
[ ! -e "$work/failed" ]
