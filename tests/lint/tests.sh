#!/bin/sh
# SPDX-License-Identifier: MIT
# Every room has unit tests, every source file of the rooms that are tested file by file has its mirror or is named by a test, and
# every op driver and kernel row has its check.
cd "$1" || exit 1
fail=0
for room in $(sed -n 's/^set(QN_ROOMS \(.*\))$/\1/p' CMakeLists.txt); do
    ls tests/unit/"$room"/*.c >/dev/null 2>&1 || { echo "tests/unit/$room: no tests"; fail=1; }
done
for name in $(sed -n 's/^QN_KERNEL(\([a-z0-9_]*\),.*/\1/p' src/cpu/kernel/kernels.def); do
    grep -rq "CHECK_KERNEL($name)\|check_$name\b" tests/check || { echo "kernel $name: no check"; fail=1; }
done
for name in $(sed -n 's/^QN_OP(\([a-z0-9_]*\), *\(compute\|update\),.*/\1/p' src/graph/ops.def); do
    grep -rqw "$name\|QN_OP_$name\|qn__$name" tests/unit/cpu tests/check || { echo "op $name: no check"; fail=1; }
done
exit $fail
