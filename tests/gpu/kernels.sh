#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/gpu/kernels.sh SOURCE BUILD [ARCH] -- the kernels compiled for one architecture (sm_90a): a hot one must not spill registers
# or use a stack frame, and products must be the instructions for them: dp4a in rows_NAME, the matrix one in tile_NAME, in PTX and,
# where nvdisasm is (PATH, beside nvcc, or $NVDISASM), in machine code. Needs nvcc, else it is left out; 10 s.
cd "$2" || exit 1
arch=${3:-sm_90a}
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "no nvcc: not looked at"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail=0
nvcc -std=c++17 -fmad=false -arch="$arch" -cubin -keep -keep-dir "$work" -Xptxas -v -o "$work/kernels.cubin" embedded/kernels.cu \
    >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }

# NAME STACK SPILLED a line
awk '/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
     /bytes stack frame/ { print name, $1, $5 + $9 }' "$work/log" >"$work/frames"
hot='^(rows|tile|quantize|linear)_[A-Z0-9]|^rms_norm$'
n=$(awk '{ print $1 }' "$work/frames" | grep -cE "$hot")
[ "$n" -ge 26 ] || { echo "ptxas told of $n hot kernels only"; fail=1; }
grep -E "$hot" "$work/frames" | awk '$2 + $3 > 0 { print $1 ": a stack frame of " $2 " bytes, " $3 " bytes spilled"; bad = 1 }
    END { exit bad }' || fail=1

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
[ $fail = 0 ] && echo "$arch: $n hot kernels, none with a stack frame"
exit $fail
