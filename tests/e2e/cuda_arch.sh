#!/bin/sh
# SPDX-License-Identifier: MIT
# What is built by itself of the kernels for NVIDIA's devices asks no CUDA for an architecture that it does not know: a stand-in for
# nvcc lists those of one version after another, and the build's commands are looked at.
. "$1/tests/e2e/lib/common.sh"
mkdir "$work/bin" || exit 1
printf '#!/bin/sh\n[ "$1" != --list-gpu-code ] || printf "%%s\\n" $KNOWN\n' >"$work/bin/nvcc"
printf '#!/bin/sh\n' >"$work/bin/ptxas"
chmod +x "$work/bin/nvcc" "$work/bin/ptxas"
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.20)
project(images NONE)
set(CMAKE_SOURCE_DIR $source)
add_custom_target(room_gpu ALL)
function(embed)
endfunction()
include($source/cmake/gpu.cmake)
END
built_for() { # EXPECTED KNOWN...
    expected=$1
    shift
    KNOWN=$* cmake -G Ninja -S "$work" -B "$work/build$#" -DQN_NVCC="$work/bin/nvcc" -DQN_PTXAS="$work/bin/ptxas" -DQN_HIP=OFF \
        >"$work/log" 2>&1 || { cat "$work/log"; bad "cmake"; return; }
    found=$(grep -o 'arch=[a-z]*_[0-9]*' "$work/build$#/build.ninja" | sort | tr '\n' ' ')
    [ "$found" = "$expected " ] || bad "CUDA that knows $*: $found instead of $expected"
}
built_for "arch=compute_80 arch=sm_80" sm_35 sm_75 sm_80
built_for "arch=compute_80 arch=sm_80" sm_35 sm_80 sm_86 sm_87
built_for "arch=compute_80 arch=sm_90" sm_35 sm_80 sm_86 sm_87 sm_89 sm_90
built_for "arch=compute_80 arch=sm_80" # it lists nothing
finish
