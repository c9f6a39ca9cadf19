#!/bin/sh
# SPDX-License-Identifier: MIT
# cmake/frames.sh COMMAND ... -- runs a compiler of kernels that tells what each takes (ptxas -v, nvcc -Xptxas -v), and fails where one of
# those that a token's time goes to spills registers or has a stack frame. With FRAMES=FILE "KERNEL FRAME SPILLED" a line goes there.
hot='^(rows|tile|linear)_[A-Z0-9]|^quantize_[0-9]|^(rms_norm|gate|rope_apply)$'
log=$(mktemp) || exit 1
trap 'rm -f "$log" "$log.frames"' EXIT
"$@" >"$log" 2>&1
status=$?
[ $status = 0 ] || { grep -v '^ptxas info' "$log"; exit $status; }
awk '/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
     /bytes stack frame/ { print name, $1, $5 + $9 }' "$log" >"$log.frames"
[ -z "${FRAMES:-}" ] || cp "$log.frames" "$FRAMES"
[ "$(awk '{ print $1 }' "$log.frames" | grep -cE "$hot")" -ge 28 ] || { echo "$1 told of too few kernels"; exit 1; }
grep -E "$hot" "$log.frames" | awk '$2 + $3 > 0 { print "the kernel " $1 " has a stack frame of " $2 " bytes and spills " $3; bad = 1 }
    END { exit bad }'
