#!/bin/sh
# SPDX-License-Identifier: MIT
# Every public function on tensors is named by a test of src/array, and every operation has a row in a table of PyTorch's results or is
# random.
cd "$1" || exit 1
fail=0
# The functions that a header declares itself, its macros expanded.
declared() {
    printf '#include <quern/%s>\n' "$1" | ${CC:-cc} -E -Iinclude - | awk -v own="/quern/$1\"" '/^# [0-9]/ { mine = index($0, own); next } mine' |
        sed 's/__attribute__((visibility("default")))/QN_API/g' | tr '\n' ' ' | grep -oE 'QN_API [^;({]*\b(qn_[a-z0-9_]+)\(' |
        sed 's/.*\b\(qn_[a-z0-9_]*\)($/\1/' | sort -u
}
missing() { # HEADER FILES...: names of the header that no file holds
    header=$1 names=$2.names.$$
    shift 2
    cat "$@" | grep -oE 'qn_[a-z0-9_]+' | sort -u >"$names"
    declared "$header" | comm -23 - "$names" | sed "s|^|$header: |; s|\$|: $what|"
    rm -f "$names"
}
what="no test names it"
out=$(for header in array.h autograd.h dlpack.h; do missing $header "$2/lint" tests/unit/*/*.c tests/unit/array/*.inc; done)
what="no row in tests/unit/array/parity*.inc, nor is it in random.c"
out="$out$(for header in ops.h functions.h functional.h; do missing $header "$2/lint" tests/unit/array/parity*.inc tests/unit/array/parity.c tests/unit/array/random.c; done)"
if command -v python3 >/dev/null && [ -n "$(command -v "${CC:-cc}")" ]; then
    python3 tests/oracle/stale_calls.py . | cmp -s - tests/unit/array/stale_calls.inc || {
        echo "tests/unit/array/stale_calls.inc is not what tests/oracle/stale_calls.py makes of the headers"
        fail=1
    }
fi
n=$(for header in array.h autograd.h dlpack.h ops.h functions.h functional.h; do declared $header; done | wc -l)
[ "$n" -gt 400 ] || { echo "found only $n declarations"; fail=1; }
[ -z "$out" ] || { echo "$out"; fail=1; }
exit $fail
