#!/bin/sh
# SPDX-License-Identifier: MIT
# Kernels in Oclgrind, which sees races between work-items and every access outside a buffer:
#     tests/gpu/oclgrind.sh BUILD [EACH]
# runs every EACH-th case of t_gpu_runs and t_gpu_same_bits (13; 1 takes hours), about as many for each kernel, and fails where Oclgrind
# says anything or bits are not the CPU's. It needs Debian's package oclgrind. Not part of ./test.sh.
# With optimization its LLVM makes code of pointwise_whole that it does not take itself: hence -cl-opt-disable.
build=${1:?a build folder} each=${2:-13}
icd=$(find /usr/lib /usr/local/lib -name 'liboclgrind-rt-icd.so' 2>/dev/null | head -1)
[ -n "$icd" ] || { echo "no Oclgrind here (Debian's package: oclgrind)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "$icd" >"$work/oclgrind.icd"
fail=0
for program in t_gpu_runs t_gpu_same_bits; do
    QN_SAME_BITS_EACH=$each OCL_ICD_VENDORS=$work OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 \
        OCLGRIND_BUILD_OPTIONS=-cl-opt-disable OCLGRIND_LOG="$work/log" "$build/$program" || fail=1
    [ ! -s "$work/log" ] || { cat "$work/log"; fail=1; }
done
exit $fail
