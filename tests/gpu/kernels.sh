#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/gpu/kernels.sh SOURCE BUILD [ARCH] -- the kernels compiled for one architecture (sm_90a): a hot one must not spill registers
# or use a stack frame, and products must be the instructions for them: dp4a in rows_NAME, the matrix one in tile_NAME, in PTX and,
# where nvdisasm is (PATH, beside nvcc, or $NVDISASM), in machine code. Needs nvcc, else it is left out; 10 s.
source=$(cd "$1" && pwd)
cd "$2" || exit 1
arch=${3:-sm_90a}
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "no nvcc: not looked at"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail=0
FRAMES=$work/frames sh "$source/cmake/frames.sh" nvcc -std=c++17 -fmad=false -arch="$arch" -cubin -keep -keep-dir "$work" -Xptxas -v \
    -o "$work/kernels.cubin" embedded/kernels.cu || exit 1
n=$(wc -l <"$work/frames")

# NAME COUNT of kernels that hold the pattern, of a listing whose lines of the second pattern begin a kernel
count() { # FILE BEGINS HOLDS
    awk -v begins="$2" -v holds="$3" '$0 ~ begins { name = $0; sub(/.*(entry |\.text\.)/, "", name); sub(/[^A-Za-z0-9_].*/, "", name) }
        $0 ~ holds { n[name]++ } END { for (name in n) print name, n[name] }' "$1"
}
hold() { # WHAT FILE BEGINS PRODUCT-OF-FOUR MATRIX
    count "$2" "$3" "$4" >"$work/four"
    count "$2" "$3" "$5" >"$work/matrix"
    for name in $(awk '{ print $1 }' "$work/frames"); do
        case $name in
        rows_*) grep -q "^$name " "$work/four" || { echo "$name: no $4 in $1"; fail=1; } ;;
        tile_*) grep -q "^$name " "$work/matrix" || { echo "$name: no $5 in $1"; fail=1; } ;;
        esac
    done
    echo "$1: $4 in $(wc -l <"$work/four") kernels, $5 in $(wc -l <"$work/matrix")"
}
hold PTX "$work/kernels.ptx" '\.entry ' 'dp4a' 'mma\.sync'
disassembler=${NVDISASM:-$(command -v nvdisasm)}
if [ -n "$disassembler" ]; then
    "$disassembler" -c "$work/kernels.cubin" >"$work/kernels.sass" || fail=1
    hold "machine code of $arch" "$work/kernels.sass" '\.section.*\.text\.' 'IDP' 'IMMA'
else
    echo "no nvdisasm: machine code was not looked at"
fi
[ $fail = 0 ] && echo "$arch: $n kernels, no hot one with a stack frame"
exit $fail
