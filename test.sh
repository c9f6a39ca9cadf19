#!/bin/sh
# SPDX-License-Identifier: MIT
# ./test.sh -- installs what is missing, builds in Release and runs every test; then the levels of AArch64, the same tests under
# sanitizers, and the fuzz targets. ./test.sh quick stops after the first build. FUZZ_SECONDS (20) is the time for a fuzz target.
set -eu
cd "$(dirname "$0")"
. tools/need.sh
need_build
need libcmocka-dev tmux python3 pocl-opencl-icd ocl-icd-libopencl1

say() { printf '\n== %s (%s s)\n' "$1" "$(($(date +%s) - started))"; }
started=$(date +%s)
configure() { # DIR CMAKE-OPTIONS...
    dir=$1
    shift
    cmake -G Ninja -B "$dir" "$@" >"$dir.configure.log" 2>&1 || { cat "$dir.configure.log"; exit 1; }
    rm -f "$dir.configure.log"
}
build() { # DIR [CMAKE-OPTIONS...]: what it printed where it failed
    dir=$1
    shift
    cmake --build "$dir" "$@" >"$dir.log" 2>&1 || { tail -n 60 "$dir.log"; exit 1; }
    rm -f "$dir.log"
}
run_tests() { # DIR JOBS [CTEST-OPTIONS...]
    dir=$1 at_once=$2
    shift 2
    ctest --test-dir "$dir" --output-on-failure -j "$at_once" --no-tests=error "$@"
}
most=$((jobs + 1)) # tests at once: those with servers and terminals mostly wait

say "release build"
before=$(date +%s)
configure build -DCMAKE_BUILD_TYPE=Release -DQN_TESTS=ON
build build
echo "built in $(($(date +%s) - before)) s"
say "tests, release"
run_tests build "$most"
[ "${1:-}" = quick ] && exit 0

say "AArch64, cross-compiled, in an emulator"
sh tests/aarch64.sh build

need clang libclang-rt-14-dev llvm lld
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1:allocator_may_return_null=1:handle_sigill=1
# What is built once for all trees.
shared="-DQN_IMAGES=$PWD/build/embedded"
export QN_CLIENTS_VENV="${QN_CLIENTS_VENV:-$PWD/build/clients}"

say "tests, clang, address and undefined-behaviour sanitizers, internal checks on"
# Undefined behaviour stops at an instruction, which the address sanitizer reports with its stack; a build without
# -fsanitize-trap says what it was, and is a half larger. lld links 140 programs in less than half the time; where
# programs lie at a fixed address they start quicker.
configure build-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DQN_SANITIZE=address,undefined -DQN_CHECKED=ON -DQN_FUZZ=ON \
    -DCMAKE_C_FLAGS=-fsanitize-trap=undefined "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -no-pie" "-DQN_PLAIN=quern;arch;gpu;lm" -DQN_PLAIN_FLAGS=-O0 "$shared"
build build-asan
run_tests build-asan "$most" -LE "timing|lint"

say "tests, gcc, thread sanitizer"
# Compiled by gcc, which instruments vectors of any width (clang those of up to 16 bytes), linked with clang's runtime, which takes half
# the time of gcc 12's. t_base_race sees that the two understand each other.
configure build-tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=gcc -DQN_SANITIZE=thread -DQN_CHECKED=ON \
    "-DQN_PLAIN=trace;format;graph;grad;gpu;array;nn;text;store;model;lm;train;quern;arch" -DQN_PLAIN_FLAGS=-O1 "$shared" \
    "-DCMAKE_C_LINK_EXECUTABLE=clang -fuse-ld=lld <FLAGS> <CMAKE_C_LINK_FLAGS> <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>"
build build-tsan --target tests_of_threads
run_tests build-tsan "$jobs" -L threads -E t_cpu_measure # which have two threads each

say "fuzzing"
sh tests/fuzz/run.sh build-asan "${FUZZ_SECONDS:-20}" "$jobs"
say "all passed"
